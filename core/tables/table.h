/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of the tables that the datapath reads (dp/table.h).
 *
 * One thread at a time may call a function that changes a table; the caller holds a lock.  BPF programs
 * read meanwhile.  Installing and unlinking are memory operations.  What was unlinked waits, still in
 * memory, until oxdp_table_reclaim() has made sure that no program holds it, once for everything that
 * waits: so delete many, then reclaim. */
#ifndef OXDP_TABLE_H
#define OXDP_TABLE_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dp/table.h"

struct oxdp_table;

struct oxdp_table_config {
    uint32_t n_flows;           /* Flows that fit, those being deleted included. */
    uint32_t n_buckets;         /* Hash buckets of all masks, DP_BUCKET_SLOTS flows each. */
    uint32_t n_ops;             /* Operations of all flows; flows that only output need none. */
    uint32_t n_blobs;           /* Pieces of large arguments of operations of all flows. */
    uint32_t n_cache;           /* Sets of the signature cache: a power of two. */
    uint32_t n_meters;
    uint32_t n_shards;          /* Copies of the statistics, for as many CPUs without atomic operations. */
    uint32_t n_cpus;            /* CPUs that may run the programs. */
    uint32_t vlan_limit;        /* VLAN tags parsed, 0 to 2. */
};

/* The sizes for 'n_flows' flows on 'n_cpus' CPUs: 325 bytes a flow with two shards (64 MB for 200,000
 * flows). */
struct oxdp_table_config oxdp_table_config(uint32_t n_flows, uint32_t n_cpus);

/* Fills the n_* of '*tables', elements of each array. */
void oxdp_table_sizes(const struct oxdp_table_config *, struct dp_tables *tables);

struct oxdp_table_callbacks {
    /* Returns after every program run that had begun has ended (core/kernel/grace.h). */
    void (*grace)(void *aux);
    /* An unlinked flow is gone, and this is all it ever counted.  May be NULL. */
    void (*reclaimed)(void *aux, uint32_t flow, const struct dp_stats *final);
    void *aux;
};

/* Initialises the arrays of 'memory' (zeroed, of the sizes that oxdp_table_sizes() says; typically BPF
 * maps in mmap), or anonymous memory if it is NULL.  0; -EINVAL for sizes that make no sense; -ENOMEM. */
int oxdp_table_create(const struct oxdp_table_config *, const struct dp_tables *memory,
                      const struct oxdp_table_callbacks *, struct oxdp_table **ret_table);
void oxdp_table_destroy(struct oxdp_table *);           /* NULL is allowed.  The caller's 'memory' stays. */

struct dp_tables *oxdp_table_memory(struct oxdp_table *);

struct oxdp_flow {
    const union dp_key *key;    /* Masked. */
    const union dp_key *mask;
    enum dp_fate fate;
    uint32_t n_ops;
    const struct dp_op *ops;    /* In order; code and arguments: 'needs', 'growth' and 'codes' of all are set here
                                 * from those of each, and u.blob of those that have some. */
    const struct dp_blob *blobs;    /* Of the operations, in their order: the n_blobs of each; DP_MAX_BLOBS at most. */
    struct oxdp_mask_hint *hint;    /* Of that mask, or NULL: finds it at once. */
    uint32_t arg;               /* Port or recirc_id. */
};

/* Where a mask was found last.  Zeroed at first, then written by oxdp_table_insert(). */
struct oxdp_mask_hint {
    uint32_t index;
    uint32_t id;
};

/* Why a flow does not fit.  X(name, text shown to people) */
#define OXDP_TABLE_FULL(X)                              \
    X(NONE,    "fits")                                  \
    X(FLOWS,   "no room for more flows")                \
    X(MASKS,   "no room for more masks")                \
    X(BUCKETS, "no room in the mask's hash table")      \
    X(OPS,     "no room for more operations")           \
    X(BLOBS,   "no room for more large arguments of operations") \
    X(WORDS,   "matches more fields at once than fit")

