/* top_machine.h - hakmem top without a process: all of the machine, drawn again and again. */
#ifndef HAKMEM_TOP_MACHINE_H
#define HAKMEM_TOP_MACHINE_H

/** On the terminal, until it is quit; an exit code. `show` shows one process until it is left and returns what is to be said of
 * it afterwards, or "". */
int top_machine(double seconds, const char *(*show)(int pid, double seconds));

#endif
