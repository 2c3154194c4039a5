/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The path cache: one lookup for packets of a connection that match several flows, one after the other, in several
 * zones.
 *
 * A microflow (struct dp_micro) is found by port, protocol, addresses and ports.  It has the packet's connections,
 * the new addresses and ports, and its path (struct dp_path): the flows, the bits of the headers that they compare,
 * and what they write and where the packet leaves.  dp/path_learn.h makes both.  A packet is done here if
 *
 *   - its headers have the path's bits, and the flows are those that the path was learned from;
 *   - each connection is the one that it was, with the same mark and label, and takes the packet without a change of
 *     state, as dp/ct_fast.h has it.
 *
 * Everything else is looked up pass by pass.  All connections are looked at before one is written: a packet that one
 * of them refuses has not been judged by the others.  What is written and counted is what the passes would write and
 * count. */
#ifndef DP_PATH_H
#define DP_PATH_H 1

#include "dp/action.h"
#include "dp/count.h"
#include "dp/ct_op.h"
#include "dp/path_table.h"
#include "dp/predict.h"

/* What became of the lookup. */
enum dp_path_found { DP_PATH_NONE, DP_PATH_HIT, DP_PATH_MISS };

/* Of a run: what its passes were, for dp/path_learn.h; and room. */
struct dp_path_walk {
    __u64 arrived[DP_HOT_WORDS];        /* The key of the first pass. */
    __u64 addr[4];                      /* Addresses as they arrived: IPv4 in the first. */
    __u32 label;                        /* IPv6's flow label, memory order. */
    __u32 to;                           /* Port that it leaves by. */
    __u32 found;                        /* enum dp_path_found. */
    __u32 hit;                          /* DP_PATH_HIT of a traced packet: place of its path. */
    __u32 n_flows;                      /* Passes, */
    __u32 pad;
    struct { __u32 flow, len; } flow[DP_PATH_FLOWS];            /* and the first of them. */
    struct { __u64 before, after; __u32 ref; } conn[DP_PATH_CONNS];     /* Of a packet that is done here: windows, */
    __u64 out_addr[4];                  /* and what its microflow makes of it, as in struct dp_micro and dp_micro6. */
    __u32 out_ports;
    __u32 addr_change;
    __u32 sets;                         /* DP_PATH_SETS_* */
    __u32 pause;                        /* Of all runs here: so many packets teach nothing, as there was no room. */
    struct dp_path made;                /* Of a packet that a path is learned from. */
};

/* What operations of a path that is being learned change. */
#define DP_PATH_SETS_ADDRESS 1
#define DP_PATH_SETS_PORTS 2
#define DP_PATH_REFUSED 4               /* Something that is not done here. */

/* Before dp_at() is called once more: the compiler would keep 32 bits of a pointer into the packet. */
#define DP_PATH_LOOK_AGAIN() __asm__ volatile("" ::: "memory")

/* The operations that a path may have. */
#define DP_PATH_OPS                                                                                         \
    (1ull << DP_OP_CT | 1ull << DP_OP_CT_CLEAR | 1ull << DP_OP_SET_MARK | 1ull << DP_OP_SET_PRIORITY        \
     | 1ull << DP_OP_SET_ETH | 1ull << DP_OP_SET_IP4 | 1ull << DP_OP_SET_IP6 | 1ull << DP_OP_SET_TCP        \
     | 1ull << DP_OP_SET_UDP | 1ull << DP_OP_PUSH_VLAN | 1ull << DP_OP_POP_VLAN)

/* What is read of a packet. */
struct dp_path_packet {
    struct dp_path_bits bits;
    struct dp_ct_segment segment;
    __u64 addr;                         /* As in struct dp_micro, */
    __u64 addr6[4];                     /* and in struct dp_micro6. */
    __u32 ports;
    __u32 len;                          /* With a tag in VLAN acceleration. */
    __u32 l4_len;
    __u16 tcp_flags;                    /* Memory order. */
    __u8 v6;
    __u8 tcp;                           /* Else UDP. */
};

