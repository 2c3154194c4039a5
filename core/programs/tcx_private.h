/* SPDX-License-Identifier: Apache-2.0 */
/* core/programs/tcx.c for the rest of this room. */
#ifndef OXDP_TCX_PRIVATE_H
#define OXDP_TCX_PRIVATE_H 1

struct oxdp_attachment;
struct oxdp_progs;

/* Replaces the previous instance's program by ours.  0 or a negative errno. */
int oxdp_tcx_take_over(struct oxdp_progs *progs, struct oxdp_attachment *at);

#endif /* core/programs/tcx_private.h */
