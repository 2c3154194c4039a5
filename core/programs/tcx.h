/* SPDX-License-Identifier: Apache-2.0 */
/* The tcx tier of a datapath: programs that run the flow tables on packets of the network stack, and the veth pair
 * through which they hand packets to the engine.
 *
 * Control only, called from one thread at a time, except oxdp_tcx_capability() and oxdp_tcx_can_output(): any thread
 * (the rules are in core/programs/progs.h). */
#ifndef OXDP_TCX_H
#define OXDP_TCX_H 1

#include <stdbool.h>
#include <stdint.h>

struct dp_capability;
struct oxdp_clsact_filter;
struct oxdp_progs;
struct oxdp_shortcut;

/* Loads the programs of 'progs', makes the upcall pair, sets it up; 'n_queues' are its queues.  Does nothing if that
 * was done.  'name' is the datapath's.  0, or a negative errno with a sentence in '*ret_error' (malloc'd).  While it
 * closes, no other thread may call functions of this file. */
int oxdp_tcx_open(struct oxdp_progs *progs, const char *name, uint32_t n_queues, char **ret_error);
void oxdp_tcx_close(struct oxdp_progs *progs);

/* Whether 'device' is one of the pair that a datapath of the name 'name' makes for itself. */
bool oxdp_tcx_needs_device(const char *name, const char *device);

/* The device at which frames for the engine arrive, and its AF_XDP sockets. */
const char *oxdp_tcx_upcall_device(const struct oxdp_progs *progs);
int oxdp_tcx_set_upcall_socket(struct oxdp_progs *progs, uint32_t queue, int sock_fd);

/* How many packets for the engine the pair had no room for, or its sockets no frame.  0 without a pair. */
uint64_t oxdp_tcx_n_overrun(const struct oxdp_progs *progs);

/* Whether the kernel has tcx; before Linux 6.6 a clsact filter does instead. */
bool oxdp_tcx_is_native(void);

/* Attaches the program to 'ifindex'; packets that arrive there then belong to datapath port 'port_no'.  'from_xdp':
 * they come from an XDP program on the peer of a veth.  What that sends back (XDP_TX) is lost on a device without
 * a native program, so the device gets one.  oxdp_progs_detach() undoes all.  0, or a negative errno with a
 * sentence in '*ret_error' (malloc'd). */
int oxdp_tcx_attach(struct oxdp_progs *progs, int ifindex, uint32_t port_no, bool from_xdp, char **ret_error);

/* Attaches programs to 'ifindex', a device of the kernel for tunnels (core/kernel/tunnel_device.h): packets that come
 * out of it belong to the tunnels' port 'port_no', and what the engine sends there has a struct dp_tunnel_out
 * (dp/tunnel_out.h).  oxdp_progs_detach() undoes it.  0, or a negative errno with a sentence in '*ret_error'
 * (malloc'd). */
int oxdp_tcx_attach_tunnel(struct oxdp_progs *progs, int ifindex, uint32_t port_no, char **ret_error);

/* Changes 'from_xdp'.  0; or a negative errno: then detach 'ifindex'. */
int oxdp_tcx_set_from_xdp(struct oxdp_progs *progs, int ifindex, bool from_xdp);

/* Attaches the program also to 'ifindex', which has XDP (oxdp_progs_attach()): it gets the packets that XDP leaves to
 * it. */
int oxdp_tcx_attach_behind(struct oxdp_progs *progs, int ifindex, char **ret_error);

/* Detaches tcx from 'ifindex'.  If it also has XDP (oxdp_progs_attach_before()), it keeps that. */
void oxdp_tcx_leave(struct oxdp_progs *progs, int ifindex);

/* Whether our program is still at tcx on 'ifindex'.  A device that was moved to another network namespace and back has
 * lost its filters (before Linux 6.6).  A new device with the old number has neither. */
bool oxdp_tcx_is_attached(const struct oxdp_progs *progs, int ifindex);

/* How many foreign programs are before ours at tcx on 'ifindex'.  A packet for which one of them returns TCX_PASS does
 * not reach the switch.  Ours is that of 'progs', 0 if that has none there.  If 'progs' is NULL, it is that of any
 * process, found by its name; without CAP_SYS_ADMIN names are not known, and all programs count as foreign. */
uint32_t oxdp_tcx_others_first(const struct oxdp_progs *progs, int ifindex);

/* Whether there are programs at tcx egress of 'ifindex'.  The kernel sends no message when they change. */
bool oxdp_tcx_has_egress(int ifindex);

/* Whether tc filters at ingress of 'ifindex' come after ours.  They see no packet that the switch takes, on either
 * hook.  '*ret_filter' is the first. */
bool oxdp_tcx_hides_filters(const struct oxdp_progs *progs, int ifindex, struct oxdp_clsact_filter *ret_filter);

/* Lets programs send packets to port 'port_no' out of device 'ifindex'; with 0 forbids it.  0, or negative errno. */
int oxdp_tcx_set_output(struct oxdp_progs *progs, uint32_t port_no, int ifindex);
bool oxdp_tcx_can_output(const struct oxdp_progs *progs, uint32_t port_no);

/* Lets programs redirect packets for port 'port_no', which has an output, into its peer as 'shortcut' says; NULL
 * forbids it.  0; or negative errno, and nothing has changed. */
int oxdp_tcx_set_shortcut(struct oxdp_progs *progs, uint32_t port_no, const struct oxdp_shortcut *shortcut);

/* Makes peer redirect valid for 'ms' milliseconds from now.  Programs use it only while it is valid: a daemon that ends
 * or hangs does not notice qdiscs, filters and captures that it bypasses.  0; -ENOENT before oxdp_tcx_open(), or if
 * there is no clock; or another negative errno. */
int oxdp_tcx_permit_shortcuts(struct oxdp_progs *progs, unsigned int ms);

/* What the programs can do; nothing before oxdp_tcx_open(). */
const struct dp_capability *oxdp_tcx_capability(const struct oxdp_progs *progs);

#endif /* core/programs/tcx.h */
