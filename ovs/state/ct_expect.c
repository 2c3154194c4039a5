/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that are expected because a helper read of them. */
#include <config.h>

#include "ovs/state/ct_private.h"

#include "dp/seam_native.h"
#include "dp/ct.h"
#include "hash.h"
#include "openvswitch/vlog.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_ct_expect);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 5);

static uint32_t
hash_tuple(const struct dp_ct_tuple *t)
{
    return hash_bytes(t, sizeof *t, 0);
}

void
dpif_xdp_ct_expect_init(struct dpif_xdp_ct *ct)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_init(&ct->expect_mutex);
    hmap_init(&ct->expected);
    hindex_init(&ct->expected_by);
}

void
dpif_xdp_ct_expect_destroy(struct dpif_xdp_ct *ct)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    struct ct_expected *e;

    HMAP_FOR_EACH_POP (e, node, &ct->expected) {
        free(e);
    }
    hmap_destroy(&ct->expected);
    hindex_destroy(&ct->expected_by);
    ovs_mutex_destroy(&ct->expect_mutex);
}

static struct ct_expected *
find(struct dpif_xdp_ct *ct, const struct dp_ct_tuple *t)
    OVS_REQUIRES(dpif_xdp_expect_mutex)
{
    struct ct_expected *e;

    HMAP_FOR_EACH_WITH_HASH (e, node, hash_tuple(t), &ct->expected) {
        if (!memcmp(&e->tuple, t, sizeof *t)) {
            return e;
        }
    }
    return NULL;
}

/* What a packet of direction 'reply' announces: a reply, that the client will
 * connect to the server, a packet of the client the other way round.  The
 * tuple is that of the first packet as it arrives; where the parent has NAT,
 * so has the connection. */
static void
fill(struct ct_expected *e, const struct dp_ct_tuple t[2], uint8_t nat,
     bool reply, ovs_be16 port)
{
    const struct dp_ct_tuple *from = &t[!reply];
    bool to_destination = nat & DP_CT_NAT_DST;
    const __u64 *address;

    e->tuple = *from;
    e->tuple.l4[0] = 0;
    e->tuple.l4[1] = DP_CT_L4((OVS_FORCE uint16_t) port, 0);
    e->parent = t[0];
    if (reply) {
        e->nat_source = !to_destination;
        address = to_destination ? t[1].addr[0] : t[1].addr[1];
    } else {
        e->nat_source = to_destination;
        address = to_destination ? t[0].addr[1] : t[0].addr[0];
    }
    memcpy(e->address, address, sizeof e->address);
}

void
dpif_xdp_ct_expect(struct dpif_xdp_ct *ct, uint32_t parent, bool reply,
                   ovs_be16 port)
{
    struct oxdp_ct *tables = dpif_xdp_ct_tables_(ct);
    struct dp_ct_tables *t = oxdp_ct_tables(tables);
    struct dp_ctx ctx = { .ct = t };
    const struct dp_ct_key *key = &t->keys[parent];
    const struct dp_ct_marks *marks = &t->marks[DP_READ_ONCE(key->marks)];
    struct ct_expected *e = xzalloc(sizeof *e);
    struct dp_ct_tuple tuples[2];
    bool fits = true;

    dp_ct_tuple_of(&ctx, parent, 0, &tuples[0]);
    dp_ct_tuple_of(&ctx, parent, 1, &tuples[1]);
    fill(e, tuples, key->nat, reply, port);
    e->mark = marks->mark;
    memcpy(e->label, marks->label, sizeof e->label);

    dpif_xdp_ct_expected_lock(ct);
    if (!find(ct, &e->tuple)) {
        fits = oxdp_ct_expect(tables, e->tuple.zone, 1);
        if (fits) {
            hmap_insert(&ct->expected, &e->node, hash_tuple(&e->tuple));
            hindex_insert(&ct->expected_by, &e->parent_node,
                          hash_tuple(&e->parent));
            e = NULL;
        }
    }
    dpif_xdp_ct_expected_unlock(ct);
    free(e);
    if (!fits) {
        VLOG_WARN_RL(&rl, "%s: zone %d expects too many connections: no data "
                     "connection is expected of one more", ct->name,
                     key->zone);
    }
}

bool
dpif_xdp_ct_is_expected(struct dpif_xdp_ct *ct,
                        const struct dp_ct_tuple *tuple,
                        struct ct_expected *found)
{
    const struct dp_ct_tables *tables
        = oxdp_ct_tables(dpif_xdp_ct_tables_(ct));
    struct dp_ct_tuple t = *tuple;
    const struct ct_expected *e;

    if (OVS_LIKELY(!DP_READ_ONCE(tables->zones[t.zone].n_expected))) {
        return false;
    }
    t.l4[0] = 0;
    dpif_xdp_ct_expected_lock(ct);
    e = find(ct, &t);
    if (e) {
        *found = *e;
    }
    dpif_xdp_ct_expected_unlock(ct);
    return e != NULL;
}

void
dpif_xdp_ct_forget_expected(struct dpif_xdp_ct *ct, uint32_t index)
{
    struct oxdp_ct *tables = dpif_xdp_ct_tables_(ct);
    struct dp_ctx ctx = { .ct = oxdp_ct_tables(tables) };
    struct ct_expected *e;
    struct dp_ct_tuple t;

    dp_ct_tuple_of(&ctx, index, 0, &t);
    dpif_xdp_ct_expected_lock(ct);
    HINDEX_FOR_EACH_WITH_HASH_SAFE (e, parent_node, hash_tuple(&t),
                                    &ct->expected_by) {
        if (!memcmp(&e->parent, &t, sizeof t)) {
            hmap_remove(&ct->expected, &e->node);
            hindex_remove(&ct->expected_by, &e->parent_node);
            oxdp_ct_expect(tables, e->tuple.zone, -1);
            free(e);
        }
    }
    dpif_xdp_ct_expected_unlock(ct);
}

size_t
dpif_xdp_ct_get_expected(struct dpif_xdp_ct *ct, int zone,
                         struct dpif_xdp_ct_expected **expected)
{
    const struct ct_expected *e;
    size_t n = 0;

    dpif_xdp_ct_expected_lock(ct);
    *expected = xcalloc(hmap_count(&ct->expected), sizeof **expected);
    HMAP_FOR_EACH (e, node, &ct->expected) {
        if (zone < 0 || e->tuple.zone == zone) {
            struct dpif_xdp_ct_expected *to = &(*expected)[n++];

            to->tuple = e->tuple;
            to->parent = e->parent;
            to->mark = e->mark;
            memcpy(to->label, e->label, sizeof to->label);
        }
    }
    dpif_xdp_ct_expected_unlock(ct);
    return n;
}

size_t
dpif_xdp_ct_n_expected(struct dpif_xdp_ct *ct)
{
    size_t n;

    dpif_xdp_ct_expected_lock(ct);
    n = hmap_count(&ct->expected);
    dpif_xdp_ct_expected_unlock(ct);
    return n;
}
