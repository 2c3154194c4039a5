/* SPDX-License-Identifier: Apache-2.0 */
/* Time of a flow lookup, without extraction of the key, in nanoseconds:
 *
 *     bench_lookup [MICROFLOWS MASKS RULES_PER_MASK CACHE_ENTRIES]
 *
 * Without arguments, a table.  Every microflow differs from all others in its
 * 5-tuple and belongs to one rule; microflows are spread evenly over rules
 * and rules over masks, and looked up in pseudo-random order, in bursts of
 * NETDEV_MAX_BURST.
 *
 * "netdev" is Open vSwitch's userspace datapath, as it comes: exact match
 * cache with insertion probability 1/100, then its classifier.  Its functions
 * are static, so its source file is part of this program. */
#include "lib/dpif-netdev.c"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ovs/lookup/lookup.h"

#define N_LOOKUPS (500 * 1000)

struct config {
    uint32_t n_microflows;
    uint32_t n_masks;                   /* 1 to 128. */
    uint32_t n_rules;                   /* Per mask. */
    uint32_t n_cache;                   /* Entries; 0: no cache. */
};

/* Ways to look up, each with the same rules and the same keys. */
union key {
    struct dpif_xdp_key xdp;
    struct netdev_flow_key netdev;
};

static union key keys[NETDEV_MAX_BURST];

struct engine {
    bool is_netdev;
    void (*init)(const struct config *);
    void (*insert)(const struct match *, uint32_t id);
    void (*lookup)(uint32_t *ids);      /* Of 'keys'. */
};

static uint64_t
now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * UINT64_C(1000000000) + ts.tv_nsec;
}

static uint32_t
mix(uint32_t x)
{
    return hash_finish(hash_add(0, x), 4);
}

/* Everything about a microflow follows from its number. */
static uint32_t
rule_of(const struct config *c, uint32_t microflow)
{
    return microflow % (c->n_masks * c->n_rules);
}

static void
flow_set(const struct config *c, uint32_t microflow, struct flow *flow)
{
    uint32_t rule = rule_of(c, microflow);
    uint32_t noise = mix(microflow);

    flow->dl_dst.be16[1] = htons(rule / c->n_masks >> 16);
    flow->dl_dst.be16[2] = htons(rule / c->n_masks);
    flow->nw_dst = htonl((rule % c->n_masks + 1) << 24 | (noise & 0xff));
    flow->nw_src = htonl(10 << 24 | (noise >> 8 & 0xff));
    flow->tp_src = htons(microflow);
    flow->tp_dst = htons(1 + (microflow >> 16));
}

static void
flow_init(const struct config *c, uint32_t microflow, struct flow *flow)
{
    memset(flow, 0, sizeof *flow);
    flow->in_port.odp_port = u32_to_odp(1);
    flow->dl_dst = (struct eth_addr) ETH_ADDR_C(0a, 00, 00, 00, 00, 00);
    flow->dl_src = (struct eth_addr) ETH_ADDR_C(0a, 11, 22, 33, 44, 55);
    flow->dl_type = htons(ETH_TYPE_IP);
    flow->nw_ttl = 64;
    flow->nw_proto = IPPROTO_UDP;
    flow_set(c, microflow, flow);
}

/* Typical of ofproto's answers: addresses by prefix, the rest exact. */
static void
match_set(const struct config *c, uint32_t rule, struct match *match)
{
    uint32_t mask = rule % c->n_masks;
    struct flow *wc = &match->wc.masks;

    memset(match, 0, sizeof *match);
    flow_init(c, rule, &match->flow);
    wc->in_port.odp_port = u32_to_odp(UINT32_MAX);
    wc->recirc_id = UINT32_MAX;
    wc->packet_type = OVS_BE32_MAX;
    WC_MASK_FIELD(&match->wc, dl_dst);
    WC_MASK_FIELD(&match->wc, dl_src);
    WC_MASK_FIELD(&match->wc, dl_type);
    wc->vlans[0].tci = OVS_BE16_MAX;
    wc->nw_frag = UINT8_MAX;
    wc->nw_dst = be32_prefix_mask(8 + mask % 16);
    wc->nw_src = be32_prefix_mask(1 + mask / 16);
    for (size_t i = 0; i < FLOW_U64S; i++) {
        *flow_u64_lvalue(&match->flow, i) &= flow_u64_value(wc, i);
    }
}

/* Does what the others do, but look up. */
static void
nothing_init(const struct config *c)
{
}

static void
nothing_insert(const struct match *match, uint32_t id)
{
}

