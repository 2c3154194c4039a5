/* SPDX-License-Identifier: Apache-2.0 */
/* Detours of packets at tcx (bpf/detour.h): gives programs the devices that they need for them.  Control only. */
#ifndef OXDP_PROGRAMS_DETOUR_H
#define OXDP_PROGRAMS_DETOUR_H 1

#include <stdbool.h>
#include <stdint.h>

struct oxdp_progs;

/* Whether a packet was to go on a detour, and there are no devices. */
bool oxdp_detour_is_wanted(const struct oxdp_progs *progs);

/* Makes the devices (core/kernel/detour.h), for the datapath 'name'.  0, or a negative errno with a sentence in
 * '*ret_error' (malloc'd). */
int oxdp_detour_open(struct oxdp_progs *progs, const char *name, char **ret_error);

/* Removes them, if there are any.  The engine gets the packets. */
void oxdp_detour_close(struct oxdp_progs *progs);

/* How many packets did not come back; and whether the devices are still as they must be.  'ret_device', which is valid
 * until oxdp_detour_close(), is the name of the one that packets enter; NULL without devices. */
uint32_t oxdp_detour_lost(const struct oxdp_progs *progs, const char **ret_device);
bool oxdp_detour_is_whole(const struct oxdp_progs *progs);

/* Removes what previous instances of the datapath 'name' have left, whose programs no device runs any more.  Returns
 * how many devices that were. */
unsigned int oxdp_detour_forget_old(const struct oxdp_progs *progs, const char *name);

#endif /* core/programs/detour.h */
