/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this room.
 *
 * A port is opened from top to bottom:
 *
 *   port.c           adds and removes ports
 *   follow.c         what happens to the device and to the options
 *   open.c           opens a port, keeps it as configured, closes it
 *   check.c          whether the switch may have the device
 *   serve.c          goes through the choices until one works
 *   hook.c           the choices: hooks and modes, best first
 *   kernel_side.c    what all ports with programs share
 *   track.c          programs that track connections
 *   xdp.c tcx.c packet_socket.c   the ways to be served
 *   target.c shortcut.c limit.c   how and what programs send to the port
 *   guest.c          what a guest behind a tap leaves to be done
 *   underlay.c       ports by which frames of tunnels come
 *   host_tunnel.c    tunnels that go by no port, but by the host's routes
 *   neighbours.c     which neighbours of tunnels are known after a restart
 *   sock.c           AF_XDP sockets */
#ifndef DPIF_XDP_PORTS_PRIVATE_H
#define DPIF_XDP_PORTS_PRIVATE_H 1

#include "core/kernel/tunnel_device.h"
#include "ovs/netdev/netdev_xdp.h"
#include "ovs/ports/ports.h"

/* open.c.  Opening returns 0, or a positive errno after it has logged why.
 * Updating adapts an open port to its device and its options. */
