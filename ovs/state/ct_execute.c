/* SPDX-License-Identifier: Apache-2.0 */
/* The action ct(). */
#include <config.h>

#include "ovs/state/ct_private.h"

#include <sched.h>

#include "ct-dpif.h"
#include "dp-packet.h"
#include "dp/seam_native.h"
#include "dp/ct.h"
#include "dp/record.h"
#include "flow.h"
#include "ipf.h"
#include "netlink.h"
#include "odp-netlink.h"
#include "openvswitch/vlog.h"
#include "ovs/base/compat.h"
#include "ovs/state/ct_parse.h"
#include "packets.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_ct_execute);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 5);

/* A packet on its way through the tracker, for the two hooks of dp/ct*.h. */
struct ct_call {
    struct dp_ctx ctx;
    struct dpif_xdp_ct *ct;
    const struct dpif_xdp_ct_action *action;
    ovs_be16 tp_src, tp_dst;            /* Of the flow. */
    enum ct_control control;
    bool expected;
    struct ct_expected expectation;     /* If it was expected. */
};

static int ct_call_expects(struct dp_ctx *, struct dp_ct_run *,
                           const struct dp_ct_action *, uint32_t now);
static uint8_t ct_call_fill(struct dp_ctx *, const struct dp_ct_action *,
                            uint32_t index);
#define DP_CT_EXPECTED(CTX, RUN, ACTION, NOW)   \
    ct_call_expects(CTX, RUN, ACTION, NOW)
#define DP_CT_FILL_MORE(CTX, RUN, ACTION, INDEX)        \
    ct_call_fill(CTX, ACTION, INDEX)
#include "dp/ct_run.h"

#define TRIES_BEFORE_YIELDING 64
#define PREFETCH_CONNECTIONS 4096       /* Of which the tables are read
                                         * ahead. */

static void prefetch(struct ct_call *, const struct dp_packet_batch *, bool v6,
                     uint16_t zone);
static void track(struct ct_call *, struct oxdp_ct *, struct dp_packet *,
                  bool v6, uint32_t now);

void
dpif_xdp_ct_execute(struct dpif_xdp_ct *ct, struct dp_packet_batch *batch,
                    const struct nlattr *attr, const struct flow *flow,
                    long long int now_ms)
{
    struct oxdp_ct *tables = dpif_xdp_ct_need_tables(ct);
    bool v6 = flow->dl_type == htons(ETH_TYPE_IPV6);
    struct dpif_xdp_ct_action action;
    struct dp_packet *packet;
    uint64_t orig;
    uint32_t now;

    if (OVS_UNLIKELY(!tables)) {
        return;                         /* Untracked: nothing matches +trk. */
    }
    dpif_xdp_ct_parse(attr, v6, &action);
    action.dp.policy = dpif_xdp_ct_policy_index(ct, action.timeout_policy);
    if (action.nat_configured && !(action.dp.flags & DP_CT_COMMIT)) {
        VLOG_WARN_RL(&rl, "NAT specified without commit.");
    }

    struct ct_call call = {
        .ctx = { .ct = oxdp_ct_tables(tables) },
        .ct = ct,
        .action = &action,
        .tp_src = flow->tp_src,
        .tp_dst = flow->tp_dst,
    };

    now = dpif_xdp_ct_ticks(ct, now_ms);
    ipf_preprocess_conntrack(ct->ipf, batch, now_ms, flow->dl_type,
                             action.dp.zone, ct->ipf_basis);
    dpif_xdp_packets_complete(batch);
    prefetch(&call, batch, v6, action.dp.zone);
    atomic_add_relaxed(&ct->n_tracked, dp_packet_batch_size(batch), &orig);
    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        track(&call, tables, packet, v6, now);
    }
    dpif_xdp_ipf_postprocess(ct->ipf, batch, now_ms, flow->dl_type,
                             action.dp.zone, flow->in_port.odp_port);
}

/* The connection that a packet has been judged by is kept beside it, in the
 * place of lib/conntrack's own: nobody else looks at that. */
BUILD_ASSERT_DECL(sizeof(void *) == sizeof(uint64_t));

