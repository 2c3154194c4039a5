/* SPDX-License-Identifier: Apache-2.0 */
/* The links that hold programs on devices: core/programs/link.c. */
#ifndef OXDP_LINK_H
#define OXDP_LINK_H 1

#include "core/locks.h"

struct oxdp_attachment;
struct oxdp_progs;

/* Attaches the XDP program of 'at' to its device, or inherits the link that is there (oxdp_progs_take_over()).  0
 * or a negative errno. */
int oxdp_link_attach(struct oxdp_progs *progs, struct oxdp_attachment *at) OXDP_REQUIRES(oxdp_special_mutex);

/* Gives the XDP link of 'at' its port's program, from one frame to the next.  Replaces a link that refuses the update.
 * 0 or a negative errno. */
int oxdp_link_exchange(struct oxdp_progs *progs, struct oxdp_attachment *at) OXDP_REQUIRES(oxdp_special_mutex);

/* Pins the XDP link of 'at', if it has one. */
void oxdp_link_pin(const struct oxdp_progs *progs, const struct oxdp_attachment *at);

/* Detaches what is pinned as 'hook'-ifindex and open as 'fd'.  Nothing if that is negative. */
void oxdp_link_detach(struct oxdp_progs *progs, const char *hook, int fd, int ifindex);

#endif /* core/programs/link.h */
