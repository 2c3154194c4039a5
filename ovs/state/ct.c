/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/state/ct.h"

#include <errno.h>

#include "conntrack.h"
#include "conntrack-tp.h"
#include "dp-packet.h"
#include "ovs/datapath/datapath.h"
#include "ipf.h"
#include "netlink.h"
#include "odp-netlink.h"
#include "openvswitch/vlog.h"
#include "timeval.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_ct);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 5);

/* An OVS_ACTION_ATTR_CT attribute, understood. */
struct ct_action {
    bool commit;
    bool force;
    bool nat;                           /* 'nat_info' is meant. */
    bool nat_configured;                /* It names a direction. */
    uint16_t zone;
    uint32_t timeout_policy;
    const char *helper;
    const uint32_t *mark;               /* Value and mask. */
    const struct ovs_key_ct_labels *label;
    struct nat_action_info_t nat_info;
};

static void parse_ct(const struct nlattr *, struct ct_action *);
static void parse_nat(const struct nlattr *, struct ct_action *);

void
dpif_xdp_ct_execute(struct conntrack *conntrack, struct dp_packet_batch *batch,
                    const struct nlattr *ct, const struct flow *flow,
                    long long int now_ms)
{
    struct ct_action action;

    parse_ct(ct, &action);
    if (action.nat_configured && !action.commit) {
        VLOG_WARN_RL(&rl, "NAT specified without commit.");
    }
    conntrack_execute(conntrack, batch, flow->dl_type, action.force,
                      action.commit, action.zone, action.mark, action.label,
                      flow->tp_src, flow->tp_dst, action.helper,
                      action.nat ? &action.nat_info : NULL, now_ms,
                      action.timeout_policy);
}

static void
parse_ct(const struct nlattr *ct, struct ct_action *action)
{
    const struct nlattr *a;
    unsigned int left;

    memset(action, 0, sizeof *action);
    NL_NESTED_FOR_EACH_UNSAFE (a, left, ct) {
        switch ((enum ovs_ct_attr) nl_attr_type(a)) {
        case OVS_CT_ATTR_FORCE_COMMIT:
            action->force = true;
            action->commit = true;
            break;
        case OVS_CT_ATTR_COMMIT:
            action->commit = true;
            break;
        case OVS_CT_ATTR_ZONE:
            action->zone = nl_attr_get_u16(a);
            break;
        case OVS_CT_ATTR_HELPER:
            action->helper = nl_attr_get_string(a);
            break;
        case OVS_CT_ATTR_MARK:
            action->mark = nl_attr_get(a);
            break;
        case OVS_CT_ATTR_LABELS:
            action->label = nl_attr_get(a);
            break;
        case OVS_CT_ATTR_TIMEOUT:
            if (!str_to_uint(nl_attr_get_string(a), 10,
                             &action->timeout_policy)) {
                VLOG_WARN_RL(&rl, "Invalid Timeout Policy ID: %s.",
                             nl_attr_get_string(a));
                action->timeout_policy = DEFAULT_TP_ID;
            }
            break;
        case OVS_CT_ATTR_NAT:
            parse_nat(a, action);
            break;
        case OVS_CT_ATTR_EVENTMASK:
            /* There are no Netlink events to choose from. */
            break;
        case OVS_CT_ATTR_UNSPEC:
        case __OVS_CT_ATTR_MAX:
            OVS_NOT_REACHED();
        }
    }
}

