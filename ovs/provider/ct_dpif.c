/* SPDX-License-Identifier: Apache-2.0 */
/* Connection tracking and IP fragments: Open vSwitch's lib/conntrack and
 * lib/ipf, behind the callbacks of struct dpif_class. */
#include <config.h>

#include "ovs/provider/ct_dpif.h"

#include <errno.h>

#include "conntrack.h"
#include "conntrack-tp.h"
#include "ipf.h"
#include "ovs/datapath/datapath.h"
#include "util.h"

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
