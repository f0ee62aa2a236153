/* variant.h - which build variant this is: each is 1 by the build system's word, else 0. */
#ifndef HAK_VARIANT_H
#define HAK_VARIANT_H

#include "os/machine.h"

#ifndef HAK_FAST /* options are constants, diagnostics are compiled out */
#define HAK_FAST 0
#endif
#ifndef HAK_OBSERVE /* every diagnostic counter is on */
#define HAK_OBSERVE 0
#endif
#ifndef HAK_HARDENED /* security checks are on */
#define HAK_HARDENED 0
#endif
#ifndef HAK_ASSERT /* internal invariants are checked */
#define HAK_ASSERT 0
#endif
#ifndef HAK_FAULT_INJECTION /* system calls can be made to fail (fault.h) */
#define HAK_FAULT_INJECTION 0
#endif
#ifndef HAK_PROBES /* static probes for tracers (probe.h) */
#define HAK_PROBES 0
#endif
#ifndef HAK_VARIANT_NAME
#define HAK_VARIANT_NAME "standard"
#endif

#endif
