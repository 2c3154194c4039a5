/* SPDX-License-Identifier: Apache-2.0 */
/* Samples that programs take of packets (dp/sample.h), as userspace gets them: through a ring of BPF_SAMPLE_RING bytes.
 *
 * One reader, of any thread. */
#ifndef OXDP_SAMPLE_H
#define OXDP_SAMPLE_H 1

#include <stddef.h>
#include <stdint.h>

#include "dp/sample.h"

struct oxdp_progs;
struct oxdp_samples;

/* Returns 0; -EOPNOTSUPP if programs run without flow tables and so take none; or another negative errno. */
int oxdp_samples_open(const struct oxdp_progs *progs, struct oxdp_samples **ret_samples);

/* Does nothing with NULL. */
void oxdp_samples_close(struct oxdp_samples *);

/* Readable while there are samples. */
int oxdp_samples_fd(const struct oxdp_samples *);

/* Calls 'each' for samples in the order in which they were taken, at most 'max', and forgets them.  'sampled' has its
 * 'captured' bytes.  Returns how many. */
typedef void oxdp_sample_fn(const struct dp_sampled *sampled, void *aux);
size_t oxdp_samples_read(struct oxdp_samples *, size_t max, oxdp_sample_fn *each, void *aux);

/* How many were lost because the ring was full, since 'progs' were loaded. */
uint64_t oxdp_samples_lost(const struct oxdp_progs *progs);

#endif /* core/programs/sample.h */
