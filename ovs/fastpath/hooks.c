/* SPDX-License-Identifier: Apache-2.0 */
/* Which programs run a flow: those of XDP, of tcx, of both, or none; and the
 * flow compiled for them. */
#include <config.h>

#include "ovs/fastpath/fastpath_private.h"

#include "core/programs/group.h"
#include "core/programs/progs.h"
#include "core/programs/tcx.h"
#include "dp/capability.h"
#include "flow.h"
#include "netdev.h"
#include "ovs-atomic.h"
#include "ovs/datapath/datapath.h"
#include "ovs/fastpath/compile.h"
#include "util.h"

struct dpif_xdp_mask_memo *
dpif_xdp_fastpath_mask(const struct dpif_xdp_flow *flow)
{
    void **aux = dpif_xdp_rule_aux(&flow->rule);

    if (!*aux) {
        *aux = xzalloc(sizeof(struct dpif_xdp_mask_memo));
    }
    return *aux;
}

enum dpif_xdp_hook
dpif_xdp_fastpath_hook_of(const struct dpif_xdp_dp *dp,
                          odp_port_t port_no)
{
    const struct dpif_xdp_port *port = dpif_xdp_port_lookup(dp, port_no);
    int hook = DPIF_XDP_HOOK_EITHER;

    if (port && port->is_device) {
        atomic_read(&CONST_CAST(struct dpif_xdp_port *, port)->hook, &hook);
    }
    return hook == DPIF_XDP_HOOK_NONE ? DPIF_XDP_HOOK_XDP : hook;
}

/* What the programs at all of 'hooks' can do for packets of 'in_port'. */
static struct dp_capability
capability(const struct dpif_xdp_fastpath *fp, unsigned int hooks,
           odp_port_t in_port)
{
    struct dp_capability xdp, tcx = *oxdp_tcx_capability(fp->progs);

    if (!(hooks & DPIF_XDP_AT_XDP)) {
        return tcx;
    }
    xdp = oxdp_progs_capability(fp->progs, odp_to_u32(in_port));
    if (hooks & DPIF_XDP_AT_TCX) {
        xdp.key_groups &= tcx.key_groups;
        xdp.ops &= tcx.ops;
    }
    return xdp;
}

/* Whether the programs at all of 'hooks' can send to all ports that 'compiled'
 * names. */
static bool
can_output(const struct dpif_xdp_fastpath *fp, unsigned int hooks,
           const struct dpif_xdp_compiled *compiled)
{
    for (uint32_t i = 0; i < compiled->n_ops; i++) {
        const struct dp_op *op = &compiled->ops[i];

        for (uint32_t j = 0; op->code == DP_OP_OUTPUT && j < op->u.output.n;
             j++) {
            if (!oxdp_tcx_can_output(fp->progs, op->u.output.port[j])) {
                return false;
            }
        }
    }
    for (uint32_t i = 0; i < compiled->n_outputs; i++) {
        uint32_t port_no = compiled->outputs[i];

        if (!oxdp_progs_can_output(fp->progs, port_no)
            && !oxdp_progs_is_absent(fp->progs, port_no)) {
            return false;
        }
    }
    return (compiled->fate != DP_FATE_OUTPUT
            || ((!(hooks & DPIF_XDP_AT_TCX)
                 || oxdp_tcx_can_output(fp->progs, compiled->arg))
                && (!(hooks & DPIF_XDP_AT_XDP)
                    || oxdp_progs_can_output(fp->progs, compiled->arg))));
}

/* Puts the places of meters for their numbers.  False: programs do not have
 * all that 'compiled' uses. */
static bool
place_meters(const struct dpif_xdp_dp *dp, struct dpif_xdp_compiled *compiled)
{
    for (uint32_t i = 0; i < compiled->n_ops; i++) {
        struct dp_op *op = &compiled->ops[i];

        if (op->code == DP_OP_METER
            && !dpif_xdp_meters_get_slot(&dp->meters, op->u.meter,
                                         &op->u.meter)) {
            return false;
        }
    }
    return true;
}

/* Tells the room of ports that headers of tunnels are popped of what comes by
 * 'port_no'. */
static void
note_underlay(const struct dpif_xdp_dp *dp, odp_port_t port_no)
{
    struct dpif_xdp_port *port = dpif_xdp_port_lookup(dp, port_no);

    if (port && port->is_device) {
        atomic_store_relaxed(&port->pops_tunnels, true);
    }
}

/* Says which kind of tunnel a header is popped of.  False: not one that
 * programs with 'caps' pop. */
static bool
place_tunnel(const struct dpif_xdp_dp *dp, odp_port_t in_port,
             const struct dp_capability *caps,
             struct dpif_xdp_compiled *compiled)
{
    struct dp_op *pop = dpif_xdp_compiled_pop(compiled);
    const struct dpif_xdp_port *port;

    if (!pop) {
        return true;
    }
    port = dpif_xdp_port_lookup(dp, u32_to_odp(pop->u.tunnel_pop.port));
    if (!port || !dpif_xdp_compile_pop(compiled,
                                       netdev_get_type(port->netdev))
        || !(caps->ops & 1ULL << pop->code)) {
        return false;
    }
    note_underlay(dp, in_port);
    return true;
}

/* Compiles a flow for all of 'hooks', for the engine if one of them cannot run
 * it.  The group that a flow sends to is its own. */
