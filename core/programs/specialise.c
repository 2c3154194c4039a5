/* SPDX-License-Identifier: Apache-2.0 */
/* The specialised program, without what no flow needs (docs/decisions/0006).
 *
 * A complete program is always loaded.  About two seconds after flows stop needing something new, a thread loads a
 * program that omits what no flow needs, and attaches that instead.  The first flow that needs more brings the complete
 * program back, before the flow is in the tables: nothing has to be verified then.  Both are right for all flows
 * (dp/omit.h); only speed differs.  Programs of users are specialised like ours. */
#include "core/probe.h"
#include "core/programs/specialise.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/programs/attachment.h"
#include "core/programs/load.h"
#include "core/programs/program.h"
#include "core/programs/progs.h"
#include "core/programs/progs_struct.h"

#define QUIET_TICKS 1           /* Without a flow that needs something new, before a program is specialised. */
#define SHRINK_TICKS 30         /* Between checks whether flows need less now. */

static void *work(void *progs);
static void require(struct oxdp_progs *progs, const struct oxdp_needs *needs) OXDP_REQUIRES(oxdp_special_mutex);
static int specialise(struct oxdp_progs *progs) OXDP_REQUIRES(oxdp_special_mutex);
static int load_all(struct oxdp_progs *progs, const struct dp_omit *omit) OXDP_REQUIRES(oxdp_special_mutex);
static void exchange_all(struct oxdp_progs *progs, const struct dp_omit *omit) OXDP_REQUIRES(oxdp_special_mutex);
static void discard_all(struct oxdp_progs *progs) OXDP_REQUIRES(oxdp_special_mutex);
static void activate(struct oxdp_progs *progs, bool omitting) OXDP_REQUIRES(oxdp_special_mutex);

void oxdp_special_lock(struct oxdp_progs *progs)
    OXDP_NO_LOCK_ANALYSIS
{
    pthread_mutex_lock(&progs->special.mutex);
}

void oxdp_special_unlock(struct oxdp_progs *progs)
    OXDP_NO_LOCK_ANALYSIS
{
    pthread_mutex_unlock(&progs->special.mutex);
}

int oxdp_special_start(struct oxdp_progs *progs)
{
    struct oxdp_special *s = &progs->special;
    int err;

    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->wake, NULL);
    pthread_cond_init(&s->done, NULL);
    err = pthread_create(&s->thread, NULL, work, progs);
    s->running = !err;
    return -err;
}

void oxdp_special_stop(struct oxdp_progs *progs)
{
    struct oxdp_special *s = &progs->special;

    if (!s->running) {
        return;
    }
    oxdp_special_lock(progs);
    s->stop = true;
    pthread_cond_signal(&s->wake);
    oxdp_special_unlock(progs);
    oxdp_load_give_up(s->thread);
    pthread_cond_destroy(&s->done);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->mutex);
    s->running = false;
}

void oxdp_progs_require(struct oxdp_progs *progs, const struct oxdp_flow *flow)
{
    struct oxdp_needs needs = oxdp_needs_of_flow(flow);
    struct oxdp_special *s = &progs->special;

    /* Most flows need the same as those before, which programs have. */
    if (s->told_looks == __atomic_load_n(&s->looks, __ATOMIC_ACQUIRE) && !(needs.parts & ~s->told.parts)
        && !(needs.words & ~s->told.words) && !(needs.ops & ~s->told.ops)) {
        return;
    }
    oxdp_special_lock(progs);
    require(progs, &needs);
    if (s->told_looks != s->looks) {
        s->told_looks = s->looks;
        memset(&s->told, 0, sizeof s->told);
    }
    oxdp_needs_add(&s->told, &needs);
    oxdp_special_unlock(progs);
}

void oxdp_special_begin_attach(struct oxdp_progs *progs, uint32_t parts)
{
    const struct oxdp_needs needs = { .parts = parts };

    oxdp_special_lock(progs);
    require(progs, &needs);
}

void oxdp_special_end_attach(struct oxdp_progs *progs)
{
    oxdp_special_unlock(progs);
}

