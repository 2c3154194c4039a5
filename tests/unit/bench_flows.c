/* SPDX-License-Identifier: Apache-2.0 */
/* bench_flows: how fast a datapath installs, dumps and deletes flows when
 * asked as ofproto's revalidators ask: batches of operations, no text.
 *
 *     bench_flows TYPE FLOWS DEVICE DEVICE [same-mask]
 *
 * TYPE is "xdp" or "netdev".  Creates a datapath with the two devices as
 * ports, flows from one to the other, and prints a line for each measurement:
 * its name, and seconds of wall time, of the calling thread's CPU time, and of
 * the whole process's until RCU has freed what was deleted.
 * "parse", "index" and "forget" are what no datapath does without: reading the
 * attributes, and a map of flows by ufid.
 * Every flow that exists is counted again by each dump. */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmap.h"
#include "dpif.h"
#include "flow.h"
#include "netdev.h"
#include "netlink.h"
#include "odp-util.h"
#include "openvswitch/ofpbuf.h"
#include "openvswitch/vlog.h"
#include "ovs-rcu.h"
#include "ovs-thread.h"
#include "ovs/provider/dpif_xdp.h"
#include "ovs/netdev/netdev_xdp.h"
#include "smap.h"
#include "util.h"

#define BATCH 50                        /* As ofproto-dpif-upcall.c's. */
#define N_MASKS 20

struct flow_text {                      /* A flow as a caller passes it. */
    ovs_u128 ufid;
    uint16_t key_len, mask_len;
    uint32_t key[60], mask[60];
};

struct stopwatch {
    struct timespec wall, cpu, process;
};

static struct flow_text *make_flows(size_t n, odp_port_t in_port,
                                    size_t n_masks);
static void parse(const struct flow_text *, size_t n);
static void index_flows(struct cmap *, const struct flow_text *, size_t n);
static void forget_flows(struct cmap *, const struct flow_text *, size_t n);
static void put(struct dpif *, const struct flow_text *, size_t n,
                const struct ofpbuf *actions, enum dpif_flow_put_flags);
static void delete(struct dpif *, const struct flow_text *, size_t n,
                   size_t batch, bool with_stats);
static size_t dump(struct dpif *, bool terse);
static odp_port_t add_port(struct dpif *, const char *type, const char *name);
static void start(struct stopwatch *);
static void stop(const struct stopwatch *, const char *what, size_t n);

static void
measure(struct dpif *dpif, const struct flow_text *flows, size_t n,
        const struct ofpbuf *actions)
{
    size_t n_single = MIN(n, 2000);
    struct stopwatch watch;
    struct cmap index;

    start(&watch);
    parse(flows, n);
    stop(&watch, "parse", n);
    cmap_init(&index);
    start(&watch);
    index_flows(&index, flows, n);
    stop(&watch, "index", n);
    start(&watch);
    forget_flows(&index, flows, n);
    stop(&watch, "forget", n);
    cmap_destroy(&index);
    start(&watch);
    put(dpif, flows, n, actions, DPIF_FP_CREATE);
    stop(&watch, "put", n);
    start(&watch);
    put(dpif, flows, n, actions, DPIF_FP_MODIFY);
    stop(&watch, "modify", n);
    for (int i = 0; i < 3; i++) {
        start(&watch);
        stop(&watch, "dump-terse", dump(dpif, true));
    }
    start(&watch);
    stop(&watch, "dump-full", dump(dpif, false));
    start(&watch);
    delete(dpif, flows, n_single, 1, true);
    stop(&watch, "delete-single", n_single);
    start(&watch);
    delete(dpif, flows + n_single, n - n_single, BATCH, true);
    stop(&watch, "delete", n - n_single);
    put(dpif, flows, n, actions, DPIF_FP_CREATE);
    start(&watch);
    dpif_flow_flush(dpif);
    stop(&watch, "flush", n);
}

int
main(int argc, char *argv[])
{
    struct smap config = SMAP_INITIALIZER(&config);
    struct flow_text *flows;
    odp_port_t ports[2];
    struct ofpbuf actions;
    struct dpif *dpif;
    size_t n;

    set_program_name(argv[0]);
    vlog_set_levels(NULL, VLF_ANY_DESTINATION, VLL_WARN);
    vlog_set_levels(NULL, VLF_SYSLOG, VLL_OFF);
    if (argc < 5) {
        ovs_fatal(0, "usage: %s TYPE FLOWS DEVICE DEVICE [same-mask]",
                  program_name);
    }
    dpif_xdp_netdev_register();
    dpif_xdp_register();
    n = strtoul(argv[2], NULL, 10);
    if (dpif_create_and_open("bench-flows", argv[1], &dpif)) {
        ovs_fatal(0, "cannot create a datapath of type %s", argv[1]);
    }
    smap_add_format(&config, "xdp-flows", "%"PRIuSIZE, MAX(n, 200000));
    dpif_set_config(dpif, &config);
    for (int i = 0; i < 2; i++) {
        ports[i] = add_port(dpif, argv[1], argv[3 + i]);
    }
    dpif_run(dpif);

    ofpbuf_init(&actions, 64);
    nl_msg_put_odp_port(&actions, OVS_ACTION_ATTR_OUTPUT, ports[1]);
    flows = make_flows(n, ports[0], argc > 5 ? 1 : N_MASKS);
    measure(dpif, flows, n, &actions);

    free(flows);
    ofpbuf_uninit(&actions);
    smap_destroy(&config);
    dpif_delete(dpif);
    dpif_close(dpif);
    return 0;
}

