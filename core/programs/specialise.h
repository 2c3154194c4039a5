/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that specialises programs: core/programs/specialise.c. */
#ifndef OXDP_SPECIALISE_H
#define OXDP_SPECIALISE_H 1

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/locks.h"
#include "core/tables/need.h"
#include "dp/omit.h"

struct oxdp_progs;

/* Attaching is under 'mutex', too. */
struct oxdp_special {
    pthread_mutex_t mutex;              /* oxdp_special_mutex. */
    pthread_cond_t wake;
    pthread_cond_t done;
    pthread_t thread;
    bool running;
    bool stop OXDP_GUARDED_BY(oxdp_special_mutex);
    bool made OXDP_GUARDED_BY(oxdp_special_mutex);              /* There are specialised programs. */
    struct dp_omit omit OXDP_GUARDED_BY(oxdp_special_mutex);    /* What they omit. */
    bool omitting OXDP_GUARDED_BY(oxdp_special_mutex);          /* They run, not the complete ones. */
    bool looking OXDP_GUARDED_BY(oxdp_special_mutex);           /* The thread looks at flows or loads a program ... */
    struct oxdp_needs meanwhile OXDP_GUARDED_BY(oxdp_special_mutex);    /* ... and flows that came since then need
                                                                         * this. */
    uint32_t looks;                     /* Times that it began to; written under the mutex, read without. */
    struct oxdp_needs wanted OXDP_GUARDED_BY(oxdp_special_mutex);       /* By flows for which there is no specialised
                                                                         * program. */
    struct oxdp_needs told;             /* By flows since look 'told_looks': calls that add nothing return early. */
    uint32_t told_looks;                /* Both are the caller's of oxdp_progs_require(). */
    /* By tracing, DP_PART_TRACE among it; nothing while no trace runs. */
    struct oxdp_needs traced OXDP_GUARDED_BY(oxdp_special_mutex);
    uint32_t quiet OXDP_GUARDED_BY(oxdp_special_mutex);         /* Ticks since that changed. */
    uint64_t asked OXDP_GUARDED_BY(oxdp_special_mutex);         /* Times that the thread was asked to specialise. */
    uint64_t answered OXDP_GUARDED_BY(oxdp_special_mutex);
    uint64_t replaced OXDP_GUARDED_BY(oxdp_special_mutex);      /* Times that programs were. */
    int error OXDP_GUARDED_BY(oxdp_special_mutex);              /* Of the last answer. */
};

/* Starts and stops the thread.  0 or a negative errno. */
int oxdp_special_start(struct oxdp_progs *progs);
void oxdp_special_stop(struct oxdp_progs *progs);

/* Has programs with what tracing needs, 'needs', from now on; NULL: tracing has ended. */
void oxdp_special_trace(struct oxdp_progs *progs, const struct oxdp_needs *needs);

void oxdp_special_lock(struct oxdp_progs *progs) OXDP_ACQUIRES(oxdp_special_mutex);
void oxdp_special_unlock(struct oxdp_progs *progs) OXDP_RELEASES(oxdp_special_mutex);

/* Gives every link the program that its port has now. */
void oxdp_special_renew(struct oxdp_progs *progs) OXDP_REQUIRES(oxdp_special_mutex);

/* Call these before and after a link is made or updated.  Between them its program is oxdp_program_fd() of its port's,
 * and has 'parts'. */
void oxdp_special_begin_attach(struct oxdp_progs *progs, uint32_t parts) OXDP_ACQUIRES(oxdp_special_mutex);
void oxdp_special_end_attach(struct oxdp_progs *progs) OXDP_RELEASES(oxdp_special_mutex);

#endif /* core/programs/specialise.h */