void oxdp_special_trace(struct oxdp_progs *progs, const struct oxdp_needs *needs)
{
    struct oxdp_special *s = &progs->special;

    oxdp_special_lock(progs);
    memset(&s->traced, 0, sizeof s->traced);
    if (needs) {
        s->traced = *needs;
        require(progs, needs);
    }
    s->quiet = 0;               /* A program for just that comes soon. */
    oxdp_special_unlock(progs);
}

void oxdp_special_renew(struct oxdp_progs *progs)
{
    activate(progs, progs->special.omitting);
}

static void require(struct oxdp_progs *progs, const struct oxdp_needs *needs)
    OXDP_REQUIRES(oxdp_special_mutex)
{
    struct oxdp_special *s = &progs->special;
    struct oxdp_needs wanted = s->wanted;

    if (s->omitting && !oxdp_needs_met(needs, &s->omit)) {
        activate(progs, false);
    }
    if (s->looking) {
        oxdp_needs_add(&s->meanwhile, needs);
    }
    if (!s->made || !oxdp_needs_met(needs, &s->omit)) {
        oxdp_needs_add(&s->wanted, needs);
        if (memcmp(&wanted, &s->wanted, sizeof wanted)) {
            s->quiet = 0;
        }
    }
}

void oxdp_progs_tick(struct oxdp_progs *progs)
{
    struct oxdp_special *s = &progs->special;

    oxdp_special_lock(progs);
    s->quiet++;
    if (s->quiet == QUIET_TICKS + 1 || s->quiet % SHRINK_TICKS == 0) {
        s->asked++;
        pthread_cond_signal(&s->wake);
    }
    oxdp_special_unlock(progs);
}

int oxdp_progs_specialise(struct oxdp_progs *progs)
{
    struct oxdp_special *s = &progs->special;
    uint64_t asked;
    int err;

    oxdp_special_lock(progs);
    asked = ++s->asked;
    pthread_cond_signal(&s->wake);
    while (s->answered < asked) {
        pthread_cond_wait(&s->done, &s->mutex);
    }
    err = s->error;
    oxdp_special_unlock(progs);
    return err;
}

struct dp_omit oxdp_progs_omitted(struct oxdp_progs *progs)
{
    struct dp_omit omit = { .parts = 0 };

    oxdp_special_lock(progs);
    if (progs->special.omitting) {
        omit = progs->special.omit;
    }
    oxdp_special_unlock(progs);
    return omit;
}

static void *work(void *progs_)
{
    struct oxdp_progs *progs = progs_;
    struct oxdp_special *s = &progs->special;

    oxdp_special_lock(progs);
    while (!s->stop) {
        if (s->answered == s->asked) {
            pthread_cond_wait(&s->wake, &s->mutex);
            continue;
        }

        uint64_t asked = s->asked;

        s->error = specialise(progs);
        s->answered = asked;
        pthread_cond_broadcast(&s->done);
    }
    oxdp_special_unlock(progs);
    return NULL;
}

/* The mutex is free while flows are looked at and programs load. */
static int specialise(struct oxdp_progs *progs)
    OXDP_REQUIRES(oxdp_special_mutex)
{
    struct oxdp_special *s = &progs->special;
    struct oxdp_needs needs;
    struct dp_omit omit;
    int err = 0;

    s->looking = true;
    __atomic_store_n(&s->looks, s->looks + 1, __ATOMIC_RELEASE);
    memset(&s->meanwhile, 0, sizeof s->meanwhile);
    oxdp_special_unlock(progs);

    needs = oxdp_needs_of_table(progs->table);

    bool any = needs.parts;

    oxdp_special_lock(progs);
    for (uint32_t i = 0; i < progs->max_ports; i++) {
        const struct oxdp_attachment *at = &progs->attachments[i];

        needs.parts |= at->ifindex && at->link_fd >= 0 ? oxdp_attachment_parts(at) : 0;
    }
    oxdp_needs_add(&needs, &s->traced);
    omit = oxdp_needs_complement(&needs);
    if (any) {
        err = load_all(progs, &omit);
    }
    s->looking = false;
    if (!any || err) {
        discard_all(progs);
        return err;             /* The present programs stay. */
    }
    if (!oxdp_needs_met(&s->meanwhile, &omit)) {
        discard_all(progs);
        s->quiet = 0;
        return -EAGAIN;
    }
    exchange_all(progs, &omit);
    memset(&s->wanted, 0, sizeof s->wanted);
    return 0;
}