static void
load_metadata(const struct pkt_metadata *md, struct dp_ct_md *m)
{
    uint64_t conn = (uintptr_t) md->conn;

    memset(m, 0, sizeof *m);
    m->cached = conn;
    m->generation = conn >> 32;
    m->related = conn && md->icmp_related;
    m->state = md->ct_state;
    if (!m->state) {
        return;
    }
    m->zone = md->ct_zone;
    m->mark = md->ct_mark;
    m->label[0] = md->ct_label.u64.lo;
    m->label[1] = md->ct_label.u64.hi;
    if (md->ct_orig_tuple_ipv6) {
        const struct ovs_key_ct_tuple_ipv6 *t = &md->ct_orig_tuple.ipv6;

        m->v6 = true;
        memcpy(m->addr[0], &t->ipv6_src, sizeof m->addr[0]);
        memcpy(m->addr[1], &t->ipv6_dst, sizeof m->addr[1]);
        m->tp[0] = (OVS_FORCE uint16_t) t->src_port;
        m->tp[1] = (OVS_FORCE uint16_t) t->dst_port;
        m->proto = t->ipv6_proto;
    } else {
        const struct ovs_key_ct_tuple_ipv4 *t = &md->ct_orig_tuple.ipv4;

        m->addr[0][0] = (OVS_FORCE uint32_t) t->ipv4_src;
        m->addr[1][0] = (OVS_FORCE uint32_t) t->ipv4_dst;
        m->tp[0] = (OVS_FORCE uint16_t) t->src_port;
        m->tp[1] = (OVS_FORCE uint16_t) t->dst_port;
        m->proto = t->ipv4_proto;
    }
}

static void
store_metadata(struct pkt_metadata *md, const struct dp_ct_md *m)
{
    uint64_t generation = m->generation;

    md->conn = (void *) (uintptr_t) (m->cached ? generation << 32 | m->cached
                                     : 0);
    md->reply = DP_CT_REF_REPLY(m->cached);
    md->icmp_related = m->related;
    md->ct_state = m->state;
    md->ct_zone = m->zone;
    md->ct_mark = m->mark;
    md->ct_label.u64.lo = m->label[0];
    md->ct_label.u64.hi = m->label[1];
    md->ct_orig_tuple_ipv6 = m->v6;
    if (m->v6) {
        struct ovs_key_ct_tuple_ipv6 *t = &md->ct_orig_tuple.ipv6;

        memset(t, 0, sizeof *t);
        memcpy(&t->ipv6_src, m->addr[0], sizeof t->ipv6_src);
        memcpy(&t->ipv6_dst, m->addr[1], sizeof t->ipv6_dst);
        t->src_port = (OVS_FORCE ovs_be16) m->tp[0];
        t->dst_port = (OVS_FORCE ovs_be16) m->tp[1];
        t->ipv6_proto = m->proto;
    } else {
        memset(&md->ct_orig_tuple, 0, sizeof md->ct_orig_tuple);
        md->ct_orig_tuple.ipv4 = (struct ovs_key_ct_tuple_ipv4) {
            .ipv4_src = (OVS_FORCE ovs_be32) (uint32_t) m->addr[0][0],
            .ipv4_dst = (OVS_FORCE ovs_be32) (uint32_t) m->addr[1][0],
            .src_port = (OVS_FORCE ovs_be16) m->tp[0],
            .dst_port = (OVS_FORCE ovs_be16) m->tp[1],
            .ipv4_proto = m->proto,
        };
    }
}

void
dpif_xdp_ct_take_record(const struct dp_record_ct *record,
                        struct pkt_metadata *md)
{
    union dp_key key;
    struct dp_ct_md m = {
        .v6 = record->v6,
        .mark = record->mark,
        .cached = record->cached,
        .generation = record->generation,
    };

    memcpy(&key.w[DP_KEY_WORD(ct_state)], record->words, sizeof record->words);
    m.state = key.ct_state;
    m.zone = key.ct_zone;
    m.proto = key.ct_proto;
    m.tp[0] = key.ct_tp_src.raw;
    m.tp[1] = key.ct_tp_dst.raw;
    memcpy(m.label, key.ct_label, sizeof m.label);
    if (record->v6) {
        memcpy(m.addr[0], key.ct_ip6_src, sizeof m.addr[0]);
        memcpy(m.addr[1], key.ct_ip6_dst, sizeof m.addr[1]);
    } else {
        m.addr[0][0] = key.ct_ip4_src.raw;
        m.addr[1][0] = key.ct_ip4_dst.raw;
    }
    store_metadata(md, &m);
}

