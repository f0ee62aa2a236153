/* epilogue.h - code without a table that calls one function and returns: what it does behind the call says where its caller is.
 *
 * CPython's trampolines are such code (python3 -X perf): one for each function, without a frame pointer up to 3.13.
 */
#ifndef HAK_EPILOGUE_H
#define HAK_EPILOGUE_H

#include "stack/cfi.h"

#if defined(__x86_64__)

/** The rules at a return address, behind which the stack pointer goes up and the function returns; false: other code is there, or it
 * cannot be read. Two system calls. */
bool epilogue_find(uintptr_t after_call, struct frame_rules *rules);

#endif
#endif
