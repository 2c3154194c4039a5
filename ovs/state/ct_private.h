/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of connection tracking share. */
#ifndef DPIF_XDP_CT_PRIVATE_H
#define DPIF_XDP_CT_PRIVATE_H 1

#include "cmap.h"
#include "core/ct/ct.h"
#include "hindex.h"
#include "latch.h"
#include "openvswitch/hmap.h"
#include "ovs-atomic.h"
#include "ovs-thread.h"
#include "ovs/base/locks.h"
#include "ovs/state/ct.h"
#include "util.h"

struct dp_packet;

struct dpif_xdp_ct {
    char *name;
    struct ipf *ipf;
    uint32_t ipf_basis;

    /* The ticks were 'first_ticks' at 'first_ms'. */
    uint32_t hz;
    uint64_t first_ticks;
    long long int first_ms;

    struct ovs_mutex mutex;             /* dpif_xdp_ct_mutex: making tables. */
    uint32_t max OVS_GUARDED_BY(dpif_xdp_ct_mutex);
    struct oxdp_progs *progs OVS_GUARDED_BY(dpif_xdp_ct_mutex);
    bool failed                         /* There was no memory. */
        OVS_GUARDED_BY(dpif_xdp_ct_mutex);
    ATOMIC(struct oxdp_ct *) tables;    /* NULL: none.  Set once. */

    bool has_maker OVS_GUARDED_BY(dpif_xdp_ct_mutex);
    pthread_t maker;                    /* If 'has_maker': makes tables. */
    pthread_t sweeper;                  /* If there are tables. */
    atomic_uint32_t sweep_ms;
    uint64_t refused[DP_CT_N_REFUSALS]; /* What the sweeper has seen of it. */
    struct latch exit;
    struct seq *wanted;                 /* Changes when it is not to wait. */
    struct seq *news;                   /* dpif_xdp_ct_news(). */
    atomic_bool any_helped;             /* There may be connections with
                                         * helpers. */
    atomic_uint64_t n_tracked;          /* Packets, by the engine. */

    /* ct_policy.c */
    struct ovs_mutex policy_mutex;      /* dpif_xdp_policy_mutex: writers. */
    struct cmap policies;               /* By id. */
    atomic_count policy_changes;

    /* ct_expect.c.  Taken last, also by what core/ct/ calls under its own
     * mutex: with this mutex nothing of core/ct/ is called that takes it. */
    struct ovs_mutex expect_mutex;      /* dpif_xdp_expect_mutex. */
    struct hmap expected                /* By tuple. */
        OVS_GUARDED_BY(dpif_xdp_expect_mutex);
    struct hindex expected_by           /* By the parent's tuple. */
        OVS_GUARDED_BY(dpif_xdp_expect_mutex);
};

/* Take and release its mutexes. */
static inline void
dpif_xdp_ct_lock(struct dpif_xdp_ct *ct)
    OVS_ACQUIRES(dpif_xdp_ct_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_lock(&ct->mutex);
}

/* Returns 0 if it is taken. */
static inline int
dpif_xdp_ct_trylock(struct dpif_xdp_ct *ct)
    OVS_TRY_LOCK(0, dpif_xdp_ct_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    return ovs_mutex_trylock(&ct->mutex);
}

static inline void
dpif_xdp_ct_unlock(struct dpif_xdp_ct *ct)
    OVS_RELEASES(dpif_xdp_ct_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_unlock(&ct->mutex);
}

static inline void
dpif_xdp_ct_policies_lock(struct dpif_xdp_ct *ct)
    OVS_ACQUIRES(dpif_xdp_policy_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_lock(&ct->policy_mutex);
}

static inline void
dpif_xdp_ct_policies_unlock(struct dpif_xdp_ct *ct)
    OVS_RELEASES(dpif_xdp_policy_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_unlock(&ct->policy_mutex);
}

static inline void
dpif_xdp_ct_expected_lock(struct dpif_xdp_ct *ct)
    OVS_ACQUIRES(dpif_xdp_expect_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_lock(&ct->expect_mutex);
}

