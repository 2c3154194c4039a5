/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that the system may refuse. */
#ifndef DPIF_XDP_BASE_THREADS_H
#define DPIF_XDP_BASE_THREADS_H 1

/* Whether the system lets this process have one more thread: 0, or a positive
 * errno.  Open vSwitch's ovs_thread_create() aborts if it does not. */
int dpif_xdp_try_thread(void);

#endif /* ovs/base/threads.h */
