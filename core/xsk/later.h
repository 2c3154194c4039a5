/* SPDX-License-Identifier: Apache-2.0 */
/* Work that waits for the kernel, done in the background.
 *
 * The kernel waits for an RCU grace period for each AF_XDP descriptor that is closed (net/xdp/xsk.c,
 * xsk_unbind_dev): 10 to 20 ms, twice for a socket.  Removing a thousand ports one by one would take half
 * a minute; waits at the same time share a grace period.  So a few threads close sockets.  They are made
 * when work comes, and end when none has come for a while. */
#ifndef OXDP_LATER_H
#define OXDP_LATER_H 1

/* Calls 'run' with 'arg', in another thread if one can be had, else at once.  'owner' and 'number' are for
 * oxdp_later_wait().  Any thread. */
void oxdp_later(void (*run)(void *arg), void *arg, const void *owner, int number);

/* Waits until all calls for 'owner' and 'number' (0: any number) have returned.  Any thread but those of this file. */
void oxdp_later_wait(const void *owner, int number);

#endif /* core/xsk/later.h */
