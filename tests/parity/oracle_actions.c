/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tables/need.h"
#include "core/tables/table.h"
#include "csum.h"
#include "dp-packet.h"
#include "dp/seam_native.h"
#include "dp/pipeline.h"
#include "dp/record.h"
#include "flow.h"
#include "netdev-native-tnl.h"
#include "odp-execute.h"
#include "odp-util.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/match.h"
#include "openvswitch/ofpbuf.h"
#include "ovs/fastpath/compile.h"
#include "tests/parity/oracle.h"
#include "ovs/base/compat.h"

#define HEADROOM 128
#define SEQUENCE 0xfffefdfc     /* GRE's next number. */

/* What a frame became. */
struct outcome {
    uint32_t port;              /* UINT32_MAX: recirculated. */
    uint32_t recirc_id;
    uint32_t mark, priority, hash;
    uint32_t tunnel_port;       /* What it was in. */
    bool to_nobody;             /* That was a tunnel to the address 0: Open vSwitch's sign for no tunnel. */
    uint64_t tunnel[DP_KEY_WORDS - DP_KEY_WORD(tun_id)];
    size_t len;
    uint8_t bytes[4096];
};

/* The packet's hash, which Open vSwitch's datapaths find out when it comes. */
static uint32_t hash_at_first;

static bool run_ours(const uint8_t *frame, size_t len, const struct dpif_xdp_compiled *, const struct dp_omit *,
                     struct outcome[2]);
static bool run_once(const uint8_t *frame, size_t len, const struct dpif_xdp_compiled *, const struct dp_omit *,
                     struct dp_tables *, struct outcome *);
static void run_theirs(const uint8_t *frame, size_t len, const struct ofpbuf *actions, struct outcome *);
static void choose_omissions(const uint8_t *frame, size_t len, const struct dpif_xdp_compiled *,
                             struct dp_omit omit[4]);
static bool same(const struct outcome *ours, const struct outcome *theirs);
static void describe(const uint8_t *frame, size_t len, const struct ofpbuf *actions);

enum parity parity_actions(const uint8_t *frame, size_t len, const struct ofpbuf *actions)
{
    static struct outcome ours[2], theirs;      /* Ours for a frame, and for the same again (dp/predict.h). */
    struct dpif_xdp_compiled compiled;
    struct dp_omit omit[4];

    if (len > sizeof theirs.bytes - HEADROOM || !parity_compile(frame, len, actions, &compiled)) {
        return PARITY_BEYOND;
    }
    choose_omissions(frame, len, &compiled, omit);
    if (!run_ours(frame, len, &compiled, &omit[0], ours)) {
        return PARITY_BEYOND;
    }
    run_theirs(frame, len, actions, &theirs);
    if (theirs.to_nobody) {
        return PARITY_BEYOND;           /* No port pops such a frame. */
    }
    for (size_t i = 0; i < DP_ARRAY_SIZE(omit); i++) {
        bool done = run_ours(frame, len, &compiled, &omit[i], ours);

        if (done ? !same(&ours[0], &theirs) : i == 1) {
            fprintf(stderr, "omitting parts %#x, words %#llx, operations %#llx: %s\n", omit[i].parts,
                    (unsigned long long) omit[i].words, (unsigned long long) omit[i].ops,
                    done ? "executed" : "handed to the engine");
            describe(frame, len, actions);
            return PARITY_DIFFERENT;
        }
    }
    return PARITY_EQUAL;
}

size_t parity_theirs(const uint8_t *frame, size_t len, const struct ofpbuf *actions, uint8_t *made)
{
    static struct outcome theirs;

    run_theirs(frame, len, actions, &theirs);
    memcpy(made, theirs.bytes, theirs.len);
    return theirs.len;
}

/* Programs that omit nothing, what the flow does not need, and anything: the last two follow from the frame. */
static void choose_omissions(const uint8_t *frame, size_t len, const struct dpif_xdp_compiled *compiled,
                             struct dp_omit omit[4])
{
    const struct oxdp_flow flow = {
        .key = &compiled->key, .mask = &compiled->mask, .fate = compiled->fate, .ops = compiled->ops,
        .n_ops = compiled->n_ops,
        .blobs = compiled->blobs,
    };
    const struct oxdp_needs needs = oxdp_needs_of_flow(&flow);
    uint32_t random = len;

