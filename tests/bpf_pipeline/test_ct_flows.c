/* SPDX-License-Identifier: Apache-2.0 */
/* Flows with ct(), natively and in the kernel: the conversations of tests/parity/make_ct.c, each packet through
 * flows with one to three ct(), which recirculate to the next.  What a program leaves to the engine is done here as
 * the engine does it.
 *
 * Four worlds with tables of their own must agree after each packet: the engine alone (dp_ct()), the pipeline
 * natively without the path cache, with it, and with it in the kernel.  The first two have the same packet and the
 * same metadata, and all the same connections; the last three the same packet and the same statistics of flows; the
 * last two the same paths, byte by byte.
 *
 * Packets to which the same is to happen meet the same flows: those of a port of their own.  Some flows also set
 * Ethernet addresses, TOS and TTL, and push or pop a tag.  The engine alone does not do that: then its packet is not
 * compared.
 *
 * ct_flows.h tells what is in which file.
 *
 *   test_ct_flows OBJECT [CONVERSATIONS [SEED]]        as root */
#include <config.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conntrack.h"
#include "tests/bpf_pipeline/ct_flows.h"
#include "tests/parity/oracle_ct.h"

#define N_CONNS 128
#define REPEATED 6
#define FEW_MICROS 8            /* That there is room for at first. */

struct ct_world worlds[N_WORLDS];
struct dp_ct_md metadata[N_WORLDS];
uint8_t frames[N_WORLDS][HEADROOM + MAX_FRAME];
struct oxdp_table *tables[N_WORLDS];
struct harness kernel;
struct dp_path_tables paths;
struct packet packet;
struct test test;
struct counts counts;

static bool finish(void);
static void sweep_paths(bool all);

void ct_oracle_begin(bool loses)
{
    static unsigned long conversation;

    finish();
    for (int i = 0; i < N_WORLDS; i++) {
        ct_world_clear(&worlds[i]);
    }
    forget_ways();
    sweep_paths(true);
    test.is_plain ^= true;
    test.is_later = conversation++ / 2 % 3;
    test.differs = false;
}

void ct_oracle_limit_zone(int zone, uint32_t limit)
{
    for (int i = 0; i < N_WORLDS; i++) {
        ct_world_limit_zone(&worlds[i], zone, limit);
    }
}

void ct_oracle_limit(uint32_t maxconns)
{
    for (int i = 0; i < N_WORLDS; i++) {
        worlds[i].tables.head->maxconns = maxconns;
    }
}

void ct_oracle_check_sequence(bool check)
{
    for (int i = 0; i < N_WORLDS; i++) {
        worlds[i].tables.head->no_seq_check = !check;
    }
}

bool ct_oracle_wait(uint64_t ms, bool sweep)
{
    finish();
    test.now += ms;
    for (int i = 0; sweep && i < N_WORLDS; i++) {
        ct_world_sweep(&worlds[i], test.now);
    }
    if (sweep) {
        sweep_paths(false);
    }
    return !test.differs;
}

void ct_oracle_flush(int zone)
{
    finish();
    for (int i = 0; i < N_WORLDS; i++) {
        ct_world_flush(&worlds[i], zone);
    }
}

bool ct_oracle_packet(const uint8_t *data, size_t len)
{
    union dp_key key = { .in_port = PARITY_IN_PORT };

    finish();
    if (len > MAX_FRAME) {
        return false;
    }
    packet.len = len;
    memcpy(packet.arrived, data, len);
    set_frames();
    packet.layers.local_stack = 0;
    if (dp_parse(&worlds[0].ctx, &packet.layers, &key, 2) != DP_PARSED) {
        return false;
    }
    packet.v6 = DP_BE16_IS(key.eth_type, DP_ETH_IP6);
    return packet.v6 || DP_BE16_IS(key.eth_type, DP_ETH_IP4);
}

const uint8_t *ct_oracle_frame(size_t *len)
{
    finish();
    *len = packet.len;
    return frames[ENGINE] + HEADROOM;
}

