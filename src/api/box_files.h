/* box_files.h - the files of black boxes in their directory (blackbox.c). */
#ifndef HAK_BOX_FILES_H
#define HAK_BOX_FILES_H

#include <stddef.h>

#include "observe/box.h"

enum { BOX_PATH_ROOM = 1200 };

/** Makes DIR/hakmem-PID-XXXXXXXX.tmp, in which a box of this process is written, with eight digits by chance. Its descriptor, or the errno
 * below 0. */
int box_make_unfinished(char path[BOX_PATH_ROOM]);
/** Gives it its name, when it is whole: DIR/hakmem-PID-N.box, a new one or that of the oldest of this process. 0, or the errno. */
int box_finish(const char *unfinished);
/** Removes boxes until the directory has BOX_FILES_ALL. `buffer`: for names, of a size that holds one at least. */
void box_bound(char *buffer, size_t bytes);

#endif
