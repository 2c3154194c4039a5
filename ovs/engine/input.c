/* SPDX-License-Identifier: Apache-2.0 */
/* From packets to flows: look up, ask ofproto about the rest, execute. */
#include <config.h>

#include "ovs/engine/engine_private.h"

#include <errno.h>

#include "dp/sample.h"
#include "dpif.h"
#include "flow.h"
#include "odp-util.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/match.h"
#include "ovs/base/compat.h"
#include "ovs/base/usdt.h"
#include "ovs/fastpath/compile.h"
#include "ovs/fastpath/fastpath.h"
#include "ovs/flows/flows.h"
#include "uuid.h"

/* The packets of a burst that match one flow. */
struct flow_batch {
    struct dpif_xdp_flow *flow;
    uint32_t n_tracked;                 /* Of struct dpif_xdp_matched. */
    size_t n_bytes;
    uint16_t tcp_flags;
    struct dp_packet_batch packets;
};

/* The flows of a burst. */
struct flow_batches {
    size_t n;
    struct flow_batch batches[NETDEV_MAX_BURST];
};

static void input_in_bursts(struct dpif_xdp_ctx *, struct dp_packet_batch *);
static void drop_runts(struct dpif_xdp_ctx *, struct dp_packet_batch *);
static void take_matched(struct dpif_xdp_ctx *, struct dp_packet_batch *,
                         const struct dpif_xdp_matched matched[],
                         struct flow_batches *);
static void find_flows(struct dpif_xdp_ctx *, struct dp_packet_batch *,
                       struct flow_batches *);
static void take_alike(struct dpif_xdp_ctx *, struct dp_packet_batch *,
                       struct flow_batches *);
static void add_to_flow(struct flow_batches *, struct dpif_xdp_flow *,
                        struct dp_packet *, uint16_t tcp_flags);
static void go_on_with_flow(struct flow_batches *, struct dpif_xdp_flow *,
                            uint32_t n_tracked, struct dp_packet *,
                            uint16_t tcp_flags);
static void execute_flow(struct dpif_xdp_ctx *, struct flow_batch *);
static void handle_misses(struct dpif_xdp_ctx *, struct dp_packet_batch *,
                          struct dpif_xdp_key *keys[],
                          struct dpif_xdp_rule *rules[],
                          struct flow_batches *);
static void handle_miss(struct dpif_xdp_ctx *, struct dp_packet *,
                        const struct dpif_xdp_key *, struct ofpbuf *actions,
                        struct ofpbuf *put_actions);

void
dpif_xdp_input(struct dpif_xdp_ctx *ctx, struct dp_packet_batch *batch,
               const struct dpif_xdp_matched matched[])
{
    struct flow_batches flows;

    if (OVS_UNLIKELY(dp_packet_batch_size(batch) > NETDEV_MAX_BURST)) {
        input_in_bursts(ctx, batch);
        return;
    }
    flows.n = 0;
    if (matched) {
        take_matched(ctx, batch, matched, &flows);
    } else {
        drop_runts(ctx, batch);
    }
    if (ctx->expect_simple && *ctx->expect_simple
        && dp_packet_batch_size(batch) > 1) {
        take_alike(ctx, batch, &flows);
    }
    if (!dp_packet_batch_is_empty(batch)) {
        find_flows(ctx, batch, &flows);
    }
    for (size_t i = 0; i < flows.n; i++) {
        execute_flow(ctx, &flows.batches[i]);
        dp_packet_batch_destroy(&flows.batches[i].packets);
    }
}

/* As dpif_xdp_input(), for more than NETDEV_MAX_BURST packets, which
 * reassembly makes since Open vSwitch 4.0. */
static void
input_in_bursts(struct dpif_xdp_ctx *ctx, struct dp_packet_batch *batch)
{
    struct dp_packet_batch burst;
    struct dp_packet *packet;

    dp_packet_batch_init(&burst);
    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        if (dp_packet_batch_size(&burst) == NETDEV_MAX_BURST) {
            dpif_xdp_input(ctx, &burst, NULL);
            dp_packet_batch_reset(&burst);
        }
        dp_packet_batch_add(&burst, packet);
    }
    dpif_xdp_input(ctx, &burst, NULL);
    dp_packet_batch_destroy(&burst);
}