static inline void
dpif_xdp_ct_expected_unlock(struct dpif_xdp_ct *ct)
    OVS_RELEASES(dpif_xdp_expect_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_unlock(&ct->expect_mutex);
}

/* As dpif_xdp_ct_tables(). */
static inline struct oxdp_ct *
dpif_xdp_ct_tables_(const struct dpif_xdp_ct *ct_)
{
    struct dpif_xdp_ct *ct = CONST_CAST(struct dpif_xdp_ct *, ct_);
    struct oxdp_ct *tables;

    atomic_read_explicit(&ct->tables, &tables, memory_order_acquire);
    return tables;
}

/* In struct dp_ct_cold, 'helper': one of these, 0 if there is none, */
#define CT_HELPER_FTP 1
#define CT_HELPER_TFTP 2
#define CT_HELPER_MASK 0xff
#define CT_HELPER_SKEWED_REPLY 0x100    /* and 'seq_skew' is of replies. */

/* A connection that a helper read about. */
struct ct_expected {
    struct hmap_node node;              /* In 'expected'. */
    struct hindex_node parent_node;     /* In 'expected_by'. */
    struct dp_ct_tuple tuple;           /* Its source port is 0. */
    struct dp_ct_tuple parent;
    uint64_t address[2];                /* NAT: this is the source (or else
                                         * the */
    bool nat_source;                    /* destination) that it has there. */
    uint32_t mark;                      /* Of its parent. */
    uint64_t label[2];
};

void dpif_xdp_ct_expect_init(struct dpif_xdp_ct *);
void dpif_xdp_ct_expect_destroy(struct dpif_xdp_ct *);

/* Expects a connection to 'port' of a connection like 'parent', whose packets
 * of direction 'reply' said so. */
void dpif_xdp_ct_expect(struct dpif_xdp_ct *, uint32_t parent, bool reply,
                        ovs_be16 port);

/* Whether the connection that a packet with 'tuple' begins was expected: then
 * 'found' is a copy. */
bool dpif_xdp_ct_is_expected(struct dpif_xdp_ct *, const struct dp_ct_tuple *,
                             struct ct_expected *found);

/* Nothing is expected any more of connection 'index', which leaves. */
void dpif_xdp_ct_forget_expected(struct dpif_xdp_ct *, uint32_t index);

/* ct_alg.c */
enum ct_control {                       /* What a packet is for a helper. */
    CT_CONTROL_NONE,
    CT_CONTROL_FTP,
    CT_CONTROL_TFTP,
};

enum ct_control dpif_xdp_ct_control(const struct dp_packet *,
                                    ovs_be16 tp_src, ovs_be16 tp_dst,
                                    const char *helper);

/* Whether a packet of FTP's control connection has an address or a port. */
bool dpif_xdp_ct_ftp_has_address(const struct dp_packet *, bool v6);

/* Corrects the sequence number of a packet of connection 'ref', if that has
 * been moved, which its helper did. */
void dpif_xdp_ct_ftp_shift(struct oxdp_ct *, struct dp_packet *, bool v6,
                           uint32_t ref);

/* Reads a control packet of connection 'ref', which has a helper, and rewrites
 * the address in it, if 'nat'. */
void dpif_xdp_ct_help(struct dpif_xdp_ct *, struct dp_packet *,
                      enum ct_control, bool v6, bool nat, uint32_t ref);

/* ct_policy.c */
void dpif_xdp_ct_policies_init(struct dpif_xdp_ct *);
void dpif_xdp_ct_policies_destroy(struct dpif_xdp_ct *);

/* The index of policy number 'id' in the tables; and until
 * oxdp_ct_policy_put(). */
uint16_t dpif_xdp_ct_policy_index(struct dpif_xdp_ct *, uint32_t id);
uint16_t dpif_xdp_ct_policy_hold(struct dpif_xdp_ct *, uint32_t id);

#endif /* ovs/state/ct_private.h */
