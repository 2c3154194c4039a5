/* SPDX-License-Identifier: Apache-2.0 */
/* What core/programs/tcx.c does for the rest of this room. */
#ifndef OXDP_TCX_PRIVATE_H
#define OXDP_TCX_PRIVATE_H 1

struct oxdp_attachment;
struct oxdp_progs;

/* Puts our program into the place of that of the process before.  0 or a negative errno. */
int oxdp_tcx_take_over(struct oxdp_progs *progs, struct oxdp_attachment *at);

#endif /* core/programs/tcx_private.h */
