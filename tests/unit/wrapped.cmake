# Functions of the library that room_holds.c sees called.
set(ROOM_HOLDS_WRAPS slab_put)
list(TRANSFORM ROOM_HOLDS_WRAPS PREPEND LINKER:--wrap=)