static void
nothing_lookup(uint32_t *ids)
{
    memset(ids, 0, NETDEV_MAX_BURST * sizeof *ids);
}

/* This project. */
struct xdp_rule {
    struct dpif_xdp_rule rule;
    uint32_t id;
    uint64_t values[];
};

static struct dpif_xdp_cls xdp_cls;
static struct dpif_xdp_key *xdp_keys[NETDEV_MAX_BURST];
static struct dpif_xdp_cache *xdp_cache;
static struct dpif_xdp_cls_stats xdp_stats;

static void
xdp_init(const struct config *c)
{
    for (size_t i = 0; i < NETDEV_MAX_BURST; i++) {
        xdp_keys[i] = &keys[i].xdp;
    }
    dpif_xdp_cls_init(&xdp_cls);
    xdp_cache = dpif_xdp_cache_create(c->n_cache);
    memset(&xdp_stats, 0, sizeof xdp_stats);
}

static void
xdp_insert(const struct match *match, uint32_t id)
{
    struct subtable *subtable = dpif_xdp_cls_subtable(&xdp_cls, &match->wc);
    struct dpif_xdp_place place;

    if (!dpif_xdp_cls_place(subtable, &match->flow, &place)) {
        struct xdp_rule *rule
            = xmalloc(sizeof *rule + place.n_values * sizeof rule->values[0]);

        rule->id = id;
        dpif_xdp_cls_insert(&xdp_cls, &rule->rule, &place, rule->values);
    }
}

static void
xdp_lookup(uint32_t *ids)
{
    struct dpif_xdp_rule *rules[NETDEV_MAX_BURST];

    dpif_xdp_cls_lookup_batch(&xdp_cls, xdp_cache, xdp_keys, NETDEV_MAX_BURST,
                              rules, &xdp_stats);
    for (size_t i = 0; i < NETDEV_MAX_BURST; i++) {
        ids[i] = CONTAINER_OF(rules[i], struct xdp_rule, rule)->id;
    }
}

/* lib/dpif-netdev.c. */
static struct dp_netdev_pmd_thread *pmd;
static struct dpcls netdev_cls;

static void
netdev_init(const struct config *c)
{
    pmd = xzalloc_cacheline(sizeof *pmd);
    dfc_cache_init(&pmd->flow_cache);
    pmd->ctx.emc_insert_min = DEFAULT_EM_FLOW_INSERT_MIN;
    dpcls_init(&netdev_cls);
}

static void
netdev_insert(const struct match *match_, uint32_t id)
{
    struct match match = *match_;
    struct netdev_flow_key mask;
    struct dp_netdev_flow *flow;

    match.wc.masks.in_port.odp_port = 0;
    netdev_flow_mask_init(&mask, &match);
    flow = xzalloc(sizeof *flow + mask.len);
    ovs_refcount_init(&flow->ref_cnt);
    flow->mark = id;
    netdev_flow_key_init_masked(&flow->cr.flow, &match.flow, &mask);
    dpcls_insert(&netdev_cls, &flow->cr, &mask);
}

static void
netdev_lookup(uint32_t *ids)
{
    const struct netdev_flow_key *missed[NETDEV_MAX_BURST];
    struct dpcls_rule *rules[NETDEV_MAX_BURST];
    uint8_t index[NETDEV_MAX_BURST];
    size_t n_missed = 0;

    for (size_t i = 0; i < NETDEV_MAX_BURST; i++) {
        struct dp_netdev_flow *flow
            = emc_lookup(&pmd->flow_cache.emc_cache, &keys[i].netdev);

        if (flow) {
            ids[i] = flow->mark;
        } else {
            index[n_missed] = i;
            missed[n_missed++] = &keys[i].netdev;
        }
    }
    if (n_missed) {
        dpcls_lookup(&netdev_cls, missed, rules, n_missed, NULL);
        for (size_t i = 0; i < n_missed; i++) {
            struct dp_netdev_flow *flow = dp_netdev_flow_cast(rules[i]);

            emc_probabilistic_insert(pmd, missed[i], flow);
            ids[index[i]] = flow->mark;
        }
    }
}

static const struct engine nothing
    = { false, nothing_init, nothing_insert, nothing_lookup };
static const struct engine xdp
    = { false, xdp_init, xdp_insert, xdp_lookup };
static const struct engine netdev
    = { true, netdev_init, netdev_insert, netdev_lookup };

static int
compare_times(const void *a_, const void *b_)
{
    const uint64_t *a = a_, *b = b_;

    return *a < *b ? -1 : *a > *b;
}

/* Makes 'n' lookups.  Returns the median of the bursts' times, in nanoseconds
 * per lookup, which other programs on this CPU do not disturb. */
