/* SPDX-License-Identifier: Apache-2.0 */
/* The test object in the kernel, with a table that userspace writes. */
#ifndef TESTS_BPF_PIPELINE_HARNESS_H
#define TESTS_BPF_PIPELINE_HARNESS_H 1

#include <stdbool.h>
#include <stdint.h>

#include "core/tables/memory.h"
#include "core/tables/table.h"
#include "dp/ct_table.h"
#include "dp/omit.h"
#include "dp/path_table.h"

struct bpf_object;
struct ct_call;
struct dp_run;
struct talk;

struct harness {
    struct bpf_object *object;
    struct oxdp_memory memory;
    struct oxdp_table *table;       /* In it. */
    int pipeline_fd;
    int empty_fd;
    int many_fd;                /* With harness_talks: as 'pipeline', of frames that 'talk' describes. */
    struct talk *talk;
    struct dp_ct_tables ct;     /* With harness_conns: all zeros at first; */
    struct dp_path_tables paths;        /* the same; */
    int track_fd;               /* a program that runs one ct(), */
    struct ct_call *call;       /* and what that is to do. */
    uint32_t *in_port;              /* The port that the program's frames arrive on. */
    const uint64_t *n_fates; /* How often the program's runs ended so, by enum dp_fate. */
    uint32_t n_verified;        /* Instructions that the verifier processed for the program 'pipeline'. */
};

/* What programs that are loaded from now on leave out. */
extern struct dp_omit harness_omit;

/* Connections that their tables have room for; 0: they have none, and leave CT out. */
extern uint32_t harness_conns;

/* Whether the program 'many' is loaded. */
extern bool harness_talks;

/* Loads the object file with a table of that shape.  0 or negative errno, with the verifier's words on stderr. */
int harness_open(const char *object_file, const struct oxdp_table_config *, const struct oxdp_table_callbacks *,
                 struct harness *);

/* For callers that run programs only in harness_run(), and write tables only outside of it. */
void harness_no_grace(void *aux);
void harness_close(struct harness *);

/* Runs a program over 'frame' 'repeat' times.  Returns its verdict (XDP_*), or negative errno; the frame that it left
 * in 'out' (2048 bytes), its length in '*out_len', nanoseconds per run in '*ns'. */
int harness_run(int fd, const void *frame, uint32_t len, uint32_t repeat, void *out, uint32_t *out_len, uint32_t *ns);

/* The port that the program 'pipeline' last sent a frame to. */
uint32_t harness_last_port(const struct harness *);

/* From now on it takes 'n' bytes off the start of each frame that it has sent; if negative, it lays bare as many. */
void harness_undo(const struct harness *, int32_t n);

/* What the last run of it on this CPU left. */
const struct dp_run *harness_last_run(const struct harness *);

#endif /* tests/bpf_pipeline/harness.h */
