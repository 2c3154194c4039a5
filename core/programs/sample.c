/* SPDX-License-Identifier: Apache-2.0 */
#include "core/programs/sample.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>

#include "core/programs/progs_struct.h"
#include "core/programs/skeleton.h"

#define STOP_READING 1          /* What 'take' returns when it has enough. */

struct oxdp_samples {
    struct ring_buffer *ring;
    size_t n, max;              /* Of the call of oxdp_samples_read() that reads. */
    oxdp_sample_fn *each;
    void *aux;
};

/* Called for each sample in the ring. */
static int take(void *samples_, void *data, size_t size)
{
    struct oxdp_samples *samples = samples_;
    const struct dp_sampled *sampled = data;

    if (size >= sizeof *sampled && sampled->captured <= DP_SAMPLE_BYTES) {
        samples->each(sampled, samples->aux);
    }
    return ++samples->n < samples->max ? 0 : -STOP_READING;
}

int oxdp_samples_open(const struct oxdp_progs *progs, struct oxdp_samples **ret_samples)
{
    struct oxdp_samples *samples;

    if (!progs->table) {
        return -EOPNOTSUPP;
    }
    samples = calloc(1, sizeof *samples);
    if (samples) {
        samples->ring = ring_buffer__new(bpf_map__fd(progs->maps->maps.samples), take, samples, NULL);
    }
    if (!samples || !samples->ring) {
        free(samples);
        return -ENOMEM;
    }
    *ret_samples = samples;
    return 0;
}

void oxdp_samples_close(struct oxdp_samples *samples)
{
    if (samples) {
        ring_buffer__free(samples->ring);
        free(samples);
    }
}

int oxdp_samples_fd(const struct oxdp_samples *samples)
{
    return ring_buffer__epoll_fd(samples->ring);
}

size_t oxdp_samples_read(struct oxdp_samples *samples, size_t max, oxdp_sample_fn *each, void *aux)
{
    samples->n = 0;
    samples->max = max;
    samples->each = each;
    samples->aux = aux;
    ring_buffer__consume(samples->ring);
    return samples->n;
}

uint64_t oxdp_samples_lost(const struct oxdp_progs *progs)
{
    const struct bpf_run_room *rooms = progs->memory.table[BPF_TABLE_runs];
    uint64_t sum = 0;

    for (uint32_t i = 0; progs->table && i < progs->n_cpu_ids; i++) {
        sum += __atomic_load_n(&rooms[i].lost_samples, __ATOMIC_RELAXED);
    }
    return sum;
}
