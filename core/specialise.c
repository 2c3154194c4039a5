/* SPDX-License-Identifier: Apache-2.0 */
/* The program that fits the flows: DESIGN's "specialised by the switch, not by hand".
 *
 * A complete program is always loaded.  When flows have come to rest, a thread loads one that omits what none of them
 * needs, and attaches that instead.  The first flow that needs more brings the complete one back, before it is in the
 * tables: nothing has to be verified then.  Whichever runs is right (dp/omit.h); this is about speed only. */
#include "core/prog_private.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/need.h"

#define QUIET_TICKS 1           /* Since flows needed something new, before a program is made for them. */
#define SHRINK_TICKS 30         /* Between looks at whether flows need less by now. */

static void *work(void *progs);
static void require(struct oxdp_progs *progs, const struct oxdp_needs *needs);
static int specialise(struct oxdp_progs *progs);
static void activate(struct oxdp_progs *progs, bool omitting);

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
    pthread_mutex_lock(&s->mutex);
    s->stop = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->mutex);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->done);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->mutex);
    if (s->prog_fd >= 0) {
        close(s->prog_fd);
    }
    s->running = false;
}

void oxdp_progs_require(struct oxdp_progs *progs, const struct oxdp_flow *flow)
{
    struct oxdp_needs needs = oxdp_needs_of_flow(flow);
    struct oxdp_special *s = &progs->special;

    pthread_mutex_lock(&s->mutex);
    require(progs, &needs);
    pthread_mutex_unlock(&s->mutex);
}

void oxdp_special_begin_attach(struct oxdp_progs *progs, bool local_stack)
{
    const struct oxdp_needs needs = { .parts = local_stack ? DP_PART_CHECKSUM : 0 };

    pthread_mutex_lock(&progs->special.mutex);
    require(progs, &needs);
}

int oxdp_special_prog(const struct oxdp_progs *progs)
{
    return progs->special.omitting ? progs->special.prog_fd : progs->prog_fd;
}

void oxdp_special_end_attach(struct oxdp_progs *progs)
{
    pthread_mutex_unlock(&progs->special.mutex);
}

/* Called with the mutex. */
static void require(struct oxdp_progs *progs, const struct oxdp_needs *needs)
{
    struct oxdp_special *s = &progs->special;
    struct oxdp_needs wanted = s->wanted;

    if (s->omitting && !oxdp_needs_met(needs, &s->omit)) {
        activate(progs, false);
    }
    if (s->looking) {
        oxdp_needs_add(&s->meanwhile, needs);
    }
    if (s->prog_fd < 0 || !oxdp_needs_met(needs, &s->omit)) {
        oxdp_needs_add(&s->wanted, needs);
        if (memcmp(&wanted, &s->wanted, sizeof wanted)) {
            s->quiet = 0;
        }
    }
}

void oxdp_progs_tick(struct oxdp_progs *progs)
{
    struct oxdp_special *s = &progs->special;

    pthread_mutex_lock(&s->mutex);
    s->quiet++;
    if (s->quiet == QUIET_TICKS + 1 || s->quiet % SHRINK_TICKS == 0) {
        s->asked++;
        pthread_cond_signal(&s->wake);
    }
    pthread_mutex_unlock(&s->mutex);
}

int oxdp_progs_specialise(struct oxdp_progs *progs)
{
    struct oxdp_special *s = &progs->special;
    uint64_t asked;
    int err;

    pthread_mutex_lock(&s->mutex);
    asked = ++s->asked;
    pthread_cond_signal(&s->wake);
    while (s->answered < asked) {
        pthread_cond_wait(&s->done, &s->mutex);
    }
    err = s->error;
    pthread_mutex_unlock(&s->mutex);
    return err;
}

struct dp_omit oxdp_progs_omitted(struct oxdp_progs *progs)
{
    struct dp_omit omit = { .parts = 0 };

    pthread_mutex_lock(&progs->special.mutex);
    if (progs->special.omitting) {
        omit = progs->special.omit;
    }
    pthread_mutex_unlock(&progs->special.mutex);
    return omit;
}

static void *work(void *progs_)
{
    struct oxdp_progs *progs = progs_;
    struct oxdp_special *s = &progs->special;

    pthread_mutex_lock(&s->mutex);
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
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

/* Called with the mutex, which is free while flows are looked at and a program loads. */
static int specialise(struct oxdp_progs *progs)
{
    struct oxdp_special *s = &progs->special;
    struct oxdp_needs needs;
    struct dp_omit omit;
    int fd = -1;
    int err = 0;

    s->looking = true;
    memset(&s->meanwhile, 0, sizeof s->meanwhile);
    pthread_mutex_unlock(&s->mutex);

    needs = oxdp_needs_of_table(progs->table);

    bool any = needs.parts;

    pthread_mutex_lock(&s->mutex);
    for (uint32_t i = 0; i < progs->max_ports; i++) {
        needs.parts |= progs->attachments[i].port.local_stack ? DP_PART_CHECKSUM : 0;
    }
    omit = oxdp_needs_complement(&needs);
    if (any && (s->prog_fd < 0 || memcmp(&omit, &s->omit, sizeof omit))) {
        char *error = NULL;

        pthread_mutex_unlock(&s->mutex);
        err = oxdp_program_load(progs, &omit, &fd, NULL, &error);
        free(error);
        pthread_mutex_lock(&s->mutex);
    }
    s->looking = false;
    if (err || !any) {
        return err;             /* The program that runs goes on. */
    }
    if (!oxdp_needs_met(&s->meanwhile, &omit)) {
        if (fd >= 0) {
            close(fd);
        }
        s->quiet = 0;
        return -EAGAIN;
    }
    if (fd >= 0) {
        int old = s->prog_fd;

        s->prog_fd = fd;
        s->omit = omit;
        activate(progs, true);
        if (old >= 0) {
            close(old);
        }
    } else if (!s->omitting) {
        activate(progs, true);
    }
    memset(&s->wanted, 0, sizeof s->wanted);
    return 0;
}

/* Replaces the program of every link, each atomically.  One that cannot be updated, because its device is gone, keeps
 * what it has, which is right as well.  Called with the mutex. */
static void activate(struct oxdp_progs *progs, bool omitting)
{
    struct oxdp_special *s = &progs->special;

    s->omitting = omitting;
    for (uint32_t i = 0; i < progs->max_ports; i++) {
        const struct oxdp_attachment *at = &progs->attachments[i];

        if (at->ifindex && at->link_fd >= 0 && !at->passes && !at->old_program) {
            bpf_link_update(at->link_fd, oxdp_special_prog(progs), NULL);
        }
    }
    s->replaced++;
}
