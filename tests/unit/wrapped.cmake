# Functions of the library that room_holds.c sees called.
set(ROOM_HOLDS_WRAPS slab_put os_unmap os_decommit os_decommit_all os_resident_part os_page_size)
list(TRANSFORM ROOM_HOLDS_WRAPS PREPEND LINKER:--wrap=)
