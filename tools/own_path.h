/* own_path.h - where this tool lies. */
#ifndef HAKMEM_OWN_PATH_H
#define HAKMEM_OWN_PATH_H

/** Called once, with main's argv[0]. */
void own_path_start(const char *called);

/** The tool's file, absolute and without links; NULL when it cannot be found. */
const char *own_path(void);

#endif
