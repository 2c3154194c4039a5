/* SPDX-License-Identifier: Apache-2.0 */
/* Connection tracking and IP fragments behind the callbacks of struct
 * dpif_class: the tables of core/ct/ct.h, and Open vSwitch's lib/ipf.
 *
 * The tables are made by what sets something; what asks is answered
 * without. */
#include <config.h>

#include "ovs/provider/ct_dpif.h"

#include <errno.h>

#include "core/ct/ct.h"
#include "ct-dpif.h"
#include "dp/seam_native.h"
#include "dp/ct.h"
#include "ipf.h"
#include "openvswitch/vlog.h"
#include "ovs/datapath/datapath.h"
#include "ovs/state/ct.h"
#include "packets.h"
#include "timeval.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_ct_dpif);

#define SWEEP_MS_MAX (60 * 60 * 1000)

struct ct_dump {
    struct ct_dpif_dump_state up;
    int zone;                           /* -1: all. */
    uint32_t position;
};

static struct oxdp_ct *
get_tables(const struct dpif *dpif)
{
    return dpif_xdp_ct_tables(dpif_xdp_ct_of(dpif));
}

static struct oxdp_ct *
need_tables(const struct dpif *dpif)
{
    return dpif_xdp_ct_need_tables(dpif_xdp_ct_of(dpif));
}

static uint32_t
get_ticks(const struct dpif *dpif)
{
    return dpif_xdp_ct_ticks(dpif_xdp_ct_of(dpif), time_msec());
}

static bool
has_icmp(uint8_t proto)
{
    return proto == IPPROTO_ICMP || proto == IPPROTO_ICMPV6;
}

static void
tuple_to_dpif(const struct dp_ct_tuple *from, struct ct_dpif_tuple *to)
{
    size_t len = from->v6 ? sizeof to->src.in6 : sizeof to->src.ip;

    to->l3_type = from->v6 ? AF_INET6 : AF_INET;
    to->ip_proto = from->proto;
    memcpy(&to->src, from->addr[0], len);
    memcpy(&to->dst, from->addr[1], len);
    if (has_icmp(from->proto)) {
        to->icmp_id = (OVS_FORCE ovs_be16) DP_CT_L4_PORT(from->l4[0]);
        to->icmp_type = DP_CT_L4_TYPE(from->l4[0]);
    } else {
        to->src_port = (OVS_FORCE ovs_be16) DP_CT_L4_PORT(from->l4[0]);
        to->dst_port = (OVS_FORCE ovs_be16) DP_CT_L4_PORT(from->l4[1]);
    }
}

/* The type that answers ICMP type 'type'. */
static uint8_t
icmp_answer(bool v6, uint8_t type)
{
    static const uint8_t pairs[][2] = { { 8, 0 }, { 13, 14 }, { 15, 16 } };

    if (v6) {
        return type ^ 1;                /* 128, 129. */
    }
    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        if (type == pairs[i][0] || type == pairs[i][1]) {
            return pairs[i][type == pairs[i][0]];
        }
    }
    return 0;
}

static void
tuple_from_dpif(const struct ct_dpif_tuple *from, uint16_t zone,
                struct dp_ct_tuple *to)
{
    bool v6 = from->l3_type == AF_INET6;
    size_t len = v6 ? sizeof from->src.in6 : sizeof from->src.ip;

    memset(to, 0, sizeof *to);
    to->v6 = v6;
    to->proto = from->ip_proto;
    to->zone = zone;
    memcpy(to->addr[0], &from->src, len);
    memcpy(to->addr[1], &from->dst, len);
    if (has_icmp(from->ip_proto)) {
        uint16_t id = (OVS_FORCE uint16_t) from->icmp_id;

        to->l4[0] = DP_CT_L4(id, from->icmp_type);
        to->l4[1] = DP_CT_L4(id, icmp_answer(v6, from->icmp_type));
    } else {
        to->l4[0] = DP_CT_L4((OVS_FORCE uint16_t) from->src_port, 0);
        to->l4[1] = DP_CT_L4((OVS_FORCE uint16_t) from->dst_port, 0);
    }
}

