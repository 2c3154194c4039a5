/* SPDX-License-Identifier: Apache-2.0 */
/* The devices through which programs at tcx send packets that need an outer checksum in each segment (bpf/detour.h):
 *
 *     a VXLAN device ---- IP output of the host, route by device ----> a veth, whose peer hears nothing
 *
 * Whatever the host's routes are, packets of the VXLAN device go to the veth: its remote address, 192.0.0.8, which is
 * no host's (RFC 7600), is on that link.  Nothing leaves by the veth, and nothing comes in by the VXLAN device, because
 * programs there drop all else; so the devices neither send nor take packets of the host's. */
#ifndef OXDP_DETOUR_H
#define OXDP_DETOUR_H 1

#include <net/if.h>
#include <stdbool.h>

struct oxdp_detour {
    char vxlan[IF_NAMESIZE];
    char back[IF_NAMESIZE];     /* The veth where packets come back. */
    int vxlan_ifindex;          /* 0: there are no devices. */
    int back_ifindex;
};

/* Makes devices for the datapath 'name', beside those of a previous instance.  They are down until oxdp_detour_up().
 * 0, or a negative errno with a sentence in '*ret_error' (malloc'd): -EOPNOTSUPP if the kernel has no VXLAN devices. */
int oxdp_detour_make(const char *name, struct oxdp_detour *ret_detour, char **ret_error);

/* Sets them up.  For its socket the VXLAN device needs a UDP port that is free.  As oxdp_detour_make(). */
int oxdp_detour_up(const struct oxdp_detour *detour, char **ret_error);

/* Removes them, if there are any. */
void oxdp_detour_remove(struct oxdp_detour *detour);

/* Whether they are all there and up. */
bool oxdp_detour_works(const struct oxdp_detour *detour);

/* Whether an instance of the datapath 'name' has them. */
bool oxdp_detour_exists(const char *name);

/* Removes those of previous instances of the datapath 'name', all but 'detour', and returns how many devices that
 * were. */
unsigned int oxdp_detour_sweep(const char *name, const struct oxdp_detour *detour);

/* Whether a device has such a name. */
bool oxdp_detour_has_name(const char *name, const char *device);

#endif /* core/kernel/detour.h */