    for (size_t i = 0; i < len; i++) {
        random = dp_rss_add(random, frame[i]);
    }
    memset(omit, 0, 4 * sizeof *omit);
    omit[1] = oxdp_needs_complement(&needs);
    for (int i = 2; i < 4; i++) {
        struct oxdp_needs any = {
            .parts = dp_rss_finish(random, i) & DP_ALL_PARTS,
            .words = dp_rss_finish(random, i + 2) & DP_ALL_WORDS,
            .ops = dp_rss_finish(random, i + 4) & DP_CAPABILITY_ALL_OPS,
        };

        oxdp_needs_close(&any);
        omit[i] = oxdp_needs_complement(&any);
    }
}

bool parity_compile(const uint8_t *frame, size_t len, const struct ofpbuf *actions,
                    struct dpif_xdp_compiled *compiled)
{
    static const struct dp_capability everything = {
        .table_version = DP_TABLE_VERSION,
        .key_groups = DP_CAPABILITY_ALL_KEYS,
        .ops = DP_CAPABILITY_ALL_OPS,
    };
    struct match match;
    struct dp_packet packet;
    struct flow flow;
    bool matches;

    dp_packet_use_const(&packet, frame, len);
    pkt_metadata_init(&packet.md, u32_to_odp(PARITY_IN_PORT));
    flow_limit_vlans(2);
    flow_extract(&packet, &flow);

    match_init_catchall(&match);
    match_set_in_port(&match, u16_to_ofp(PARITY_IN_PORT));
    match.flow.packet_type = htonl(PT_ETH);
    match_set_recirc_id(&match, 0);
    match.flow.dl_type = flow.dl_type;
    match.wc.masks.dl_type = OVS_BE16_MAX;
    if (dpif_xdp_compile(&match.flow, &match.wc, NULL, actions->data, actions->size, &everything, compiled, &matches)) {
        return false;
    }
    if (dpif_xdp_compiled_pop(compiled)) {
        static const char *const types[PARITY_N_TUNNELS] = { "vxlan", "geneve", "gre" };

        dpif_xdp_compile_pop(compiled, types[dpif_xdp_compiled_pop(compiled)->u.tunnel_pop.port - PARITY_TUNNEL_PORT]);
    }
    return true;
}

static void no_grace(void *aux)
{
}

/* Returns false if the frame was handed to the engine untouched. */
static bool run_ours(const uint8_t *frame, size_t len, const struct dpif_xdp_compiled *compiled,
                     const struct dp_omit *omit, struct outcome outcome[2])
{
    static struct oxdp_table *table;
    static const struct oxdp_table_callbacks callbacks = { .grace = no_grace };
    struct oxdp_flow spec = {
        .key = &compiled->key, .mask = &compiled->mask, .fate = compiled->fate, .arg = compiled->arg,
        .ops = compiled->ops, .n_ops = compiled->n_ops, .blobs = compiled->blobs,
    };
    enum oxdp_table_full full;
    uint32_t flow;
    bool done[2];

    if (!table) {
        struct oxdp_table_config config = oxdp_table_config(16, 1);

        config.vlan_limit = 2;
        if (oxdp_table_create(&config, NULL, &callbacks, &table)) {
            abort();
        }
    }
    if (oxdp_table_insert(table, &spec, &flow, &full)) {
        abort();
    }

    struct dp_tables *tables = oxdp_table_memory(table);

    memset(tables->predictions, 0, tables->n_predictions * sizeof *tables->predictions);
    memset(outcome, 0, 2 * sizeof *outcome);
    for (int i = 0; i < 2; i++) {
        tables->sequence->next = SEQUENCE;
        done[i] = run_once(frame, len, compiled, omit, tables, &outcome[i]);
    }
    oxdp_table_unlink(table, flow);
    oxdp_table_reclaim(table);
    if (compiled->fate != DP_FATE_RECIRC) {
        outcome[1].hash = outcome[0].hash;      /* For nobody, and not computed. */
    }
    if (done[0] != done[1] || (done[0] && memcmp(&outcome[0], &outcome[1], sizeof *outcome))) {
        fprintf(stderr, "the same frame again: %s, first %s\n", done[1] ? "executed" : "handed to the engine",
                done[0] ? "executed" : "handed to the engine");
        same(&outcome[1], &outcome[0]);
        abort();
    }
    return done[0];
}

