/* SPDX-License-Identifier: Apache-2.0 */
/* The same source, natively and as a BPF program in the kernel: for every frame and program of the corpus, with random
 * mutations, the same verdict, bytes and counters, of a flow's first frame, of the same once more (dp/predict.h) and of
 * one that is almost the same.
 *
 *   test_same OBJECT CORPUS [MUTATIONS]        as root */
#include <config.h>

#include <dirent.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dp/seam_native.h"
#include "dp/pipeline.h"
#include "openvswitch/ofpbuf.h"
#include "ovs/fastpath/compile.h"
#include "tests/bpf_pipeline/harness.h"
#include "tests/parity/oracle.h"

#define MAX_FRAME 1024
#define HEADROOM 256

/* Two tables with the same flow. */
struct pair {
    struct harness kernel;
    struct oxdp_table *native;
    unsigned int n_compared;
    unsigned int n_differ;
    unsigned int n_fates[DP_FATE_ENGINE + 1];
    unsigned int n_predicted;           /* By the kernel. */
};

static void compare_corpus(struct pair *, const char *folder, unsigned int mutations);
static void compare(struct pair *, const uint8_t *data, size_t size);
static void compare_frame(struct pair *, const uint32_t flows[2], const uint8_t *frame, uint32_t len, bool forget);

int main(int argc, char **argv)
{
    static const struct oxdp_table_callbacks callbacks = { .grace = harness_no_grace };
    struct oxdp_table_config config = oxdp_table_config(16, 64);
    struct pair pair = { .n_compared = 0 };

    if (argc < 3) {
        fprintf(stderr, "usage: test_same OBJECT CORPUS [MUTATIONS]\n");
        return 2;
    }
    config.vlan_limit = 2;
    if (harness_open(argv[1], &config, &callbacks, &pair.kernel)
        || oxdp_table_create(&config, NULL, &callbacks, &pair.native)) {
        return 1;
    }
    srand(1);
    compare_corpus(&pair, argv[2], argc > 3 ? atoi(argv[3]) : 20);
    printf("%u runs compared: %u output, %u dropped, %u handed to the engine, %u predicted; %u differences\n",
           pair.n_compared, pair.n_fates[DP_FATE_OUTPUT], pair.n_fates[DP_FATE_DROP], pair.n_fates[DP_FATE_ENGINE],
           pair.n_predicted, pair.n_differ);
    oxdp_table_destroy(pair.native);
    harness_close(&pair.kernel);
    return pair.n_differ || pair.n_compared < 100 || !pair.n_fates[DP_FATE_OUTPUT] || !pair.n_predicted;
}

static void compare_corpus(struct pair *pair, const char *folder, unsigned int mutations)
{
    DIR *dir = opendir(folder);

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[4096];
        uint8_t data[MAX_FRAME];
        FILE *file;

        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        file = entry->d_name[0] != '.' ? fopen(path, "rb") : NULL;
        if (!file) {
            continue;
        }

        size_t size = fread(data, 1, sizeof data, file);

        fclose(file);
        compare(pair, data, size);
        for (unsigned int i = 0; size && i < mutations; i++) {
            uint8_t mutant[MAX_FRAME];

            memcpy(mutant, data, size);
            for (int j = rand() % 3; j >= 0; j--) {
                mutant[rand() % size] = rand();
            }
            compare(pair, mutant, rand() % 4 ? size : rand() % (size + 1));
        }
    }
    if (dir) {
        closedir(dir);
    }
}

/* Returns how many were predicted. */
static uint64_t forget_frames(struct oxdp_table *table)
{
    struct dp_tables *tables = oxdp_table_memory(table);
    uint64_t hits = 0;

    for (uint32_t i = 0; i < tables->n_predictions; i++) {
        hits += tables->predictions[i].hits;
    }
    memset(tables->predictions, 0, tables->n_predictions * sizeof *tables->predictions);
    return hits;
}

