/* SPDX-License-Identifier: Apache-2.0 */
/* Flows of the ways that packets make (test_ct_flows.c): the operations of ct(), the edits, and what each matches. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bpf_pipeline/ct_flows.h"

static struct way ways[MAX_WAYS];
static uint32_t n_ways;
static uint32_t chosen;                 /* A number that the items of the packet decide. */

/* Whether an address is set between item 'i', a ct(), and the next ct(). */
static bool sets_behind(int i)
{
    bool sets = false;

    for (i++; i < packet.n_items && packet.items[i].kind != ITEM_CT; i++) {
        sets |= packet.items[i].kind == ITEM_SET;
    }
    return sets;
}

/* Sorts the items into flows.  One with several ct() sets no address.  In a plain conversation each has one, and a last
 * flow none. */
void make_flows(void)
{
    uint32_t flow = 0, ct = 0;
    bool sets = false;

    chosen = 0;
    for (int i = 0; i < packet.n_items; i++) {
        const struct item *item = &packet.items[i];

        chosen = (chosen + item->kind + item->action.zone + item->action.flags) * 2654435761u;
    }
    chosen >>= 16;
    for (int i = 0; i < packet.n_items; i++) {
        if (packet.items[i].kind == ITEM_CT && i) {
            bool joins = !test.is_plain && (chosen + i) % 3 && ct + 1 < DP_MAX_CT && !sets && !sets_behind(i);

            flow += !joins;
            ct = joins ? ct + 1 : 0;
            sets = sets_behind(i);
        } else if (packet.items[i].kind == ITEM_CT) {
            sets = sets_behind(i);
        }
        packet.items[i].flow = flow;
        packet.items[i].ct = ct;
    }
    packet.n_flows = flow + 1 + test.is_plain;
}

bool is_folded(int i)
{
    const struct item *item = &packet.items[i];

    return chosen & 1 && i >= 0 && i + 1 < packet.n_items && item->kind == ITEM_CLEAR && item[1].kind == ITEM_CT
        && !item[1].ct;
}

/* The pair of mark and label that a connection gets that the action makes, in all worlds. */
static uint32_t intern(const struct dp_ct_action *action)
{
    uint64_t label[2] = { 0 };
    uint32_t index = 0;

    if (action->flags & DP_CT_LABEL) {
        memcpy(label, action->label, sizeof label);
    }
    for (int i = 0; i < N_WORLDS; i++) {
        index = ct_world_intern(&worlds[i], action->flags & DP_CT_MARK ? action->mark : 0, label);
    }
    return index;
}

/* The operations of flow number 'flow'.  Returns how many. */
static uint32_t make_ops(uint32_t flow, struct dp_op *ops, struct dp_blob *blob)
{
    struct dp_op *last = NULL;
    uint32_t n = 0;

    for (int i = 0; i < packet.n_items; i++) {
        const struct item *item = &packet.items[i];
        const struct dp_ct_action *action = &item->action;
        struct dp_op *op = &ops[n];

        if (item->flow != flow || is_folded(i)) {
            continue;
        }
        memset(op, 0, sizeof *op);
        n++;
        switch (item->kind) {
        case ITEM_CT:
            *op = (struct dp_op) {
                .code = DP_OP_CT, .n_blobs = 1,
                .u.ct = { .zone = action->zone, .policy = action->policy,
                          .flags = action->flags | (is_folded(i - 1) ? DP_CT_FRESH : 0), .mark = action->mark,
                          .mark_mask = action->mark_mask, .marks = intern(action), .min_port = action->nat.min_port,
                          .max_port = action->nat.max_port },
            };
            memcpy(blob->ct.label, action->label, 16);
            memcpy(blob->ct.label_mask, action->label_mask, 16);
            memcpy(blob->ct.min, action->nat.min, 16);
            memcpy(blob->ct.max, action->nat.max, 16);
            blob++;
            if (last) {
                last->u.ct.next = op - last;
            }
            last = op;
            break;
        case ITEM_CLEAR:
            op->code = DP_OP_CT_CLEAR;
            break;
        case ITEM_SET:
            if (packet.v6) {
                op->code = item->dst ? DP_OP_SET_IP6_DST : DP_OP_SET_IP6_SRC;
                op->needs = DP_HAS_IP6;
                memcpy(op->u.ip6_addr.value, item->address, 16);
                memset(op->u.ip6_addr.mask, 0xff, 16);
            } else {
                op->code = DP_OP_SET_IP4;
                op->needs = DP_HAS_IP4 | DP_HAS_FIRST;
                op->u.ip4.src = item->dst ? 0 : item->address[0];
                op->u.ip4.dst = item->dst ? item->address[0] : 0;
                op->u.ip4.src_mask = item->dst ? 0 : UINT32_MAX;
                op->u.ip4.dst_mask = item->dst ? UINT32_MAX : 0;
            }
            break;
        }
    }
    return n;
}