static struct item *add(int kind)
{
    struct item *item = &packet.items[packet.n_items++];

    if (packet.n_items > MAX_ITEMS) {
        abort();
    }
    memset(item, 0, sizeof *item);
    item->kind = kind;
    return item;
}

void ct_oracle_clear(void) { add(ITEM_CLEAR); }

void ct_oracle_set_address(bool dst, const uint8_t addr[16])
{
    struct item *item = add(ITEM_SET);

    item->dst = dst;
    memcpy(item->address, addr, packet.v6 ? 16 : 4);
}

enum parity ct_oracle_step(const struct ct_step *step)
{
    struct dp_ct_action *action;

    for (int i = 0; test.is_plain && i < packet.n_items; i++) {
        if (packet.items[i].kind == ITEM_CT && packet.items[i].action.zone == step->zone) {
            return test.differs ? PARITY_DIFFERENT : PARITY_EQUAL;
        }
    }
    action = &add(ITEM_CT)->action;
    *action = (struct dp_ct_action) {
        .zone = step->zone, .policy = step->policy,
        .flags = (step->commit ? DP_CT_COMMIT : 0) | (step->nat ? DP_CT_NAT : 0)
            | (step->nat_action & NAT_ACTION_SRC ? DP_CT_TO_SRC : 0)
            | (step->nat_action & NAT_ACTION_DST ? DP_CT_TO_DST : 0)
            | (step->nat_action & (NAT_ACTION_SRC_PORT | NAT_ACTION_DST_PORT) ? DP_CT_TO_PORTS : 0)
            | (step->set_mark && !test.is_plain ? DP_CT_MARK : 0)
            | (step->set_label && !test.is_plain ? DP_CT_LABEL : 0)
            | (test.is_later ? DP_CT_SCTP | DP_CT_FIRST_FRAGMENT : 0),
        .mark = step->mark[0], .mark_mask = step->mark[1],
        .nat = { .min_port = step->min_port, .max_port = step->max_port },
    };
    memcpy(action->label, step->label[0], 16);
    memcpy(action->label_mask, step->label[1], 16);
    memcpy(action->nat.min, step->min_addr, packet.v6 ? 16 : 4);
    memcpy(action->nat.max, step->max_addr, packet.v6 ? 16 : 4);
    return test.differs ? PARITY_DIFFERENT : PARITY_EQUAL;
}

/* What userspace does with what is out of date (core/ct/ct_path.c), where nobody else runs. */
static void sweep(struct dp_ctx *ctx, struct dp_path_tables *t, bool all)
{
    for (uint32_t i = 0; i < t->n_micros; i++) {
        struct dp_micro *micro = &t->micros[i];

        if (micro->word
            && (all || t->paths[DP_MICRO_PATH(micro->word)].status != DP_PATH_READY
                || !dp_micro_is_current(ctx, micro))) {
            micro->word = 0;
            t->path_head->n_micros--;
        }
    }
    if (all) {
        t->path_head->micro_last = FEW_MICROS - 1;
    }
    for (uint32_t i = 0; i < t->n_paths; i++) {
        if (t->paths[i].status && (all || t->paths[i].status == DP_PATH_STALE)) {
            t->paths[i].status = 0;
            t->path_head->n_paths--;
        }
    }
}

static void sweep_paths(bool all)
{
    sweep(&worlds[NATIVE].ctx, &paths, all);
    sweep(&worlds[KERNEL].ctx, &kernel.paths, all);
}

/* Somebody gives all connections this mark. */
static void remark(uint32_t mark)
{
    const uint64_t no_label[2] = { 0 };

    for (int w = 0; w < N_WORLDS; w++) {
        struct dp_ct_tables *t = &worlds[w].tables;
        uint32_t pair = ct_world_intern(&worlds[w], mark, no_label);

        for (uint32_t i = 0; i < t->n_keys; i++) {
            if (t->keys[i].flags & DP_CT_KEY_USED) {
                uint32_t before = dp_ct_remark(&worlds[w].ctx, DP_CT_REF(i, 0), pair);

                t->marks[pair].refs += pair != 0;
                t->marks[before].refs -= before != 0;
            }
        }
    }
}

