/* asked.h - a thread answers what a tool has asked of its process (observe/requests.h). */
#ifndef HAK_ASKED_H
#define HAK_ASKED_H

/** Where the thread was taken out of its fast path for that. It holds no lock. */
void asked_answer(void);

#endif