/* Flows of exact 5-tuples, as a busy NORMAL switch has them; 'n_masks' differ
 * in how much of the destination MAC address they match. */
static struct flow_text *
make_flows(size_t n, odp_port_t in_port, size_t n_masks)
{
    struct flow_text *flows = xcalloc(n, sizeof *flows);

    for (size_t i = 0; i < n; i++) {
        struct flow flow;
        struct flow_wildcards wc;
        struct odp_flow_key_parms parms = { .flow = &flow, .mask = &wc.masks };
        struct ofpbuf buf;

        memset(&flow, 0, sizeof flow);
        memset(&wc, 0, sizeof wc);
        flow.in_port.odp_port = in_port;
        flow.packet_type = htonl(PT_ETH);
        flow.dl_type = htons(ETH_TYPE_IP);
        flow.dl_dst = (struct eth_addr) ETH_ADDR_C(02, 00, 00, 00, 00, 02);
        flow.dl_src = (struct eth_addr) ETH_ADDR_C(02, 00, 00, 00, 00, 01);
        flow.nw_proto = IPPROTO_UDP;
        flow.nw_src = htonl(0x0a000000 + i);
        flow.nw_dst = htonl(0x0b000001);
        flow.nw_ttl = 64;
        flow.tp_src = htons(1024);
        flow.tp_dst = htons(9);
        WC_MASK_FIELD(&wc, in_port);
        WC_MASK_FIELD(&wc, recirc_id);
        WC_MASK_FIELD(&wc, packet_type);
        WC_MASK_FIELD(&wc, dl_type);
        WC_MASK_FIELD(&wc, nw_proto);
        WC_MASK_FIELD(&wc, nw_frag);
        WC_MASK_FIELD(&wc, nw_src);
        WC_MASK_FIELD(&wc, nw_dst);
        WC_MASK_FIELD(&wc, tp_src);
        WC_MASK_FIELD(&wc, tp_dst);
        memset(&wc.masks.dl_dst, 0xff, sizeof wc.masks.dl_dst);
        wc.masks.dl_dst.be16[0] = htons(0xffff << i % n_masks);

        odp_flow_key_hash(&flow, sizeof flow, &flows[i].ufid);
        ofpbuf_use_stack(&buf, flows[i].key, sizeof flows[i].key);
        odp_flow_key_from_flow(&parms, &buf);
        flows[i].key_len = buf.size;
        ofpbuf_use_stack(&buf, flows[i].mask, sizeof flows[i].mask);
        parms.key_buf = NULL;
        odp_flow_key_from_mask(&parms, &buf);
        flows[i].mask_len = buf.size;
    }
    return flows;
}

/* The part of "put" that is Open vSwitch's, whatever the datapath. */
static void
parse(const struct flow_text *flows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct flow_wildcards wc;
        struct flow flow;

        if (odp_flow_key_to_flow((const struct nlattr *) flows[i].key,
                                 flows[i].key_len, &flow, NULL)
            || odp_flow_key_to_mask((const struct nlattr *) flows[i].mask,
                                    flows[i].mask_len, &wc, &flow, NULL)) {
            ovs_fatal(0, "cannot parse a flow");
        }
    }
}

/* The least that a datapath does, which has to find flows by ufid. */
struct indexed {
    struct cmap_node node;
    ovs_u128 ufid;
};

static void
index_flows(struct cmap *index, const struct flow_text *flows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct indexed *flow = xmalloc(sizeof *flow);

        flow->ufid = flows[i].ufid;
        cmap_insert(index, &flow->node, flow->ufid.u32[0]);
    }
}

static void
forget_flows(struct cmap *index, const struct flow_text *flows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t hash = flows[i].ufid.u32[0];
        struct indexed *flow;

        CMAP_FOR_EACH_WITH_HASH (flow, node, hash, index) {
            if (ovs_u128_equals(flow->ufid, flows[i].ufid)) {
                cmap_remove(index, &flow->node, hash);
                ovsrcu_postpone(free, flow);
                break;
            }
        }
        if (i % BATCH == 0) {
            ovsrcu_quiesce();
        }
    }
}