static uint8_t
tcp_flags_to_dpif(uint8_t wscale)
{
    return (wscale & DP_CT_WSCALE_FLAG ? CT_DPIF_TCPF_WINDOW_SCALE : 0)
           | (wscale & DP_CT_WSCALE_UNKNOWN ? CT_DPIF_TCPF_BE_LIBERAL : 0);
}

static void
entry_to_dpif(struct oxdp_ct *tables, uint32_t index, uint32_t now,
              struct ct_dpif_entry *entry)
{
    struct dp_ct_tables *t = oxdp_ct_tables(tables);
    struct dp_ctx ctx = { .ct = t };
    const struct dp_ct_key *key = &t->keys[index];
    const struct dp_ct_marks *marks = &t->marks[DP_READ_ONCE(key->marks)];
    uint64_t state = DP_READ_ONCE(t->lives[index].state);
    const char *helper = dpif_xdp_ct_helper(tables, index);
    struct dp_ct_tuple tuple;

    memset(entry, 0, sizeof *entry);
    dp_ct_tuple_of(&ctx, index, 0, &tuple);
    tuple_to_dpif(&tuple, &entry->tuple_orig);
    dp_ct_tuple_of(&ctx, index, 1, &tuple);
    tuple_to_dpif(&tuple, &entry->tuple_reply);
    if (DP_READ_ONCE(key->flags) & DP_CT_KEY_RELATED) {
        tuple_to_dpif(&t->cold[index].parent, &entry->tuple_parent);
    }
    entry->zone = key->zone;
    entry->mark = marks->mark;
    entry->labels.u64.lo = marks->label[0];
    entry->labels.u64.hi = marks->label[1];
    entry->timeout = oxdp_ct_seconds_left(tables, index, now);
    entry->helper.name = nullable_xstrdup(helper);
    if (key->proto == IPPROTO_TCP) {
        uint8_t wscale[2] = {
            DP_CT_GET(state, DP_CT_STATE_WSCALE(0), 8),
            DP_CT_GET(state, DP_CT_STATE_WSCALE(1), 8),
        };

        entry->protoinfo.proto = IPPROTO_TCP;
        entry->protoinfo.tcp.state_orig
            = DP_CT_GET(state, DP_CT_STATE_TCP(0), 4);
        entry->protoinfo.tcp.state_reply
            = DP_CT_GET(state, DP_CT_STATE_TCP(1), 4);
        entry->protoinfo.tcp.wscale_orig = wscale[0] & DP_CT_WSCALE_MASK;
        entry->protoinfo.tcp.wscale_reply = wscale[1] & DP_CT_WSCALE_MASK;
        entry->protoinfo.tcp.flags_orig = tcp_flags_to_dpif(wscale[0]);
        entry->protoinfo.tcp.flags_reply = tcp_flags_to_dpif(wscale[1]);
    }
}

int
dpif_xdp_ct_dump_start(struct dpif *dpif OVS_UNUSED,
                       struct ct_dpif_dump_state **statep,
                       const uint16_t *zone, int *n_buckets)
{
    struct ct_dump *dump = xzalloc(sizeof *dump);

    dump->zone = zone ? *zone : -1;
    *n_buckets = 1;
    *statep = &dump->up;
    return 0;
}

int
dpif_xdp_ct_dump_next(struct dpif *dpif, struct ct_dpif_dump_state *state,
                      struct ct_dpif_entry *entry)
{
    struct ct_dump *dump = CONTAINER_OF(state, struct ct_dump, up);
    struct oxdp_ct *tables = get_tables(dpif);
    uint32_t now = get_ticks(dpif);
    uint32_t index;

    if (!tables || !oxdp_ct_next(tables, now, dump->zone, &dump->position,
                                 &index)) {
        return EOF;
    }
    entry_to_dpif(tables, index, now, entry);
    return 0;
}

int
dpif_xdp_ct_dump_done(struct dpif *dpif OVS_UNUSED,
                      struct ct_dpif_dump_state *state)
{
    free(CONTAINER_OF(state, struct ct_dump, up));
    return 0;
}

#if OXDP_OVS >= 302
struct expected_dump {
    struct ct_dpif_dump_state up;
    struct dpif_xdp_ct_expected *expected;
    size_t n, i;
};