/* A hash of IPv6's addresses. */
DP_INLINE __u64 dp_path_fold6(const struct dp_path_head *head, const __u64 *addr)
{
    __u64 hash = 0;

    for (int i = 0; i < 4; i++) {
        hash += dp_hash_word(addr[i], head->hash_key[i]);
    }
    return hash;
}

DP_INLINE __u32 dp_path_hash(const struct dp_path_head *head, __u32 key, __u64 addr, __u32 ports)
{
    __u64 hash = dp_hash_word(addr, head->hash_key[4]) + dp_hash_word((__u64) ports << 32 | key, head->hash_key[0]);

    hash ^= hash >> 32;
    hash *= 0x9fb21c651e98df25ull;
    return (__u32) (hash ^ hash >> 28) & head->micro_last;
}

/* Whether all connections of a microflow are what they were. */
DP_INLINE int dp_micro_is_current(struct dp_ctx *ctx, const struct dp_micro *micro)
{
    for (int i = 0; i < DP_PATH_CONNS; i++) {
        __u32 ref = DP_READ_ONCE(micro->conn[i].ref);
        const struct dp_ct_life *life = dp_ct_lives_at(ctx, DP_CT_REF_INDEX(ref));

        if (ref && (!life || DP_READ_ONCE(life->version) != DP_READ_ONCE(micro->conn[i].version))) {
            return 0;
        }
    }
    return 1;
}

/* Whether its flows are those that it was learned from. */
DP_INLINE int dp_path_is_current(struct dp_ctx *ctx, const struct dp_path *path)
{
    DP_NO_UNROLL
    for (int i = 0; i < DP_PATH_FLOWS; i++) {
        if (i >= path->n_flows) {
            break;
        }

        const struct dp_flow *flow = dp_flows_at(ctx, path->flow[i].flow);

        if (!flow || dp_flow_identity(flow) != path->flow[i].identity) {
            return 0;
        }
    }
    return 1;
}

/* Nobody begins to use an entry any more that is out of date. */
DP_INLINE void dp_micro_give_up(struct dp_path_head *head, struct dp_micro *micro, __u32 word)
{
    if (__sync_val_compare_and_swap(&micro->word, word, DP_PATH_FREE) == word) {
        __sync_fetch_and_add(&head->n_micros, -1);
    }
}

DP_INLINE void dp_path_give_up(struct dp_path *path)
{
    __sync_val_compare_and_swap(&path->status, DP_PATH_READY, DP_PATH_STALE);
}

/* Reads Ethernet's header, with one tag at most.  Returns where the network's begins, and '*is_ip6'; 0: it is not
 * for this file. */
DP_INLINE __u32 dp_path_read_link(struct dp_ctx *ctx, struct dp_path_packet *p, int *is_ip6)
{
    const __u8 *eth = dp_at(ctx, 0, DP_ETH_LEN + DP_VLAN_LEN);
    __u32 tag = dp_tag_beside(ctx);
    __u32 l3 = DP_ETH_LEN;
    dp_be16 type;

    if (!eth || (DP_OMITS(ctx, DP_PART(VLAN)) && tag)) {
        return 0;
    }
    type = dp_load_be16(eth + 12);
    p->len = dp_len(ctx) + (tag ? DP_VLAN_LEN : 0);
    if (!DP_OMITS(ctx, DP_PART(VLAN)) && !tag && dp_is_vlan(type)) {
        tag = dp_load32(eth + 12);
        type = dp_load_be16(eth + 16);
        l3 += DP_VLAN_LEN;
    }
    p->bits.eth[0] = dp_load64(eth);
    p->bits.eth[1] = DP_BYTES(0, 4, dp_load32(eth + 8)) | DP_BYTES(4, 4, tag);
    *is_ip6 = DP_BE16_IS(type, DP_ETH_IP6);
    return *is_ip6 || DP_BE16_IS(type, DP_ETH_IP4) ? l3 : 0;
}