/* Loads each program that does not omit exactly 'omit', as its 'new_fd'.  Returns the error of the library's.  A user's
 * that does not load stays complete.  The mutex is free while a program loads. */
static int load_all(struct oxdp_progs *progs, const struct dp_omit *omit)
    OXDP_REQUIRES(oxdp_special_mutex)
{
    struct oxdp_special *s = &progs->special;
    bool same = s->made && !memcmp(omit, &s->omit, sizeof *omit);
    struct oxdp_program **all;
    size_t n = 0;
    int ret = 0;

    for (struct oxdp_program *program = progs->programs; program; program = program->next) {
        n++;
    }
    all = calloc(n, sizeof *all);
    if (!all) {
        return -ENOMEM;
    }
    n = 0;
    for (struct oxdp_program *program = progs->programs; program; program = program->next) {
        if (!program->bare && (!same || program->special_fd < 0)) {
            program->n_users++;
            all[n++] = program;
        }
    }
    for (size_t i = 0; i < n; i++) {
        const struct oxdp_constants constants = progs->memory.constants;
        struct dp_capability capability;
        char *error = NULL;
        bool multi_buffer;
        int fd = -1;
        int err;

        oxdp_special_unlock(progs);
        err = oxdp_program_load(progs, all[i], &constants, omit, &fd, &capability, &multi_buffer, &error);
        free(error);
        oxdp_special_lock(progs);
        all[i]->new_fd = err ? -1 : fd;
        ret = all[i]->file ? ret : err;
    }
    for (size_t i = 0; i < n; i++) {
        oxdp_program_put(progs, all[i]);
    }
    free(all);
    return ret;
}

/* Puts the programs of load_all() on their devices. */
static void exchange_all(struct oxdp_progs *progs, const struct dp_omit *omit)
    OXDP_REQUIRES(oxdp_special_mutex)
{
    struct oxdp_special *s = &progs->special;
    bool same = s->made && !memcmp(omit, &s->omit, sizeof *omit);
    bool news = !s->omitting;

    for (struct oxdp_program *program = progs->programs; program; program = program->next) {
        if (!same || program->new_fd >= 0) {
            if (program->special_fd >= 0) {
                close(program->special_fd);     /* Links that it runs on hold it. */
            }
            program->special_fd = program->new_fd;
            program->new_fd = -1;
            news = true;
        }
    }
    s->omit = *omit;
    s->made = true;
    if (news) {
        activate(progs, true);
    }
}

static void discard_all(struct oxdp_progs *progs)
    OXDP_REQUIRES(oxdp_special_mutex)
{
    for (struct oxdp_program *program = progs->programs; program; program = program->next) {
        if (program->new_fd >= 0) {
            close(program->new_fd);
            program->new_fd = -1;
        }
    }
}

/* Replaces the program of every link, each atomically.  A link that cannot be updated, because its device is gone,
 * keeps its program, which is correct as well. */
static void activate(struct oxdp_progs *progs, bool omitting)
    OXDP_REQUIRES(oxdp_special_mutex)
{
    struct oxdp_special *s = &progs->special;

    OXDP_PROBE2(program_exchanged, (int) omitting, s->replaced);
    s->omitting = omitting;
    for (uint32_t i = 0; i < progs->max_ports; i++) {
        const struct oxdp_attachment *at = &progs->attachments[i];

        if (at->ifindex && at->link_fd >= 0 && at->pass_fd < 0 && !at->old_program) {
            bpf_link_update(at->link_fd, oxdp_program_fd(progs, oxdp_program_of(progs, at->port.port_no)), NULL);
        }
    }
    s->replaced++;
}
