/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The path cache (dp/path.h): learning from a packet that made its passes and leaves.  Its connections took it
 * without a change of state, all of them, and its flows have no operations but those of dp_path_compose().
 *
 * What operations do to Ethernet addresses, the tag, TOS, TTL and flow label is composed from them.  Addresses and
 * ports are the same in all packets of a microflow, so what they become is read from the packet itself. */
#ifndef DP_PATH_LEARN_H
#define DP_PATH_LEARN_H 1

#include "dp/path.h"

#define DP_PATH_PROBES 4        /* Places that a path may have. */
#define DP_PATH_PAUSE 128       /* Packets, at most. */
#define DP_PATH_WORDS (sizeof(struct dp_path) / 8)

#define DP_PATH_ARRIVED(WALK, FIELD) ((const __u8 *) (WALK)->arrived + __builtin_offsetof(union dp_key, FIELD))

/* Begins: nothing is known of a packet's passes. */
DP_INLINE void dp_path_begin(struct dp_path_walk *walk, struct dp_ct_here *here)
{
    walk->n_flows = 0;
    here->n_steady = 0;
    here->translated = 0;
}

/* Notes how the packet arrived, whose first pass does not end its way. */
DP_INLINE void dp_path_note_arrival(struct dp_ctx *ctx, struct dp_path_walk *walk, const struct dp_frame *frame,
                                    const union dp_key *key)
{
    const __u8 *ip;

    DP_UNROLL
    for (int i = 0; i < DP_HOT_WORDS; i++) {
        walk->arrived[i] = key->w[i];
    }
    walk->addr[0] = key->w[2];
    walk->label = key->ip6_label.raw;
    if (!DP_OMITS(ctx, DP_PART(IP6)) && frame->has & DP_HAS_IP6) {
        ip = dp_at(ctx, frame->l3 & DP_OFS_MASK, DP_IP6_LEN);
        for (int i = 0; ip && i < 4; i++) {
            walk->addr[i] = dp_load64(ip + 8 + 8 * i);
        }
    }
}

/* Notes the flow of a pass, in which the packet had 'len' bytes. */
DP_INLINE void dp_path_note(struct dp_path_walk *walk, __u32 flow, __u32 len)
{
    __u64 n = walk->n_flows;

    DP_OPAQUE(n);
    if (n < DP_PATH_FLOWS) {
        DP_OPAQUE(n);
        walk->flow[n].flow = flow;
        walk->flow[n].len = len;
    }
    walk->n_flows = n + 1;
}

/* 'value' under 'mask' is set after all that was set before. */
DP_INLINE void dp_path_set(__u64 *set, __u64 *kept, __u64 value, __u64 mask)
{
    *set = (*set & ~mask) | value;
    *kept &= ~mask;
}

DP_INLINE void dp_path_pop(struct dp_path_walk *walk)
{
    struct dp_path *made = &walk->made;

    if (made->pushed) {
        made->pushed = 0;
    } else if (made->pops) {
        walk->sets |= DP_PATH_REFUSED;  /* There may be a tag behind the first. */
    } else if (dp_load32(DP_PATH_ARRIVED(walk, vlan))) {
        made->pops = 1;
    }
}

/* Adds operation 'op' to what the path does. */
DP_INLINE void dp_path_add(struct dp_path_walk *walk, const struct dp_op *op)
{
    struct dp_path *made = &walk->made;
    union {
        struct dp_vlan vlan;
        __u32 raw;
    } tag;

    switch (op->code) {
    case DP_OP_CT:
    case DP_OP_CT_CLEAR:
    case DP_OP_SET_MARK:                /* The key has what becomes of these. */
    case DP_OP_SET_PRIORITY:
        break;
    case DP_OP_SET_ETH:
        dp_path_set(&made->set.eth[0], &made->kept.eth[0],
                    DP_BYTES(0, 4, op->u.eth.value[0]) | DP_BYTES(4, 4, op->u.eth.value[1]),
                    DP_BYTES(0, 4, op->u.eth.mask[0]) | DP_BYTES(4, 4, op->u.eth.mask[1]));
        dp_path_set(&made->set.eth[1], &made->kept.eth[1], DP_BYTES(0, 4, op->u.eth.value[2]),
                    DP_BYTES(0, 4, op->u.eth.mask[2]));
        break;
    case DP_OP_SET_IP4:
        dp_path_set(&made->set.ip, &made->kept.ip, DP_PATH_IP4(op->u.ip4.tos, op->u.ip4.ttl),
                    DP_PATH_IP4(op->u.ip4.tos_mask, op->u.ip4.ttl_mask));
        if (op->u.ip4.src_mask | op->u.ip4.dst_mask) {
            walk->sets |= DP_PATH_SETS_ADDRESS;
        }
        break;
    case DP_OP_SET_IP6:
        dp_path_set(&made->set.ip, &made->kept.ip,
                    DP_PATH_IP6(dp_htonl((__u32) op->u.ip6.tos << 20).raw | op->u.ip6.label, op->u.ip6.ttl),
                    DP_PATH_IP6(dp_htonl((__u32) op->u.ip6.tos_mask << 20).raw | op->u.ip6.label_mask,
                                op->u.ip6.ttl_mask));
        break;
    case DP_OP_SET_TCP:
    case DP_OP_SET_UDP:
        walk->sets |= DP_PATH_SETS_PORTS;
        break;
    case DP_OP_PUSH_VLAN:
        tag.vlan.tpid = op->u.vlan.tpid;
        tag.vlan.tci.raw = op->u.vlan.tci.raw & DP_SWAP16((__u16) ~DP_VLAN_PRESENT);
        walk->sets |= made->pushed ? DP_PATH_REFUSED : 0;
        made->pushed = tag.raw;
        break;
    case DP_OP_POP_VLAN:
        dp_path_pop(walk);
        break;
    default:
        walk->sets |= DP_PATH_REFUSED;
        break;
    }
}

