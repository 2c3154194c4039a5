/* SPDX-License-Identifier: Apache-2.0 */
/* Probes for tracers (perf, bpftrace, bcc, SystemTap): static points in the
 * program that cost a test of a number while no tracer listens.
 *
 * Those of Open vSwitch have its names and arguments, so that its scripts
 * work (Documentation/topics/usdt-probes.rst there): it fires them only for
 * the kernel's datapath.  Netlink messages are what that would be sent; they
 * are made only for listeners.  docs/reference/probes.md has all probes. */
#ifndef DPIF_XDP_USDT_H
#define DPIF_XDP_USDT_H 1

#include "dpif.h"
#include "util.h"

struct dp_packet;
struct flow;
struct match;
struct nlattr;

#ifdef OXDP_USDT
/* Numbers of listeners: tracers count them up and down. */
extern unsigned short dpif_recv_recv_upcall_semaphore;
extern unsigned short dpif_netlink_operate___op_flow_put_semaphore;
extern unsigned short dpif_netlink_operate___op_flow_del_semaphore;
extern unsigned short dpif_netlink_operate___op_flow_get_semaphore;
extern unsigned short dpif_netlink_operate___op_flow_execute_semaphore;
extern unsigned short ovs_xdp_slow_path_semaphore;
extern unsigned short ovs_xdp_flow_moved_semaphore;
#define DPIF_XDP_LISTENS(PROBE)                                             \
    OVS_UNLIKELY(*(volatile unsigned short *) &PROBE##_semaphore)
#else
#define DPIF_XDP_LISTENS(PROBE) false
#endif

void dpif_xdp_usdt_operate__(struct dpif *, struct dpif_op *);
void dpif_xdp_usdt_install__(const struct match *, const ovs_u128 *ufid,
                             const struct nlattr *actions,
                             size_t actions_len);
void dpif_xdp_usdt_slow_path__(uint32_t in_port, uint32_t reason,
                               const struct dp_packet *);
void dpif_xdp_usdt_flow_moved__(const ovs_u128 *ufid, int from, int to,
                                bool on_tcx);

/* dpif_recv:recv_upcall: ofproto is asked about 'packet'.  Call this if a
 * tracer listens. */
static inline bool
dpif_xdp_usdt_upcalls(void)
{
    return DPIF_XDP_LISTENS(dpif_recv_recv_upcall);
}

#ifdef OXDP_USDT
void dpif_xdp_usdt_upcall(const char *dp_name, enum dpif_upcall_type,
                          const struct dp_packet *, const struct flow *);
#else
static inline void
dpif_xdp_usdt_upcall(const char *dp_name OVS_UNUSED,
                     enum dpif_upcall_type type OVS_UNUSED,
                     const struct dp_packet *packet OVS_UNUSED,
                     const struct flow *flow OVS_UNUSED)
{
}
#endif

/* dpif_netlink_operate__:op_flow_put and the others: ofproto asks for 'op'. */
static inline void
dpif_xdp_usdt_operate(struct dpif *dpif, struct dpif_op *op)
{
    if (DPIF_XDP_LISTENS(dpif_netlink_operate___op_flow_put)
        || DPIF_XDP_LISTENS(dpif_netlink_operate___op_flow_del)
        || DPIF_XDP_LISTENS(dpif_netlink_operate___op_flow_get)
        || DPIF_XDP_LISTENS(dpif_netlink_operate___op_flow_execute)) {
        dpif_xdp_usdt_operate__(dpif, op);
    }
}

/* dpif_netlink_operate__:op_flow_put, without a dpif: the flow for 'match'
 * with 'ufid' that ofproto's answer to an upcall asks to install. */
static inline void
dpif_xdp_usdt_install(const struct match *match, const ovs_u128 *ufid,
                      const struct nlattr *actions, size_t actions_len)
{
    if (DPIF_XDP_LISTENS(dpif_netlink_operate___op_flow_put)) {
        dpif_xdp_usdt_install__(match, ufid, actions, actions_len);
    }
}

/* ovs_xdp:slow_path: a program has handed 'packet', which came from datapath
 * port 'in_port', to the engine for 'reason' (enum dp_reason). */
static inline void
dpif_xdp_usdt_slow_path(uint32_t in_port, uint32_t reason,
                        const struct dp_packet *packet)
{
    if (DPIF_XDP_LISTENS(ovs_xdp_slow_path)) {
        dpif_xdp_usdt_slow_path__(in_port, reason, packet);
    }
}

/* ovs_xdp:flow_moved: another tier runs the flow with 'ufid' now.  'from' and
 * 'to' are reasons (enum dpif_xdp_fastpath_reason), 0 for programs, -1 for a
 * new flow. */
static inline void
dpif_xdp_usdt_flow_moved(const ovs_u128 *ufid, int from, int to, bool on_tcx)
{
    if (DPIF_XDP_LISTENS(ovs_xdp_flow_moved)) {
        dpif_xdp_usdt_flow_moved__(ufid, from, to, on_tcx);
    }
}

#endif /* ovs/base/usdt.h */
