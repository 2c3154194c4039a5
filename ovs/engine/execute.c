/* SPDX-License-Identifier: Apache-2.0 */
/* Executing actions: Open vSwitch's odp_execute_actions() edits packets; what
 * needs the datapath comes back here through its callback. */
#include <config.h>

#include "ovs/engine/engine_private.h"

#include <errno.h>

#include "csum.h"
#include "ovs/fastpath/fastpath.h"
#include "ovs/state/ct.h"
#include "dpif.h"
#include "flow.h"
#include "netlink.h"
#include "odp-execute.h"
#include "odp-netlink.h"
#include "odp-util.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/match.h"
#include "openvswitch/vlog.h"
#include "ovs/base/compat.h"
#include "ovs-thread.h"
#include "packets.h"
#include "timeval.h"
#include "ovs/lookup/validate.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_execute);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 5);

/* How often the packets now handled by this thread have been recirculated: of
 * the thread, because ofproto may execute actions inside of an upcall. */
DEFINE_STATIC_PER_THREAD_DATA(uint32_t, recirc_depth, 0)

struct execute_aux {
    struct dpif_xdp_ctx *ctx;
    const struct miniflow *key;         /* Of the packets, as they came. */
    bool tunnelled;                     /* Their metadata may be that of a
                                         * tunnel into which they went. */
};

static void execute_action(void *aux, struct dp_packet_batch *,
                           const struct nlattr *, bool should_steal);
static void execute_lb_output(struct dpif_xdp_ctx *, struct dp_packet_batch *,
                              bool should_steal, uint32_t bond);
static void execute_tunnel_push(struct dpif_xdp_ctx *,
                                struct dp_packet_batch *, bool should_steal,
                                const struct ovs_action_push_tnl *);
static void execute_tunnel_pop(struct dpif_xdp_ctx *, struct dp_packet_batch *,
                               bool should_steal, odp_port_t);
static void execute_userspace(struct dpif_xdp_ctx *, struct dp_packet_batch *,
                              bool should_steal, const struct nlattr *);
static void execute_recirc(struct dpif_xdp_ctx *, struct dp_packet_batch *,
                           bool should_steal, uint32_t recirc_id);
static void execute_meter(struct dpif_xdp_ctx *, struct dp_packet_batch *,
                          uint32_t meter);
static void execute_ct(struct dpif_xdp_ctx *, struct dp_packet_batch *,
                       const struct miniflow *, const struct nlattr *);

uint32_t
dpif_xdp_recirc_depth(void)
{
    return *recirc_depth_get();
}

void
dpif_xdp_execute_actions(struct dpif_xdp_ctx *ctx,
                         struct dp_packet_batch *batch, bool should_steal,
                         const struct miniflow *key,
                         const struct nlattr *actions, size_t actions_len,
                         uint32_t growth)
{
    struct execute_aux aux = { ctx, key, false };

    if (growth) {
        dpif_xdp_packets_make_room(batch, growth);
    }
    odp_execute_actions(&aux, batch, should_steal, actions, actions_len,
                        execute_action);
}

/* The packets are of the tunnel by which they came, if they came by one, also
 * after they went into another. */
static void
restore_tunnel(struct dp_packet_batch *batch, const struct miniflow *key)
{
    struct dp_packet *packet;
    struct flow flow;
    bool any = false;

    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        any |= flow_tnl_dst_is_set(&packet->md.tunnel);
    }
    if (any) {
        miniflow_expand(key, &flow);
        DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
            packet->md.tunnel = flow.tunnel;
        }
    }
}

static void
execute_action(void *aux_, struct dp_packet_batch *batch,
               const struct nlattr *a, bool should_steal)
{
    struct execute_aux *aux = aux_;
    struct dpif_xdp_ctx *ctx = aux->ctx;

    switch ((enum ovs_action_attr) nl_attr_type(a)) {
    case OVS_ACTION_ATTR_OUTPUT:
        aux->tunnelled = true;
        dpif_xdp_output(ctx, batch, should_steal, nl_attr_get_odp_port(a));
        return;

    case OVS_ACTION_ATTR_LB_OUTPUT:
        execute_lb_output(ctx, batch, should_steal, nl_attr_get_u32(a));
        return;

    case OVS_ACTION_ATTR_TUNNEL_PUSH:
        execute_tunnel_push(ctx, batch, should_steal, nl_attr_get(a));
        return;

    case OVS_ACTION_ATTR_TUNNEL_POP:
        execute_tunnel_pop(ctx, batch, should_steal, nl_attr_get_odp_port(a));
        return;

    case OVS_ACTION_ATTR_USERSPACE:
        execute_userspace(ctx, batch, should_steal, a);
        return;

    case OVS_ACTION_ATTR_RECIRC:
        if (aux->tunnelled) {
            restore_tunnel(batch, aux->key);
        }
        execute_recirc(ctx, batch, should_steal, nl_attr_get_u32(a));
        return;

    case OVS_ACTION_ATTR_CT:
        execute_ct(ctx, batch, aux->key, a);
        break;

    case OVS_ACTION_ATTR_METER:
        execute_meter(ctx, batch, nl_attr_get_u32(a));
        break;

    default:                            /* odp_execute_actions() runs it. */
        OVS_NOT_REACHED();
    }

    dp_packet_delete_batch(batch, should_steal);
}