static double
run_lookups(const struct config *c, const struct engine *engine, uint32_t n)
{
    uint64_t *times = xmalloc((n / NETDEV_MAX_BURST + 1) * sizeof *times);
    size_t n_times = 0;
    double median;
    static const size_t words[] = {
        FLOW_U64_OFFSET(dl_dst), FLOW_U64_OFFSET(nw_src),
        FLOW_U64_OFFSET(tp_src),
    };
    uint64_t *values[NETDEV_MAX_BURST][ARRAY_SIZE(words)];
    uint32_t microflows[NETDEV_MAX_BURST], ids[NETDEV_MAX_BURST];
    struct flow flow;

    flow_init(c, 1, &flow);
    for (size_t i = 0; i < NETDEV_MAX_BURST; i++) {
        struct miniflow *mf = (engine->is_netdev
                               ? &keys[i].netdev.mf
                               : &keys[i].xdp.mf);

        memset(&keys[i], 0, sizeof keys[i]);
        miniflow_map_init(mf, &flow);
        miniflow_init(mf, &flow);
        if (engine->is_netdev) {
            keys[i].netdev.len = netdev_flow_key_size(miniflow_n_values(mf));
        }
        for (size_t j = 0; j < ARRAY_SIZE(words); j++) {
            values[i][j] = CONST_CAST(uint64_t *,
                                      miniflow_get__(mf, words[j]));
        }
    }

    for (uint32_t next = 0; next < n; ) {
        for (size_t i = 0; i < NETDEV_MAX_BURST; i++, next++) {
            uint64_t random = mix(next ^ (n << 1));

            microflows[i] = random * c->n_microflows >> 32;
            flow_set(c, microflows[i], &flow);
            for (size_t j = 0; j < ARRAY_SIZE(words); j++) {
                *values[i][j] = flow_u64_value(&flow, words[j]);
            }
            if (engine->is_netdev) {
                keys[i].netdev.hash = mix(microflows[i]);
            } else {
                keys[i].xdp.hash = mix(microflows[i]);
            }
        }

        uint64_t start = now_ns();
        engine->lookup(ids);
        times[n_times++] = now_ns() - start;
        for (size_t i = 0; i < NETDEV_MAX_BURST; i++) {
            ovs_assert(engine == &nothing
                       || ids[i] == rule_of(c, microflows[i]));
        }
    }
    qsort(times, n_times, sizeof *times, compare_times);
    median = (double) times[n_times / 2] / NETDEV_MAX_BURST;
    free(times);
    return median;
}

static double
measure(const struct config *c, const struct engine *engine)
{
    engine->init(c);
    for (uint32_t i = 0; i < c->n_masks * c->n_rules; i++) {
        struct match match;

        match_set(c, i, &match);
        engine->insert(&match, i);
    }
    /* The caches fill, which takes "netdev" 100 packets per microflow. */
    run_lookups(c, engine, MIN(300 * (uint64_t) c->n_microflows, 4000000));
    return run_lookups(c, engine, N_LOOKUPS);
}

static void
report(const struct config *c)
{
    double base = measure(c, &nothing);
    double ours = measure(c, &xdp) - base;
    double theirs = measure(c, &netdev) - base;
    double total = xdp_stats.n_cache_hit + xdp_stats.n_table_hit;

    printf("%10"PRIu32" %6"PRIu32" %8"PRIu32" %8"PRIu32" | %7.1f %7.1f |"
           " %6.1f%% %6.2f\n", c->n_microflows, c->n_masks, c->n_rules,
           c->n_cache, ours, theirs, 100 * xdp_stats.n_cache_hit / total,
           xdp_stats.n_mask_walk / total);
}

int
main(int argc, char *argv[])
{
    static const uint32_t microflows[] = { 1, 1000, 8000, 100000, 1000000 };
    static const uint32_t masks[] = { 1, 2, 4, 16, 128 };

    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("microflows  masks    rules    cache |     xdp  netdev |"
           "   hits  masks\n");
    if (argc == 5) {
        report(&(struct config) { atoi(argv[1]), atoi(argv[2]),
                                  atoi(argv[3]), atoi(argv[4]) });
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(microflows); i++) {
        for (size_t j = 0; j < ARRAY_SIZE(masks); j++) {
            report(&(struct config) { microflows[i], masks[j], 4, 1 << 21 });
        }
    }
    report(&(struct config) { 1000000, 1, 1000000, 1 << 21 });
    report(&(struct config) { 1000000, 4, 250000, 1 << 21 });
    return 0;
}
