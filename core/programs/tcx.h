/* SPDX-License-Identifier: Apache-2.0 */
/* The tcx tier of a datapath: programs that run the flow tables on packets of the network stack, and the veth pair
 * through which they hand packets to the engine.
 *
 * Control only, called from one thread at a time, but for oxdp_tcx_capability() and oxdp_tcx_can_output(): any thread (the
 * rules are in core/programs/progs.h). */
#ifndef OXDP_TCX_H
#define OXDP_TCX_H 1

#include <stdbool.h>
#include <stdint.h>

#include "core/kernel/device.h"     /* OXDP_MAX_TCX_MTU. */

struct dp_capability;
struct oxdp_clsact_filter;
struct oxdp_progs;
struct oxdp_shortcut;

/* Loads the programs of 'progs', makes the upcall pair, sets it up; 'n_queues' are its queues.  Nothing if that was
 * done.  'name' is the datapath's.  0, or a negative errno with a sentence in '*ret_error' (malloc'd).  Closing: no other
 * thread may ask for anything of this file, as none does before the first port is at tcx. */
int oxdp_tcx_open(struct oxdp_progs *progs, const char *name, uint32_t n_queues, char **ret_error);
void oxdp_tcx_close(struct oxdp_progs *progs);

/* Whether 'device' is one of the pair that a datapath of the name 'name' makes for itself. */
bool oxdp_tcx_needs_device(const char *name, const char *device);

/* The device at which upcalls arrive, and its AF_XDP sockets. */
const char *oxdp_tcx_upcall_device(const struct oxdp_progs *progs);
int oxdp_tcx_set_upcall_socket(struct oxdp_progs *progs, uint32_t queue, int sock_fd);

/* Whether the kernel has tcx; before Linux 6.6 a clsact filter does instead. */
bool oxdp_tcx_is_native(void);

/* Attaches the program to 'ifindex'; packets that arrive there then belong to datapath port 'port_no'.  'from_xdp':
 * they come from an XDP program at the other end of a veth; what that sends back (XDP_TX) is lost on a device without
 * a program in the driver, so it gets one.  oxdp_progs_detach() takes all back.  0, or a negative errno with a
 * sentence in '*ret_error' (malloc'd). */
int oxdp_tcx_attach(struct oxdp_progs *progs, int ifindex, uint32_t port_no, bool from_xdp, char **ret_error);

/* Says whether they do from now on.  0 or a negative errno: then 'ifindex' is to be detached. */
int oxdp_tcx_set_from_xdp(struct oxdp_progs *progs, int ifindex, bool from_xdp);

/* Attaches the program also to 'ifindex', which has XDP (oxdp_progs_attach()): it gets what XDP leaves to it. */
int oxdp_tcx_attach_behind(struct oxdp_progs *progs, int ifindex, char **ret_error);

/* Takes tcx from 'ifindex'.  If it also has XDP (oxdp_progs_attach_before()), it keeps that. */
void oxdp_tcx_leave(struct oxdp_progs *progs, int ifindex);

/* Whether what that attached to 'ifindex' is still there: a device that was in another network namespace for a moment has
 * lost its filters (before Linux 6.6), one that was made anew under the old number everything. */
bool oxdp_tcx_is_attached(const struct oxdp_progs *progs, int ifindex);

/* How many programs of others stand before ours at tcx on 'ifindex': what one of them lets pass for good (TCX_PASS)
 * does not reach the switch.  Ours is that of 'progs', 0 if that has none there; or, if 'progs' is NULL, that of any process,
 * whose name only who has CAP_SYS_ADMIN can read: then all are others'. */
uint32_t oxdp_tcx_others_first(const struct oxdp_progs *progs, int ifindex);

/* Whether programs stand at tcx on the way out of 'ifindex': they come and go without a word. */
bool oxdp_tcx_has_egress(int ifindex);

/* Whether filters of tc at ingress of 'ifindex' come behind ours and so see no packet that the switch takes, whatever
 * hook has it.  '*ret_filter' is the first. */
bool oxdp_tcx_hides_filters(const struct oxdp_progs *progs, int ifindex, struct oxdp_clsact_filter *ret_filter);

/* Lets programs send packets to port 'port_no' out of device 'ifindex' (0: no more).  0, or negative
 * errno. */
int oxdp_tcx_set_output(struct oxdp_progs *progs, uint32_t port_no, int ifindex);
bool oxdp_tcx_can_output(const struct oxdp_progs *progs, uint32_t port_no);

/* Lets packets for port 'port_no', which has an output, leave the device out as 'shortcut' says; NULL: no more.  0, or
 * negative errno, and nothing has changed. */
int oxdp_tcx_set_shortcut(struct oxdp_progs *progs, uint32_t port_no, const struct oxdp_shortcut *shortcut);

/* Vouches for all shortcuts for 'ms' milliseconds from now.  Without that programs do not use them: whoever ends, or
 * hangs, hears no more of what a shortcut passes by.  0; -ENOENT before oxdp_tcx_open(), or if there is no clock; or
 * another negative errno. */
int oxdp_tcx_permit_shortcuts(struct oxdp_progs *progs, unsigned int ms);

/* What the programs can do; nothing before oxdp_tcx_open(). */
const struct dp_capability *oxdp_tcx_capability(const struct oxdp_progs *progs);

#endif /* core/programs/tcx.h */