/* Options that are not there may be anything. */
static void put_tunnel(const union dp_key *key, struct outcome *outcome)
{
    uint8_t *options = (uint8_t *) &outcome->tunnel[DP_KEY_WORD(tun_options) - DP_KEY_WORD(tun_id)];

    outcome->tunnel_port = key->in_port;
    memcpy(outcome->tunnel, &key->w[DP_KEY_WORD(tun_id)], sizeof outcome->tunnel);
    memset(options + key->tun_options_len, 0, sizeof key->tun_options - key->tun_options_len);
}

static bool run_once(const uint8_t *frame, size_t len, const struct dpif_xdp_compiled *compiled,
                     const struct dp_omit *omit, struct dp_tables *tables, struct outcome *outcome)
{
    uint8_t *buffer = malloc(HEADROOM + len);
    struct dp_ctx ctx = { .start = buffer, .data = buffer + HEADROOM, .end = buffer + HEADROOM + len,
                          .tables = tables, .omit = *omit };
    struct dp_run run;
    struct dp_outcome ours;
    bool done = true;

    memcpy(ctx.data, frame, len);
    memset(&run, 0xa5, sizeof run);     /* As the run before left it. */
    run.frame.local_stack = 0;
    outcome->port = UINT32_MAX;
    ours = dp_pipeline(&ctx, PARITY_IN_PORT, &run);
    switch (ours.fate) {
    case DP_FATE_OUTPUT:
        if (!(omit->parts & DP_PART_OPS)) {
            dp_cut_tail(&ctx, run.frame.cut);
        }
        outcome->port = ours.to;
        break;
    case DP_FATE_GROUP:              /* All get the same; the last port is what run_theirs() remembers. */
        outcome->port = compiled->outputs[compiled->n_outputs - 1];
        break;
    case DP_FATE_DROP:
    case DP_FATE_RECIRC:
    case DP_FATE_SKB:
        abort();
    case DP_FATE_ENGINE:
        if (!run.passes) {
            if (ctx.data != buffer + HEADROOM || ctx.end - ctx.data != len || memcmp(ctx.data, frame, len)) {
                fprintf(stderr, "handed to the engine, but touched\n");
                abort();
            }
            done = false;
        }
        outcome->recirc_id = run.key.recirc_id;
        if (run.key.in_port != PARITY_IN_PORT) {
            put_tunnel(&run.key, outcome);
        }
        break;
    }
    if (!(omit->words & DP_WORD(DP_KEY_WORD(dp_hash)))) {
        outcome->priority = run.key.skb_priority;
        outcome->hash = run.key.dp_hash;
    }
    if (!(omit->words & DP_WORD(DP_KEY_WORD(skb_mark)))) {
        outcome->mark = run.key.skb_mark;
    }
    outcome->len = ctx.end - ctx.data;
    memcpy(outcome->bytes, ctx.data, outcome->len);
    free(buffer);
    return done;
}

/* netdev_push_header() without a device: GRE's code wants one only for its counter of sequence numbers. */
static void push_header(struct dp_packet *packet, const struct ovs_action_push_tnl *tnl)
{
    if (tnl->tnl_type != OVS_VPORT_TYPE_GRE && tnl->tnl_type != OVS_VPORT_TYPE_IP6GRE) {
        dp_packet_set_rss_hash(packet, hash_at_first);
        netdev_tnl_push_udp_header(NULL, packet, tnl);
    } else {
        int size;
        struct gre_base_hdr *gre = netdev_tnl_push_ip_header(packet, tnl->header, tnl->header_len, &size);

        if (gre->flags & htons(GRE_SEQ)) {
            const ovs_be32 number = htonl(SEQUENCE);

            memcpy((uint8_t *) dp_packet_data(packet) + tnl->header_len - sizeof number, &number, sizeof number);
        }
        if (gre->flags & htons(GRE_CSUM)) {
            *(ovs_be16 *) (gre + 1) = csum(gre, size);
        }
    }
    pkt_metadata_init(&packet->md, tnl->out_port);
}

