/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: sets of ports to which XDP sends a frame at once (DP_FATE_GROUP).  Flows with the same ports share a group.
 *
 * Programs find the devices of group G in a map of its own, groups[G] (bpf/maps.h), which holds those that frames can
 * be redirected to now: a port that cannot be sent to is skipped.  Putting a map into another waits for an RCU grace
 * period: a thread does that in advance, and keeps some maps without users.  So the first flow that outputs to a set
 * costs a few system calls, the next none.
 *
 * Any thread. */
#ifndef OXDP_GROUP_H
#define OXDP_GROUP_H 1

#include <stdbool.h>
#include <stdint.h>

struct oxdp_progs;

/* The group of the 'n' ports, at most DP_MAX_GROUP and each once, with one user more.  0; -EAGAIN if it may be had when
 * oxdp_groups_changes() changes, because all that are ready have users; or another negative errno. */
int oxdp_groups_get(struct oxdp_progs *progs, const uint32_t ports[], uint32_t n, uint32_t *ret_group);

/* Takes a user from a group.  No program may still hold that user's flow. */
void oxdp_groups_put(struct oxdp_progs *progs, uint32_t group);

/* Whether a group that has users sends to 'port_no'. */
bool oxdp_groups_has(struct oxdp_progs *progs, uint32_t group, uint32_t port_no);

/* A number that changes when groups become available. */
uint64_t oxdp_groups_changes(struct oxdp_progs *progs);

/* Groups that have users, and how many there can be. */
void oxdp_groups_usage(struct oxdp_progs *progs, uint32_t *ret_used, uint32_t *ret_max);

#endif /* core/programs/group.h */