enum oxdp_table_full {
#define X(NAME, TEXT) OXDP_TABLE_FULL_##NAME,
    OXDP_TABLE_FULL(X)
#undef X
};
const char *oxdp_table_full_to_string(enum oxdp_table_full);

/* Publishes a flow.  Waits only if hash buckets run short and reclaiming can free some.  0, with its
 * index in '*ret_flow'; or -ENOSPC with the reason in '*ret_full', nothing changed: the engine runs the
 * flow.  A flow equal to one that is there is a second one: that is how a flow is changed, the old one
 * unlinked afterwards. */
int oxdp_table_insert(struct oxdp_table *, const struct oxdp_flow *, uint32_t *ret_flow,
                      enum oxdp_table_full *ret_full);

/* Hides a flow from lookups that begin from now on.  Its index stays taken until it is reclaimed. */
void oxdp_table_unlink(struct oxdp_table *, uint32_t flow);

/* Prefetch what oxdp_table_unlink() and its caller read: first the one for several flows, then the other, which needs
 * what the first fetched. */
void oxdp_table_prefetch(const struct oxdp_table *, uint32_t flow);
void oxdp_table_prefetch_bucket(const struct oxdp_table *, uint32_t flow);

/* Waits once for everything that was unlinked, then reports and frees it.  Returns how many flows. */
uint32_t oxdp_table_reclaim(struct oxdp_table *);

/* The same in two steps, so that the caller can release its lock while it waits (core/kernel/grace.h)
 * between them; what is unlinked meanwhile waits for the next reclaiming.  One thread at a time.  The first
 * returns false if there is nothing to do; then the second must not follow. */
bool oxdp_table_reclaim_begin(struct oxdp_table *);
uint32_t oxdp_table_reclaim_end(struct oxdp_table *);

/* Replaces the 'reclaimed' callback; both callbacks get 'aux'. */
void oxdp_table_on_reclaim(struct oxdp_table *,
                           void (*reclaimed)(void *aux, uint32_t flow, const struct dp_stats *final), void *aux);

/* The flow's sum over all shards. */
void oxdp_table_stats(const struct oxdp_table *, uint32_t flow, struct dp_stats *ret_stats);

/* Its packets alone; those of 'n' flows from 'first' on, in the order of memory. */
uint64_t oxdp_table_packets(const struct oxdp_table *, uint32_t flow);
void oxdp_table_packets_of(const struct oxdp_table *, uint32_t first, uint32_t n, uint64_t ret_packets[]);

/* Moves the masks that matched most packets since the last call to the front.  Reads every flow's
 * statistics. */
void oxdp_table_rank_masks(struct oxdp_table *);

/* Hits in the last-flow cache (dp/predict.h), in all. */
uint64_t oxdp_table_predicted(const struct oxdp_table *);

/* One of the masks that lookups try: the 'position'th, of oxdp_table_usage()'s 'masks'. */
struct oxdp_table_mask_info {
    union dp_key words;
    uint32_t n_flows;
    uint32_t example;           /* One of its flows, or DP_NO_FLOW. */
    union dp_key example_key;
    uint64_t packets;           /* That matched the flows it has now. */
};

/* Reads every flow's statistics once and fills 'ret_masks', which has room for DP_MAX_MASKS.  Returns how
 * many. */
uint32_t oxdp_table_masks(const struct oxdp_table *, struct oxdp_table_mask_info *ret_masks);

/* The masked key and the mask of a flow.  False: there is none with that index. */
bool oxdp_table_match(const struct oxdp_table *, uint32_t flow, union dp_key *ret_key, union dp_key *ret_mask);

struct oxdp_table_usage {
    uint32_t flows;             /* Linked. */
    uint32_t unlinked;          /* Waiting for oxdp_table_reclaim(). */
    uint32_t masks;
    uint32_t free_buckets;
    uint32_t free_ops;
    uint32_t free_blobs;
};
void oxdp_table_usage(const struct oxdp_table *, struct oxdp_table_usage *);

#endif /* core/tables/table.h */