/* Of TCP connections: in zone 'shut' the ends may send no more than they have, so that it refuses data that other zones
 * take; in zone 'narrow' end 'd' never announced more than one byte, so that it takes longer segments once only. */
static void spoil_windows(uint32_t narrow, uint32_t shut, int d)
{
    for (int w = 0; w < N_WORLDS; w++) {
        const struct dp_ct_tables *t = &worlds[w].tables;

        for (uint32_t i = 0; i < t->n_keys; i++) {
            struct dp_ct_life *life = &t->lives[i];
            const struct dp_ct_key *key = &t->keys[i];

            if (!(key->flags & DP_CT_KEY_USED) || key->proto != DP_IP_TCP) {
                continue;
            }
            if (key->zone == shut) {
                uint64_t before = life->window[0];

                life->window[0] = DP_CT_WINDOW(DP_CT_WINDOW_LO(before), DP_CT_WINDOW_LO(life->window[1]));
                life->window[1] = DP_CT_WINDOW(DP_CT_WINDOW_LO(life->window[1]), DP_CT_WINDOW_LO(before));
            } else if (key->zone == narrow) {
                life->state = DP_CT_PUT(life->state, DP_CT_STATE_WSCALE(0), 16, 0);
                life->state = DP_CT_PUT(life->state, DP_CT_STATE_WIN(d), 16, 1);
            }
        }
    }
}

/* Makes the next segment of a TCP segment with data.  Its checksum is wrong then, but nobody verifies it. */
static void advance(void)
{
    uint8_t *tcp = packet.arrived + packet.layers.l4;
    uint32_t header_len;

    if (packet.layers.has & DP_HAS_TCP && packet.layers.l4 + DP_TCP_LEN <= packet.len) {
        header_len = (tcp[12] >> 4) * 4;
        dp_store32(tcp + 4, dp_htonl(dp_ntohl(dp_load_be32(tcp + 4)) + packet.layers.l4_len - header_len).raw);
    }
}

/* The packet and what was to happen to it; in every other conversation several times, with what may happen
 * meanwhile: the first leaves a path that the others find, or must not find. */
static bool finish(void)
{
    const struct way *way;

    if (packet.n_items && !test.differs) {
        make_flows();
        way = find_way();
        for (int i = 0; i < (test.is_plain ? REPEATED : 1) && !test.differs; i++) {
            packet.is_strange = i + 1 == REPEATED && counts.packets % 3 == 0;
            if (i && counts.packets % 2) {
                advance();
            }
            if (i + 2 == REPEATED && counts.packets % 5 == 0) {
                remark(counts.packets % 2);
            }
            if (i + 1 == REPEATED && counts.packets % 2) {
                spoil_windows(packet.items[0].action.zone, packet.items[packet.n_items - 1].action.zone,
                              counts.packets / 2 % 2);
            }
            test.now += !i ? 0 : i + 1 == REPEATED && counts.packets % 7 == 0 ? 31 * CT_WORLD_HZ : counts.packets % 7;
            run(way);
        }
    }
    packet.n_items = packet.n_flows = 0;
    return !test.differs;
}

static void report(void)
{
    static const char *const names[] = {
#define X(NAME, KIND, TEXT) TEXT,
        DP_REASONS(X)
#undef X
    };

    for (int i = 0; i < DP_N_REASONS; i++) {
        if (counts.up[WALK][i]) {
            printf("%lu packets handed to the engine: %s\n", counts.up[WALK][i], names[i]);
        }
    }
}

