/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share. */
#ifndef OXDP_CT_PRIVATE_H
#define OXDP_CT_PRIVATE_H 1

#include <pthread.h>

#include "core/ct/ct.h"
#include "core/locks.h"
#include "dp/seam_native.h"
#include "dp/ct.h"
#include "dp/path_table.h"

/* A connection that was copied. */
struct oxdp_ct_copied {
    uint32_t from;              /* Its index in the old tables. */
    uint32_t generation;        /* Of its entry in the new ones; 0: none was copied there. */
    struct dp_ct_words words;   /* What was copied last. */
};

struct oxdp_ct {
    struct dp_ct_tables mem;
    struct dp_ctx ctx;          /* No packet, only the tables: for dp_ct_find() and others. */
    struct oxdp_ct_config config;
    int fd[OXDP_CT_N_TABLES];
    bool adopted;
    bool unreadable;            /* What the previous instance left. */
    uint32_t kept, lost;        /* By oxdp_ct_create(). */

    /* Of core/ct/ct_path.c: the path cache, if these are maps; and what the sweeper alone has in hand. */
    struct dp_path_tables paths;
    int path_fd[OXDP_PATH_N_TABLES];
    uint32_t micro_next;        /* Its place among microflows. */
    uint32_t swept_at;          /* Ticks. */
    bool port_seen[DP_PATH_PORTS];      /* As of dp_path_head, in this round through all microflows. */
    bool paths_wait;            /* Whether paths are out of date and not free yet; */
    uint8_t path_rounds[DP_PATH_MAX];   /* since how many rounds. */

    pthread_mutex_t mutex;      /* oxdp_ct_mutex: of all below, and of who lets connections leave. */
    uint32_t *ended OXDP_GUARDED_BY(oxdp_ct_mutex);         /* Indexes that left and may be in buckets; 'n' at most. */
    uint32_t n_ended OXDP_GUARDED_BY(oxdp_ct_mutex);
    uint32_t *limbo OXDP_GUARDED_BY(oxdp_ct_mutex);         /* Those that are not, and not free yet, 'n' at most, */
    uint32_t n_limbo OXDP_GUARDED_BY(oxdp_ct_mutex);
    uint32_t n_waiting OXDP_GUARDED_BY(oxdp_ct_mutex);      /* and how many of them reclaiming began with. */
    uint32_t sweep_next OXDP_GUARDED_BY(oxdp_ct_mutex);     /* The sweeper's place, */
    uint32_t sweep_seen OXDP_GUARDED_BY(oxdp_ct_mutex);     /* connections that it saw in this round, */
    uint32_t sweep_wanted OXDP_GUARDED_BY(oxdp_ct_mutex);   /* and how many there were when it began. */

    struct oxdp_ct_marks_index *marks OXDP_GUARDED_BY(oxdp_ct_mutex);
    /* oxdp_ct_policy_get() without _put(). */
    uint32_t policy_holders[OXDP_CT_POLICIES] OXDP_GUARDED_BY(oxdp_ct_mutex);
    /* Until oxdp_ct_taken_over(): tables of another size, and by index what was copied from them; NULL: nothing. */
    struct dp_ct_tables old;
    int old_fd[OXDP_CT_N_TABLES];
    struct oxdp_ct_other *other;        /* Of another layout: what 'old', memory of this process, was made of. */
    struct oxdp_ct_copied *copied;
    /* What flows of the previous instance's programs may name, until oxdp_ct_taken_over(): by pair, whether it is held
     * for them;
     * NULL: nothing.  All policies are.  Made by oxdp_ct_create(). */
    bool *inherited OXDP_GUARDED_BY(oxdp_ct_mutex);
};

static inline void oxdp_ct_lock(struct oxdp_ct *ct)
    OXDP_ACQUIRES(oxdp_ct_mutex)
    OXDP_NO_LOCK_ANALYSIS
{
    pthread_mutex_lock(&ct->mutex);
}

static inline void oxdp_ct_unlock(struct oxdp_ct *ct)
    OXDP_RELEASES(oxdp_ct_mutex)
    OXDP_NO_LOCK_ANALYSIS
{
    pthread_mutex_unlock(&ct->mutex);
}

/* core/ct/ct_memory.c.  Makes tables for 'n' connections, maps them.  'old_fd': these, if all have the right sizes,
 * else -ESTALE.  0 or a negative errno. */
int oxdp_ct_memory_create(uint32_t n, bool maps, const int old_fd[OXDP_CT_N_TABLES], struct dp_ct_tables *,
                          int fd[OXDP_CT_N_TABLES]);
void oxdp_ct_memory_destroy(struct dp_ct_tables *, int fd[OXDP_CT_N_TABLES]);