int
dpif_xdp_ct_exp_dump_start(struct dpif *dpif,
                           struct ct_dpif_dump_state **statep,
                           const uint16_t *zone)
{
    struct expected_dump *dump = xzalloc(sizeof *dump);

    dump->n = dpif_xdp_ct_get_expected(dpif_xdp_ct_of(dpif),
                                       zone ? *zone : -1, &dump->expected);
    *statep = &dump->up;
    return 0;
}

int
dpif_xdp_ct_exp_dump_next(struct dpif *dpif OVS_UNUSED,
                          struct ct_dpif_dump_state *state,
                          struct ct_dpif_exp *entry)
{
    struct expected_dump *dump = CONTAINER_OF(state, struct expected_dump, up);
    const struct dpif_xdp_ct_expected *e;

    if (dump->i >= dump->n) {
        return EOF;
    }
    e = &dump->expected[dump->i++];
    memset(entry, 0, sizeof *entry);
    tuple_to_dpif(&e->tuple, &entry->tuple_orig);
    tuple_to_dpif(&e->parent, &entry->tuple_parent);
    entry->zone = e->tuple.zone;
    entry->mark = e->mark;
    entry->labels.u64.lo = e->label[0];
    entry->labels.u64.hi = e->label[1];
    return 0;
}

int
dpif_xdp_ct_exp_dump_done(struct dpif *dpif OVS_UNUSED,
                          struct ct_dpif_dump_state *state)
{
    struct expected_dump *dump = CONTAINER_OF(state, struct expected_dump, up);

    free(dump->expected);
    free(dump);
    return 0;
}
#endif

/* Of a connection with NAT the tuple of its replies is not that of another one
 * reversed: it names none. */
static int
flush_tuple(struct dpif *dpif, struct oxdp_ct *tables,
            const struct dp_ct_tuple *tuple)
{
    struct dp_ctx ctx = { .ct = oxdp_ct_tables(tables) };
    uint32_t ref = dp_ct_find(&ctx, tuple, get_ticks(dpif));
    uint32_t index = DP_CT_REF_INDEX(ref);

    if (!ref || (DP_CT_REF_REPLY(ref) && ctx.ct->keys[index].nat)) {
        VLOG_WARN("Must flush tuple using the original pre-NATed tuple");
        return ENOENT;
    }
    oxdp_ct_remove(tables, index, ctx.ct->keys[index].generation);
    return 0;
}

int
dpif_xdp_ct_flush(struct dpif *dpif, const uint16_t *zone,
                  const struct ct_dpif_tuple *tuple)
{
    struct oxdp_ct *tables = get_tables(dpif);
    struct dp_ct_tuple t;

    if (!tables) {
        return tuple ? ENOENT : 0;
    }
    if (tuple) {
        tuple_from_dpif(tuple, zone ? *zone : 0, &t);
        return flush_tuple(dpif, tables, &t);
    }
    oxdp_ct_flush(tables, zone ? *zone : -1);
    dpif_xdp_ct_hurry(dpif_xdp_ct_of(dpif));
    return 0;
}

int
dpif_xdp_ct_set_maxconns(struct dpif *dpif, uint32_t maxconns)
{
    struct oxdp_ct *tables = need_tables(dpif);

    if (!tables) {
        return ENOMEM;
    }
    DP_WRITE_ONCE(oxdp_ct_tables(tables)->head->maxconns, maxconns);
    return 0;
}

int
dpif_xdp_ct_get_maxconns(struct dpif *dpif, uint32_t *maxconns)
{
    struct oxdp_ct *tables = get_tables(dpif);

    *maxconns = (tables ? oxdp_ct_tables(tables)->head->maxconns
                 : OXDP_CT_DEFAULT_MAXCONNS);
    return 0;
}

int
dpif_xdp_ct_get_nconns(struct dpif *dpif, uint32_t *nconns)
{
    struct oxdp_ct *tables = get_tables(dpif);

    *nconns = (tables ? DP_READ_ONCE(oxdp_ct_tables(tables)->head->n_conns)
               : 0);
    return 0;
}

#if OXDP_OVS >= 302
/* Ticks of connections have 32 bits: one that expired weeks ago would live
 * again. */
int
dpif_xdp_ct_set_sweep_interval(struct dpif *dpif, uint32_t ms)
{
    if (ms > SWEEP_MS_MAX) {
        return ERANGE;
    }
    dpif_xdp_ct_set_sweep_ms(dpif_xdp_ct_of(dpif), ms);
    return 0;
}

