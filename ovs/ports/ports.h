/* SPDX-License-Identifier: Apache-2.0 */
/* What the rooms of ports share. */
#ifndef DPIF_XDP_PORT_H
#define DPIF_XDP_PORT_H 1

#include "ovs/datapath/datapath.h"

struct dpif_xdp_netdev_config;

/* ovs/ports/open.c: everything that lasts while the port has a device.
 * Opening returns 0 or a positive errno, having said why. */
int dpif_xdp_port_open(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex);
void dpif_xdp_port_close(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex);

/* ovs/ports/open.c: gives 'port', whose 'device' is as it is now, its AF_XDP
 * sockets and its program, before tcx if it is open there.  On failure
 * 'port->rxqs' may be left, without queues. */
int dpif_xdp_port_open_xdp(struct dpif_xdp_dp *, struct dpif_xdp_port *,
                           enum oxdp_mode wanted, const char **mode_text,
                           char **errorp)
    OVS_REQUIRES(dp->port_mutex);

/* ovs/ports/open.c: options:xdp-obj changed.  The port's program is
 * exchanged; if the new one cannot be used, the old one stays. */
void dpif_xdp_port_follow_obj(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex);
void dpif_xdp_port_forget_obj(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex);

/* ovs/ports/hook.c: where programs are to take the packets of 'port'. */
enum dpif_xdp_hook dpif_xdp_port_choose_hook(
    const struct dpif_xdp_dp *, const struct dpif_xdp_port *,
    const struct dpif_xdp_netdev_config *)
    OVS_REQUIRES(dp->port_mutex);

/* ovs/ports/hook.c: they are taken by that from now on, or by either of
 * both: flows of packets from 'port' are put as it runs them. */
void dpif_xdp_port_set_hook(struct dpif_xdp_dp *, struct dpif_xdp_port *,
                            enum dpif_xdp_hook)
    OVS_REQUIRES(dp->port_mutex);

/* ovs/ports/hook.c: a program came to the other end of the veth that
 * 'port' is, or went.  Returns whether 'port' stays open: if not, then it is to
 * be opened anew. */
bool dpif_xdp_port_follow_peer(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex);

/* ovs/ports/sock.c: opens an AF_XDP socket in each of 'port->rxqs', which
 * has room for 'n_queues', and stores their descriptors.  Closes those of the
 * first 'n'. */
int dpif_xdp_port_open_sockets(struct dpif_xdp_dp *, struct dpif_xdp_port *,
                               enum oxdp_mode, uint32_t n_queues,
                               int fds[], char **errorp);
void dpif_xdp_port_close_sockets(struct dpif_xdp_port *, uint32_t n);

/* ovs/engine/send.c: what every port at tcx needs to be sent to, and an end
 * of it. */
int dpif_xdp_sender_prepare(struct dpif_xdp_dp *, char **errorp)
    OVS_REQUIRES(dp->port_mutex);
bool dpif_xdp_sender_is_alive(struct dpif_xdp_port *);
void dpif_xdp_sender_run(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex);
void dpif_xdp_sender_wait(const struct dpif_xdp_port *);
void dpif_xdp_sender_close(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex);

/* The same: from the first to the second 'port' has no AF_XDP socket of that
 * kind, and gets none. */
void dpif_xdp_sender_stop(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex) OVS_ACQUIRES(dp->sender_mutex);
void dpif_xdp_sender_may_start(struct dpif_xdp_dp *)
    OVS_RELEASES(dp->sender_mutex);

/* ovs/ports/tcx.c: opens 'port' with tcx; adds tcx to 'port', open with
 * XDP, and the same, closing it if that fails; tells programs there where the
 * packets for 'port' go, or that they cannot send there any more. */
int dpif_xdp_port_open_tcx(struct dpif_xdp_dp *, struct dpif_xdp_port *,
                           char **errorp)
    OVS_REQUIRES(dp->port_mutex);
int dpif_xdp_port_add_tcx(struct dpif_xdp_dp *, struct dpif_xdp_port *,
                          char **errorp)
    OVS_REQUIRES(dp->port_mutex);
int dpif_xdp_port_continue_at_tcx(struct dpif_xdp_dp *,
                                  struct dpif_xdp_port *, char **errorp)
    OVS_REQUIRES(dp->port_mutex);
void dpif_xdp_port_set_tcx_output(struct dpif_xdp_dp *,
                                  struct dpif_xdp_port *, bool on)
    OVS_REQUIRES(dp->port_mutex);

/* ovs/ports/tcx.c: whether programs there may put packets straight behind
 * the veth that 'port' is, looked at when that may have changed; for all ports,
 * to be called often. */
void dpif_xdp_port_follow_shortcut(struct dpif_xdp_dp *,
                                   struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex);
void dpif_xdp_shortcuts_run(struct dpif_xdp_dp *)
    OVS_REQUIRES(dp->port_mutex);
void dpif_xdp_shortcuts_wait(const struct dpif_xdp_dp *)
    OVS_REQUIRES(dp->port_mutex);

/* ovs/ports/follow.c: what happens to the device. */
void dpif_xdp_port_follow(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex);
void dpif_xdp_port_follow_carrier(struct dpif_xdp_dp *,
                                  struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex);

/* The first port with XDP has come: others become its targets. */
void dpif_xdp_ports_follow_xdp(struct dpif_xdp_dp *)
    OVS_REQUIRES(dp->port_mutex);

#endif /* ovs/ports/ports.h */
