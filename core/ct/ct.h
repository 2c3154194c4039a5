/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of connections (dp/ct_table.h): making and adopting them, and what only userspace does to them.
 *
 * Packets are tracked by any thread at any time, with dp_ct() (dp/ct_run.h) over oxdp_ct_tables().  The functions here
 * may be called by any thread, too: they take a mutex of the tables for some tens of microseconds.  Two are of one
 * thread alone, the sweeper: oxdp_ct_sweep() and oxdp_ct_reclaim_*().
 *
 * A connection ends in steps.  It leaves: it is dead, so no lookup finds it, and in no count.  The rest is done by the
 * sweeper: it is taken out of its buckets, its index waits until no reader can hold it, and is free then. */
#ifndef OXDP_CT_H
#define OXDP_CT_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dp/ct_table.h"
#include "dp/path_table.h"

struct oxdp_ct;

enum oxdp_ct_table {
#define X(NAME, TYPE) OXDP_CT_##NAME,
    DP_CT_TABLES(X)
#undef X
    OXDP_CT_N_TABLES
};

enum oxdp_path_table {
#define X(NAME, TYPE) OXDP_PATH_##NAME,
    DP_PATH_TABLES(X)
#undef X
    OXDP_PATH_N_TABLES
};

#define OXDP_CT_DEFAULT_MAX 262144
#define OXDP_CT_LEAST_MAX 1024
#define OXDP_CT_MOST_MAX (1u << 22)     /* The largest element has 64 bytes; a map has 512 MB at most. */
#define OXDP_CT_DEFAULT_MAXCONNS 3000000        /* Open vSwitch's. */
#define OXDP_CT_POLICIES 256

/* How elements of the previous instance's tables, that have another layout, become ours: bytes that have the same
 * meaning.  What has no bytes there is 0. */
#define OXDP_CT_MOST_MOVES 64
struct oxdp_ct_layout {
    uint32_t size;              /* Of an element there. */
    uint32_t n;
    struct { uint32_t from, to, len; } move[OXDP_CT_MOST_MOVES];
};

struct oxdp_ct_config {
    uint32_t n;                 /* Connections that there is room for. */
    uint32_t hz;                /* Ticks in a second. */
    bool maps;                  /* BPF maps, which programs and the next process can share; else memory of this
                                 * process. */
    /* A connection leaves that has DP_CT_KEY_ENGINE: its entry is still there.  Called with the mutex.  May be NULL. */
    void (*left)(void *aux, uint32_t index);
    const struct oxdp_ct_layout *layout;        /* Of the previous instance's tables, all of them; NULL: it is ours. */
    /* Waits until no program runs that ran when it was called.  May be NULL if none make connections. */
    void (*grace)(void *aux);
    void *aux;
};

/* The name of a table's map: "ct_keys". */
const char *oxdp_ct_name(enum oxdp_ct_table);

/* Bytes that the tables take with room for 'n' connections. */
size_t oxdp_ct_bytes(uint32_t n);
size_t oxdp_ct_path_bytes(uint32_t n);          /* Those of the path cache, which tables that are maps have besides. */

/* Makes the tables.  'old_fd' (NULL: none) are those of the previous instance, all of them; they stay the
 * caller's.  Of the same size they are adopted: these maps themselves, with what is in them, except what a process that
 * was killed left undone.  Of another size, or layout, their connections are copied.  The previous instance's programs
 * may run meanwhile.  They make no connections until adopted tables are ready; in tables that were copied they make
 * none any more.  0 or a negative errno. */
int oxdp_ct_create(const struct oxdp_ct_config *, const int old_fd[OXDP_CT_N_TABLES], struct oxdp_ct **ret);

/* Connections that were copied get the state that the previous instance's programs have made of them meanwhile: call it
 * just before they are replaced.  Until oxdp_ct_taken_over() neither they nor ours, nor this process, check TCP's
 * sequence numbers: while the devices of a connection change over one by one, each table sees some of its segments. */
void oxdp_ct_catch_up(struct oxdp_ct *);

/* The programs of the previous instance, whose flows name pairs of marks and policies, are replaced on all devices.
 * Waits for those that still run. */
void oxdp_ct_taken_over(struct oxdp_ct *);
void oxdp_ct_destroy(struct oxdp_ct *);         /* Maps that are pinned live on.  NULL is allowed. */

struct dp_ct_tables *oxdp_ct_tables(struct oxdp_ct *);

/* The map of a table, -1 if it is memory of this process; and whether it was there before. */
int oxdp_ct_fd(const struct oxdp_ct *, enum oxdp_ct_table);