/* Sorts the packets of 'batch' into 'flows' and handles those that have
 * none. */
static void
find_flows(struct dpif_xdp_ctx *ctx, struct dp_packet_batch *batch,
           struct flow_batches *flows)
{
    size_t n = dp_packet_batch_size(batch);
    uint32_t depth = dpif_xdp_recirc_depth();
    struct dpif_xdp_key keys[NETDEV_MAX_BURST];
    struct dpif_xdp_key *key_ptrs[NETDEV_MAX_BURST];
    struct dpif_xdp_rule *rules[NETDEV_MAX_BURST];
    struct dp_packet *packet;

    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        if (i + 1 < n) {
            OVS_PREFETCH(dp_packet_data(batch->packets[i + 1]));
        }
        key_ptrs[i] = &keys[i];
        dpif_xdp_key_from_packet(packet, &keys[i], depth);
    }
    if (OVS_UNLIKELY(!dpif_xdp_flows_lookup_batch(&ctx->dp->flows,
                                                  ctx->cache, key_ptrs, n,
                                                  rules, ctx->cls_stats))) {
        handle_misses(ctx, batch, key_ptrs, rules, flows);
        return;
    }
    if (ctx->expect_simple) {
        *ctx->expect_simple = dpif_xdp_rule_is_simple(rules[0]);
    }
    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        add_to_flow(flows, dpif_xdp_flow_from_rule(rules[i]), packet,
                    miniflow_get_tcp_flags(&keys[i].mf));
    }
}

/* Removes from 'batch' what is too short to be an Ethernet frame. */
static void
drop_runts(struct dpif_xdp_ctx *ctx, struct dp_packet_batch *batch)
{
    size_t n = dp_packet_batch_size(batch);
    struct dp_packet *packet;
    size_t i;

    DP_PACKET_BATCH_REFILL_FOR_EACH (i, n, packet, batch) {
        if (OVS_UNLIKELY(dp_packet_size(packet) < ETH_HEADER_LEN)) {
            dpif_xdp_count_drops(ctx->dp, DPIF_XDP_DROP_INVALID_PACKET, 1);
            dp_packet_delete(packet);
        } else {
            dp_packet_batch_add(batch, packet);
        }
    }
}

/* Moves the packets of 'batch' whose flow is in 'matched' to 'flows', without
 * looking at them again, and drops what is no Ethernet frame.  Packets after
 * one that no program matched are not moved: its flow may have been installed
 * meanwhile, and packets of a flow must stay in order.  A packet of which part
 * of the actions is done knows its flow by that alone. */
static void
take_matched(struct dpif_xdp_ctx *ctx, struct dp_packet_batch *batch,
             const struct dpif_xdp_matched matched[],
             struct flow_batches *flows)
{
    size_t n = dp_packet_batch_size(batch);
    struct dp_packet *packet;
    bool any_miss = false;
    size_t i;

    DP_PACKET_BATCH_REFILL_FOR_EACH (i, n, packet, batch) {
        struct dpif_xdp_flow *flow = matched[i].flow;
        uint32_t n_tracked = matched[i].n_tracked;

        any_miss |= !flow && !n_tracked;
        if (OVS_UNLIKELY(dp_packet_size(packet) < ETH_HEADER_LEN)) {
            dpif_xdp_count_drops(ctx->dp, DPIF_XDP_DROP_INVALID_PACKET, 1);
            dp_packet_delete(packet);
        } else if (OVS_UNLIKELY(n_tracked && !flow)) {
            dpif_xdp_count_drops(ctx->dp, DPIF_XDP_DROP_FLOW_GONE, 1);
            dp_packet_delete(packet);
        } else if (OVS_UNLIKELY(n_tracked)) {
            go_on_with_flow(flows, flow, n_tracked, packet,
                            parse_tcp_flags(packet, NULL, NULL, NULL));
            ctx->cls_stats->n_cache_hit++;
        } else if (any_miss || dpif_xdp_flow_actions(flow)->uses_hash) {
            dp_packet_batch_add(batch, packet);
        } else {
            /* This sets the offsets of the layers, too. */
            uint16_t tcp_flags = parse_tcp_flags(packet, NULL, NULL, NULL);

            add_to_flow(flows, flow, packet, tcp_flags);
            ctx->cls_stats->n_cache_hit++;
        }
    }
}