/* Makes one table, or maps the map 'old_fd' if that is not negative.  0 or a negative errno. */
int oxdp_ct_memory_table(size_t bytes, bool maps, int old_fd, void **ret, int *ret_fd);
/* Memory of this process for 'n' numbers, all zeros, of which nothing is touched before it is used; calloc() may write
 * it all.  NULL if there is none. */
uint32_t *oxdp_ct_memory_numbers(size_t n);
void oxdp_ct_memory_free_numbers(uint32_t *, size_t n);         /* NULL is allowed. */
void oxdp_ct_memory_unmap(void *table, size_t bytes, int fd);   /* NULL and -1 are allowed. */
uint32_t oxdp_ct_memory_buckets(uint32_t n);    /* 'n', or the next power of two. */

/* core/ct/ct_path.c.  oxdp_ct_paths_create() returns 0 or a negative errno; without it there is no path cache. */
void oxdp_ct_paths_init(struct oxdp_ct *);
int oxdp_ct_paths_create(struct oxdp_ct *);
void oxdp_ct_paths_destroy(struct oxdp_ct *);
void oxdp_ct_paths_refresh(struct oxdp_ct *);   /* Policies have changed. */

/* Gives up what is out of date, among the next microflows.  Returns whether the sweeper is to wait, until no program
 * runs that ran when this returned, before it calls it again. */
bool oxdp_ct_paths_sweep(struct oxdp_ct *);

/* The number of connections that these maps have room for, 0 if they are not such maps. */
uint32_t oxdp_ct_memory_n(const int fd[OXDP_CT_N_TABLES]);

/* core/ct/ct_adopt.c.  From when this returns on no program makes connections in the tables with this head. */
void oxdp_ct_freeze(struct oxdp_ct *, struct dp_ct_head *);

/* core/ct/ct_adopt.c.  Makes adopted tables consistent; copies the connections of ct->old, tables of another size or
 * layout, and notes which in ct->copied.  0 or -ENOMEM. */
int oxdp_ct_adopt(struct oxdp_ct *);
int oxdp_ct_copy(struct oxdp_ct *);
void oxdp_ct_copy_end(struct oxdp_ct *) OXDP_REQUIRES(oxdp_ct_mutex);   /* If connections were copied. */

/* core/ct/ct_other.c.  Makes ct->old of tables of another layout, of which programs may write; again, of what packets
 * change; and forgets them.  From when the first returns no program makes connections there.  0, or a negative errno:
 * -ESTALE if that is not possible. */
int oxdp_ct_other_open(struct oxdp_ct *, const int old_fd[OXDP_CT_N_TABLES], const struct oxdp_ct_layout *);
void oxdp_ct_other_refresh(struct oxdp_ct *);
uint32_t *oxdp_ct_other_no_seq_check(struct oxdp_ct *);         /* Where their head has it; NULL: nowhere. */
void oxdp_ct_other_close(struct oxdp_ct *);

/* Rebuilds the free list from the entries' flags. */
void oxdp_ct_list_free(struct oxdp_ct *);

/* The connection 'index', which is in use, leaves: it is found by nobody, counted nowhere, and no dump has it. */
void oxdp_ct_leave(struct oxdp_ct *, uint32_t index) OXDP_REQUIRES(oxdp_ct_mutex);

/* core/ct/ct_marks.c.  Pairs of mark and label, of which each connection holds one.  The first four are called
 * while nobody else has the tables.  Pair 0 is that of zeros, and what oxdp_ct_marks_get() returns if there is no room.
 * The content of a pair that nobody holds stays until oxdp_ct_marks_reclaim_end(). */
int oxdp_ct_marks_create(struct oxdp_ct *);
void oxdp_ct_marks_destroy(struct oxdp_ct *);
bool oxdp_ct_marks_hold(struct oxdp_ct *, uint32_t i);  /* Of an adopted connection; false if 'i' is no pair. */
void oxdp_ct_marks_rebuild(struct oxdp_ct *);   /* After all of them. */
uint32_t oxdp_ct_marks_get(struct oxdp_ct *, uint32_t mark, const uint64_t label[2]) OXDP_REQUIRES(oxdp_ct_mutex);
void oxdp_ct_marks_put(struct oxdp_ct *, uint32_t i) OXDP_REQUIRES(oxdp_ct_mutex);
bool oxdp_ct_marks_reclaim_begin(struct oxdp_ct *) OXDP_REQUIRES(oxdp_ct_mutex);
void oxdp_ct_marks_reclaim_end(struct oxdp_ct *) OXDP_REQUIRES(oxdp_ct_mutex);

#endif /* core/ct/ct_private.h */
