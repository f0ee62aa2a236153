# Functions of the library that tests see called, or stand in for.
set(LOCK_HOLDS_WRAPS slab_put os_unmap os_decommit os_decommit_all os_resident_part os_page_size)
list(TRANSFORM LOCK_HOLDS_WRAPS PREPEND LINKER:--wrap=)
set(SPANS_WRAPS LINKER:--wrap=superslab_is_busy LINKER:--wrap=span_release)
set(REMOTE_BATCHES_WRAPS LINKER:--wrap=os_decommit_all)
set(REFILL_WRAPS LINKER:--wrap=heap_made)

# The tests whose programs are called <prefix>unit_<name>.
function(wrap_for_unit_tests prefix)
  target_link_options(${prefix}unit_short_lock_holds PRIVATE ${LOCK_HOLDS_WRAPS})
  target_link_options(${prefix}unit_spans PRIVATE ${SPANS_WRAPS})
  target_link_options(${prefix}unit_remote_batches PRIVATE ${REMOTE_BATCHES_WRAPS})
  target_link_options(${prefix}unit_refill_before_new_pages PRIVATE ${REFILL_WRAPS})
  target_link_options(${prefix}unit_nodes PRIVATE LINKER:--wrap=os_node)
  target_link_options(${prefix}unit_os_calls PRIVATE LINKER:--wrap=getauxval)
  target_link_options(${prefix}unit_called_again PRIVATE LINKER:--wrap=os_decommit_all)
  if(TARGET ${prefix}unit_helper_refused) # not in the fast variant
    target_link_options(${prefix}unit_helper_refused PRIVATE LINKER:--wrap=os_thread_start)
  endif()
endfunction()