/* Reads IPv4's header at 'l3', behind which there are eight bytes.  Returns the protocol; 0: as above. */
DP_INLINE __u32 dp_path_read_ip4(struct dp_ctx *ctx, struct dp_path_packet *p, __u32 l3)
{
    const __u8 *ip = dp_at(ctx, l3, DP_IP4_LEN + DP_UDP_LEN);
    __u32 size = dp_len(ctx) - l3, len;

    /* A checksum of 0xffff, which no sender makes, becomes 0 where it is updated. */
    if (!ip || !dp_ct_fast_ip4_is_good(ip) || dp_load16(ip + 10) == 0xffff) {
        return 0;
    }
    p->bits.ip = DP_PATH_IP4(ip[1], ip[8]);
    p->addr = dp_load64(ip + 12);
    len = dp_ntohs(dp_load_be16(ip + 2));
    if (DP_TAKES_SKBS && !len && dp_is_big(ctx)) {
        len = dp_big_len(size);
    }
    p->l4_len = len - DP_IP4_LEN;
    return len >= DP_IP4_LEN && len <= size ? ip[9] : 0;
}

/* The same of IPv6. */
DP_INLINE __u32 dp_path_read_ip6(struct dp_ctx *ctx, struct dp_path_packet *p, __u32 l3)
{
    const __u8 *ip = dp_at(ctx, l3, DP_IP6_LEN + DP_UDP_LEN);
    __u32 size = dp_len(ctx) - l3;

    if (!ip || DP_OMITS(ctx, DP_PART(IP6))) {
        return 0;
    }
    p->bits.ip = DP_PATH_IP6(dp_load32(ip), ip[7]);
    for (int i = 0; i < 4; i++) {
        p->addr6[i] = dp_load64(ip + 8 + 8 * i);
    }
    p->l4_len = dp_ntohs(dp_load_be16(ip + 4));
    if (DP_TAKES_SKBS && !p->l4_len && dp_is_big(ctx)) {
        p->l4_len = dp_big_len(size - DP_IP6_LEN);
    }
    return p->l4_len + DP_IP6_LEN <= size ? ip[6] : 0;
}

/* Whether the packet is CHECKSUM_PARTIAL. */
DP_INLINE int dp_path_is_unfinished(struct dp_ctx *ctx, const struct dp_path_packet *p, __u32 l3, __u32 l4)
{
    const __u8 *field, *addr;
    __u64 sum;

    DP_PATH_LOOK_AGAIN();
    field = dp_at(ctx, l4 + (p->tcp ? 16 : 6), 2);
    if (p->v6) {
        addr = dp_at(ctx, l3 + 8, 32);
        sum = addr ? dp_pending_sum(addr, 4) : 0;
    } else {
        addr = dp_at(ctx, l3 + 12, 8);
        sum = addr ? dp_pending_sum(addr, 1) : 0;
    }
    return !field || !addr || dp_is_pending(dp_load16(field), sum, p->tcp ? DP_IP_TCP : DP_IP_UDP, p->l4_len);
}

/* Reads the transport's header at 'l4'.  Returns 0 if the packet is not for this file. */
DP_INLINE int dp_path_read_l4(struct dp_ctx *ctx, struct dp_path_packet *p, __u32 l4)
{
    const __u8 *at;

    DP_PATH_LOOK_AGAIN();
    if (p->tcp) {
        at = dp_at(ctx, l4, DP_TCP_LEN);
        if (!at || !dp_ct_fast_tcp(at, p->l4_len, &p->segment)) {
            return 0;
        }
        p->tcp_flags = dp_load16(at + 12) & DP_SWAP16(0x0fff);
    } else {
        at = dp_at(ctx, l4, DP_UDP_LEN);
        if (!at || !dp_ct_fast_udp(at, p->l4_len)) {
            return 0;
        }
        p->tcp_flags = 0;
    }
    p->ports = dp_load32(at);
    return p->ports & 0xffff && p->ports >> 16;
}