/* Adds what flow number 'i' of the packet's way compares to what the path compares. */
DP_INLINE void dp_path_compare(struct dp_path_walk *walk, const struct dp_mask *mask)
{
    struct dp_path *made = &walk->made;
    __u8 tos = *DP_HOT_FIELD(mask, ip_tos), ttl = *DP_HOT_FIELD(mask, ip_ttl);
    __u32 label = mask->n_cold && mask->cold_word[0] == DP_KEY_WORD(ip6_label) ? dp_load32(mask->cold) : 0;

    made->mask.eth[0] |= dp_load64(DP_HOT_FIELD(mask, eth_dst));
    made->mask.eth[1] |= DP_BYTES(0, 4, dp_load32(DP_HOT_FIELD(mask, eth_dst) + 8))
        | DP_BYTES(6, 2, dp_load16(DP_HOT_FIELD(mask, vlan.tci)) & DP_SWAP16((__u16) ~DP_VLAN_PRESENT));
    made->mask.ip |= made->v6 ? DP_PATH_IP6(dp_htonl((__u32) tos << 20).raw | (label & DP_SWAP32(0xfffff)), ttl)
        : DP_PATH_IP4(tos, ttl);
    made->tcp_mask |= dp_load16(DP_HOT_FIELD(mask, tcp_flags)) & DP_SWAP16(0x0fff);
}

/* Adds flow number 'i' of the packet's way to walk->made.  Returns 0. */
DP_STAGE int dp_path_compose(struct dp_ctx *ctx, struct dp_path_walk *walk, __u32 i)
{
    const struct dp_flow *flow;
    const struct dp_mask *mask;
    __u64 n = i, identity;

    DP_OPAQUE(n);
    if (!walk || n >= DP_PATH_FLOWS) {
        return 0;
    }
    DP_OPAQUE(n);
    flow = dp_flows_at(ctx, walk->flow[n].flow);
    identity = flow ? dp_flow_identity(flow) : 0;
    mask = dp_masks_at(ctx, dp_identity_mask(identity));
    if (!flow || !mask || dp_identity_mask(identity) == DP_MASK_ALL) {
        walk->sets |= DP_PATH_REFUSED;
        return 0;
    }
    walk->made.flow[n].identity = identity;
    walk->made.flow[n].flow = walk->flow[n].flow;
    walk->made.flow[n].growth = walk->flow[n].len - walk->flow[0].len;
    dp_path_compare(walk, mask);
    DP_NO_UNROLL
    for (__u32 j = 0; j < DP_MAX_OPS; j++) {
        if (j >= flow->n_ops) {
            break;
        }

        const struct dp_op *op = dp_ops_at(ctx, flow->ops + j);

        if (op) {
            dp_path_add(walk, op);
        }
    }
    return 0;
}

