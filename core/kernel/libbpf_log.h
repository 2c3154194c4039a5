/* SPDX-License-Identifier: Apache-2.0 */
/* libbpf's message about a failed call: libbpf passes it only to a callback of the whole process. */
#ifndef OXDP_LIBBPF_LOG_H
#define OXDP_LIBBPF_LOG_H 1

/* Between these, libbpf's first warning to this thread is kept.  oxdp_libbpf_heard() returns it, "" if there was none;
 * valid until this thread's next oxdp_libbpf_listen().  Other threads are not affected. */
void oxdp_libbpf_listen(void);
const char *oxdp_libbpf_heard(void);

#endif /* core/kernel/libbpf_log.h */