/* The fields that a simple flow matches. */
struct kind {
    ovs_be16 dl_type;
    ovs_be16 tci;
    uint8_t nw_frag;
};

static inline uint16_t
kind_from_packet(struct dp_packet *packet, struct kind *kind)
{
    memset(kind, 0, sizeof *kind);
    return parse_tcp_flags(packet, &kind->dl_type, &kind->nw_frag, &kind->tci);
}

static inline bool
is_alike(const struct dp_packet *a, const struct kind *kind_a,
         const struct dp_packet *b, const struct kind *kind_b)
{
    return (a->md.in_port.odp_port == b->md.in_port.odp_port
            && a->md.recirc_id == b->md.recirc_id
            && a->packet_type == b->packet_type
            && kind_a->dl_type == kind_b->dl_type
            && kind_a->tci == kind_b->tci
            && kind_a->nw_frag == kind_b->nw_frag);
}

/* If the first packet of 'batch' has a simple flow, moves it and all others
 * that this flow matches, too, to 'flows': only the first one's key is
 * extracted and looked up. */
static void
take_alike(struct dpif_xdp_ctx *ctx, struct dp_packet_batch *batch,
           struct flow_batches *flows)
{
    struct dp_packet *first = batch->packets[0];
    size_t n = dp_packet_batch_size(batch);
    struct kind first_kind, kind;
    struct dpif_xdp_flow *flow;
    struct dpif_xdp_rule *rule;
    struct dpif_xdp_key key;
    size_t n_left = 0;

    dpif_xdp_key_from_packet(first, &key, dpif_xdp_recirc_depth());
    if (!dpif_xdp_flows_lookup_batch(&ctx->dp->flows, ctx->cache,
                                     &(struct dpif_xdp_key *) { &key }, 1,
                                     &rule, ctx->cls_stats)
        || !dpif_xdp_rule_is_simple(rule)) {
        *ctx->expect_simple = false;
        return;
    }
    flow = dpif_xdp_flow_from_rule(rule);
    if (dpif_xdp_flow_actions(flow)->uses_hash || !dp_packet_is_eth(first)) {
        *ctx->expect_simple = false;
        return;
    }

    add_to_flow(flows, flow, first, kind_from_packet(first, &first_kind));
    for (size_t i = 1; i < n; i++) {
        struct dp_packet *packet = batch->packets[i];
        uint16_t tcp_flags = kind_from_packet(packet, &kind);

        if (is_alike(first, &first_kind, packet, &kind)) {
            add_to_flow(flows, flow, packet, tcp_flags);
        } else {
            batch->packets[n_left++] = packet;
        }
    }
    batch->count = n_left;
    ctx->cls_stats->n_cache_hit += n - n_left - 1;
}

static void
add_to_flow(struct flow_batches *flows, struct dpif_xdp_flow *flow,
            struct dp_packet *packet, uint16_t tcp_flags)
{
    go_on_with_flow(flows, flow, 0, packet, tcp_flags);
}

/* As add_to_flow(), of a packet with which 'n_tracked' says how far a program
 * has come. */
static void
go_on_with_flow(struct flow_batches *flows, struct dpif_xdp_flow *flow,
                uint32_t n_tracked, struct dp_packet *packet,
                uint16_t tcp_flags)
{
    struct flow_batch *batch;

    for (size_t i = flows->n; i-- > 0; ) {
        batch = &flows->batches[i];
        if (batch->flow == flow && batch->n_tracked == n_tracked) {
            goto found;
        }
    }
    batch = &flows->batches[flows->n++];
    batch->flow = flow;
    batch->n_tracked = n_tracked;
    batch->n_bytes = 0;
    batch->tcp_flags = 0;
    dp_packet_batch_init(&batch->packets);

found:
    batch->n_bytes += dp_packet_size(packet);
    batch->tcp_flags |= tcp_flags;
    dp_packet_batch_add(&batch->packets, packet);
}

/* Notes for a traced packet that its flow is 'flow': found, or new. */
static void
note_flow(const struct dpif_xdp_ctx *ctx, const struct dpif_xdp_flow *flow,
          const char *what)
{
    struct ds match = DS_EMPTY_INITIALIZER, actions = DS_EMPTY_INITIALIZER;

    dpif_xdp_flow_to_text(ctx->dp, flow, &match, &actions);
    dpif_xdp_trace_note(ctx->dp, "%s ufid:"UUID_FMT", %s, actions:%s", what,
                        UUID_ARGS((struct uuid *) &flow->ufid),
                        ds_cstr_ro(&match), ds_cstr_ro(&actions));
    ds_destroy(&match);
    ds_destroy(&actions);
}