/* dp/ct_nat.h: whether a helper expected the connection that a packet is to
 * make.  The tuple of its replies is chosen here then. */
static int
ct_call_expects(struct dp_ctx *ctx, struct dp_ct_run *run,
                const struct dp_ct_action *action, uint32_t now)
{
    struct ct_call *call = CONTAINER_OF(ctx, struct ct_call, ctx);

    call->expected = dpif_xdp_ct_is_expected(call->ct, &run->tuple,
                                             &call->expectation);
    if (!call->expected) {
        return 0;
    }
    if (action->flags & DP_CT_NAT) {
        const struct ct_expected *e = &call->expectation;

        memcpy(run->reply.addr[e->nat_source], e->address, sizeof e->address);
        if (dp_ct_is_taken(ctx, run, now)) {
            return -1;
        }
    }
    return 1;
}

/* dp/ct_new.h: what a new connection has besides. */
static uint8_t
ct_call_fill(struct dp_ctx *ctx, const struct dp_ct_action *action,
             uint32_t index)
{
    struct ct_call *call = CONTAINER_OF(ctx, struct ct_call, ctx);
    const struct ct_expected *e = &call->expectation;
    struct dp_ct_cold *cold = &ctx->ct->cold[index];
    const char *helper = call->action->helper;
    uint8_t flags = 0;

    if (helper && (call->control == CT_CONTROL_NONE
                   || !strcmp(helper, call->control == CT_CONTROL_FTP
                              ? "ftp" : "tftp"))) {
        cold->helper = !strcmp(helper, "ftp") ? CT_HELPER_FTP : CT_HELPER_TFTP;
        atomic_store_relaxed(&call->ct->any_helped, true);
        flags |= DP_CT_KEY_ENGINE;
    }
    if (call->expected) {
        cold->parent = e->parent;
        flags |= DP_CT_KEY_RELATED;
        if (action->flags & DP_CT_NAT) {
            ctx->ct->keys[index].nat = (e->nat_source ? DP_CT_NAT_SRC
                                        : DP_CT_NAT_DST);
        }
    }
    return flags;
}

/* A packet that cannot be tracked. */
static void
set_invalid(struct dp_packet *packet, uint16_t zone)
{
    struct dp_ct_md m = { .state = CS_TRACKED | CS_INVALID, .zone = zone };

    store_metadata(&packet->md, &m);
}

/* A packet that was to make a connection made none.  What lacks room, the
 * sweeper says. */
static void
explain_refusal(const struct ct_call *call, const struct dp_ct_run *run)
{
    switch (run->refused) {
    case DP_CT_REFUSED_SHARE + 1:
    case DP_CT_REFUSED_FULL + 1:
        dpif_xdp_ct_hurry(call->ct);
        break;
    case DP_CT_REFUSED_NAT + 1:
        VLOG_WARN_RL(&rl, "Unable to NAT due to tuple space exhaustion - "
                     "if DoS attack, use firewalling and/or zone "
                     "partitioning.");
    }
}

/* Whether packets of the direction of 'ref' were rewritten. */
static bool
is_skewed(const struct dp_ct_cold *cold, uint32_t ref)
{
    bool of_replies = cold->helper & CT_HELPER_SKEWED_REPLY;

    return of_replies == DP_CT_REF_REPLY(ref);
}

/* The connection of a packet that is to be tracked, or 0. */
static uint32_t
look_up(struct ct_call *call, const struct dp_frame *frame, bool v6,
        const struct dp_ct_action *action, uint32_t now,
        const struct dp_ct_run *run)
{
    struct dp_ct_run look = { .md = run->md };

    if (dp_ct_packet(&call->ctx, frame, v6, action, &look) != 1) {
        return 0;
    }
    if (look.md.zone != action->zone) {
        look.md.state = 0;
    }
    dp_ct_look_up(&call->ctx, &look, now);
    if (action->flags & DP_CT_FORCE && DP_CT_REF_REPLY(look.ref)) {
        return 0;
    }
    return look.ref;
}

