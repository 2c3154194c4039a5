/* SPDX-License-Identifier: Apache-2.0 */
/* Runs rows of a packet table (tests/system/packet_table.py) through the datapath without a switch around it: natively,
 * and in the kernel by BPF_PROG_TEST_RUN.
 *
 *   run_rows OBJECT        as root
 *
 * Each line of the input is a row, its fields separated by tabs: the frame in hex, then pairs of a datapath flow and
 * its actions as dpctl writes them; ports 20 to 22 are of tunnels: VXLAN, Geneve, GRE.  Frames arrive on port 7, each
 * twice, because the second is expected to be as the first (dp/predict.h).  For each row and runner two lines say
 *
 *   native|kernel engine|drop|output PORT HEX PACKETS/BYTES[,...]
 *
 * with the counters of each flow; PORT is several with "+" between them if the frame goes to each; PORT and HEX are
 * "-" unless the frame is output.  "engine": a tier after this one executes the row, the frame is unchanged. */
#include <config.h>

#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dp/seam_native.h"
#include "dp/pipeline.h"
#include "flow.h"
#include "odp-util.h"
#include "openvswitch/match.h"
#include "openvswitch/ofpbuf.h"
#include "ovs/fastpath/compile.h"
#include "tests/bpf_pipeline/harness.h"

#define IN_PORT 7
#define TUNNEL_PORT 20          /* The first. */
#define MAX_FRAME 2048
#define MAX_FLOWS 4
#define N_RUNS 2
#define HEADROOM 256
#define GROUPS 0x10000          /* Group of a row's I-th flow, less I: no port. */

struct row {
    uint8_t frame[MAX_FRAME];
    size_t len;
    struct dpif_xdp_compiled flows[MAX_FLOWS];
    size_t n_flows;
};

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "run_rows: %s: %s\n", what, detail);
    exit(1);
}

/* A finished match, as ovs/flows/flow_put.c makes it. */
static void compile_flow(const char *key_text, const char *actions_text, struct dpif_xdp_compiled *ret)
{
    static const struct dp_capability everything = {
        .table_version = DP_TABLE_VERSION,
        .key_groups = DP_CAPABILITY_ALL_KEYS,
        .ops = DP_CAPABILITY_ALL_OPS,
    };
    struct ofpbuf key, mask, actions;
    struct match match;
    char *error = NULL;
    bool matches;

    ofpbuf_init(&key, 0);
    ofpbuf_init(&mask, 0);
    ofpbuf_init(&actions, 0);
    match.tun_md.valid = false;
    if (odp_flow_from_string(key_text, NULL, &key, &mask, &error)
        || odp_flow_key_to_flow(key.data, key.size, &match.flow, &error)
        || odp_flow_key_to_mask(mask.data, mask.size, &match.wc, &match.flow, &error)) {
        fail(key_text, error ? error : "not understood");
    }
    if (odp_actions_from_string(actions_text, NULL, &actions)) {
        fail(actions_text, "not understood");
    }
    if (!match.wc.masks.vlans[0].tci) {
        match.wc.masks.vlans[0].tci = htons(VLAN_VID_MASK | VLAN_CFI);
    }
    dpif_xdp_compile(&match.flow, &match.wc, NULL, actions.data, actions.size, &everything, ret, &matches);
    if (!matches) {
        fail(key_text, "no program matches this");
    }
    if (dpif_xdp_compiled_pop(ret)) {
        static const char *const types[] = { "vxlan", "geneve", "gre" };

        dpif_xdp_compile_pop(ret, types[(dpif_xdp_compiled_pop(ret)->u.tunnel_pop.port - TUNNEL_PORT) % 3]);
    }
    ofpbuf_uninit(&key);
    ofpbuf_uninit(&mask);
    ofpbuf_uninit(&actions);
}

static void parse_row(char *line, struct row *row)
{
    char *save;
    char *field = strtok_r(line, "\t", &save);

    memset(row, 0, sizeof *row);
    for (unsigned int byte; field && sscanf(field, "%2x", &byte) == 1 && row->len < MAX_FRAME; field += 2) {
        row->frame[row->len++] = byte;
    }
    while ((field = strtok_r(NULL, "\t", &save)) && row->n_flows < MAX_FLOWS) {
        char *actions = strtok_r(NULL, "\t", &save);

        if (!actions) {
            fail(field, "no actions");
        }
        compile_flow(field, actions, &row->flows[row->n_flows++]);
    }
    if (!row->n_flows) {
        fail("row", "no flows");
    }
}

static void insert_flows(struct oxdp_table *table, const struct row *row, uint32_t *flows)
{
    for (size_t i = 0; i < row->n_flows; i++) {
        const struct dpif_xdp_compiled *compiled = &row->flows[i];
        const struct oxdp_flow spec = { .key = &compiled->key, .mask = &compiled->mask, .fate = compiled->fate,
                                        .arg = compiled->fate == DP_FATE_GROUP ? GROUPS + i : compiled->arg,
                                        .ops = compiled->ops, .n_ops = compiled->n_ops,
                                        .blobs = compiled->blobs };
        enum oxdp_table_full full;

        if (oxdp_table_insert(table, &spec, &flows[i], &full)) {
            fail("insert", oxdp_table_full_to_string(full));
        }
    }
}