/* Reads the packet; fills the layers of '*frame' as dp_parse() would.  Returns 0 if it is not for this file. */
DP_INLINE int dp_path_read(struct dp_ctx *ctx, struct dp_frame *frame, struct dp_path_packet *p)
{
    int is_ip6;
    __u32 l3 = dp_path_read_link(ctx, p, &is_ip6), l4, proto;

    if (!l3) {
        return 0;
    }
    if (is_ip6) {
        proto = dp_path_read_ip6(ctx, p, l3);
        l4 = l3 + DP_IP6_LEN;
    } else {
        proto = dp_path_read_ip4(ctx, p, l3);
        l4 = l3 + DP_IP4_LEN;
    }
    if ((proto != DP_IP_TCP && proto != DP_IP_UDP) || (!DP_TAKES_SKBS && dp_out_of_reach(ctx))) {
        return 0;
    }
    p->v6 = is_ip6;
    p->tcp = proto == DP_IP_TCP;
    if (!dp_path_read_l4(ctx, p, l4)) {
        return 0;
    }
    dp_frame_layers(frame, DP_NO_LAYER, l3, l4, p->l4_len);
    frame->has = (is_ip6 ? DP_HAS_IP6 : DP_HAS_IP4) | (p->tcp ? DP_HAS_TCP : DP_HAS_UDP);
    return DP_OMITS(ctx, DP_PART_CHECKSUM) || !frame->local_stack || !dp_path_is_unfinished(ctx, p, l3, l4);
}

/* Whether the headers have the bits that the path's flows compare. */
DP_INLINE int dp_path_matches(const struct dp_path *path, const struct dp_path_packet *p)
{
    __u64 difference = ((p->bits.eth[0] & path->mask.eth[0]) ^ path->value.eth[0])
        | ((p->bits.eth[1] & path->mask.eth[1]) ^ path->value.eth[1]) | ((p->bits.ip & path->mask.ip) ^ path->value.ip)
        | ((p->tcp_flags & path->tcp_mask) ^ path->tcp_value) | (path->v6 ^ p->v6);

    return !difference;
}

/* Whether connection number 'i' of the microflow takes the packet without a change of state.  Notes what becomes of
 * its window. '*current' becomes 0 if it is not what it was. */
DP_INLINE int dp_path_judge(struct dp_ctx *ctx, struct dp_path_walk *walk, const struct dp_path_packet *p,
                            const struct dp_micro_conn *conn, int i, __u32 now, __u32 fresh, int *current)
{
    __u32 ref = DP_READ_ONCE(conn->ref), d = DP_CT_REF_REPLY(ref);
    const struct dp_ct_life *life = dp_ct_lives_at(ctx, DP_CT_REF_INDEX(ref));
    __u64 state, own, others;

    if (!life || DP_READ_ONCE(life->version) != DP_READ_ONCE(conn->version)) {
        *current = 0;
        return 0;
    }
    walk->conn[i].ref = ref;
    state = DP_READ_ONCE(life->state);
    if (state & DP_CT_DEAD || (__s32) (now - DP_READ_ONCE(life->used)) >= (__s32) fresh) {
        return 0;
    }
    if (!p->tcp) {
        return DP_CT_CLASS(state) == DP_CT_TM_OTHER_BIDIR;
    }
    own = d ? DP_READ_ONCE(life->window[1]) : DP_READ_ONCE(life->window[0]);
    others = d ? DP_READ_ONCE(life->window[0]) : DP_READ_ONCE(life->window[1]);
    walk->conn[i].before = own;
    return dp_ct_fast_is_steady(state) && dp_ct_fast_judge(&p->segment, state, own, others, d, &walk->conn[i].after);
}

/* Notes the packet in its connections, each of which dp_path_judge() has asked. */
DP_INLINE void dp_path_track(struct dp_ctx *ctx, const struct dp_path_walk *walk, __u32 n, int tcp, __u32 now)
{
    DP_NO_UNROLL
    for (int i = 0; i < DP_PATH_CONNS; i++) {
        if (i >= n) {
            break;
        }

        __u32 ref = walk->conn[i].ref;
        struct dp_ct_life *life = dp_ct_lives_at(ctx, DP_CT_REF_INDEX(ref));

        if (!life) {
            continue;
        }
        if (tcp) {
            __u64 *word = DP_CT_REF_REPLY(ref) ? &life->window[1] : &life->window[0];

            dp_ct_put_window(word, walk->conn[i].before, walk->conn[i].after);
        }
        dp_ct_refresh(life, now);
    }
}