/* What a packet is for the helper of connection 'ref'. */
static enum ct_control
control_of_connection(const struct ct_call *call, uint32_t ref)
{
    switch (call->ctx.ct->cold[DP_CT_REF_INDEX(ref)].helper
            & CT_HELPER_MASK) {
    case CT_HELPER_FTP:
        return CT_CONTROL_FTP;
    case CT_HELPER_TFTP:
        return CT_CONTROL_TFTP;
    default:
        return CT_CONTROL_NONE;
    }
}

/* A control packet of FTP, of connection 'ref', that answers a rewritten one
 * acknowledges what its peer did not send; the tracker sees it corrected. */
static void
shift_before(struct ct_call *call, struct oxdp_ct *tables,
             struct dp_packet *packet, bool v6, uint32_t ref)
{
    const struct dp_ct_cold *cold
        = &call->ctx.ct->cold[DP_CT_REF_INDEX(ref)];

    if (cold->seq_skew && !is_skewed(cold, ref)
        && !dpif_xdp_ct_ftp_has_address(packet, v6)) {
        dpif_xdp_ct_ftp_shift(tables, packet, v6, ref);
    }
}

/* What helpers do with a packet that was tracked. */
static void
help(struct ct_call *call, struct oxdp_ct *tables, struct dp_packet *packet,
     bool v6, const struct dp_ct_action *action, const struct dp_ct_run *run)
{
    const struct dp_ct_cold *cold
        = &call->ctx.ct->cold[DP_CT_REF_INDEX(run->ref)];
    bool nat = action->flags & DP_CT_NAT;

    if (call->control == CT_CONTROL_FTP && nat && cold->seq_skew
        && is_skewed(cold, run->ref)
        && !dpif_xdp_ct_ftp_has_address(packet, v6)) {
        dpif_xdp_ct_ftp_shift(tables, packet, v6, run->ref);
    }
    if (cold->helper) {
        dpif_xdp_ct_help(call->ct, packet, call->control, v6, nat, run->ref);
    }
}

/* A packet of a connection that a helper expected, which it made if 'run' has
 * one, has its parent's mark, label and tuple. */
static void
relate(struct ct_call *call, struct oxdp_ct *tables, struct dp_ct_run *run)
{
    const struct ct_expected *e = &call->expectation;

    run->md.state |= CS_RELATED;
    run->md.mark = e->mark;
    memcpy(run->md.label, e->label, sizeof run->md.label);
    if (run->ref) {
        oxdp_ct_remark(tables, run->ref, e->mark, e->label);
        run->remark = false;
    } else {
        dp_ct_write_tuple(&run->md, &e->parent);
    }
}

static void
track(struct ct_call *call, struct oxdp_ct *tables, struct dp_packet *packet,
      bool v6, uint32_t now)
{
    struct dp_ct_action action = call->action->dp;
    bool any_helped;
    struct dp_frame frame = {
        .l3 = packet->l3_ofs,
        .l4 = packet->l3_ofs == UINT16_MAX ? DP_NO_LAYER : packet->l4_ofs,
        .l4_len = dp_packet_l4_size(packet),
    };
    struct dp_ct_run run;

    if (packet->md.ct_state == CS_INVALID || dp_packet_ip_checksum_bad(packet)
        || dp_packet_l4_checksum_bad(packet)) {
        set_invalid(packet, action.zone);       /* A bad fragment, too. */
        return;
    }
    call->ctx.start = call->ctx.data = dp_packet_data(packet);
    call->ctx.end = call->ctx.data + dp_packet_size(packet);
    call->expected = false;
    call->control = dpif_xdp_ct_control(packet, call->tp_src, call->tp_dst,
                                        call->action->helper);
    action.flags |= (dp_packet_ip_checksum_valid(packet) ? DP_CT_GOOD_L3 : 0)
                    | (dp_packet_l4_checksum_valid(packet)
                       ? DP_CT_GOOD_L4 : 0);
    load_metadata(&packet->md, &run.md);
    run.refused = 0;
    atomic_read_relaxed(&call->ct->any_helped, &any_helped);
    if (OVS_UNLIKELY(any_helped)
        && (DPIF_XDP_HELPER_OF_CONNECTION
            || call->control == CT_CONTROL_FTP)) {
        uint32_t ref = look_up(call, &frame, v6, &action, now, &run);

        if (ref && !call->control) {
            call->control = control_of_connection(call, ref);
        }
        if (ref && call->control == CT_CONTROL_FTP
            && action.flags & DP_CT_NAT) {
            shift_before(call, tables, packet, v6, ref);
        }
    }
    action.flags |= call->control ? DP_CT_ANEW_EACH : 0;
    for (int i = 1; dp_ct(&call->ctx, &frame, v6, &action, now, &run)
                    == DP_CT_BUSY; i++) {
        if (i % TRIES_BEFORE_YIELDING == 0) {
            sched_yield();
        }
    }
    if (OVS_UNLIKELY(run.md.state == (CS_TRACKED | CS_NEW) && !run.ref)) {
        if (call->expected || dpif_xdp_ct_is_expected(call->ct, &run.tuple,
                                                      &call->expectation)) {
            relate(call, tables, &run);
        }
        if (action.flags & DP_CT_COMMIT) {
            explain_refusal(call, &run);
        }
    } else if (OVS_UNLIKELY(call->expected && run.ref)) {
        relate(call, tables, &run);
    }
    if (run.remark) {
        const uint64_t label[2] = { run.md.label[0], run.md.label[1] };

        oxdp_ct_remark(tables, run.ref, run.md.mark, label);
    }
    store_metadata(&packet->md, &run.md);
    if (OVS_UNLIKELY(call->control && run.ref)) {
        help(call, tables, packet, v6, &action, &run);
    }
}