int
dpif_xdp_ct_get_sweep_interval(struct dpif *dpif, uint32_t *ms)
{
    *ms = dpif_xdp_ct_sweep_ms(dpif_xdp_ct_of(dpif));
    return 0;
}
#endif

int
dpif_xdp_ct_set_tcp_seq_chk(struct dpif *dpif, bool enabled)
{
    struct oxdp_ct *tables = need_tables(dpif);
    struct dp_ct_head *head;

    if (!tables) {
        return ENOMEM;
    }
    head = oxdp_ct_tables(tables)->head;
    if (enabled) {
        __atomic_fetch_and(&head->no_seq_check, ~DP_CT_SEQ_DISABLED,
                           __ATOMIC_RELAXED);
    } else {
        __atomic_fetch_or(&head->no_seq_check, DP_CT_SEQ_DISABLED,
                          __ATOMIC_RELAXED);
    }
    return 0;
}

int
dpif_xdp_ct_get_tcp_seq_chk(struct dpif *dpif, bool *enabled)
{
    struct oxdp_ct *tables = get_tables(dpif);

    *enabled = (!tables
                || !(oxdp_ct_tables(tables)->head->no_seq_check
                     & DP_CT_SEQ_DISABLED));
    return 0;
}

/* The zone of an element of a list of limits, as the tables number it. */
static int
limit_zone(const struct ct_dpif_zone_limit *limit)
{
    int zone = limit->zone;

    return zone == DPIF_XDP_DEFAULT_ZONE ? DP_CT_ZONE_DEFAULT : zone;
}

int
dpif_xdp_ct_set_limits(struct dpif *dpif
                       DPIF_XDP_DEFAULT_LIMIT(, const uint32_t *default_limit),
                       const struct ovs_list *zone_limits)
{
    struct oxdp_ct *tables = need_tables(dpif);
    const struct ct_dpif_zone_limit *limit;

    if (!tables) {
        return ENOMEM;
    }
    DPIF_XDP_DEFAULT_LIMIT(
        if (default_limit) {
            oxdp_ct_limit_set(tables, DP_CT_ZONE_DEFAULT, *default_limit);
        });
    LIST_FOR_EACH (limit, node, zone_limits) {
        oxdp_ct_limit_set(tables, limit_zone(limit), limit->limit);
    }
    return 0;
}

/* Zones without a limit of their own share the default one, and its count. */
static void
push_limit(struct oxdp_ct *tables, const struct ct_dpif_zone_limit *wanted,
           struct ovs_list *reply)
{
    uint32_t limit = 0, count = 0;

    if (tables
        && !oxdp_ct_limit_get(tables, limit_zone(wanted), &limit, &count)
        && !oxdp_ct_limit_get(tables, DP_CT_ZONE_DEFAULT, &limit, &count)) {
        limit = count = 0;
    }
    ct_dpif_push_zone_limit(reply, wanted->zone, limit, count);
}

int
dpif_xdp_ct_get_limits(struct dpif *dpif
                       DPIF_XDP_DEFAULT_LIMIT(, uint32_t *default_limit),
                       const struct ovs_list *request, struct ovs_list *reply)
{
    struct oxdp_ct *tables = get_tables(dpif);
    const struct ct_dpif_zone_limit *wanted;
    uint32_t limit, count;

    if (!tables
        || !oxdp_ct_limit_get(tables, DP_CT_ZONE_DEFAULT, &limit, &count)) {
        limit = 0;
    }
    DPIF_XDP_DEFAULT_LIMIT(*default_limit = limit);
    if (ovs_list_is_empty(request)) {
        if (DPIF_XDP_LISTS_DEFAULT_LIMIT) {
            ct_dpif_push_zone_limit(reply, DPIF_XDP_DEFAULT_ZONE, limit, 0);
        }
        for (int zone = 0; tables && zone < DP_CT_ZONES; zone++) {
            if (oxdp_ct_limit_get(tables, zone, &limit, &count)) {
                ct_dpif_push_zone_limit(reply, zone, limit, count);
            }
        }
        return 0;
    }

    LIST_FOR_EACH (wanted, node, request) {
        push_limit(tables, wanted, reply);
    }
    return 0;
}

