/* SPDX-License-Identifier: Apache-2.0 */
/* What the sources of the engine share. */
#ifndef DPIF_XDP_ENGINE_PRIVATE_H
#define DPIF_XDP_ENGINE_PRIVATE_H 1

#include "dpif.h"
#include "ovs/engine/engine.h"

struct dp_record;
struct dp_record_ct;
struct ofpbuf;

/* What a program has found out about a packet, and done to it. */
struct dpif_xdp_matched {
    struct dpif_xdp_flow *flow;         /* NULL: none. */
    uint32_t n_tracked;                 /* The flow's actions before so many-th
                                         * ct() are done, from 0 on. */
};

/* input.c: handles a burst of packets, whose metadata is set.  Consumes
 * 'batch'.  'matched' has an element for each packet, or is NULL. */
void dpif_xdp_input(struct dpif_xdp_ctx *, struct dp_packet_batch *batch,
                    const struct dpif_xdp_matched matched[]);

/* thread.c: sets the metadata of a packet that comes from a program, which
 * 'record' describes; 'ct' is its struct dp_record_ct, if there is one. */
void dpif_xdp_take_record(const struct dp_record *,
                          const struct dp_record_ct *ct,
                          struct pkt_metadata *);

/* upcall.c: calls the function that ofproto registered; the arguments are
 * those of upcall_callback in lib/dpif.h.  Only after dpif_xdp_upcall_begin().
 * Returns 0, ENOSPC (execute, but do not install) or another errno. */
int dpif_xdp_upcall(struct dpif_xdp_dp *, struct dp_packet *, struct flow *,
                    struct flow_wildcards *, ovs_u128 *ufid,
                    enum dpif_upcall_type, const struct nlattr *userdata,
                    struct ofpbuf *actions, struct ofpbuf *put_actions);

/* upcall.c: whether upcalls are enabled; then they stay so until
 * dpif_xdp_upcall_end(). */
bool dpif_xdp_upcall_begin(struct dpif_xdp_dp *);
void dpif_xdp_upcall_end(struct dpif_xdp_dp *);

/* execute.c: how often the packets now handled by this thread have been
 * recirculated. */
uint32_t dpif_xdp_recirc_depth(void);

/* output.c: queues the packets of 'batch' for 'port_no'; a copy of them unless
 * 'should_steal'.  Returns false if there is no such port to send to (the
 * packets are dropped then, and freed if 'should_steal'). */
bool dpif_xdp_output(struct dpif_xdp_ctx *, struct dp_packet_batch *batch,
                     bool should_steal, odp_port_t port_no);

/* send.c: sends 'batch' to 'port', which is open and at tcx, and consumes it.
 * What only an AF_XDP socket can send waits until the main thread has opened
 * one. */
void dpif_xdp_sender_send(struct dpif_xdp_ctx *, struct dpif_xdp_port *port,
                          struct dp_packet_batch *batch, bool more)
    OVS_REQ_RDLOCK(dpif_xdp_tx_rwlock);

/* host_tunnel.c: sends 'batch' into the tunnels that their metadata says, by
 * the routes of the host.  'port' is that of such tunnels.  Consumes it. */
void dpif_xdp_host_tunnel_send(struct dpif_xdp_dp *,
                               struct dpif_xdp_port *port,
                               struct dp_packet_batch *batch);

/* packet.c: sends 'batch' through 'sock'.  Consumes it.  If 'more' is to
 * follow, transmission need not start yet. */
void dpif_xdp_send_sock(struct dpif_xdp_dp *, struct oxdp_sock *sock,
                        struct dp_packet_batch *batch, bool more);

#endif /* ovs/engine/engine_private.h */