/* Notes that a traced packet ends where it is, if 'actions' say so. */
static void
note_end(const struct dpif_xdp_ctx *ctx, const struct nlattr *actions,
         size_t size)
{
    if (!size || nl_attr_type(actions) == OVS_ACTION_ATTR_DROP) {
        dpif_xdp_trace_note_drop(ctx->dp, "as the actions say");
    }
}

/* Notes what ofproto answered for a traced packet. */
static void
note_upcall(const struct dpif_xdp_ctx *ctx, const struct ofpbuf *actions,
            int error)
{
    struct ds ds = DS_EMPTY_INITIALIZER;

    format_odp_actions(&ds, actions->data, actions->size, NULL);
    dpif_xdp_trace_note(ctx->dp, "no flow: upcall to ofproto, which answers "
                        "actions:%s%s", ds_cstr(&ds),
                        error ? ", for this packet alone" : "");
    ds_destroy(&ds);
}

/* Notes which flow a traced packet brought. */
static void
note_installed(const struct dpif_xdp_ctx *ctx, const struct dpif_xdp_key *key)
{
    const struct dpif_xdp_flow *flow
        = dpif_xdp_flows_lookup(&ctx->dp->flows, key);

    if (flow) {
        note_flow(ctx, flow, "installed");
    }
}

/* Returns those of 'actions' that are left after what 'n_tracked' says, and
 * their length; NULL if there are not so many ct().  May use 'others'. */
static const struct nlattr *
skip_tracked(const struct dpif_xdp_actions *actions, uint32_t n_tracked,
             struct ofpbuf *others, size_t *ret_left)
{
    const struct nlattr *a;
    size_t left;

    if (n_tracked == DP_TRACKED_SAMPLE) {
        dpif_xdp_drop_samples(actions->actions, actions->size, others);
        *ret_left = others->size;
        return others->data;
    }
    n_tracked &= ~DP_TRACKED_SAMPLE;    /* It was before the first ct(). */
    NL_ATTR_FOR_EACH (a, left, actions->actions, actions->size) {
        if (nl_attr_type(a) == OVS_ACTION_ATTR_CT && !n_tracked--) {
            *ret_left = left;
            return a;
        }
    }
    return NULL;
}

static void
execute_flow(struct dpif_xdp_ctx *ctx, struct flow_batch *batch)
{
    const struct dpif_xdp_actions *actions
        = dpif_xdp_flow_actions(batch->flow);
    const struct nlattr *first = actions->actions;
    size_t n = dp_packet_batch_size(&batch->packets);
    size_t size = actions->size;
    struct ofpbuf others;

    ofpbuf_init(&others, 0);
    if (OVS_UNLIKELY(batch->n_tracked)) {
        first = skip_tracked(actions, batch->n_tracked, &others, &size);
        if (!first) {
            dpif_xdp_count_drops(ctx->dp, DPIF_XDP_DROP_FLOW_GONE, n);
            dp_packet_delete_batch(&batch->packets, true);
            return;
        }
    }
    if (dpif_xdp_is_traced()) {
        note_flow(ctx, batch->flow, "flow");
        note_end(ctx, first, size);
    }
    dpif_xdp_flow_used(batch->flow, n, batch->n_bytes, batch->tcp_flags,
                       ctx->now / 1000);
    dpif_xdp_fastpath_mark(ctx->dp, batch->flow);
    dpif_xdp_execute_actions(ctx, &batch->packets, true, batch->flow->key,
                             first, size, actions->growth);
    ofpbuf_uninit(&others);
}

/* Sorts the packets of 'batch' whose flow is known ('rules[i]' is not null)
 * into 'flows', and asks ofproto about the others. */
static void
handle_misses(struct dpif_xdp_ctx *ctx, struct dp_packet_batch *batch,
              struct dpif_xdp_key *keys[], struct dpif_xdp_rule *rules[],
              struct flow_batches *flows)
{
    struct dpif_xdp_dp *dp = ctx->dp;
    uint64_t actions_stub[512 / 8], put_stub[512 / 8];
    struct ofpbuf actions, put_actions;
    struct dp_packet *packet;
    bool enabled = dpif_xdp_upcall_begin(dp);

