# Functions of the library that tests see called, or stand in for.
set(LOCK_HOLDS_WRAPS slab_put os_unmap os_decommit os_decommit_all os_resident_part os_page_size)
list(TRANSFORM LOCK_HOLDS_WRAPS PREPEND LINKER:--wrap=)
set(SPANS_WRAPS LINKER:--wrap=superslab_is_busy LINKER:--wrap=span_release)
set(REMOTE_BATCHES_WRAPS LINKER:--wrap=os_decommit_all)

# wrap_for_unit_test(program options...): what the variant does not build is passed over.
function(wrap_for_unit_test program)
  if(TARGET ${program})
    target_link_options(${program} PRIVATE ${ARGN})
  endif()
endfunction()

# The tests whose programs are called <prefix>unit_<name>.
function(wrap_for_unit_tests prefix)
  wrap_for_unit_test(${prefix}unit_short_lock_holds ${LOCK_HOLDS_WRAPS})
  wrap_for_unit_test(${prefix}unit_spans ${SPANS_WRAPS})
  wrap_for_unit_test(${prefix}unit_remote_batches ${REMOTE_BATCHES_WRAPS})
  wrap_for_unit_test(${prefix}unit_homes_of_a_quota LINKER:--wrap=os_processors LINKER:--wrap=container_processors)
  wrap_for_unit_test(${prefix}unit_homes_of_nodes LINKER:--wrap=os_node LINKER:--wrap=os_processors LINKER:--wrap=container_processors)
  wrap_for_unit_test(${prefix}unit_nodes LINKER:--wrap=os_node)
  wrap_for_unit_test(${prefix}unit_long_runs_assembled LINKER:--wrap=call_mremap)
  wrap_for_unit_test(${prefix}unit_os_calls LINKER:--wrap=getauxval)
  wrap_for_unit_test(${prefix}unit_called_again LINKER:--wrap=os_decommit_all)
  wrap_for_unit_test(${prefix}unit_threads_open_no_files LINKER:--wrap=os_file_open)
  wrap_for_unit_test(${prefix}unit_huge_blocks LINKER:--wrap=os_unmap)
  wrap_for_unit_test(${prefix}unit_huge_moved LINKER:--wrap=os_resize)
  wrap_for_unit_test(${prefix}unit_helper_refused LINKER:--wrap=os_thread_start LINKER:--wrap=os_is_in_loader)
endfunction()