/* Counts the packet in each of its flows. */
DP_INLINE void dp_path_count(struct dp_ctx *ctx, const struct dp_path *path, const struct dp_path_packet *p)
{
    __u32 tcp_flags = dp_ntohs((dp_be16) { p->tcp_flags });
    __u32 begin = dp_count_begin(ctx);
    __u64 ticks = dp_ticks(ctx);

    DP_NO_UNROLL
    for (int i = 0; i < DP_PATH_FLOWS; i++) {
        if (i >= path->n_flows) {
            break;
        }

        dp_count_from(ctx, begin, ticks, path->flow[i].flow, p->len + path->flow[i].growth, tcp_flags);
    }
}

/* Writes IPv4's header. */
DP_INLINE void dp_path_write_ip4(__u8 *ip, const struct dp_path *path, const struct dp_path_walk *walk, __u64 bits)
{
    __u64 new = path->set.ip | (bits & path->kept.ip);
    __u32 tos = DP_PATH_IP_FIRST(bits), new_tos = DP_PATH_IP_FIRST(new);
    __u32 ttl = DP_PATH_IP_TTL(bits), new_ttl = DP_PATH_IP_TTL(new);

    if (new == bits && !walk->addr_change) {
        return;
    }
    ip[1] = new_tos;
    ip[8] = new_ttl;
    dp_store64(ip + 12, walk->out_addr[0]);
    dp_csum_apply(ip + 10, walk->addr_change + dp_csum_change16(dp_htons(tos).raw, dp_htons(new_tos).raw)
                  + dp_csum_change16(dp_htons(ttl << 8).raw, dp_htons(new_ttl << 8).raw));
}

/* Writes IPv6's header.  Returns what that adds to a sum over the packet. */
DP_INLINE __u64 dp_path_write_ip6(__u8 *ip, const struct dp_path *path, const struct dp_path_walk *walk, __u64 bits)
{
    __u64 new = path->set.ip | (bits & path->kept.ip);
    __u32 ttl = DP_PATH_IP_TTL(bits), new_ttl = DP_PATH_IP_TTL(new);

    if (walk->addr_change) {
        for (int i = 0; i < 4; i++) {
            dp_store64(ip + 8 + 8 * i, walk->out_addr[i]);
        }
    }
    if (new == bits) {
        return walk->addr_change;
    }
    dp_store32(ip, DP_PATH_IP_FIRST(new));
    ip[7] = new_ttl;
    return walk->addr_change + dp_csum_change32(DP_PATH_IP_FIRST(bits), DP_PATH_IP_FIRST(new))
        + dp_csum_change16(dp_htons(ttl).raw, dp_htons(new_ttl).raw);
}

/* Writes what the path and the microflow say into the headers. */
DP_INLINE void dp_path_write(struct dp_ctx *ctx, const struct dp_frame *frame, const struct dp_path *path,
                             const struct dp_path_walk *walk, const struct dp_path_packet *p)
{
    __u32 ofs = frame->l4 & DP_OFS_MASK;
    __u8 *eth = dp_at(ctx, 0, DP_ETH_LEN);
    __u8 *l4 = dp_at(ctx, ofs, 4);
    __u32 csum_flags = p->tcp ? 0 : DP_CSUM_UDP;
    __u64 changes = 0;
    __u8 *ip;

    if (eth) {
        dp_store64(eth, path->set.eth[0] | (p->bits.eth[0] & path->kept.eth[0]));
        dp_store32(eth + 8, (__u32) (path->set.eth[1] | (p->bits.eth[1] & path->kept.eth[1])));
    }
    if (l4 && walk->out_ports != p->ports) {
        dp_store32(l4, walk->out_ports);
    }
    DP_PATH_LOOK_AGAIN();
    if (p->v6 && !DP_OMITS(ctx, DP_PART(IP6))) {
        ip = dp_at(ctx, frame->l3 & DP_OFS_MASK, DP_IP6_LEN);
        changes = ip ? dp_path_write_ip6(ip, path, walk, p->bits.ip) : 0;
        if (changes) {
            dp_csum_packet(ctx, changes);
        }
    } else {
        ip = dp_at(ctx, frame->l3 & DP_OFS_MASK, DP_IP4_LEN);
        if (ip) {
            dp_path_write_ip4(ip, path, walk, p->bits.ip);
        }
    }
    if (walk->addr_change) {
        dp_csum_transport(ctx, ofs + (p->tcp ? 16 : 6), walk->addr_change, DP_CSUM_PSEUDO | csum_flags);
    }
    if (walk->out_ports != p->ports) {
        dp_csum_transport(ctx, ofs + (p->tcp ? 16 : 6), dp_csum_change32(p->ports, walk->out_ports), csum_flags);
    }
}