/* Makes '*batch' the packets that an action may consume and shorten: itself
 * if 'should_steal', else 'copy', filled with clones, which the caller
 * destroys.  Applies what a "trunc" before the action said. */
static void
take_packets(struct dpif_xdp_ctx *ctx, struct dp_packet_batch **batch,
             struct dp_packet_batch *copy, bool should_steal)
{
    dp_packet_batch_init(copy);
    if (!should_steal) {
        struct dp_packet *packet;

        copy->trunc = (*batch)->trunc;
        DP_PACKET_BATCH_FOR_EACH (i, packet, *batch) {
            dp_packet_batch_add(copy,
                                dpif_xdp_packet_clone(ctx->dp->packets,
                                                      packet));
        }
        dp_packet_batch_reset_cutlen(*batch);
        *batch = copy;
    }
    dp_packet_batch_apply_cutlen(*batch);
}

static void
execute_lb_output(struct dpif_xdp_ctx *ctx, struct dp_packet_batch *batch,
                  bool should_steal, uint32_t bond)
{
    struct dp_packet_batch copy;
    struct dp_packet *packet;

    take_packets(ctx, &batch, &copy, should_steal);
    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        uint32_t hash = dp_packet_get_rss_hash(packet);
        uint32_t size = dp_packet_size(packet);
        struct dp_packet_batch one;
        odp_port_t member;

        if (!dpif_xdp_bond_select(&ctx->dp->bonds, bond, hash, &member)) {
            dpif_xdp_count_drops(ctx->dp, DPIF_XDP_DROP_INVALID_BOND, 1);
            dp_packet_delete(packet);
            continue;
        }
        dp_packet_batch_init_packet(&one, packet);
        if (dpif_xdp_output(ctx, &one, true, member)) {
            dpif_xdp_bond_account(&ctx->dp->bonds, bond, hash, size);
        }
    }
    dp_packet_batch_destroy(&copy);
}

/* Numbers packets whose header of GRE that 'data' describes has a sequence
 * number in one row with those that programs send.  Open vSwitch's code counts
 * only what the engine sends, and computes the checksum before. */
static void
number_packets(struct dpif_xdp_dp *dp, struct dp_packet_batch *batch,
               const struct ovs_action_push_tnl *data)
{
    const struct eth_header *eth = (const struct eth_header *) data->header;
    size_t l4 = (ETH_HEADER_LEN
                 + (eth->eth_type == htons(ETH_TYPE_IPV6) ? IPV6_HEADER_LEN
                    : IP_HEADER_LEN));
    uint32_t *next = dpif_xdp_fastpath_sequence(dp);
    struct dp_packet *packet;

    if ((data->tnl_type != OVS_VPORT_TYPE_GRE
         && data->tnl_type != OVS_VPORT_TYPE_IP6GRE) || !next) {
        return;
    }
    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        struct gre_base_hdr *gre = dp_packet_at(packet, l4, sizeof *gre);
        ovs_be32 number;
        uint8_t *field;

        field = dp_packet_at(packet, data->header_len - sizeof number,
                             sizeof number);
        if (!gre || !field || !(gre->flags & htons(GRE_SEQ))) {
            return;
        }
        number = htonl(__atomic_fetch_add(next, 1, __ATOMIC_RELAXED));
        memcpy(field, &number, sizeof number);
        if (gre->flags & htons(GRE_CSUM)) {
            ovs_be16 *checksum = (ovs_be16 *) (gre + 1);

            *checksum = 0;
            *checksum = csum(gre, dp_packet_size(packet) - l4);
        }
    }
}