/* Writes what the headers had when the packet arrived, of what is compared. */
DP_INLINE void dp_path_values(struct dp_path_walk *walk)
{
    struct dp_path *made = &walk->made;
    __u32 tag = dp_load32(DP_PATH_ARRIVED(walk, vlan));
    __u8 tos = *DP_PATH_ARRIVED(walk, ip_tos), ttl = *DP_PATH_ARRIVED(walk, ip_ttl);

    made->mask.eth[1] |= DP_BYTES(4, 2, 0xffff);        /* Whether there is a tag, and of which kind. */
    made->value.eth[0] = dp_load64(DP_PATH_ARRIVED(walk, eth_dst)) & made->mask.eth[0];
    made->value.eth[1] = (DP_BYTES(0, 4, dp_load32(DP_PATH_ARRIVED(walk, eth_dst) + 8)) | DP_BYTES(4, 4, tag))
        & made->mask.eth[1];
    made->value.ip = made->v6 ? DP_PATH_IP6(dp_htonl((__u32) tos << 20).raw | walk->label, ttl) : DP_PATH_IP4(tos, ttl);
    made->value.ip &= made->mask.ip;
    made->tcp_value = dp_load16(DP_PATH_ARRIVED(walk, tcp_flags)) & made->tcp_mask;
}

/* Makes walk->made of the packet's way.  Returns whether it is one that can be learned. */
DP_INLINE int dp_path_make(struct dp_ctx *ctx, struct dp_path_walk *walk, const struct dp_frame *frame,
                           const union dp_key *key, __u32 n_conns)
{
    struct dp_path *made = &walk->made;
    __u64 *words = (__u64 *) made;

    DP_NO_UNROLL
    for (__u32 i = 0; i < DP_PATH_WORDS; i++) {
        words[i] = 0;
    }
    walk->sets = 0;
    made->status = DP_PATH_READY;
    made->to = walk->to;
    made->v6 = !!(frame->has & DP_HAS_IP6);
    made->n_flows = walk->n_flows;
    made->n_conns = n_conns;
    made->growth = frame->len - walk->flow[0].len;
    made->skb_mark = key->skb_mark;
    made->skb_priority = key->skb_priority;
    made->kept = (struct dp_path_bits) { { ~0ull, ~0ull }, ~0ull };
    DP_NO_UNROLL
    for (__u32 i = 0; i < DP_PATH_FLOWS; i++) {
        if (i >= walk->n_flows) {
            break;
        }

        dp_path_compose(ctx, walk, i);
    }
    made->edits = (made->kept.eth[0] & made->kept.eth[1] & made->kept.ip) != ~0ull;
    dp_path_values(walk);
    return !(walk->sets & DP_PATH_REFUSED);
}

/* Gives a free entry to walk->made.  Returns whether it did. */
DP_INLINE int dp_path_put(struct dp_ctx *ctx, struct dp_path *path, const struct dp_path *made)
{
    struct dp_path_head *head = dp_path_head_at(ctx, 0);
    const __u64 *from = (const __u64 *) made;
    __u64 *to = (__u64 *) path;

    if (!head || __sync_val_compare_and_swap(&path->status, DP_PATH_FREE, DP_PATH_WRITING) != DP_PATH_FREE) {
        return 0;
    }
    DP_WRITE_ONCE(path->to, made->to);
    DP_NO_UNROLL
    for (__u32 i = 1; i < DP_PATH_WORDS; i++) {
        DP_WRITE_ONCE(to[i], from[i]);
    }
    DP_EXCHANGE(&path->status, DP_PATH_READY);
    __sync_fetch_and_add(&head->n_paths, 1);
    return 1;
}

/* The path that is as walk->made: one that is there, or a new one.  Returns its index + 1; 0: there is no room. */
DP_STAGE __u32 dp_path_share(struct dp_ctx *ctx, const struct dp_path_walk *walk)
{
    const __u64 *made = walk ? (const __u64 *) &walk->made : 0;
    __u64 hash = 0;

    if (!made) {
        return 0;
    }
    DP_NO_UNROLL
    for (__u32 i = 0; i < DP_PATH_WORDS; i++) {
        hash = (hash ^ made[i]) * 0x9fb21c651e98df25ull;
        hash ^= hash >> 29;
    }
    DP_NO_UNROLL
    for (__u32 i = 0; i < DP_PATH_PROBES; i++) {
        __u32 index = ((__u32) hash + i) & (DP_PATH_MAX - 1);
        struct dp_path *path = dp_paths_at(ctx, index);
        __u64 difference = 0;

        if (!path) {
            continue;
        }
        DP_NO_UNROLL
        for (__u32 j = 0; j < DP_PATH_WORDS; j++) {
            difference |= DP_READ_ONCE(((const __u64 *) path)[j]) ^ made[j];
            if (!j) {
                DP_ORDER();     /* The first has 'status', which is written last. */
            }
        }
        if (!difference) {
            return index + 1;
        }
        if (DP_READ_ONCE(path->status) == DP_PATH_FREE && dp_path_put(ctx, path, &walk->made)) {
            return index + 1;
        }
        if (DP_READ_ONCE(path->status) == DP_PATH_READY && !dp_path_is_current(ctx, path)) {
            dp_path_give_up(path);
        }
    }
    return 0;
}