/* Pops and pushes the tag.  Returns 0, or not if there was no memory for it. */
DP_INLINE int dp_path_write_tags(struct dp_ctx *ctx, const struct dp_path *path)
{
    union {
        __u32 raw;
        struct dp_vlan vlan;
    } pushed = { path->pushed };

    if (!DP_OMITS_OP(ctx, DP_OP_POP_VLAN) && path->pops && dp_tag_pop(ctx) == DP_TAG_FAILED) {
        return -1;
    }
    return !DP_OMITS_OP(ctx, DP_OP_PUSH_VLAN) && path->pushed
        && dp_tag_push(ctx, pushed.vlan.tpid, pushed.vlan.tci) == DP_TAG_FAILED ? -1 : 0;
}

/* The packet's microflow among the places that it may have, and its first words; NULL if there is none. */
DP_INLINE struct dp_micro *dp_path_find(struct dp_ctx *ctx, __u32 first, __u32 key, const struct dp_path_packet *p,
                                        __u64 *begin, const struct dp_micro6 **micro6)
{
    DP_NO_UNROLL
    for (__u32 i = 0; i < DP_MICRO_PLACES; i++) {
        struct dp_micro *micro = dp_micros_at(ctx, first ^ i);

        if (!micro) {
            continue;
        }
        *begin = DP_READ_ONCE(micro->begin);
        if (DP_MICRO_KEY(DP_MICRO_WORD(*begin)) != key) {
            continue;
        }
        DP_ORDER();
        if (DP_READ_ONCE(micro->addr) == p->addr && DP_READ_ONCE(micro->ports) == p->ports) {
            *micro6 = dp_micros6_at(ctx, first ^ i);
            return micro;
        }
    }
    return 0;
}

/* Whether IPv6 addresses are the packet's. */
DP_INLINE int dp_path_has_addresses(const struct dp_micro6 *m, const __u64 *addr6)
{
    return !((DP_READ_ONCE(m->addr[0]) ^ addr6[0]) | (DP_READ_ONCE(m->addr[1]) ^ addr6[1])
             | (DP_READ_ONCE(m->addr[2]) ^ addr6[2]) | (DP_READ_ONCE(m->addr[3]) ^ addr6[3]));
}

/* Reads what the microflow makes of its packets. */
DP_INLINE void dp_path_read_micro(struct dp_path_walk *walk, const struct dp_micro *micro,
                                  const struct dp_micro6 *micro6, __u64 begin, int is_ip6)
{
    walk->addr_change = DP_MICRO_ADDR_CHANGE(begin);
    walk->out_ports = DP_READ_ONCE(micro->out_ports);
    if (!is_ip6) {
        walk->out_addr[0] = DP_READ_ONCE(micro->out_addr);
    } else if (walk->addr_change) {
        for (int i = 0; i < 4; i++) {
            walk->out_addr[i] = DP_READ_ONCE(micro6->out_addr[i]);
        }
    }
}

/* Does all that is to be done to the packet, or nothing: DP_FATE_PASSES.  Returns an enum dp_fate with 'arg' as a
 * stage: a packet that is dropped found no memory for a tag. */
