/* SPDX-License-Identifier: Apache-2.0 */
/* The maps of a datapath: core/programs/maps.c. */
#ifndef OXDP_MAPS_H
#define OXDP_MAPS_H 1

#include <stdbool.h>

struct bpf_object;
struct oxdp_progs;
struct oxdp_progs_config;

/* Makes the maps in the sizes of 'config', and the flow tables in them.  0 or a negative errno. */
int oxdp_maps_create(struct oxdp_progs *progs, const struct oxdp_progs_config *config);
void oxdp_maps_destroy(struct oxdp_progs *progs);

/* Makes the maps of 'object', open but not loaded, those of 'progs' where they have the same names (except read-only
 * data, which is the program's own).  0, or a negative errno with a sentence in '*ret_error': -EPROTO if a map has
 * another shape there. */
int oxdp_maps_share(const struct oxdp_progs *progs, struct bpf_object *object, char **ret_error);

/* Pins all of them.  0 or a negative errno. */
int oxdp_maps_pin(const struct oxdp_progs *progs);

/* Whether programs that are loaded now are over tables of connections (core/programs/track.h); and has none be from now
 * on, because the kernel refuses them.  The second is for before there are programs. */
bool oxdp_maps_have_ct(const struct oxdp_progs *progs);
void oxdp_maps_omit_ct(struct oxdp_progs *progs);

#endif /* core/programs/maps.h */