    ofpbuf_use_stub(&actions, actions_stub, sizeof actions_stub);
    ofpbuf_use_stub(&put_actions, put_stub, sizeof put_stub);

    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        struct dpif_xdp_flow *flow = dpif_xdp_flow_from_rule(rules[i]);

        if (!flow) {
            /* A packet before it may have brought the flow. */
            flow = dpif_xdp_flows_lookup(&dp->flows, keys[i]);
        }
        if (flow) {
            add_to_flow(flows, flow, packet,
                        miniflow_get_tcp_flags(&keys[i]->mf));
        } else if (enabled) {
            handle_miss(ctx, packet, keys[i], &actions, &put_actions);
        } else {
            dpif_xdp_count_drops(dp, DPIF_XDP_DROP_UPCALL_DISABLED, 1);
            dpif_xdp_count_lost(dp);
            dp_packet_delete(packet);
        }
    }

    ofpbuf_uninit(&actions);
    ofpbuf_uninit(&put_actions);
    if (enabled) {
        dpif_xdp_upcall_end(dp);
    }
}

/* Asks ofproto about 'packet', executes the answer and installs the flow. */
static void
handle_miss(struct dpif_xdp_ctx *ctx, struct dp_packet *packet,
            const struct dpif_xdp_key *key, struct ofpbuf *actions,
            struct ofpbuf *put_actions)
{
    struct dpif_xdp_dp *dp = ctx->dp;
    struct dp_packet_batch batch;
    struct match match;
    ovs_u128 ufid;
    int error;

    match.tun_md.valid = false;
    miniflow_expand(&key->mf, &match.flow);
    memset(&match.wc, 0, sizeof match.wc);
    ofpbuf_clear(actions);
    ofpbuf_clear(put_actions);
    odp_flow_key_hash(&match.flow, sizeof match.flow, &ufid);

    error = dpif_xdp_upcall(dp, packet, &match.flow, &match.wc, &ufid,
                            DPIF_UC_MISS, NULL, actions, put_actions);
    if (error == ENODEV) {
        /* Between the moment when the datapath has a port and the moment when
         * ofproto has it, or the other way round at its end.  All tunnels of a
         * kind are one port, and this may be of none of them. */
        dpif_xdp_count_drops(dp, flow_tnl_dst_is_set(&match.flow.tunnel)
                             ? DPIF_XDP_DROP_NO_TUNNEL
                             : DPIF_XDP_DROP_PORT_NOT_READY, 1);
        dp_packet_delete(packet);
        return;
    } else if (error && error != ENOSPC) {
        dpif_xdp_count_drops(dp, DPIF_XDP_DROP_UPCALL_ERROR, 1);
        dpif_xdp_count_lost(dp);
        dp_packet_delete(packet);
        return;
    }

    if (dpif_xdp_is_traced()) {
        note_upcall(ctx, actions, error);
        note_end(ctx, actions->data, actions->size);
    }
    dp_packet_batch_init_packet(&batch, packet);
    dpif_xdp_execute_actions(ctx, &batch, true, &key->mf, actions->data,
                             actions->size,
                             dpif_xdp_actions_growth(actions->data,
                                                     actions->size));
    dp_packet_batch_destroy(&batch);

    if (error != ENOSPC) {
        struct ofpbuf *install = put_actions->size ? put_actions : actions;

        dpif_xdp_wc_finish(&match.wc);
        dpif_xdp_usdt_install(&match, &ufid, install->data, install->size);
        dpif_xdp_flow_lock(dp);
        if (dpif_xdp_flows_lookup(&dp->flows, key)) {
            dpif_xdp_flows_note_twin(&dp->flows, &ufid);
        } else {
            dpif_xdp_flow_install(dp, dpif_xdp_flows_subtable(&dp->flows,
                                                              &match.wc),
                                  &match.flow, &key->mf, &ufid, install->data,
                                  install->size, false);
        }
        dpif_xdp_flow_unlock(dp);
        if (dpif_xdp_is_traced()) {
            note_installed(ctx, key);
        }
    }
}