static void
execute_tunnel_push(struct dpif_xdp_ctx *ctx, struct dp_packet_batch *batch,
                    bool should_steal, const struct ovs_action_push_tnl *data)
{
    const struct dpif_xdp_port *port;
    size_t n = dp_packet_batch_size(batch);

    if (should_steal) {
        /* Only an action after this one could use the result. */
        dpif_xdp_count_drops(ctx->dp, DPIF_XDP_DROP_TUNNEL_UNUSED, n);
        dp_packet_delete_batch(batch, true);
        return;
    }

    dp_packet_batch_apply_cutlen(batch);
    port = dpif_xdp_port_lookup(ctx->dp, data->tnl_port);
    if (!port || !netdev_has_tunnel_push_pop(port->netdev)) {
        dpif_xdp_count_drops(ctx->dp, DPIF_XDP_DROP_INVALID_TUNNEL, n);
        dp_packet_delete_batch(batch, true);
        return;
    }

    if (dpif_xdp_is_traced()) {
        dpif_xdp_trace_note(ctx->dp, "pushes the header of tunnel port "
                            "%"PRIu32" (%s)", odp_to_u32(data->tnl_port),
                            netdev_get_name(port->netdev));
    }
    dpif_xdp_packets_make_room(batch, data->header_len);
    if (dpif_xdp_push_header(port->netdev, batch, data)) {
        dpif_xdp_count_drops(ctx->dp, DPIF_XDP_DROP_TUNNEL_PUSH, n);
        dp_packet_delete_batch(batch, true);
    } else if (dp_packet_batch_size(batch) < n) {
        dpif_xdp_count_drops(ctx->dp, DPIF_XDP_DROP_TUNNEL_PUSH,
                             n - dp_packet_batch_size(batch));
    }
    number_packets(ctx->dp, batch, data);
}

/* Handles the packets of 'batch', which is consumed, once more. */
static void
recirculate(struct dpif_xdp_ctx *ctx, struct dp_packet_batch *batch)
{
    uint32_t *depth = recirc_depth_get();

    (*depth)++;
    ctx->recirculate(ctx, batch);
    (*depth)--;
}

static void
execute_tunnel_pop(struct dpif_xdp_ctx *ctx, struct dp_packet_batch *batch,
                   bool should_steal, odp_port_t port_no)
{
    const struct dpif_xdp_port *port;
    struct dp_packet_batch copy;
    struct dp_packet *packet;
    size_t n = dp_packet_batch_size(batch);

    port = dpif_xdp_port_lookup(ctx->dp, port_no);
    if (port && !netdev_has_tunnel_push_pop(port->netdev)) {
        port = NULL;
    }
    if (!port || *recirc_depth_get() >= DPIF_XDP_MAX_RECIRC_DEPTH) {
        dpif_xdp_count_drops(ctx->dp, port ? DPIF_XDP_DROP_RECIRC_DEPTH
                             : DPIF_XDP_DROP_INVALID_TUNNEL, n);
        dp_packet_delete_batch(batch, should_steal);
        return;
    }

    if (dpif_xdp_is_traced()) {
        dpif_xdp_trace_note(ctx->dp, "pops the header of tunnel port %"PRIu32
                            " (%s)", odp_to_u32(port_no),
                            netdev_get_name(port->netdev));
    }
    take_packets(ctx, &batch, &copy, should_steal);
    netdev_pop_header(port->netdev, batch);
    if (dp_packet_batch_size(batch) < n) {
        dpif_xdp_count_drops(ctx->dp, DPIF_XDP_DROP_TUNNEL_POP,
                             n - dp_packet_batch_size(batch));
    }
    if (!dp_packet_batch_is_empty(batch)) {
        DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
            packet->md.in_port.odp_port = port_no;
        }
        recirculate(ctx, batch);
    }
    dp_packet_batch_destroy(&copy);
}

static void
execute_recirc(struct dpif_xdp_ctx *ctx, struct dp_packet_batch *batch,
               bool should_steal, uint32_t recirc_id)
{
    struct dp_packet_batch copy;
    struct dp_packet *packet;

    if (*recirc_depth_get() >= DPIF_XDP_MAX_RECIRC_DEPTH) {
        VLOG_WARN_RL(&rl, "%s: packet dropped after %d recirculations",
                     ctx->dp->name, DPIF_XDP_MAX_RECIRC_DEPTH);
        dpif_xdp_count_drops(ctx->dp, DPIF_XDP_DROP_RECIRC_DEPTH,
                             dp_packet_batch_size(batch));
        dp_packet_delete_batch(batch, should_steal);
        return;
    }

    dp_packet_batch_init(&copy);
    if (!should_steal) {
        /* A pending "trunc" stays with the original and with the copy. */
        copy.trunc = batch->trunc;
        DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
            dp_packet_batch_add(&copy,
                                dpif_xdp_packet_clone(ctx->dp->packets,
                                                      packet));
        }
        batch = &copy;
    }
    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        packet->md.recirc_id = recirc_id;
    }
    recirculate(ctx, batch);
    dp_packet_batch_destroy(&copy);
}

