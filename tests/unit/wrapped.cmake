# Functions of the library that tests see called, or stand in for.
set(LOCK_HOLDS_WRAPS slab_put os_unmap os_decommit os_decommit_all os_resident_part os_page_size)
list(TRANSFORM LOCK_HOLDS_WRAPS PREPEND LINKER:--wrap=)
set(SPANS_WRAPS LINKER:--wrap=superslab_is_busy LINKER:--wrap=span_release)
set(REMOTE_BATCHES_WRAPS LINKER:--wrap=os_decommit_all)
set(REFILL_WRAPS LINKER:--wrap=heap_made)