static enum dpif_xdp_fastpath_reason
compile(const struct dpif_xdp_dp *dp, unsigned int hooks,
        const struct dpif_xdp_flow *flow, const struct flow *key,
        struct dpif_xdp_compiled *compiled, bool *matches)
{
    const struct dpif_xdp_actions *actions = dpif_xdp_flow_actions(flow);
    const struct dpif_xdp_fastpath *fp = dp->fastpath;
    odp_port_t in_port = key->in_port.odp_port;
    const struct dp_capability caps = capability(fp, hooks, in_port);
    enum dpif_xdp_fastpath_reason reason;

    reason = (enum dpif_xdp_fastpath_reason) dpif_xdp_compile(
        key, dpif_xdp_rule_wc(&flow->rule),
        &dpif_xdp_fastpath_mask(flow)->compiled, actions->actions,
        actions->size, &caps, compiled, matches);
    if (!reason && hooks & DPIF_XDP_AT_XDP
        && !oxdp_progs_has_flows(fp->progs, odp_to_u32(in_port))) {
        reason = REASON_BARE;
        *matches = false;
    } else if (!reason && !can_output(fp, hooks, compiled)) {
        reason = REASON_PORT;
    } else if (!reason && hooks & DPIF_XDP_AT_XDP
               && compiled->fate == DP_FATE_OUTPUT
               && !oxdp_progs_suits_buffers(fp->progs, odp_to_u32(in_port),
                                            compiled->arg)) {
        reason = REASON_BUFFERS;
    } else if (!reason && !place_meters(dp, compiled)) {
        reason = REASON_METER;
    } else if (!reason && !place_tunnel(dp, in_port, &caps, compiled)) {
        reason = (enum dpif_xdp_fastpath_reason) DPIF_XDP_COMPILE_TUNNEL;
    }
    if (!reason && compiled->fate == DP_FATE_GROUP
        && oxdp_groups_get(fp->progs, compiled->outputs, compiled->n_outputs,
                           &compiled->arg)) {
        reason = REASON_GROUP;
    }
    if (reason) {
        compiled->fate = DP_FATE_ENGINE;
        compiled->n_ops = 0;
    }
    return reason;
}

/* Compiles a flow that XDP cannot run for tcx, which gets its packets after
 * XDP or instead of XDP.  False: tcx cannot run it either. */
static bool
compile_left_to_tcx(const struct dpif_xdp_dp *dp,
                 const struct dpif_xdp_flow *flow, const struct flow *key,
                 struct dpif_xdp_compiled *compiled)
{
    struct dpif_xdp_compiled other;
    bool matches;

    if (compile(dp, DPIF_XDP_AT_TCX, flow, key, &other, &matches)) {
        return false;
    }
    *compiled = other;
    compiled->fate |= DP_FATE_SKB;
    return true;
}

/* Compiles a flow whose packets come by either hook, because its port has no
 * device: they were in a tunnel.  One entry serves both; what a hook cannot
 * run its programs hand to the engine:
 *
 *   - at best, both run it;
 *   - else XDP, if programs at tcx will not try: they lack an operation of it,
 *     or groups, or they can send where it does;
 *   - else tcx: XDP leaves the packet alone (DP_FATE_SKB).
 *
 * Stores in '*ret_hooks' which run it. */
static enum dpif_xdp_fastpath_reason
compile_for_either(const struct dpif_xdp_dp *dp,
                   const struct dpif_xdp_flow *flow, const struct flow *key,
                   struct dpif_xdp_compiled *compiled, bool *matches,
                   unsigned int *ret_hooks)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    const struct dpif_xdp_fastpath *fp = dp->fastpath;
    enum dpif_xdp_fastpath_reason reason;

    *ret_hooks = DPIF_XDP_AT_XDP | DPIF_XDP_AT_TCX;
    if (fp->tcx_in_use
        && !compile(dp, DPIF_XDP_AT_XDP | DPIF_XDP_AT_TCX, flow, key, compiled,
                    matches)) {
        return REASON_OK;
    }
    *ret_hooks = DPIF_XDP_AT_XDP;
    reason = compile(dp, DPIF_XDP_AT_XDP, flow, key, compiled, matches);
    if (fp->tcx_in_use && !reason && compiled->fate == DP_FATE_OUTPUT
        && !oxdp_tcx_can_output(fp->progs, compiled->arg)) {
        compiled->fate = DP_FATE_ENGINE;
        compiled->n_ops = 0;
        reason = REASON_PORT;
    }
    if (reason && compile_left_to_tcx(dp, flow, key, compiled)) {
        *matches = true;
        *ret_hooks = DPIF_XDP_AT_TCX;
        reason = REASON_OK;
    }
    return reason;
}

enum dpif_xdp_fastpath_reason
dpif_xdp_fastpath_compile(const struct dpif_xdp_dp *dp,
                          enum dpif_xdp_hook hook,
                          const struct dpif_xdp_flow *flow,
                          const struct flow *key,
                          struct dpif_xdp_compiled *compiled, bool *matches,
                          unsigned int *ret_hooks)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    unsigned int at = dpif_xdp_hook_at(hook);
    enum dpif_xdp_fastpath_reason reason;

    if (hook == DPIF_XDP_HOOK_EITHER) {
        return compile_for_either(dp, flow, key, compiled, matches, ret_hooks);
    }
    *ret_hooks = at & DPIF_XDP_AT_XDP || !at ? DPIF_XDP_AT_XDP : at;
    reason = compile(dp, *ret_hooks, flow, key, compiled, matches);
    if (reason && at == (DPIF_XDP_AT_XDP | DPIF_XDP_AT_TCX)
        && compile_left_to_tcx(dp, flow, key, compiled)) {
        *matches = true;
        *ret_hooks = DPIF_XDP_AT_TCX;
        reason = REASON_OK;
    }
    return reason;
}
