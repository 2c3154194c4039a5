/* SPDX-License-Identifier: Apache-2.0 */
/* Sending frames by the network stack: one packet socket serves all devices of the caller's network namespace.  It
 * costs next to nothing, but half as much CPU time again for each frame as an AF_XDP socket (core/xsk/sock.h).  Any
 * thread. */
#ifndef OXDP_STACK_H
#define OXDP_STACK_H 1

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* Returns a descriptor to be closed with close(), or a negative errno.  What is sent passes by the device's qdisc and
 * tcpdump, as with AF_XDP; unless programs at egress are to see it. */
int oxdp_stack_open(bool seen_by_egress);

/* Sends 'n' frames out of device 'ifindex'.  Each is 'n_parts' elements of 'frames', one behind the other.
 * When it returns, all are with the device, in this order, or dropped.  Returns how many of them it tried and stores
 * how many of these the device took in '*ret_sent'.  If the return value is less than 'n', the frame with that index is
 * longer than the device's MTU allows a packet socket to send. */
uint32_t oxdp_stack_send(int fd, int ifindex, const struct iovec frames[], uint32_t n_parts, uint32_t n,
                         uint32_t *ret_sent);

#endif /* core/xsk/stack.h */