/* netdev_pop_header() likewise.  False: it dropped the packet. */
static bool pop_header(struct dp_packet *packet, uint32_t port, struct outcome *outcome)
{
    struct flow flow = { .dl_type = 0 };
    union dp_key key;

    packet = port == PARITY_TUNNEL_PORT ? netdev_vxlan_pop_header(packet)
        : port == PARITY_TUNNEL_PORT + 1 ? netdev_geneve_pop_header(packet) : netdev_gre_pop_header(packet);
    if (!packet) {
        return false;
    }
    outcome->to_nobody = !flow_tnl_dst_is_set(&packet->md.tunnel);
    flow_tnl_copy__(&flow.tunnel, &packet->md.tunnel);
    flow.in_port.odp_port = u32_to_odp(port);
    dpif_xdp_compile_key(&flow, &key);
    put_tunnel(&key, outcome);
    return true;
}

static void execute_cb(void *outcome_, struct dp_packet_batch *batch, const struct nlattr *a, bool steal)
{
    struct outcome *outcome = outcome_;
    struct dp_packet *packet = batch->packets[0];

    switch (nl_attr_type(a)) {
    case OVS_ACTION_ATTR_TUNNEL_PUSH:
        push_header(packet, nl_attr_get(a));
        return;
    case OVS_ACTION_ATTR_OUTPUT:
        dp_packet_batch_apply_cutlen(batch);
        outcome->port = nl_attr_get_u32(a);
        break;
    case OVS_ACTION_ATTR_RECIRC:
        outcome->recirc_id = nl_attr_get_u32(a);
        break;
    case OVS_ACTION_ATTR_TUNNEL_POP:
        if (!pop_header(packet, nl_attr_get_u32(a), outcome)) {
            return;
        }
        break;
    default:
        abort();
    }
    outcome->mark = packet->md.pkt_mark;
    outcome->priority = packet->md.skb_priority;
    outcome->hash = packet->md.dp_hash;
    outcome->len = dp_packet_size(packet);
    memcpy(outcome->bytes, dp_packet_data(packet), outcome->len);
    dp_packet_delete_batch(batch, steal);
}

static void run_theirs(const uint8_t *frame, size_t len, const struct ofpbuf *actions, struct outcome *outcome)
{
    static bool initialised;
    struct dp_packet *packet = dp_packet_clone_data_with_headroom(frame, len, HEADROOM);
    struct dp_packet_batch batch;
    struct flow flow;

    if (!initialised) {
        odp_execute_init();
        initialised = true;
    }
    memset(outcome, 0, sizeof *outcome);
    outcome->port = UINT32_MAX;
    pkt_metadata_init(&packet->md, u32_to_odp(PARITY_IN_PORT));
    flow_extract(packet, &flow);
    hash_at_first = flow_hash_5tuple(&flow, 0);
    dp_packet_set_rss_hash(packet, hash_at_first);      /* As a lookup does. */
    dp_packet_batch_init_packet(&batch, packet);
    odp_execute_actions(outcome, &batch, true, actions->data, actions->size, execute_cb);
}

static bool same(const struct outcome *ours, const struct outcome *theirs)
{
    if (ours->port == theirs->port && ours->recirc_id == theirs->recirc_id && ours->mark == theirs->mark
        && ours->priority == theirs->priority && ours->hash == theirs->hash && ours->len == theirs->len
        && ours->tunnel_port == theirs->tunnel_port && !memcmp(ours->tunnel, theirs->tunnel, sizeof ours->tunnel)
        && !memcmp(ours->bytes, theirs->bytes, ours->len)) {
        return true;
    }
    fprintf(stderr, "port %u, recirculation %u, mark %#x, priority %#x, hash %#x, length %zu\n", ours->port,
            ours->recirc_id, ours->mark, ours->priority, ours->hash, ours->len);
    fprintf(stderr, "Open vSwitch: %u, %u, %#x, %#x, %#x, %zu\n", theirs->port, theirs->recirc_id, theirs->mark,
            theirs->priority, theirs->hash, theirs->len);
    parity_dump("our tunnel", (const uint8_t *) ours->tunnel, sizeof ours->tunnel);
    parity_dump("Open vSwitch's", (const uint8_t *) theirs->tunnel, sizeof theirs->tunnel);
    parity_dump("ours", ours->bytes, ours->len);
    parity_dump("Open vSwitch's", theirs->bytes, theirs->len);
    return false;
}

static void describe(const uint8_t *frame, size_t len, const struct ofpbuf *actions)
{
    struct ds text = DS_EMPTY_INITIALIZER;

    format_odp_actions(&text, actions->data, actions->size, NULL);
    fprintf(stderr, "actions: %s\n", ds_cstr(&text));
    ds_destroy(&text);
    parity_dump("frame", frame, len);
}
