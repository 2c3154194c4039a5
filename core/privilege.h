/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel permits this thread. */
#ifndef OXDP_PRIVILEGE_H
#define OXDP_PRIVILEGE_H 1

#include <stdbool.h>
#include <stddef.h>

/* Size of the buffer for oxdp_privilege_advice(). */
#define OXDP_PRIVILEGE_ADVICE 320

/* Whether this thread has 'capability', one of CAP_*, effective.  CAP_SYS_ADMIN does for CAP_BPF and CAP_PERFMON. */
bool oxdp_privilege_has(int capability);

/* Whether a program did not load, with the negative errno 'err', for want of a capability.  Without CAP_PERFMON the
 * verifier also walks what a CPU may execute speculatively (kernel/bpf/verifier.c, sanitize_ptr_alu()): it refuses
 * pointer arithmetic that it else accepts (EACCES), or has too much to walk (E2BIG; EFAULT from 8,193 branches on). */
bool oxdp_privilege_lacks(int err);

/* What to do when the kernel forbids programs (EPERM, or EACCES of the verifier), the end of a sentence: "run as root,
 * or with ... (this process lacks CAP_BPF)".  If the capabilities are there, it says what else may forbid it. */
const char *oxdp_privilege_advice(char text[OXDP_PRIVILEGE_ADVICE]);

#endif /* core/privilege.h */