/* The edits of flow number 'flow' behind its 'n' operations.  Returns how many there are then. */
static uint32_t add_edits(const struct way *way, int flow, struct dp_op *ops, uint32_t n)
{
    bool last = flow + 1 == way->n_flows;

    if (way->edits & EDIT_ETHERNET && flow % 2 == 0) {
        ops[n++] = (struct dp_op) {
            .code = DP_OP_SET_ETH,
            .u.eth = { .value = { 0x11223344, flow, 0x7700 },
                       .mask = { UINT32_MAX, 0xffff, last ? UINT32_MAX : 0xff00 } },
        };
    }
    if (way->edits & EDIT_IP && way->v6) {
        ops[n++] = (struct dp_op) {
            .code = DP_OP_SET_IP6, .needs = DP_HAS_IP6,
            .u.ip6 = { .ttl = 63 - flow, .ttl_mask = 0xff, .tos = 4, .tos_mask = 0xfc },
        };
    } else if (way->edits & EDIT_IP) {
        ops[n++] = (struct dp_op) {
            .code = DP_OP_SET_IP4, .needs = DP_HAS_IP4,
            .u.ip4 = { .ttl = 63 - flow, .ttl_mask = 0xff, .tos = 4 << flow % 2, .tos_mask = 0xfc },
        };
    }
    if (way->edits & EDIT_POP && !flow) {
        ops[n++] = (struct dp_op) { .code = DP_OP_POP_VLAN };
    }
    if (way->edits & EDIT_PUSH && last) {
        ops[n++] = (struct dp_op) {
            .code = DP_OP_PUSH_VLAN, .u.vlan = { .tpid = dp_htons(DP_ETH_VLAN), .tci = dp_htons(DP_VLAN_PRESENT | 77) },
        };
    }
    return n;
}

/* What each operation says of all that follow, as ovs/fastpath/compile.c has it. */
static void sum_ops(struct dp_op *ops, uint32_t n)
{
    for (uint32_t i = n; i-- > 0;) {
        ops[i].codes = UINT64_C(1) << ops[i].code | (i + 1 < n ? ops[i + 1].codes : 0);
        ops[i].needs |= i + 1 < n ? ops[i + 1].needs : 0;
        ops[i].growth = (ops[i].code == DP_OP_PUSH_VLAN ? DP_VLAN_LEN : 0) + (i + 1 < n ? ops[i + 1].growth : 0);
    }
}

/* Inserts flow number 'i' of the way, in all worlds with flows. */
static void insert_flow(struct way *way, int i)
{
    union dp_key key = { .in_port = FIRST_PORT + way_number(way), .recirc_id = i ? 64 * way_number(way) + i : 0,
                         .eth_type = dp_htons(way->v6 ? DP_ETH_IP6 : DP_ETH_IP4) };
    union dp_key mask = { .in_port = UINT32_MAX, .recirc_id = UINT32_MAX, .eth_type = { 0xffff } };
    struct dp_op ops[MAX_ITEMS + 4];
    struct dp_blob blobs[DP_MAX_CT];
    bool last = i + 1 == way->n_flows;
    uint32_t n = add_edits(way, i, ops, make_ops(i, ops, blobs));
    struct oxdp_flow flow = { .key = &key, .mask = &mask, .ops = ops, .blobs = blobs, .n_ops = n,
                              .fate = last ? DP_FATE_OUTPUT : DP_FATE_RECIRC,
                              .arg = last ? OUTPUT_PORT : 64 * way_number(way) + i + 1 };
    enum oxdp_table_full full;

    if (way->edits & EDIT_TAGGED && !i) {
        key.vlan = (struct dp_vlan) { dp_htons(DP_ETH_VLAN), dp_htons(DP_VLAN_PRESENT | 5) };
        mask.vlan = (struct dp_vlan) { { 0xffff }, { 0xffff } };
    }
    if (way->edits & EDIT_ETHERNET && !i) {
        memcpy(key.eth_src, packet.arrived + 6, sizeof key.eth_src);
        memset(mask.eth_src, 0xff, sizeof mask.eth_src);
    }
    if (way->edits & EDIT_IP && (last || !i)) {
        key.ip_ttl = 64 - i;
        mask.ip_ttl = 0xff;
    }
    if (way->edits & EDIT_MARK && last && i) {
        mask.ct_mark = UINT32_MAX;
    }
    sum_ops(ops, n);
    for (int w = WALK; w < N_WORLDS; w++) {
        if (oxdp_table_insert(tables[w], &flow, &way->flow[i][w], &full)) {
            fprintf(stderr, "%s\n", oxdp_table_full_to_string(full));
            exit(1);
        }
    }
}

static void remove_flows(const struct way *way)
{
    for (int w = WALK; w < N_WORLDS; w++) {
        for (int i = 0; i < way->n_flows; i++) {
            oxdp_table_unlink(tables[w], way->flow[i][w]);
        }
        oxdp_table_reclaim(tables[w]);
    }
}

uint32_t way_number(const struct way *way) { return way - ways; }

void forget_ways(void)
{
    while (n_ways) {
        remove_flows(&ways[--n_ways]);
    }
}

const struct way *find_way(void)
{
    struct way *way;

    for (way = ways; way < &ways[n_ways]; way++) {
        if (way->v6 == packet.v6 && way->n_items == packet.n_items
            && !memcmp(way->items, packet.items, packet.n_items * sizeof *packet.items)) {
            if (counts.packets % 32 == 0) {
                remove_flows(way);
                break;
            }
            return way;
        }
    }
    if (way == &ways[MAX_WAYS]) {
        forget_ways();
        way = ways;
    }
    if (way == &ways[n_ways]) {
        memcpy(way->items, packet.items, packet.n_items * sizeof *packet.items);
        way->n_items = packet.n_items;
        way->n_flows = packet.n_flows;
        way->v6 = packet.v6;
        way->edits = counts.packets % 3 ? (counts.packets * 2654435761u >> 8) % EDITS : 0;
        n_ways++;
    }
    for (int i = 0; i < way->n_flows; i++) {
        insert_flow(way, i);
    }
    return way;
}
