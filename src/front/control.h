/* control.h - a thread answers what a tool has asked of its process (observe/requests.h). */
#ifndef HAK_CONTROL_H
#define HAK_CONTROL_H

/** Where the thread was taken out of its fast path for that. It holds no lock. */
void control_answer(void);

#endif