static void
execute_userspace(struct dpif_xdp_ctx *ctx, struct dp_packet_batch *batch,
                  bool should_steal, const struct nlattr *a)
{
    struct dpif_xdp_dp *dp = ctx->dp;
    const struct nlattr *userdata
        = nl_attr_find_nested(a, OVS_USERSPACE_ATTR_USERDATA);
    struct dp_packet_batch copy;
    struct dp_packet *packet;
    struct ofpbuf actions;

    if (!dpif_xdp_upcall_begin(dp)) {
        dpif_xdp_count_drops(dp, DPIF_XDP_DROP_UPCALL_DISABLED,
                             dp_packet_batch_size(batch));
        dp_packet_delete_batch(batch, should_steal);
        return;
    }

    dp_packet_batch_init(&copy);
    if (batch->trunc && !should_steal) {
        take_packets(ctx, &batch, &copy, false);
        should_steal = true;
    } else {
        dp_packet_batch_apply_cutlen(batch);
    }

    size_t n = dp_packet_batch_size(batch), i;

    ofpbuf_init(&actions, 0);
    DP_PACKET_BATCH_REFILL_FOR_EACH (i, n, packet, batch) {
        struct flow flow;
        ovs_u128 ufid;
        int error;

        dpif_xdp_packet_settle_tunnel(packet);
        flow_extract(packet, &flow);
        odp_flow_key_hash(&flow, sizeof flow, &ufid);
        ofpbuf_clear(&actions);
        error = dpif_xdp_upcall(dp, packet, &flow, NULL, &ufid,
                                DPIF_UC_ACTION, userdata, &actions, NULL);
        if (dpif_xdp_is_traced()) {
            dpif_xdp_trace_note(dp, "action userspace: upcall to ofproto%s%s",
                                error ? ": " : "",
                                error ? ovs_strerror(error) : "");
        }
        if (!error || error == ENOSPC) {
            struct dp_packet_batch one;
            struct dpif_xdp_flow_key key;

            dpif_xdp_flow_key_init(&key, &flow);
            dp_packet_batch_init_packet(&one, packet);
            dpif_xdp_execute_actions(ctx, &one, should_steal, &key.mf,
                                     actions.data, actions.size,
                                     dpif_xdp_actions_growth(actions.data,
                                                             actions.size));
            if (!should_steal && !dp_packet_batch_is_empty(&one)) {
                /* Actions may have replaced the packet. */
                dp_packet_batch_add(batch, one.packets[0]);
            }
            dp_packet_batch_destroy(&one);
        } else {
            dpif_xdp_count_drops(dp, DPIF_XDP_DROP_USERSPACE_ERROR, 1);
            if (should_steal) {
                dp_packet_delete(packet);
            } else {
                dp_packet_batch_add(batch, packet);
            }
        }
    }
    ofpbuf_uninit(&actions);
    dp_packet_batch_destroy(&copy);
    dpif_xdp_upcall_end(dp);
}

static void
execute_meter(struct dpif_xdp_ctx *ctx, struct dp_packet_batch *batch,
              uint32_t meter)
{
    size_t n = dp_packet_batch_size(batch);

    dpif_xdp_meter_run(&ctx->dp->meters, batch, meter, ctx->now);
    n -= dp_packet_batch_size(batch);
    if (n) {
        dpif_xdp_count_drops(ctx->dp, DPIF_XDP_DROP_METER, n);
    }
}

/* Notes what ct() found for a traced packet. */
static void
note_ct(const struct dpif_xdp_ctx *ctx, const struct dp_packet_batch *batch)
{
    const struct dp_packet *packet;

    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        struct ds ds = DS_EMPTY_INITIALIZER;

        format_flags(&ds, ct_state_to_string, packet->md.ct_state, '|');
        dpif_xdp_trace_note(ctx->dp, "ct(zone=%"PRIu16") found: %s",
                            packet->md.ct_zone, ds_cstr(&ds));
        ds_destroy(&ds);
    }
}

static void
execute_ct(struct dpif_xdp_ctx *ctx, struct dp_packet_batch *batch,
           const struct miniflow *key, const struct nlattr *a)
{
    struct flow flow;

    miniflow_expand(key, &flow);
    dpif_xdp_ct_execute(ctx->dp->ct, batch, a, &flow, ctx->now / 1000);
    if (dpif_xdp_is_traced()) {
        note_ct(ctx, batch);
    }
}