/* There is no room for what the packet would teach.  The pause has another length each time: packets that follow those
 * without room teach something at last, also if they always come in the same order. */
DP_INLINE void dp_path_no_room(struct dp_path_head *head, struct dp_path_walk *walk)
{
    walk->pause = (__sync_fetch_and_add(&head->n_full, 1) + 1) * 37 % DP_PATH_PAUSE;
}

/* Whether the packet has a microflow, or all places are taken: then nothing is to be learned.  Gives up what is out
 * of date. */
DP_INLINE int dp_path_has_no_place(struct dp_ctx *ctx, struct dp_path_head *head, struct dp_path_walk *walk,
                                   __u32 first, __u32 key, __u64 addr, __u32 ports)
{
    int taken = 0;

    DP_NO_UNROLL
    for (__u32 i = 0; i < DP_MICRO_PLACES; i++) {
        struct dp_micro *micro = dp_micros_at(ctx, first ^ i);
        __u32 word = micro ? DP_READ_ONCE(micro->word) : 0;
        struct dp_path *path;

        if (!micro || !DP_MICRO_STATUS(word)) {
            continue;
        }
        taken++;
        if (DP_MICRO_STATUS(word) != DP_PATH_READY) {
            continue;
        }
        path = dp_paths_at(ctx, DP_MICRO_PATH(word));
        if (!path || DP_READ_ONCE(path->status) != DP_PATH_READY || !dp_micro_is_current(ctx, micro)) {
            dp_micro_give_up(head, micro, word);
            taken--;
        } else if (DP_MICRO_KEY(word) == key && DP_READ_ONCE(micro->addr) == addr
                   && DP_READ_ONCE(micro->ports) == ports) {
            DP_WRITE_ONCE(head->port[DP_MICRO_IN_PORT(key) % DP_PATH_PORTS], 1);
            return 1;
        }
    }
    if (taken == DP_MICRO_PLACES) {
        dp_path_no_room(head, walk);
        return 1;
    }
    return 0;
}

/* A free place of those that begin with 'first', which is to be written; its number in '*index'.  NULL: there is
 * none. */
DP_INLINE struct dp_micro *dp_path_take(struct dp_ctx *ctx, __u32 first, __u32 *index)
{
    DP_NO_UNROLL
    for (__u32 i = 0; i < DP_MICRO_PLACES; i++) {
        struct dp_micro *micro = dp_micros_at(ctx, first ^ i);

        if (micro && !__sync_val_compare_and_swap(&micro->word, DP_PATH_FREE, DP_PATH_WRITING)) {
            DP_WRITE_ONCE(micro->turn, micro->turn + 1);
            DP_ORDER();
            *index = first ^ i;
            return micro;
        }
    }
    return 0;
}

/* There is one microflow more.  A quarter of the entries is used at most: then there are twice as many.  Half of the
 * microflows do not stand where they are looked for any more, and are learned again. */
DP_INLINE void dp_path_count_micro(struct dp_path_head *head)
{
    __u32 n = __sync_fetch_and_add(&head->n_micros, 1);
    __u32 last = DP_READ_ONCE(head->micro_last);

    if (n > last / 4 && last < head->micro_most) {
        __sync_val_compare_and_swap(&head->micro_last, last, 2 * last + 1);
    }
}

/* Reads addresses and ports as the packet leaves.  Returns 0 if it cannot be told what became of checksums. */
DP_INLINE int dp_path_read_out(struct dp_ctx *ctx, const struct dp_path_walk *walk, const struct dp_frame *frame,
                               struct dp_micro *micro, struct dp_micro6 *micro6, int translated)
{
    const __u8 *ip = dp_at(ctx, frame->l3 & DP_OFS_MASK, walk->made.v6 ? DP_IP6_LEN : DP_IP4_LEN);
    const __u8 *l4 = dp_at(ctx, frame->l4 & DP_OFS_MASK, 4);
    __u64 change = 0, moved = 0, out = 0;
    __u32 old, new;