static void print_ports(const struct row *row, uint32_t port)
{
    if (port < GROUPS) {
        printf("%u", port);
        return;
    }

    const struct dpif_xdp_compiled *compiled = &row->flows[port - GROUPS];

    for (uint32_t i = 0; i < compiled->n_outputs; i++) {
        printf("%s%u", i ? "+" : "", compiled->outputs[i]);
    }
}

/* Prints what became of a frame, and what the row's flows counted beyond '*before'. */
static void report(const char *runner, enum dp_fate fate, uint32_t port, const uint8_t *out, size_t len,
                   struct oxdp_table *table, const uint32_t *flows, struct dp_stats *before, const struct row *row)
{
    static const char *const texts[] = {
        [DP_FATE_ENGINE] = "engine", [DP_FATE_DROP] = "drop", [DP_FATE_OUTPUT] = "output",
        [DP_FATE_GROUP] = "output",
    };

    printf("%s %s ", runner, texts[fate]);
    if (fate == DP_FATE_OUTPUT || fate == DP_FATE_GROUP) {
        print_ports(row, port);
        printf(" ");
        for (size_t i = 0; i < len; i++) {
            printf("%02x", out[i]);
        }
    } else {
        printf("- -");
    }
    for (size_t i = 0; i < row->n_flows; i++) {
        struct dp_stats stats;

        oxdp_table_stats(table, flows[i], &stats);
        printf("%c%llu/%llu", i ? ',' : ' ', stats.packets - before[i].packets, stats.bytes - before[i].bytes);
        before[i] = stats;
    }
    printf("\n");
}

static void remove_flows(struct oxdp_table *table, const struct row *row, const uint32_t *flows)
{
    for (size_t i = 0; i < row->n_flows; i++) {
        oxdp_table_unlink(table, flows[i]);
    }
    oxdp_table_reclaim(table);
}

static void run_native(struct oxdp_table *table, const struct row *row)
{
    struct dp_stats before[MAX_FLOWS] = { { 0 } };
    uint32_t flows[MAX_FLOWS];

    insert_flows(table, row, flows);
    for (int i = 0; i < N_RUNS; i++) {
        uint8_t buffer[HEADROOM + MAX_FRAME];
        struct dp_ctx ctx = { .start = buffer, .data = buffer + HEADROOM, .end = buffer + HEADROOM + row->len,
                              .tables = oxdp_table_memory(table) };
        struct dp_run run = { .flow = 0 };

        memcpy(ctx.data, row->frame, row->len);

        struct dp_outcome outcome = dp_pipeline(&ctx, IN_PORT, &run);

        if (outcome.fate == DP_FATE_OUTPUT) {
            dp_cut_tail(&ctx, run.frame.cut);
        }
        report("native", outcome.fate, outcome.to, ctx.data, ctx.end - ctx.data, table, flows, before, row);
    }
    remove_flows(table, row, flows);
}

static void run_kernel(const struct harness *kernel, const struct row *row)
{
    struct dp_stats before[MAX_FLOWS] = { { 0 } };
    uint32_t flows[MAX_FLOWS];

    insert_flows(kernel->table, row, flows);
    for (int i = 0; i < N_RUNS; i++) {
        uint32_t out_len, ns;
        uint8_t out[2048];
        int action = harness_run(kernel->pipeline_fd, row->frame, row->len, 1, out, &out_len, &ns);

        if (action < 0) {
            fail("BPF_PROG_TEST_RUN", strerror(-action));
        }
        report("kernel", action == XDP_TX ? DP_FATE_OUTPUT : action == XDP_DROP ? DP_FATE_DROP : DP_FATE_ENGINE,
               harness_last_port(kernel), out, out_len, kernel->table, flows, before, row);
    }
    remove_flows(kernel->table, row, flows);
}

int main(int argc, char **argv)
{
    static const struct oxdp_table_callbacks callbacks = { .grace = harness_no_grace };
    struct oxdp_table_config config = oxdp_table_config(16, 2);
    struct oxdp_table *native;
    struct harness kernel;
    static struct row row;
    char *line = NULL;
    size_t allocated = 0;

    if (argc != 2) {
        fail("usage", "run_rows OBJECT < ROWS");
    }
    flow_limit_vlans(2);
    config.vlan_limit = 2;
    if (harness_open(argv[1], &config, &callbacks, &kernel) || oxdp_table_create(&config, NULL, &callbacks, &native)) {
        return 1;
    }
    for (ssize_t n; (n = getline(&line, &allocated, stdin)) > 0;) {
        line[strcspn(line, "\n")] = '\0';
        parse_row(line, &row);
        run_native(native, &row);
        run_kernel(&kernel, &row);
    }
    free(line);
    oxdp_table_destroy(native);
    harness_close(&kernel);
    return 0;
}