int dpif_xdp_port_open(struct dpif_xdp_dp *dp, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_update(struct dpif_xdp_dp *dp, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_close(struct dpif_xdp_dp *dp, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* follow.c: what happened to the device; has a port that could not be opened
 * tried again, after a time that doubles. */
void dpif_xdp_port_follow(struct dpif_xdp_dp *dp, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_try_later(struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* check.c: whether the switch may have device 'name': 0, or a positive errno
 * with a sentence in '*errorp'.  Whether 'port' is not at XDP because a
 * foreign program is.  Warns of what the host loses by it. */
int dpif_xdp_port_check_device(const struct dpif_xdp_dp *, const char *name,
                               char **errorp);
bool dpif_xdp_port_has_other_xdp(const struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_warn_of_users(struct dpif_xdp_port *);
void dpif_xdp_port_warn_of_filters(struct dpif_xdp_dp *dp,
                                   struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* hook.c: how a port can be served, best first.  The last but one is XDP
 * without flow tables: AF_XDP takes every packet to the engine.  The last,
 * with DPIF_XDP_HOOK_NONE, needs no programs. */
#define DPIF_XDP_MAX_CHOICES 6
struct dpif_xdp_choice {
    enum dpif_xdp_hook hook;
    enum oxdp_mode mode;                /* If the hook has XDP. */
    bool bare;                          /* Also without flow tables. */
};
struct dpif_xdp_choices {
    enum dpif_xdp_hook wanted;          /* If the MTU did not matter. */
    size_t n;
    struct dpif_xdp_choice list[DPIF_XDP_MAX_CHOICES];
};
/* hook.c: the largest MTU that the XDP program of 'port' takes. */
uint32_t dpif_xdp_port_max_mtu(const struct dpif_xdp_dp *,
                               const struct dpif_xdp_port *);

void dpif_xdp_port_choices(const struct dpif_xdp_dp *dp,
                           const struct dpif_xdp_port *,
                           const struct dpif_xdp_netdev_config *,
                           struct dpif_xdp_choices *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* hook.c: setting the hook reinstalls the flows of packets from the port for
 * that hook (BOTH: for either). */
enum dpif_xdp_hook dpif_xdp_port_get_hook(const struct dpif_xdp_port *);
void dpif_xdp_port_set_hook(struct dpif_xdp_dp *dp, struct dpif_xdp_port *,
                            enum dpif_xdp_hook)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* serve.c: has 'port', whose 'device' is as it is now, served by the first of
 * 'choices' that works, without a gap if it is served already.  0, with the
 * reason in '*whyp' if that is not the first (else NULL); EAGAIN if that is so
 * because the kernel has not freed a queue, soon to be tried again; or another
 * positive errno with a sentence in '*whyp', if the switch cannot have the
 * device. */
int dpif_xdp_port_serve(struct dpif_xdp_dp *dp, struct dpif_xdp_port *,
                        const struct dpif_xdp_choices *, char **whyp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* serve.c: whether the XDP program of 'port' has no flow tables, because the
 * kernel does not take one that has. */
bool dpif_xdp_port_is_bare(const struct dpif_xdp_dp *dp,
                           const struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* kernel_side.c: 0, or a positive errno with a sentence in '*errorp'. */
int dpif_xdp_kernel_side_prepare(struct dpif_xdp_dp *dp, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* kernel_side.c: pins programs that could not be pinned, when that is due. */
void dpif_xdp_kernel_side_run(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_kernel_side_wait(const struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* track.c: programs get the tables of connections, when there are any. */
void dpif_xdp_track_run(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_track_wait(const struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* kernel_side.c: what failed is tried again after 1 s, then 2, 4 ... 60.
 * 'waits' returns true, with what was said the last time, if that is not due;
 * 'note' says how a try ended. */
unsigned int dpif_xdp_backoff_next(unsigned int ms);
bool dpif_xdp_backoff_waits(const struct dpif_xdp_backoff *, int *error,
                            char **errorp);
void dpif_xdp_backoff_note(struct dpif_xdp_backoff *, int error,
                           const char *text);

/* kernel_side.c: makes with 'open' devices of the switch's own for the
 * programs of 'dp', unless 'backoff' waits.  The log has 'done'; or, when it
 * fails for the first time, 'failed' and the reason. */
void dpif_xdp_backoff_open(struct dpif_xdp_backoff *backoff,
                           int (*open)(struct oxdp_progs *, const char *name,
                                       char **errorp),
                           struct dpif_xdp_dp *dp, const char *done,
                           const char *failed)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* xdp.c: attaches XDP to 'port', which is at tcx or not served; takes XDP from
 * 'port', which is also at tcx.  Attaching returns 0, or a positive errno with
 * a sentence in '*errorp', and nothing has changed. */
int dpif_xdp_port_add_xdp(struct dpif_xdp_dp *dp, struct dpif_xdp_port *,
                          enum oxdp_mode, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_leave_xdp(struct dpif_xdp_dp *dp, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* xdp.c: whether XDP serves 'port', which has it, as 'mode' asks and on all
 * queues. */
bool dpif_xdp_port_suits_mode(const struct dpif_xdp_port *, enum oxdp_mode)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* xdp.c: the program of options:xdp-obj, or of other_config:xdp-obj, or ours;
 * at once if XDP is attached.  If it cannot be used, the old one stays. */
int dpif_xdp_port_use_wanted_obj(struct dpif_xdp_dp *dp,
                                 struct dpif_xdp_port *, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_forget_obj(struct dpif_xdp_dp *dp, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* tcx.c: the same for tcx. */
int dpif_xdp_port_add_tcx(struct dpif_xdp_dp *dp, struct dpif_xdp_port *,
                          char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_leave_tcx(struct dpif_xdp_dp *dp, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* tcx.c: tells programs there where the packets for 'port' go, or that they
 * cannot send there any more. */
void dpif_xdp_port_set_tcx_output(struct dpif_xdp_dp *dp,
                                  struct dpif_xdp_port *, bool on)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* When a port that was looked at 'now' is due again: after 'ms', or up to an
 * eighth of it earlier, at one of eight moments within 'ms'.  Else a thousand
 * ports would wake the main thread a thousand times. */
static inline long long int
dpif_xdp_next_look(long long int now, int ms)
{
    return ROUND_DOWN(now + ms, ms / 8);
}

/* guest.c: finds out what is known of the guest behind a tap, for the choice
 * of the hook. */
void dpif_xdp_port_ask_about_guest(struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* guest.c: whether what the guest sends asks for another hook.  To be called
 * often; the second function wakes poll_block() for that. */
bool dpif_xdp_port_look_at_guest(struct dpif_xdp_dp *dp,
                                 struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_wait_for_guest(const struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* guest.c: tells programs and the status about the guest, after the hook was
 * chosen or the device has changed. */
void dpif_xdp_port_follow_guest(struct dpif_xdp_dp *dp, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* underlay.c: whether 'port' is to be at tcx because frames of tunnels come by
 * it for containers. */
bool dpif_xdp_port_is_underlay(const struct dpif_xdp_dp *,
                               const struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* underlay.c: looks at all ports; then, whether the answer for 'port' is
 * another than when its hook was chosen. */
void dpif_xdp_underlays_look(struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
bool dpif_xdp_port_look_at_underlay(const struct dpif_xdp_dp *,
                                    const struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* underlay.c: has the kernel merge frames of tunnels that come by underlays,
 * to be called often. */
void dpif_xdp_underlays_run(struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* underlay.c: ends that for the tunnels of 'port'. */
void dpif_xdp_port_stop_merging(struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* underlay.c: whether 'port' is one of tunnels. */
bool dpif_xdp_port_is_tunnel(const struct dpif_xdp_port *);

/* host_tunnel.c: whether 'port' is one of tunnels that the kernel has devices
 * for, and which; '*udp_port' is 0 for those without UDP.  The name of the
 * others ends with it (lib/netdev-vport.c, netdev_vport_get_dpif_port()). */
bool dpif_xdp_port_tunnel_kind(const struct dpif_xdp_port *,
                               enum oxdp_tunnel_kind *, uint16_t *udp_port);

/* host_tunnel.c: has what stands for 'port' be configured as 'tunnel', one of
 * its tunnels, is, as far as Open vSwitch compares that. */
void dpif_xdp_port_configure_tunnel(struct dpif_xdp_port *port,
                                    const struct netdev *tunnel);

/* host_tunnel.c: makes devices for tunnels that go by the routes of the host,
 * to be called often; the second function wakes poll_block() for that. */
void dpif_xdp_host_tunnels_run(struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_host_tunnels_wait(const struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* neighbours.c: tells tunnels which neighbours the kernel knows behind 'port',
 * if that is a bridge's. */
void dpif_xdp_port_learn_neighbours(const struct dpif_xdp_port *port);

/* host_tunnel.c: removes the device for the tunnels of 'port', if any. */
void dpif_xdp_host_tunnel_close(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* tcx.c: has packets of the device 'ifindex', one for tunnels, belong to
 * 'port': 0, or a positive errno with a sentence in '*errorp'. */
int dpif_xdp_port_add_tunnel(struct dpif_xdp_dp *dp,
                             const struct dpif_xdp_port *, int ifindex,
                             char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* detour.c: makes the devices for detours of packets when they are wanted, to
 * be called often; removes those of a previous instance. */
void dpif_xdp_detour_run(struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_detour_taken_over(struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* order.c: makes the device for the order of packets when it is wanted, to be
 * called often; removes that of a previous instance. */
void dpif_xdp_order_run(struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_order_taken_over(struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* packet_socket.c: has the engine receive 'port', which is not served, through
 * a packet socket: 0, or a positive errno with a sentence in '*errorp'.  A
 * parked socket goes on receiving, but no thread reads it. */
int dpif_xdp_port_open_packet_socket(struct dpif_xdp_dp *dp,
                                     struct dpif_xdp_port *, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
struct dpif_xdp_rxq *dpif_xdp_port_park_packet_socket(struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
int dpif_xdp_port_resume_packet_socket(struct dpif_xdp_dp *dp,
                                       struct dpif_xdp_port *,
                                       struct dpif_xdp_rxq *parked,
                                       char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_close_packet_socket(struct dpif_xdp_port *,
                                       struct dpif_xdp_rxq *parked)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* sock.c: opens the AF_XDP sockets of a port from queue 'first' on, each in
 * one of the 'n_queues' 'rxqs'.  Closes those of the first 'n'; stores their
 * file descriptors. */
int dpif_xdp_port_open_sockets(struct dpif_xdp_dp *, struct dpif_xdp_port *,
                               enum oxdp_mode, struct dpif_xdp_rxq *rxqs,
                               uint32_t first, uint32_t n_queues,
                               char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_close_sockets(struct dpif_xdp_rxq *rxqs, uint32_t n);
void dpif_xdp_port_get_fds(const struct dpif_xdp_rxq *rxqs, uint32_t n,
                           int fds[]);

/* target.c: lets XDP send to 'port' while its device has a carrier and takes
 * redirected frames, unless that would bypass its qdisc. */
void dpif_xdp_port_follow_carrier(struct dpif_xdp_dp *dp,
                                  struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* target.c: the same for all ports, when the first with XDP is opened. */
void dpif_xdp_ports_follow_xdp(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* target.c: marks 'port' as absent, so that nothing is sent to it. */
void dpif_xdp_port_set_absent(struct dpif_xdp_dp *dp, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* limit.c: tells programs and the engine which packets the device of 'port'
 * takes: before they may send there, and after any change; that there is no
 * device any more. */
void dpif_xdp_port_follow_limit(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_forget_limit(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* shortcut.c: lets programs at tcx redirect packets for 'port', a veth, into
 * its peer, or forbids it, after a change; for all ports, to be called
 * often. */
void dpif_xdp_port_follow_shortcut(struct dpif_xdp_dp *dp,
                                   struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_shortcuts_run(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_shortcuts_wait(const struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

#endif /* ovs/ports/ports_private.h */
