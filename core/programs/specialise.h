/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that specialises programs: core/programs/specialise.c. */
#ifndef OXDP_SPECIALISE_H
#define OXDP_SPECIALISE_H 1

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/tables/need.h"
#include "dp/omit.h"

struct oxdp_progs;

/* Under 'mutex', as is attaching. */
struct oxdp_special {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    pthread_cond_t done;
    pthread_t thread;
    bool running;
    bool stop;
    bool made;                          /* There are specialised programs. */
    struct dp_omit omit;                /* What they omit. */
    bool omitting;                      /* They run, not the complete ones. */
    bool looking;                       /* The thread looks at flows or loads a program ... */
    struct oxdp_needs meanwhile;        /* ... and this is what flows that came since then need. */
    uint32_t looks;                     /* Times that it began to; read without the mutex. */
    struct oxdp_needs wanted;           /* By flows for which there is no specialised program. */
    struct oxdp_needs told;             /* By flows since look 'told_looks': calls that add nothing return early. */
    uint32_t told_looks;                /* Both are the caller's of oxdp_progs_require(). */
    struct oxdp_needs traced;           /* By tracing, DP_PART_TRACE among it; nothing while nobody traces. */
    uint32_t quiet;                     /* Ticks since that changed. */
    uint64_t asked, answered;           /* Times that the thread was asked to specialise. */
    uint64_t replaced;                  /* Times that programs were. */
    int error;                          /* Of the last answer. */
};

/* Starts and stops the thread.  0 or a negative errno. */
int oxdp_special_start(struct oxdp_progs *progs);
void oxdp_special_stop(struct oxdp_progs *progs);

/* Has programs with what tracing needs, 'needs', from now on; NULL: tracing has ended. */
void oxdp_special_trace(struct oxdp_progs *progs, const struct oxdp_needs *needs);

/* Gives every link the program that its port has now.  Called with the mutex. */
void oxdp_special_renew(struct oxdp_progs *progs);

/* Call these before and after a link is made or updated.  Between them its program is oxdp_program_fd() of its port's. */
void oxdp_special_begin_attach(struct oxdp_progs *progs, bool local_stack);
void oxdp_special_end_attach(struct oxdp_progs *progs);

#endif /* core/programs/specialise.h */