/* The path cache, NULL if the tables are memory of this process; and the map of a table of it. */
const struct dp_path_tables *oxdp_ct_paths(const struct oxdp_ct *);
int oxdp_ct_path_fd(const struct oxdp_ct *, enum oxdp_path_table);

bool oxdp_ct_adopted(const struct oxdp_ct *);

/* Whether the tables of the previous instance have another version or contradict themselves: none of its connections
 * goes on. */
bool oxdp_ct_unreadable(const struct oxdp_ct *);

/* How many connections of the previous instance go on, and how many do not because there is no room for them. */
void oxdp_ct_inherited(const struct oxdp_ct *, uint32_t *kept, uint32_t *lost);

/* Connections that expired or were killed leave: among the next entries, 'max' at most.  Returns true if a round
 * through all connections has ended. */
bool oxdp_ct_sweep(struct oxdp_ct *, uint32_t now, uint32_t max);

/* Takes out and frees what left before the first, and frees paths that are out of date: the caller waits between both
 * until no reader can hold them.  The first returns false if there is nothing to free; then the second must not
 * follow. */
bool oxdp_ct_reclaim_begin(struct oxdp_ct *);
void oxdp_ct_reclaim_end(struct oxdp_ct *);

/* The connections of 'zone' (-1: all) leave, before it returns; one that a program is making may stay.  Returns how
 * many. */
uint32_t oxdp_ct_flush(struct oxdp_ct *, int zone);

/* The connection 'index' leaves, if 'generation' is still its own. */
void oxdp_ct_remove(struct oxdp_ct *, uint32_t index, uint32_t generation);

/* The next living connection from '*position' (0 at first) on, of 'zone' (-1: any).  Returns false after the last.  The
 * caller is a reader: what it gets is not used again before its grace period. */
bool oxdp_ct_next(struct oxdp_ct *, uint32_t now, int zone, uint32_t *position, uint32_t *index);

/* Connection 'ref' (DP_CT_REF()), if it has not left, gets this mark and label.  Returns false, with nothing changed,
 * if there is no room for one more pair: connections have changed theirs more often than there are pairs since the last
 * reclaiming. */
bool oxdp_ct_remark(struct oxdp_ct *, uint32_t ref, uint32_t mark, const uint64_t label[2]);

/* The index of the timeout policy of these ticks, which is 0 for the default one; also 0 if all are in use.  The policy
 * stays while connections have it or until oxdp_ct_policy_put(). */
uint16_t oxdp_ct_policy_get(struct oxdp_ct *, const uint32_t ticks[DP_CT_N_TIMEOUTS]);
void oxdp_ct_policy_put(struct oxdp_ct *, uint16_t policy);
void oxdp_ct_policy_hold(struct oxdp_ct *, uint16_t policy);    /* Once more, what somebody has got. */

/* The index of a pair of mark and label, for connections that programs make: it stays until oxdp_ct_pair_put().  False
 * if there is no room. */
bool oxdp_ct_pair_get(struct oxdp_ct *, uint32_t mark, const uint64_t label[2], uint32_t *ret);
void oxdp_ct_pair_put(struct oxdp_ct *, uint32_t pair);

/* The ticks of the default policy, at first Open vSwitch's; and of 'seconds'. */
void oxdp_ct_set_default_policy(struct oxdp_ct *, const uint32_t ticks[DP_CT_N_TIMEOUTS]);
uint32_t oxdp_ct_to_ticks(const struct oxdp_ct *, uint32_t seconds);

/* Seconds until connection 'index' expires. */
uint32_t oxdp_ct_seconds_left(struct oxdp_ct *, uint32_t index, uint32_t now);

/* The limit of 'zone' (DP_CT_ZONE_DEFAULT: the one that all zones without their own share).  A new limit begins to
 * count at 0.  The last returns false if there is none. */
void oxdp_ct_limit_set(struct oxdp_ct *, uint32_t zone, uint32_t limit);
void oxdp_ct_limit_delete(struct oxdp_ct *, uint32_t zone);
bool oxdp_ct_limit_get(struct oxdp_ct *, uint32_t zone, uint32_t *limit, uint32_t *count);

/* Counts one expectation more (1) or less (-1) in 'zone'.  Returns false if there are too many, or none.  Callers come
 * one at a time; it takes no mutex, so 'left' may call it. */
bool oxdp_ct_expect(struct oxdp_ct *, uint16_t zone, int change);

#endif /* core/ct/ct.h */