static void
parse_nat(const struct nlattr *nat, struct ct_action *action)
{
    struct nat_action_info_t *info = &action->nat_info;
    bool have_max_ip = false, have_min_ip = false;
    bool have_max_port = false, have_min_port = false;
    const struct nlattr *a;
    unsigned int left;

    action->nat = true;
    NL_NESTED_FOR_EACH_UNSAFE (a, left, nat) {
        switch ((enum ovs_nat_attr) nl_attr_type(a)) {
        case OVS_NAT_ATTR_SRC:
            info->nat_action |= NAT_ACTION_SRC;
            action->nat_configured = true;
            break;
        case OVS_NAT_ATTR_DST:
            info->nat_action |= NAT_ACTION_DST;
            action->nat_configured = true;
            break;
        case OVS_NAT_ATTR_IP_MIN:
            memcpy(&info->min_addr, nl_attr_get(a),
                   MIN(nl_attr_get_size(a), sizeof info->min_addr));
            have_min_ip = true;
            break;
        case OVS_NAT_ATTR_IP_MAX:
            memcpy(&info->max_addr, nl_attr_get(a),
                   MIN(nl_attr_get_size(a), sizeof info->max_addr));
            have_max_ip = true;
            break;
        case OVS_NAT_ATTR_PROTO_MIN:
            info->min_port = nl_attr_get_u16(a);
            have_min_port = true;
            break;
        case OVS_NAT_ATTR_PROTO_MAX:
            info->max_port = nl_attr_get_u16(a);
            have_max_port = true;
            break;
        case OVS_NAT_ATTR_PERSISTENT:
        case OVS_NAT_ATTR_PROTO_HASH:
        case OVS_NAT_ATTR_PROTO_RANDOM:
            break;
        case OVS_NAT_ATTR_UNSPEC:
        case __OVS_NAT_ATTR_MAX:
            OVS_NOT_REACHED();
        }
    }

    /* A range without an end is one address, one port. */
    if (have_min_ip && !have_max_ip) {
        info->max_addr = info->min_addr;
    }
    if (have_min_port && !have_max_port) {
        info->max_port = info->min_port;
    }
    if (have_min_port || have_max_port) {
        if (info->nat_action & NAT_ACTION_SRC) {
            info->nat_action |= NAT_ACTION_SRC_PORT;
        } else if (info->nat_action & NAT_ACTION_DST) {
            info->nat_action |= NAT_ACTION_DST_PORT;
        }
    }
}

struct ct_dump {
    struct ct_dpif_dump_state up;
    struct conntrack_dump dump;
};

int
dpif_xdp_ct_dump_start(struct dpif *dpif, struct ct_dpif_dump_state **statep,
                       const uint16_t *zone, int *n_buckets)
{
    struct ct_dump *dump = xzalloc(sizeof *dump);

    conntrack_dump_start(dpif_xdp_conntrack(dpif), &dump->dump, zone,
                         n_buckets);
    *statep = &dump->up;
    return 0;
}

int
dpif_xdp_ct_dump_next(struct dpif *dpif OVS_UNUSED,
                      struct ct_dpif_dump_state *state,
                      struct ct_dpif_entry *entry)
{
    return conntrack_dump_next(&CONTAINER_OF(state, struct ct_dump, up)->dump,
                               entry);
}

int
dpif_xdp_ct_dump_done(struct dpif *dpif OVS_UNUSED,
                      struct ct_dpif_dump_state *state)
{
    struct ct_dump *dump = CONTAINER_OF(state, struct ct_dump, up);
    int error = conntrack_dump_done(&dump->dump);

    free(dump);
    return error;
}

int
dpif_xdp_ct_flush(struct dpif *dpif, const uint16_t *zone,
                  const struct ct_dpif_tuple *tuple)
{
    struct conntrack *conntrack = dpif_xdp_conntrack(dpif);

    return (tuple
            ? conntrack_flush_tuple(conntrack, tuple, zone ? *zone : 0)
            : conntrack_flush(conntrack, zone));
}

int
dpif_xdp_ct_set_maxconns(struct dpif *dpif, uint32_t maxconns)
{
    return conntrack_set_maxconns(dpif_xdp_conntrack(dpif), maxconns);
}

int
dpif_xdp_ct_get_maxconns(struct dpif *dpif, uint32_t *maxconns)
{
    return conntrack_get_maxconns(dpif_xdp_conntrack(dpif), maxconns);
}

