/* doctor.h - what the parts of hakmem doctor share. */
#ifndef HAKMEM_DOCTOR_H
#define HAKMEM_DOCTOR_H

#include "library.h"
#include "program.h"

/** One line of the report; "FAIL" makes the exit code 1. */
void doctor_report(const char *verdict, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Loads the program, without starting it, and reports which malloc it and its libraries get. */
void doctor_check_program(const struct library *library, const struct program *program);

#endif
