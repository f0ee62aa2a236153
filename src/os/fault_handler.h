/* fault_handler.h - memory that was made untouchable on purpose: who touches it is told apart from other crashes. */
#ifndef HAK_OS_FAULT_HANDLER_H
#define HAK_OS_FAULT_HANDLER_H

#include <stdbool.h>

/** From now on `what` is called where the program touches memory that it may not, in a signal handler (SIGSEGV, on the thread's other
 * stack if it has one). True: the instruction is tried again. False: as if we were not there, the program's own handler is
 * called, or it ends. A handler that the program puts up later wins. `knows_write`: does the processor tell? */
typedef bool os_fault_body(void *address, bool knows_write, bool is_write);
void os_catch_faults(os_fault_body *what);

#endif