int
dpif_xdp_ct_del_limits(struct dpif *dpif, const struct ovs_list *zone_limits)
{
    struct oxdp_ct *tables = get_tables(dpif);
    const struct ct_dpif_zone_limit *limit;

    LIST_FOR_EACH (limit, node, zone_limits) {
        if (tables) {
            oxdp_ct_limit_delete(tables, limit_zone(limit));
        }
    }
    return 0;
}

int
dpif_xdp_ct_set_timeout_policy(struct dpif *dpif,
                               const struct ct_dpif_timeout_policy *policy)
{
    return dpif_xdp_ct_policy_set(dpif_xdp_ct_of(dpif), policy);
}

int
dpif_xdp_ct_get_timeout_policy(struct dpif *dpif, uint32_t id,
                               struct ct_dpif_timeout_policy *policy)
{
    return dpif_xdp_ct_policy_get(dpif_xdp_ct_of(dpif), id, policy);
}

int
dpif_xdp_ct_del_timeout_policy(struct dpif *dpif, uint32_t id)
{
    return dpif_xdp_ct_policy_delete(dpif_xdp_ct_of(dpif), id);
}

/* A policy's name is its number; it serves every protocol. */
int
dpif_xdp_ct_get_timeout_policy_name(struct dpif *dpif OVS_UNUSED, uint32_t id,
                                    uint16_t dl_type OVS_UNUSED,
                                    uint8_t nw_proto OVS_UNUSED, char **name,
                                    bool *is_generic)
{
    *name = xasprintf("%"PRIu32, id);
    *is_generic = true;
    return 0;
}

int
dpif_xdp_ct_get_features(struct dpif *dpif OVS_UNUSED,
                         enum ct_features *features)
{
    if (features) {
        *features = CONNTRACK_F_ZERO_SNAT;
    }
    return 0;
}

static struct ipf *
get_ipf(const struct dpif *dpif)
{
    return dpif_xdp_ct_ipf(dpif_xdp_ct_of(dpif));
}

int
dpif_xdp_ipf_set_enabled(struct dpif *dpif, bool v6, bool enabled)
{
    return ipf_set_enabled(get_ipf(dpif), v6, enabled);
}

int
dpif_xdp_ipf_set_min_frag(struct dpif *dpif, bool v6, uint32_t bytes)
{
    return ipf_set_min_frag(get_ipf(dpif), v6, bytes);
}

int
dpif_xdp_ipf_set_max_nfrags(struct dpif *dpif, uint32_t max_nfrags)
{
    return ipf_set_max_nfrags(get_ipf(dpif), max_nfrags);
}

static void
convert_ipf_status(const struct ipf_proto_status *from,
                   struct dpif_ipf_proto_status *to)
{
    to->nfrag_accepted = from->nfrag_accepted;
    to->nfrag_completed_sent = from->nfrag_completed_sent;
    to->nfrag_expired_sent = from->nfrag_expired_sent;
    to->nfrag_too_small = from->nfrag_too_small;
    to->nfrag_overlap = from->nfrag_overlap;
    to->nfrag_purged = from->nfrag_purged;
    to->min_frag_size = from->min_frag_size;
    to->enabled = from->enabled;
}

int
dpif_xdp_ipf_get_status(struct dpif *dpif, struct dpif_ipf_status *ret)
{
    struct ipf_status status;

    ipf_get_status(get_ipf(dpif), &status);
    convert_ipf_status(&status.v4, &ret->v4);
    convert_ipf_status(&status.v6, &ret->v6);
    ret->nfrag = status.nfrag;
    ret->nfrag_max = status.nfrag_max;
    return 0;
}

int
dpif_xdp_ipf_dump_start(struct dpif *dpif OVS_UNUSED,
                        struct ipf_dump_ctx **ctx)
{
    return ipf_dump_start(ctx);
}

int
dpif_xdp_ipf_dump_next(struct dpif *dpif, void *ctx, char **line)
{
    return ipf_dump_next(get_ipf(dpif), ctx, line);
}

int
dpif_xdp_ipf_dump_done(struct dpif *dpif OVS_UNUSED, void *ctx)
{
    return ipf_dump_done(ctx);
}
