/* SPDX-License-Identifier: Apache-2.0 */
/* core/programs/group.c for the rest of this room. */
#ifndef OXDP_GROUP_PRIVATE_H
#define OXDP_GROUP_PRIVATE_H 1

#include <stdint.h>

struct oxdp_progs;

/* Starts and stops it.  0 or a negative errno. */
int oxdp_groups_start(struct oxdp_progs *progs);
void oxdp_groups_stop(struct oxdp_progs *progs);

/* Says that programs can send to port 'port_no' through device 'ifindex', or not with 0.  0 or a negative errno. */
int oxdp_groups_set_output(struct oxdp_progs *progs, uint32_t port_no, int ifindex);

/* Says that the limit of port 'port_no' has changed (core/programs/limit.h). */
void oxdp_groups_limit_changed(struct oxdp_progs *progs, uint32_t port_no);

#endif /* core/programs/group_private.h */