DP_STAGE __u64 dp_path_run(struct dp_ctx *ctx, struct dp_path_walk *walk, struct dp_frame *frame, union dp_key *key,
                           __u32 in_port)
{
    struct dp_path_head *head = dp_path_head_at(ctx, 0);
    const struct dp_micro6 *micro6 = 0;
    struct dp_path_packet p = { 0 };
    struct dp_micro *micro;
    struct dp_path *path;
    __u32 word, wanted, n, now;
    __u64 begin = 0;
    int current = 1;

    if (!walk || !frame || !key || !head || in_port > DP_MICRO_MOST_PORT) {
        return DP_FATE_PASSES;
    }
    walk->found = DP_PATH_MISS;
    if (!dp_path_read(ctx, frame, &p)) {
        return DP_FATE_PASSES;
    }
    wanted = DP_MICRO(in_port, p.tcp, 0, DP_TAKES_SKBS, DP_PATH_READY);
    if (p.v6) {
        p.addr = dp_path_fold6(head, p.addr6);
    }
    micro = dp_path_find(ctx, dp_path_hash(head, wanted, p.addr, p.ports), wanted, &p, &begin, &micro6);
    word = DP_MICRO_WORD(begin);
    path = micro ? dp_paths_at(ctx, DP_MICRO_PATH(word)) : 0;
    if (!path || !micro6 || (p.v6 && !dp_path_has_addresses(micro6, p.addr6))) {
        return DP_FATE_PASSES;
    }
    if (DP_READ_ONCE(path->status) != DP_PATH_READY) {
        dp_micro_give_up(head, micro, word);
        return DP_FATE_PASSES;
    }
    if (!dp_path_is_current(ctx, path)) {
        dp_path_give_up(path);
        dp_micro_give_up(head, micro, word);
        return DP_FATE_PASSES;
    }
    if (!dp_path_matches(path, &p) || (DP_OMITS_OP(ctx, DP_OP_POP_VLAN) && path->pops)
        || (DP_OMITS_OP(ctx, DP_OP_PUSH_VLAN) && path->pushed)) {
        return DP_FATE_PASSES;
    }
    now = DP_CT_NOW(ctx);
    dp_path_read_micro(walk, micro, micro6, begin, p.v6);
    n = path->n_conns;
    DP_NO_UNROLL
    for (int i = 0; i < DP_PATH_CONNS; i++) {
        if (i >= n) {
            break;
        }

        if (!dp_path_judge(ctx, walk, &p, &micro->conn[i], i, now, head->fresh, &current)) {
            if (!current) {
                dp_micro_give_up(head, micro, word);
            }
            return DP_FATE_PASSES;
        }
    }
    DP_ORDER();
    if (DP_READ_ONCE(micro->turn) != DP_MICRO_TURN(begin)) {
        return DP_FATE_PASSES;          /* Somebody writes it: what was read may be of two microflows. */
    }
    if ((!DP_OMITS_OP(ctx, DP_OP_PUSH_VLAN) && path->pushed && !path->pops && !dp_can_grow(ctx, DP_VLAN_LEN))
        || (DP_TAKES_SKBS && !p.tcp && (walk->addr_change | (walk->out_ports ^ p.ports))
            && dp_checksum_outer(ctx, frame, key))) {
        return DP_FATE_PASSES;
    }
    dp_path_track(ctx, walk, n, p.tcp, now);
    dp_path_count(ctx, path, &p);
    walk->n_flows = path->n_flows;
    walk->found = DP_PATH_HIT;
    if (!DP_OMITS(ctx, DP_PART_TRACE)) {
        walk->hit = DP_MICRO_PATH(word);
    }
    if (DP_TAKES_SKBS) {
        key->skb_mark = path->skb_mark;
        key->skb_priority = path->skb_priority;
    }
    dp_store64(&frame->len, DP_BYTES(0, 4, p.len + path->growth));
    if (path->edits | walk->addr_change | (walk->out_ports ^ p.ports)) {
        dp_path_write(ctx, frame, path, walk, &p);
    }
    return dp_path_write_tags(ctx, path) ? DP_FATED(DP_FATE_DROP, 0) : DP_FATED(DP_FATE_OUTPUT, path->to);
}

#endif /* dp/path.h */