static void
operate(struct dpif *dpif, struct dpif_op *ops, size_t n)
{
    struct dpif_op *pointers[BATCH];

    for (size_t i = 0; i < n; i++) {
        pointers[i] = &ops[i];
    }
    dpif_operate(dpif, pointers, n, DPIF_OFFLOAD_AUTO);
    for (size_t i = 0; i < n; i++) {
        if (ops[i].error) {
            ovs_fatal(ops[i].error, "operation %d failed", ops[i].type);
        }
    }
}

static void
put(struct dpif *dpif, const struct flow_text *flows, size_t n,
    const struct ofpbuf *actions, enum dpif_flow_put_flags flags)
{
    for (size_t i = 0; i < n; i += BATCH) {
        size_t n_ops = MIN(n - i, BATCH);
        struct dpif_op ops[BATCH];

        memset(ops, 0, sizeof ops);
        for (size_t j = 0; j < n_ops; j++) {
            const struct flow_text *flow = &flows[i + j];
            struct dpif_flow_put *op = &ops[j].flow_put;

            ops[j].type = DPIF_OP_FLOW_PUT;
            op->flags = flags;
            op->key = (const struct nlattr *) flow->key;
            op->key_len = flow->key_len;
            op->mask = (const struct nlattr *) flow->mask;
            op->mask_len = flow->mask_len;
            op->actions = actions->data;
            op->actions_len = actions->size;
            op->ufid = &flow->ufid;
            op->pmd_id = NON_PMD_CORE_ID;
        }
        operate(dpif, ops, n_ops);
    }
}

static void
delete(struct dpif *dpif, const struct flow_text *flows, size_t n,
       size_t batch, bool with_stats)
{
    for (size_t i = 0; i < n; i += batch) {
        size_t n_ops = MIN(n - i, batch);
        struct dpif_flow_stats stats[BATCH];
        struct dpif_op ops[BATCH];

        memset(ops, 0, sizeof ops);
        for (size_t j = 0; j < n_ops; j++) {
            const struct flow_text *flow = &flows[i + j];
            struct dpif_flow_del *op = &ops[j].flow_del;

            ops[j].type = DPIF_OP_FLOW_DEL;
            op->key = (const struct nlattr *) flow->key;
            op->key_len = flow->key_len;
            op->ufid = &flow->ufid;
            op->stats = with_stats ? &stats[j] : NULL;
            op->terse = true;
            op->pmd_id = NON_PMD_CORE_ID;
        }
        operate(dpif, ops, n_ops);
        ovsrcu_quiesce();
    }
}

static size_t
dump(struct dpif *dpif, bool terse)
{
    struct dpif_flow_dump *all = dpif_flow_dump_create(dpif, terse, NULL);
    struct dpif_flow_dump_thread *thread
        = dpif_flow_dump_thread_create(all);
    size_t total = 0;
    int n;

    do {
        struct dpif_flow flows[BATCH];

        n = dpif_flow_dump_next(thread, flows, BATCH);
        total += n;
    } while (n);
    dpif_flow_dump_thread_destroy(thread);
    dpif_flow_dump_destroy(all);
    return total;
}

static odp_port_t
add_port(struct dpif *dpif, const char *type, const char *name)
{
    odp_port_t port = ODPP_NONE;
    struct netdev *netdev;
    int error;

    error = netdev_open(name, dpif_port_open_type(type, "system"), &netdev);
    if (!error) {
        error = dpif_port_add(dpif, netdev, &port);
    }
    if (error) {
        ovs_fatal(error, "cannot add %s", name);
    }
    return port;
}

static void
start(struct stopwatch *watch)
{
    clock_gettime(CLOCK_MONOTONIC, &watch->wall);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &watch->cpu);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &watch->process);
}

static double
since(clockid_t clock, const struct timespec *then)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return now.tv_sec - then->tv_sec + (now.tv_nsec - then->tv_nsec) / 1e9;
}

static void
stop(const struct stopwatch *watch, const char *what, size_t n)
{
    double cpu = since(CLOCK_THREAD_CPUTIME_ID, &watch->cpu);
    double wall = since(CLOCK_MONOTONIC, &watch->wall);

    ovsrcu_barrier();
    printf("%s flows=%"PRIuSIZE" wall=%.6f cpu=%.6f process=%.6f "
           "per-second=%.0f\n", what, n, wall, cpu,
           since(CLOCK_PROCESS_CPUTIME_ID, &watch->process), n / wall);
    fflush(stdout);
}
