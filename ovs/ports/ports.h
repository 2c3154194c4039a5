/* SPDX-License-Identifier: Apache-2.0 */
/* What the rooms of ports share. */
#ifndef DPIF_XDP_PORT_H
#define DPIF_XDP_PORT_H 1

#include "core/programs/progs.h"
#include "ovs/datapath/datapath.h"
#include "ovs/netdev/netdev_xdp.h"

struct dpif_port;
struct dpif_xdp_netdev_config;
struct smap;

/* ovs/ports/port.c: adds device 'devname', of netdev type 'type', as port
 * 'port_no', which must be free.  Returns 0 or a positive errno. */
int dpif_xdp_port_create(struct dpif_xdp_dp *dp, const char *devname,
                         const char *type, odp_port_t port_no)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* ovs/ports/settings.c: defaults; and what other_config says: packet buffers
 * and flows in programs' tables, false if that has to wait until the datapath
 * is created anew; the hook of ports that have "auto"; the program of ports
 * that have none, or NULL. */
void dpif_xdp_ports_init(struct dpif_xdp_dp *);
bool dpif_xdp_ports_set_sizes(struct dpif_xdp_dp *, uint32_t n_frames,
                              uint32_t n_flows)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_ports_set_hook(struct dpif_xdp_dp *, enum dpif_xdp_hook)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_ports_set_obj(struct dpif_xdp_dp *, const char *obj)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* ovs/ports/port.c: removes all ports, at the end of the datapath; receives
 * from the ports that no engine thread polls, follows devices that went away,
 * came back or were configured anew. */
void dpif_xdp_ports_destroy(struct dpif_xdp_dp *);
void dpif_xdp_ports_run(struct dpif_xdp_dp *);
void dpif_xdp_ports_wait(struct dpif_xdp_dp *);

/* ovs/ports/port.c, as the members of struct dpif_class. */
int dpif_xdp_port_add(struct dpif *, struct netdev *, odp_port_t *);
int dpif_xdp_port_del(struct dpif *, odp_port_t);
int dpif_xdp_port_set_config(struct dpif *, odp_port_t, const struct smap *);
int dpif_xdp_port_query_by_number(const struct dpif *, odp_port_t,
                                  struct dpif_port *);
int dpif_xdp_port_query_by_name(const struct dpif *, const char *,
                                struct dpif_port *);
int dpif_xdp_port_dump_start(const struct dpif *, void **);
int dpif_xdp_port_dump_next(const struct dpif *, void *, struct dpif_port *);
int dpif_xdp_port_dump_done(const struct dpif *, void *);
int dpif_xdp_port_poll(const struct dpif *, char **);
void dpif_xdp_port_poll_wait(const struct dpif *);

/* ovs/ports/take_over.c: exchanges the programs of the daemon before. */
void dpif_xdp_take_over_run(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_take_over_wait(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* ovs/ports/tcx.c: ends what open ports at tcx share. */
void dpif_xdp_upcalls_close(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* ovs/ports/open.c: everything that lasts while the port has a device.
 * Opening returns 0 or a positive errno, having said why. */
int dpif_xdp_port_open(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_close(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* ovs/ports/open.c: gives 'port', whose 'device' is as it is now, its AF_XDP
 * sockets and its program, before tcx if it is open there.  On failure
 * 'port->rxqs' may be left, without queues. */
int dpif_xdp_port_open_xdp(struct dpif_xdp_dp *, struct dpif_xdp_port *,
                           enum oxdp_mode wanted, const char **mode_text,
                           char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* ovs/ports/open.c: options:xdp-obj changed.  The port's program is
 * exchanged; if the new one cannot be used, the old one stays. */
void dpif_xdp_port_follow_obj(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_forget_obj(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* ovs/ports/hook.c: where programs are to take the packets of 'port'. */
enum dpif_xdp_hook dpif_xdp_port_choose_hook(
    const struct dpif_xdp_dp *, const struct dpif_xdp_port *,
    const struct dpif_xdp_netdev_config *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* ovs/ports/hook.c: they are taken by that from now on, or by either of
 * both: flows of packets from 'port' are put as it runs them. */
void dpif_xdp_port_set_hook(struct dpif_xdp_dp *, struct dpif_xdp_port *,
                            enum dpif_xdp_hook)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* ovs/ports/hook.c: a program came to the other end of the veth that
 * 'port' is, or went; or the guest behind the tap that 'port' is turned its
 * offloads on or off.  Returns whether 'port' stays open: if not, then it is to
 * be opened anew. */
bool dpif_xdp_port_follow_other_end(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* ovs/ports/guest.c: whether the guest behind the tap that 'port' is has
 * offloads, as far as that shows.  Whether it has begun to send what shows that
 * it has, to be called often; when to call that again.  What programs and users
 * should know of it, after the hook was chosen or the device has changed. */
bool dpif_xdp_port_guest_has_offloads(struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
bool dpif_xdp_port_look_at_guest(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_wait_for_guest(const struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_follow_guest(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* ovs/ports/sock.c: opens an AF_XDP socket in each of 'port->rxqs', which
 * has room for 'n_queues', and stores their descriptors.  Closes those of the
 * first 'n'. */
int dpif_xdp_port_open_sockets(struct dpif_xdp_dp *, struct dpif_xdp_port *,
                               enum oxdp_mode, uint32_t n_queues,
                               int fds[], char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_close_sockets(struct dpif_xdp_port *, uint32_t n);

/* ovs/ports/tcx.c: opens 'port' with tcx; adds tcx to 'port', open with
 * XDP, and the same, closing it if that fails; tells programs there where the
 * packets for 'port' go, or that they cannot send there any more. */
int dpif_xdp_port_open_tcx(struct dpif_xdp_dp *, struct dpif_xdp_port *,
                           char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
int dpif_xdp_port_add_tcx(struct dpif_xdp_dp *, struct dpif_xdp_port *,
                          char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
int dpif_xdp_port_continue_at_tcx(struct dpif_xdp_dp *,
                                  struct dpif_xdp_port *, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_set_tcx_output(struct dpif_xdp_dp *,
                                  struct dpif_xdp_port *, bool on)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* ovs/ports/tcx.c: whether programs there may put packets straight behind
 * the veth that 'port' is, looked at when that may have changed; for all ports,
 * to be called often. */
void dpif_xdp_port_follow_shortcut(struct dpif_xdp_dp *,
                                   struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_shortcuts_run(struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_shortcuts_wait(const struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* ovs/ports/follow.c: what happens to the device. */
void dpif_xdp_port_follow(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_follow_carrier(struct dpif_xdp_dp *,
                                  struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* The first port with XDP has come: others become its targets. */
void dpif_xdp_ports_follow_xdp(struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

#endif /* ovs/ports/ports.h */