/* The tables of paths, equal in both worlds that have them. */
static void make_paths(void)
{
#define X(NAME, TYPE)                                   \
    paths.n_##NAME = kernel.paths.n_##NAME;             \
    paths.NAME = calloc(paths.n_##NAME, sizeof(TYPE));
    DP_PATH_TABLES(X)
#undef X
    for (int i = 0; i < DP_PATH_HASH_WORDS; i++) {
        paths.path_head->hash_key[i] = 0x9fb21c651e98df25ull * (2 * i + 1) | 1;
    }
    paths.path_head->micro_most = paths.n_micros - 1;
    paths.path_head->micro_last = FEW_MICROS - 1;
    paths.path_head->fresh = 30 * CT_WORLD_HZ;
    *kernel.paths.path_head = *paths.path_head;
    worlds[NATIVE].ctx.paths = &paths;
    worlds[KERNEL].ctx.paths = &kernel.paths;
}

int main(int argc, char **argv)
{
    static const struct oxdp_table_callbacks callbacks = { .grace = harness_no_grace };
    struct oxdp_table_config config = oxdp_table_config(MAX_WAYS * MAX_ITEMS, 64);
    cpu_set_t here;
    unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    unsigned int kinds = 0;
    unsigned long left = 0;

    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    sched_setaffinity(0, sizeof here, &here);
    config.vlan_limit = 2;
    harness_conns = N_CONNS;
    if (argc < 2 || harness_open(argv[1], &config, &callbacks, &kernel)
        || oxdp_table_create(&config, NULL, &callbacks, &tables[WALK])
        || oxdp_table_create(&config, NULL, &callbacks, &tables[NATIVE])) {
        return 1;
    }
    tables[KERNEL] = kernel.table;
    worlds[KERNEL].tables = kernel.ct;
    ct_world_begin(&worlds[KERNEL]);
    for (int i = ENGINE; i < KERNEL; i++) {
        ct_world_init(&worlds[i], kernel.ct.n_keys, kernel.ct.n_buckets);
        worlds[i].ctx.tables = i == ENGINE ? NULL : oxdp_table_memory(tables[i]);
    }
    make_paths();
    for (unsigned long i = 0; i < rounds; i++) {
        struct ct_choices choices = { .random = (seed + i) * 0x9e3779b97f4a7c15ull | 1 };
        enum parity result = parity_ct(&choices, false);

        if (!finish() || result == PARITY_DIFFERENT) {
            printf("conversation %lu, packet %lu: test_ct_flows OBJECT 1 %llu\n", i, choices.packets,
                   (unsigned long long) (seed + i));
            return 1;
        }
    }
    for (int i = 0; i < 256; i++) {
        kinds += counts.states[i] != 0;
    }
    printf("%lu conversations, %lu packets, %lu actions, %u kinds of ct_state\n", rounds, counts.packets, counts.steps,
           kinds);
    report();
    printf("%lu of them after the first ct() of their flow\n", counts.resumed);
    printf("%lu packets met a path, %lu of them one that sets more than addresses and ports\n", counts.hits,
           counts.edited_hits);
    oxdp_table_destroy(tables[WALK]);
    oxdp_table_destroy(tables[NATIVE]);
    harness_close(&kernel);
    for (int i = ENGINE; i < KERNEL; i++) {
        ct_world_destroy(&worlds[i]);
    }
#define X(NAME, TYPE) free(paths.NAME);
    DP_PATH_TABLES(X)
#undef X
    for (int i = DP_REASON_UP_CT; i < DP_REASON_UP_CT_NEW; i++) {
        left += counts.up[WALK][i];
    }
    return kinds < 10 || !counts.resumed || counts.packets < 10 * rounds || !counts.up[WALK][DP_REASON_UP_CT_NEW]
        || !counts.up[WALK][DP_REASON_UP_CT_ERROR] || !counts.up[WALK][DP_REASON_UP_CT_MARK]
        || !counts.up[WALK][DP_REASON_UP_CT_NAT] || counts.edited_hits < counts.packets / 400
        || left + counts.up[WALK][DP_REASON_UP_ENGINE] > counts.packets / 2;
}