    if (!ip || !l4) {
        return 0;
    }
    old = dp_load32(DP_PATH_ARRIVED(walk, tp_src));
    new = dp_load32(l4);
    DP_WRITE_ONCE(micro->out_ports, new);
    for (int i = 0; i < 4; i++) {
        __u64 was = walk->addr[i], is = was;

        if (walk->made.v6) {
            const __u8 *ip6 = dp_at(ctx, frame->l3 & DP_OFS_MASK, DP_IP6_LEN);

            is = ip6 ? dp_load64(ip6 + 8 + 8 * i) : 0;
        } else if (!i) {
            is = dp_load64(ip + 12);
            out = is;
        } else {
            was = is = 0;
        }
        DP_WRITE_ONCE(micro6->addr[i], was);
        DP_WRITE_ONCE(micro6->out_addr[i], is);
        moved |= was ^ is;
        change += dp_csum_change32(was, is) + dp_csum_change32(was >> 32, is >> 32);
    }
    DP_WRITE_ONCE(micro->out_addr, out);
    DP_WRITE_ONCE(micro->addr_change, moved || translated ? dp_csum_fold(change) : 0);
    return !(walk->sets & DP_PATH_SETS_ADDRESS && !moved) && !(walk->sets & DP_PATH_SETS_PORTS && old == new)
        && !(moved && !translated && !(walk->sets & DP_PATH_SETS_ADDRESS));
}

/* Whether the packet met a connection twice: the second time its window is what the first made of it. */
DP_INLINE int dp_path_repeats(const struct dp_ct_here *here, __u32 n)
{
    int repeats = 0;

    DP_UNROLL
    for (__u32 i = 1; i < DP_PATH_CONNS; i++) {
        DP_UNROLL
        for (__u32 j = 0; j < i; j++) {
            repeats |= i < n && DP_CT_REF_INDEX(here->steady[i].ref) == DP_CT_REF_INDEX(here->steady[j].ref);
        }
    }
    return repeats;
}

/* Learns from the packet, if it is of a kind that can be learned.  Returns 0. */
DP_STAGE int dp_path_learn(struct dp_ctx *ctx, struct dp_path_walk *walk, const struct dp_frame *frame,
                           const union dp_key *key, const struct dp_ct_here *here)
{
    struct dp_path_head *head = dp_path_head_at(ctx, 0);
    struct dp_micro *micro;
    struct dp_micro6 *micro6;
    __u32 n, first, wanted, ports, path, tcp, index = 0;
    __u64 addr;

    if (!walk || !frame || !key || !here || !head) {
        return 0;
    }
    if (walk->pause) {
        walk->pause--;
        return 0;
    }
    n = here->n_steady;
    tcp = !!(frame->has & DP_HAS_TCP);
    if (!n || n > DP_PATH_CONNS || walk->n_flows < 2 || walk->n_flows > DP_PATH_FLOWS || frame->cut
        || key->in_port > DP_MICRO_MOST_PORT || !(frame->has & (DP_HAS_TCP | DP_HAS_UDP))
        || dp_load32(DP_PATH_ARRIVED(walk, vlan2)) || dp_path_repeats(here, n)) {
        return 0;                       /* Packets with two tags are not done here. */
    }
    wanted = DP_MICRO(key->in_port, tcp, 0, DP_TAKES_SKBS, DP_PATH_READY);
    ports = dp_load32(DP_PATH_ARRIVED(walk, tp_src));
    addr = frame->has & DP_HAS_IP6 ? dp_path_fold6(head, walk->addr) : walk->addr[0];
    first = dp_path_hash(head, wanted, addr, ports);
    if (dp_path_has_no_place(ctx, head, walk, first, wanted, addr, ports) || !dp_path_make(ctx, walk, frame, key, n)) {
        return 0;
    }
    path = dp_path_share(ctx, walk);
    if (!path) {
        dp_path_no_room(head, walk);
        return 0;
    }
    micro = dp_path_take(ctx, first, &index);
    micro6 = dp_micros6_at(ctx, index);
    if (!micro) {
        return 0;
    }
    if (!micro6 || !dp_path_read_out(ctx, walk, frame, micro, micro6, here->translated)) {
        DP_EXCHANGE(&micro->word, DP_PATH_FREE);
        return 0;
    }
    DP_WRITE_ONCE(micro->addr, addr);
    DP_WRITE_ONCE(micro->ports, ports);
    for (__u32 i = 0; i < DP_PATH_CONNS; i++) {
        DP_WRITE_ONCE(micro->conn[i].ref, i < n ? here->steady[i].ref : 0);
        DP_WRITE_ONCE(micro->conn[i].version, i < n ? here->steady[i].version : 0);
    }
    dp_path_count_micro(head);
    DP_WRITE_ONCE(head->port[key->in_port % DP_PATH_PORTS], 1);
    DP_EXCHANGE(&micro->word, wanted | DP_MICRO(0, 0, path - 1, 0, 0));
    return 0;
}

#endif /* dp/path_learn.h */