int
dpif_xdp_ct_get_nconns(struct dpif *dpif, uint32_t *nconns)
{
    return conntrack_get_nconns(dpif_xdp_conntrack(dpif), nconns);
}

int
dpif_xdp_ct_set_tcp_seq_chk(struct dpif *dpif, bool enabled)
{
    return conntrack_set_tcp_seq_chk(dpif_xdp_conntrack(dpif), enabled);
}

int
dpif_xdp_ct_get_tcp_seq_chk(struct dpif *dpif, bool *enabled)
{
    *enabled = conntrack_get_tcp_seq_chk(dpif_xdp_conntrack(dpif));
    return 0;
}

int
dpif_xdp_ct_set_limits(struct dpif *dpif, const uint32_t *default_limit,
                       const struct ovs_list *zone_limits)
{
    struct conntrack *conntrack = dpif_xdp_conntrack(dpif);
    const struct ct_dpif_zone_limit *limit;
    int error = 0;

    if (default_limit) {
        error = zone_limit_update(conntrack, DEFAULT_ZONE, *default_limit);
    }
    LIST_FOR_EACH (limit, node, zone_limits) {
        if (error) {
            break;
        }
        error = zone_limit_update(conntrack, limit->zone, limit->limit);
    }
    return error;
}

int
dpif_xdp_ct_get_limits(struct dpif *dpif, uint32_t *default_limit,
                       const struct ovs_list *request, struct ovs_list *reply)
{
    struct conntrack *conntrack = dpif_xdp_conntrack(dpif);
    const struct ct_dpif_zone_limit *wanted;
    struct conntrack_zone_limit found;

    found = zone_limit_get(conntrack, DEFAULT_ZONE);
    if (found.zone != DEFAULT_ZONE) {
        return EINVAL;
    }
    *default_limit = found.limit;

    if (ovs_list_is_empty(request)) {
        for (int zone = MIN_ZONE; zone <= MAX_ZONE; zone++) {
            found = zone_limit_get(conntrack, zone);
            if (found.zone == zone) {
                ct_dpif_push_zone_limit(reply, zone, found.limit,
                                        atomic_count_get(&found.count));
            }
        }
        return 0;
    }

    LIST_FOR_EACH (wanted, node, request) {
        found = zone_limit_get(conntrack, wanted->zone);
        if (found.zone != wanted->zone && found.zone != DEFAULT_ZONE) {
            return EINVAL;
        }
        ct_dpif_push_zone_limit(reply, wanted->zone, found.limit,
                                atomic_count_get(&found.count));
    }
    return 0;
}

int
dpif_xdp_ct_del_limits(struct dpif *dpif, const struct ovs_list *zone_limits)
{
    const struct ct_dpif_zone_limit *limit;

    LIST_FOR_EACH (limit, node, zone_limits) {
        int error = zone_limit_delete(dpif_xdp_conntrack(dpif), limit->zone);

        if (error) {
            return error;
        }
    }
    return 0;
}

int
dpif_xdp_ct_set_timeout_policy(struct dpif *dpif,
                               const struct ct_dpif_timeout_policy *policy)
{
    struct timeout_policy tp = { .policy = *policy };

    return timeout_policy_update(dpif_xdp_conntrack(dpif), &tp);
}

int
dpif_xdp_ct_get_timeout_policy(struct dpif *dpif, uint32_t id,
                               struct ct_dpif_timeout_policy *policy)
{
    const struct timeout_policy *tp
        = timeout_policy_get(dpif_xdp_conntrack(dpif), id);

    if (!tp) {
        return ENOENT;
    }
    *policy = tp->policy;
    return 0;
}

int
dpif_xdp_ct_del_timeout_policy(struct dpif *dpif, uint32_t id)
{
    return timeout_policy_delete(dpif_xdp_conntrack(dpif), id);
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
    return conntrack_ipf_ctx(dpif_xdp_conntrack(dpif));
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