static void compare(struct pair *pair, const uint8_t *data, size_t size)
{
    struct ofpbuf actions;
    struct dpif_xdp_compiled compiled;
    struct oxdp_flow spec = { .key = &compiled.key, .mask = &compiled.mask, .ops = compiled.ops,
                              .blobs = compiled.blobs };
    enum oxdp_table_full full;
    uint32_t flows[2];

    ofpbuf_init(&actions, 0);

    size_t used = parity_make_actions(data, size, &actions);
    uint8_t frame[MAX_FRAME];
    uint32_t len = size - used;

    /* BPF_PROG_TEST_RUN wants an Ethernet header. */
    if (used >= size || len < 14 || !parity_compile(data + used, len, &actions, &compiled)) {
        ofpbuf_uninit(&actions);
        return;
    }
    spec.fate = compiled.fate;
    spec.arg = compiled.arg;
    spec.n_ops = compiled.n_ops;
    if (oxdp_table_insert(pair->native, &spec, &flows[0], &full)
        || oxdp_table_insert(pair->kernel.table, &spec, &flows[1], &full)) {
        abort();
    }
    memcpy(frame, data + used, len);
    compare_frame(pair, flows, frame, len, false);
    compare_frame(pair, flows, frame, len, true);
    frame[rand() % len] ^= 1 << rand() % 8;
    compare_frame(pair, flows, frame, len, true);
    pair->n_predicted += forget_frames(pair->kernel.table);
    forget_frames(pair->native);
    oxdp_table_unlink(pair->native, flows[0]);
    oxdp_table_unlink(pair->kernel.table, flows[1]);
    oxdp_table_reclaim(pair->native);
    oxdp_table_reclaim(pair->kernel.table);
    ofpbuf_uninit(&actions);
}

/* 'forget': natively without what the frames before taught. */
static void compare_frame(struct pair *pair, const uint32_t flows[2], const uint8_t *frame, uint32_t len, bool forget)
{
    static const int xdp_of[] = {
        [DP_FATE_OUTPUT] = XDP_TX, [DP_FATE_GROUP] = XDP_TX, [DP_FATE_DROP] = XDP_DROP, [DP_FATE_ENGINE] = XDP_PASS,
    };
    uint8_t buffer[HEADROOM + MAX_FRAME], out[2048];
    struct dp_ctx ctx = { .start = buffer, .data = buffer + HEADROOM, .end = buffer + HEADROOM + len,
                          .tables = oxdp_table_memory(pair->native) };
    struct dp_run run = { .flow = 0 };
    struct dp_stats stats[2];
    uint32_t out_len, ns;

    if (forget) {
        forget_frames(pair->native);
    }
    memcpy(ctx.data, frame, len);

    enum dp_fate fate = dp_pipeline(&ctx, PARITY_IN_PORT, &run).fate;

    if (fate == DP_FATE_OUTPUT) {
        dp_cut_tail(&ctx, run.frame.cut);
    }

    int action = harness_run(pair->kernel.pipeline_fd, frame, len, 1, out, &out_len, &ns);

    oxdp_table_stats(pair->native, flows[0], &stats[0]);
    oxdp_table_stats(pair->kernel.table, flows[1], &stats[1]);
    pair->n_compared++;
    pair->n_fates[fate]++;
    if (action != xdp_of[fate] || out_len != ctx.end - ctx.data || memcmp(out, ctx.data, out_len)
        || stats[0].packets != stats[1].packets || stats[0].bytes != stats[1].bytes
        || stats[0].tcp_flags != stats[1].tcp_flags) {
        pair->n_differ++;
        fprintf(stderr, "native: fate %d, %td bytes, %llu packets; kernel: XDP action %d, %u bytes, %llu packets\n",
                fate, ctx.end - ctx.data, stats[0].packets, action, out_len, stats[1].packets);
        parity_dump("input", frame, len);
        parity_dump("native", ctx.data, ctx.end - ctx.data);
        parity_dump("kernel", out, out_len);
    }
}
