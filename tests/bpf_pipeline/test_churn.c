/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces the flow that all packets match, over and over, while the program runs on another CPU: every packet that
 * was output is counted once, in a flow that was its own.  A few packets may miss: those whose lookup began
 * before the new flow was linked and came to the old one's place after it was unlinked.
 *
 *   test_churn OBJECT [SECONDS]        as root */
#include <linux/bpf.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/kernel/grace.h"
#include "dp/seam_native.h"
#include "dp/pipeline.h"
#include "tests/bpf_pipeline/harness.h"

#define IN_PORT 7
#define BATCH 500000            /* Runs per system call, which itself waits for RCU. */

static const uint8_t frame[60] = {
    2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00,
    0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    0x03, 0xe8, 0, 53, 0, 26, 0, 0,
};

struct traffic {
    int fd;
    atomic_bool stop;
    uint64_t runs;
};

struct account {
    uint64_t packets;
    uint64_t bytes;
};

static void *run_traffic(void *traffic_)
{
    struct traffic *t = traffic_;

    while (!t->stop) {
        uint8_t out[2048];
        uint32_t out_len, ns;

        if (harness_run(t->fd, frame, sizeof frame, BATCH, out, &out_len, &ns) < 0) {
            abort();
        }
        t->runs += BATCH;
    }
    return NULL;
}

static void reclaimed(void *account_, uint32_t flow, const struct dp_stats *final)
{
    struct account *account = account_;

    account->packets += final->packets;
    account->bytes += final->bytes;
}

static uint32_t insert(struct oxdp_table *table, int round)
{
    /* A different mask each time, and every third time operations: all kinds of entries come and go. */
    union dp_key mask = { .in_port = UINT32_MAX, .recirc_id = UINT32_MAX, .eth_type = { 0xffff } };
    union dp_key key = { .in_port = IN_PORT, .eth_type = dp_htons(DP_ETH_IP4), .ip4_src = dp_htonl(0x0a000001) };
    struct dp_op op = { .code = DP_OP_SET_MARK, .u.meta = { 1, ~0u } };
    struct oxdp_flow flow = { .key = &key, .mask = &mask, .fate = DP_FATE_OUTPUT, .ops = &op,
                              .n_ops = round % 3 == 0 };
    enum oxdp_table_full full;
    uint32_t index;

    mask.ip4_src = dp_htonl(UINT32_MAX << round % 20);
    key.ip4_src.raw &= mask.ip4_src.raw;
    if (oxdp_table_insert(table, &flow, &index, &full)) {
        fprintf(stderr, "%s\n", oxdp_table_full_to_string(full));
        exit(1);
    }
    return index;
}

static double seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec + ts.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    struct account account = { 0 };
    struct oxdp_table_callbacks callbacks = { .grace = oxdp_grace_rcu, .reclaimed = reclaimed, .aux = &account };
    struct oxdp_table_config config = oxdp_table_config(1000, 2);
    struct traffic traffic = { .stop = false };
    struct harness h;
    pthread_t thread;
    uint32_t flow;
    int round = 0;

    if (argc < 2 || harness_open(argv[1], &config, &callbacks, &h)) {
        return 1;
    }
    traffic.fd = h.pipeline_fd;
    flow = insert(h.table, round);
    pthread_create(&thread, NULL, run_traffic, &traffic);
    for (double end = seconds() + (argc > 2 ? atof(argv[2]) : 2); seconds() < end;) {
        uint32_t replacement = insert(h.table, ++round);

        oxdp_table_unlink(h.table, flow);
        flow = replacement;
        if (round % 32 == 0) {
            oxdp_table_reclaim(h.table);
        }
    }
    traffic.stop = true;
    pthread_join(thread, NULL);
    oxdp_table_unlink(h.table, flow);
    oxdp_table_reclaim(h.table);

    uint64_t output = h.n_fates[DP_FATE_OUTPUT];
    uint64_t missed = h.n_fates[DP_FATE_ENGINE];

    printf("%d replacements under %llu packets: %llu output, %llu counted, %llu missed\n", round,
           (unsigned long long) traffic.runs, (unsigned long long) output, (unsigned long long) account.packets,
           (unsigned long long) missed);
    harness_close(&h);
    return output != account.packets || account.bytes != account.packets * sizeof frame
        || output + missed != traffic.runs || missed > (uint64_t) round || !output || round < 100;
}