/* The tuple of a packet, as far as it can be had without looking twice.  It
 * only says what will be read. */
static bool
guess_tuple(const struct dp_packet *packet, bool v6, uint16_t zone,
            struct dp_ct_tuple *t)
{
    const struct ip_header *ip = dp_packet_l3(packet);
    const ovs_be16 *ports = dp_packet_l4(packet);

    if (v6 || !ip || !ports || dp_packet_l4_size(packet) < UDP_HEADER_LEN
        || (ip->ip_proto != IPPROTO_TCP && ip->ip_proto != IPPROTO_UDP)) {
        return false;
    }
    memset(t, 0, sizeof *t);
    memcpy(t->addr[0], &ip->ip_src, sizeof ip->ip_src);
    memcpy(t->addr[1], &ip->ip_dst, sizeof ip->ip_dst);
    t->l4[0] = DP_CT_L4((OVS_FORCE uint16_t) ports[0], 0);
    t->l4[1] = DP_CT_L4((OVS_FORCE uint16_t) ports[1], 0);
    t->proto = ip->ip_proto;
    t->zone = zone;
    return true;
}

/* With more connections than a cache holds, the packets of a batch wait for
 * memory together, not one after the other: first for their buckets, then for
 * what these name. */
static void
prefetch(struct ct_call *call, const struct dp_packet_batch *batch, bool v6,
         uint16_t zone)
{
    const struct dp_ct_tables *t = call->ctx.ct;
    uint64_t hashes[NETDEV_MAX_BURST];
    struct dp_packet *packet;
    struct dp_ct_tuple tuple;
    size_t n = 0;

    if (DP_READ_ONCE(t->head->n_conns) < PREFETCH_CONNECTIONS
        || dp_packet_batch_size(batch) < 2) {
        return;
    }
    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        if (n < ARRAY_SIZE(hashes) && guess_tuple(packet, v6, zone, &tuple)) {
            hashes[n] = dp_ct_hash(t->head, &tuple);
            OVS_PREFETCH(&t->buckets[dp_hash_bucket(hashes[n],
                                                    t->head->bucket_last)]);
            n++;
        }
    }
    for (size_t i = 0; i < n; i++) {
        const struct dp_ct_bucket *bucket
            = &t->buckets[dp_hash_bucket(hashes[i], t->head->bucket_last)];

        for (int k = 0; k < DP_CT_SLOTS; k++) {
            uint64_t slot = DP_READ_ONCE(bucket->slot[k]);
            uint32_t index = DP_CT_REF_INDEX(DP_CT_SLOT_REF(slot));

            if (DP_CT_SLOT_TAG(slot) == dp_hash_tag(hashes[i])
                && index < t->n_keys) {
                OVS_PREFETCH(&t->keys[index]);
                OVS_PREFETCH_WRITE(&t->lives[index]);
            }
        }
    }
}
