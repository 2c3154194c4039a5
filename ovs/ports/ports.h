/* SPDX-License-Identifier: Apache-2.0 */
/* The door of the ports. */
#ifndef DPIF_XDP_PORT_H
#define DPIF_XDP_PORT_H 1

#include "core/programs/progs.h"
#include "ovs/datapath/datapath.h"
#include "ovs/netdev/netdev_xdp.h"

struct dpif_port;
struct json;
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

/* ovs/ports/host_tunnel.c: whether packets to 'dst' in tunnels, with mark
 * 'mark' and from 'src', if that is not all zeros, leave by a port of 'dp' as
 * Open vSwitch knows the host's routes.  Any thread, under RCU. */
bool dpif_xdp_route_is_ours(const struct dpif_xdp_dp *dp, uint32_t mark,
                            const struct in6_addr *dst,
                            const struct in6_addr *src);

/* ovs/ports/host_tunnel.c: has the kernel take the packets of the tunnels of
 * 'port' that come in fragments, one of which has come.  Any thread. */
void dpif_xdp_port_take_fragments(struct dpif_xdp_port *port);

/* ovs/ports/host_tunnel.c: which way the tunnels of 'port' take, as text that
 * the caller frees; NULL if it is no port of tunnels, or has none. */
char *dpif_xdp_port_explain_tunnels(const struct dpif_xdp_dp *dp,
                                    const struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* ovs/ports/kernel_side.c: tries again at once what failed and waits. */
void dpif_xdp_ports_retry(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

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

/* ovs/ports/order.c: adds what keeps TCP's packets in order to 'report', if
 * one was early. */
void dpif_xdp_order_report(struct dpif_xdp_dp *dp, struct json *report)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* ovs/ports/take_over.c: replaces the programs of a previous instance. */
void dpif_xdp_take_over_run(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_take_over_wait(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* ovs/ports/tcx.c: ends what open ports at tcx share. */
void dpif_xdp_upcalls_close(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* ovs/ports/hook.c: returns the hook that 'port' should have, with the reason
 * and what would have to change, as text.  If that hook cannot be had, the
 * port has another, and its error says why. */
enum dpif_xdp_hook dpif_xdp_port_explain_hook(const struct dpif_xdp_dp *,
                                              const struct dpif_xdp_port *,
                                              const char **why,
                                              const char **change)
    OVS_REQUIRES(dpif_xdp_port_mutex);

#endif /* ovs/ports/ports.h */
