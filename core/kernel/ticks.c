/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/ticks.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>

#include "bpf/ticks.skel.h"

struct oxdp_ticks {
    struct ticks_bpf *skel;
    struct dp_ticks_sample sample;
    unsigned int hz;
};

int oxdp_ticks_open(struct oxdp_ticks **ret_ticks)
{
    struct oxdp_ticks *t = calloc(1, sizeof *t);
    int error = -ENOMEM;

    if (!t) {
        return -ENOMEM;
    }
    t->skel = ticks_bpf__open_and_load();
    if (!t->skel) {
        error = -errno;
        goto error;
    }
    error = oxdp_ticks_update(t);
    if (error) {
        goto error;
    }
    t->hz = oxdp_ticks_guess_hz(&t->sample);
    *ret_ticks = t;
    return 0;

error:
    oxdp_ticks_close(t);
    return error;
}

void oxdp_ticks_close(struct oxdp_ticks *t)
{
    if (t) {
        ticks_bpf__destroy(t->skel);
        free(t);
    }
}

int oxdp_ticks_update(struct oxdp_ticks *t)
{
    LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &t->sample, .ctx_size_in = sizeof t->sample);

    return bpf_prog_test_run_opts(bpf_program__fd(t->skel->progs.ticks), &opts) ? -errno : 0;
}

int64_t oxdp_ticks_to_ms(const struct oxdp_ticks *t, uint64_t ticks)
{
    return ticks ? (int64_t) (t->sample.now / 1000000) - ((int64_t) (t->sample.ticks - ticks) * 1000) / t->hz : 0;
}

uint64_t oxdp_ticks_after(const struct oxdp_ticks *t, unsigned int ms)
{
    return t->sample.ticks + (uint64_t) ms * t->hz / 1000;
}

unsigned int oxdp_ticks_per_second(const struct oxdp_ticks *t)
{
    return t->hz;
}

/* Jiffies start five minutes before 2^32 at boot (INITIAL_JIFFIES, include/linux/jiffies.h), when CLOCK_MONOTONIC
 * starts at 0: for each rate that kernels are built with, their present value can be computed.  Around five minutes of
 * uptime all foretell the same, and the usual 250 is as good as any: ages are short then. */
unsigned int oxdp_ticks_guess_hz(const struct dp_ticks_sample *sample)
{
    static const unsigned int rates[] = { 250, 1000, 100, 300, 200, 1024, 128, 256, 64, 1200, 48, 24, 500 };
    unsigned int best = rates[0];
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        int64_t foretold = (1ll << 32) - 300ll * rates[i] + (int64_t) (sample->now / 1000 * rates[i] / 1000000);
        int64_t error = (int64_t) sample->ticks - foretold;
        uint64_t magnitude = error < 0 ? -error : error;

        if (magnitude < least) {
            least = magnitude;
            best = rates[i];
        }
    }
    return best;
}
