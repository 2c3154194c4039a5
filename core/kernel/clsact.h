/* SPDX-License-Identifier: Apache-2.0 */
/* Our tc filter at the ingress of a device, for kernels without tcx (before 6.6).  It stays when the process ends, as a
 * pinned link does.  Control only. */
#ifndef OXDP_CLSACT_H
#define OXDP_CLSACT_H 1

#include <stdbool.h>
#include <stdint.h>

/* Priority and handle of our filter: it comes after others', and is found again by these numbers. */
#define OXDP_CLSACT_HANDLE 1u
#define OXDP_CLSACT_PRIORITY 0xc0deu

/* Puts the program 'prog_fd' on the ingress of 'ifindex', in place of one of ours that is there.  0, or a negative
 * errno: -EBUSY if a foreign filter has that priority; it stays, and '*ret_error' has a sentence about it
 * (malloc'd). */
int oxdp_clsact_attach(int ifindex, int prog_fd, char **ret_error);

/* Puts it on a device that the switch has made for itself, at egress or ingress.  0 or a negative errno. */
int oxdp_clsact_put(int ifindex, bool egress, int prog_fd);

/* Removes our filter if there is one.  Foreign filters stay. */
void oxdp_clsact_detach(int ifindex);

/* Whether our filter at 'ifindex' runs 'prog_fd'. */
bool oxdp_clsact_runs(int ifindex, int prog_fd);

/* A foreign filter, as "tc filter show" names it. */
struct oxdp_clsact_filter {
    uint32_t priority;
    char kind[16];
};

/* Whether there are filters at egress of 'ifindex'; true also if the kernel does not answer. */
bool oxdp_clsact_has_egress(int ifindex);

/* Finds the first foreign filter at ingress of 'ifindex' whose priority is above 'priority'.  False if there is
 * none. */
bool oxdp_clsact_find_other(int ifindex, uint32_t priority, struct oxdp_clsact_filter *ret_filter);

/* Whether this is the program that ports have at tcx, loaded by this process or another. */
bool oxdp_clsact_is_ours(uint32_t prog_id);

#endif /* core/kernel/clsact.h */
