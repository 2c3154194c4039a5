/* SPDX-License-Identifier: Apache-2.0 */
#include "core/programs/track.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/ct/ct.h"
#include "core/programs/load.h"
#include "core/programs/maps.h"
#include "core/programs/pin.h"
#include "core/programs/program.h"
#include "core/programs/progs_struct.h"
#include "core/programs/tcx_private.h"

/* A program, loaded once more. */
struct loaded {
    struct oxdp_program *program;       /* The list holds it: it has one user more. */
    int fd;                             /* -1: the kernel refuses it. */
    struct dp_capability capability;
    bool multi_buffer;
};

/* What the thread has in hand.  It writes all but the last two, and nobody reads them until 'done'. */
struct oxdp_track {
    struct oxdp_progs *progs;
    pthread_t thread;
    struct oxdp_constants constants;    /* With the tables of connections. */
    struct loaded *programs;
    size_t n;
    const struct oxdp_tcx *tcx;         /* NULL: there was none. */
    struct bpf_object *object;          /* Of tcx. */
    int err;                            /* Of the library's programs. */
    char *error;
    void (*call)(void *aux);
    void *aux;
    bool done;                          /* Atomic. */
};

static const struct dp_omit nothing;

static void set_tables(struct oxdp_constants *constants, const struct oxdp_ct *ct)
{
    int fd[OXDP_CT_N_TABLES], path_fd[OXDP_PATH_N_TABLES];

    for (int i = 0; i < OXDP_CT_N_TABLES; i++) {
        fd[i] = oxdp_ct_fd(ct, i);
    }
    for (int i = 0; i < OXDP_PATH_N_TABLES; i++) {
        path_fd[i] = oxdp_ct_path_fd(ct, i);
    }
    oxdp_constants_set_ct(constants, oxdp_ct_tables((struct oxdp_ct *) ct), fd, oxdp_ct_paths(ct), path_fd);
}

void oxdp_track_set(struct oxdp_progs *progs, const struct oxdp_ct *ct)
{
    oxdp_special_lock(progs);
    set_tables(&progs->memory.constants, ct);
    oxdp_special_unlock(progs);
}

bool oxdp_track_is_on(const struct oxdp_progs *progs)
{
    bool all = oxdp_maps_have_ct(progs) && (!progs->tcx || progs->tcx->over_ct);

    for (const struct oxdp_program *program = progs->programs; program; program = program->next) {
        all = all && program->over_ct;
    }
    return all;
}

/* The thread.  The mutex is free while a program loads. */
static void *work(void *track_)
{
    struct oxdp_track *track = track_;

    for (size_t i = 0; i < track->n && !track->err; i++) {
        struct loaded *loaded = &track->programs[i];
        char *error = NULL;
        int err = oxdp_program_load(track->progs, loaded->program, &track->constants, &nothing, &loaded->fd,
                                    &loaded->capability, &loaded->multi_buffer, &error);

        if (err) {
            loaded->fd = -1;
        }
        if (err && !loaded->program->file) {
            track->err = err;
            track->error = error;
        } else {
            free(error);
        }
    }
    if (!track->err && track->tcx) {
        track->err = oxdp_tcx_load_over(track->tcx, &track->constants, false, &track->object, &track->error);
    }
    __atomic_store_n(&track->done, true, __ATOMIC_RELEASE);
    track->call(track->aux);
    return NULL;
}

/* Takes the programs that are not over the tables. */
static int take_programs(struct oxdp_progs *progs, struct oxdp_track *track)
{
    struct oxdp_program *program;
    size_t n = 0;

    for (program = progs->programs; program; program = program->next) {
        n++;
    }
    track->programs = calloc(n, sizeof *track->programs);
    if (!track->programs) {
        return -ENOMEM;
    }
    oxdp_special_lock(progs);
    for (program = progs->programs; program; program = program->next) {
        if (!program->over_ct) {
            program->n_users++;
            track->programs[track->n++] = (struct loaded) { .program = program, .fd = -1 };
        }
    }
    oxdp_special_unlock(progs);
    return 0;
}

/* Frees what the thread, which has ended, loaded and nobody took. */
static void destroy(struct oxdp_progs *progs, struct oxdp_track *track)
{
    oxdp_special_lock(progs);
    for (size_t i = 0; i < track->n; i++) {
        if (track->programs[i].fd >= 0) {
            close(track->programs[i].fd);
        }
        oxdp_program_put(progs, track->programs[i].program);
    }
    oxdp_special_unlock(progs);
    bpf_object__close(track->object);
    free(track->programs);
    free(track->error);
    free(track);
}

int oxdp_track_begin(struct oxdp_progs *progs, const struct oxdp_ct *ct, void (*done)(void *aux), void *aux)
{
    struct oxdp_track *track = calloc(1, sizeof *track);
    int err;

    if (!track) {
        return -ENOMEM;
    }
    track->progs = progs;
    track->call = done;
    track->aux = aux;
    track->tcx = progs->tcx && !progs->tcx->over_ct ? progs->tcx : NULL;
    track->constants = progs->memory.constants;
    set_tables(&track->constants, ct);
    err = take_programs(progs, track);
    err = err ? err : -pthread_create(&track->thread, NULL, work, track);
    if (err) {
        destroy(progs, track);
        return err;
    }
    progs->track = track;
    return 0;
}

bool oxdp_track_has_begun(const struct oxdp_progs *progs)
{
    return progs->track;
}

bool oxdp_track_is_done(const struct oxdp_progs *progs)
{
    return progs->track && __atomic_load_n(&progs->track->done, __ATOMIC_ACQUIRE);
}

/* Puts the XDP programs in the place of those that there are.  Specialised ones, which omit CT, run on until a flow
 * needs it. */
static void exchange(struct oxdp_progs *progs, struct oxdp_track *track)
{
    oxdp_special_lock(progs);
    progs->memory.constants = track->constants;
    for (size_t i = 0; i < track->n; i++) {
        struct loaded *loaded = &track->programs[i];
        struct oxdp_program *program = loaded->program;

        program->over_ct = true;
        if (loaded->fd >= 0) {
            close(program->fd);         /* Links that it runs on hold it. */
            program->fd = loaded->fd;
            program->capability = loaded->capability;
            program->multi_buffer = loaded->multi_buffer;
            loaded->fd = -1;
        }
    }
    oxdp_special_renew(progs);
    oxdp_special_unlock(progs);
    oxdp_pins_remove(progs->pins, "xdp");
    oxdp_pins_add(progs->pins, "xdp", progs->programs->fd);
}

int oxdp_track_end(struct oxdp_progs *progs, char **ret_error)
{
    struct oxdp_track *track = progs->track;
    int err;

    pthread_join(track->thread, NULL);
    progs->track = NULL;
    err = track->err;
    if (err) {
        *ret_error = track->error;
        track->error = NULL;
    } else {
        exchange(progs, track);
        if (track->object) {
            oxdp_tcx_use(progs, track->object);
            track->object = NULL;
        }
    }
    destroy(progs, track);
    return err;
}

void oxdp_track_stop(struct oxdp_progs *progs)
{
    struct oxdp_track *track = progs->track;

    if (track) {
        oxdp_load_give_up(track->thread);
        progs->track = NULL;
        destroy(progs, track);
    }
}
