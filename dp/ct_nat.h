/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Connection tracking: which addresses and ports NAT gives a connection, and rewriting its packets.
 *
 * The choice is Open vSwitch's: a hash of tuple and range gives the address and the port to begin with; ports are tried
 * in turn from there.  A connection whose second tuple nobody has is what is looked for. */
#ifndef DP_CT_NAT_H
#define DP_CT_NAT_H 1

#include "dp/ct_packet.h"

#define DP_CT_NAT_TRIES 128             /* Ports of a range, at first; then half as many from another one, and so on, */
#define DP_CT_NAT_LEAST_TRIES 16        /* down to this: */
#define DP_CT_NAT_ROUNDS 5              /* 128, 64, 32, 16, 8. */

#define DP_CT_TCP_SUMMED 18             /* Bytes of a TCP header up to the end of its checksum. */

/* What decides with which address and port of the range the search begins.  A test replaces it. */
#ifndef DP_CT_NAT_HASH
#define DP_CT_NAT_HASH(CTX, RUN, ACTION) dp_ct_nat_hash(CTX, RUN)
#endif

/* Whether a helper expected the connection of RUN: then it has set run->reply and this is 1; -1 if that is taken; else
 * 0. */
#ifndef DP_CT_EXPECTED
#define DP_CT_EXPECTED(CTX, RUN, ACTION, NOW) 0
#endif

DP_INLINE __u32 dp_ct_nat_hash(struct dp_ctx *ctx, const struct dp_ct_run *run)
{
    const struct dp_ct_head *head = dp_ct_head_at(ctx, 0);

    return head ? dp_ct_hash(head, &run->tuple) >> 16 : 0;
}

/* Ports in host byte order: those of a range, and the first to try. */
struct dp_ct_ports_of {
    __u16 first, min, max;
    __u16 next;                 /* To try, */
    __u16 tries;                /* and how many in this round. */
};

DP_INLINE __u32 dp_ct_port(const struct dp_ct_tuple *t, int i)
{
    return dp_ntohs((dp_be16) { DP_CT_L4_PORT(t->l4[i]) });
}

/* Ports of the range, from one that the hash picks. */
DP_INLINE void dp_ct_ports_of_range(const struct dp_ct_range *range, __u32 hash, struct dp_ct_ports_of *ports)
{
    ports->min = range->min_port;
    ports->max = range->max_port;
    ports->first = ports->min + hash % ((__u32) (__u16) (ports->max - ports->min) + 1);
}

/* Without a range a source port keeps its kind: below 512, below 1024 (those from 600 on are left), or above. */
DP_INLINE void dp_ct_source_ports(const struct dp_ct_action *action, const struct dp_ct_tuple *t, __u32 hash,
                                  struct dp_ct_ports_of *ports)
{
    __u32 port = dp_ct_port(t, 0);

    if (action->flags & DP_CT_TO_SRC && action->flags & DP_CT_TO_PORTS) {
        dp_ct_ports_of_range(&action->nat, hash, ports);
        return;
    }
    ports->first = port;
    ports->min = port < 512 ? 1 : port < 1024 ? 600 : 1024;
    ports->max = port < 512 ? 511 : port < 1024 ? 1023 : 65535;
}

/* 64-bit words in memory order as numbers. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define DP_SWAP64(X) __builtin_bswap64(X)
#else
#define DP_SWAP64(X) ((__u64) (X))
#endif

/* An address of the range that the hash picks, in 'addr'. */
DP_INLINE void dp_ct_pick_address(const struct dp_ct_range *range, int v6, __u32 hash, __u64 addr[2])
{
    if (!v6) {
        __u32 min = DP_SWAP32((__u32) range->min[0]);
        __u32 n = DP_SWAP32((__u32) range->max[0]) - min + 1;

        addr[0] = DP_SWAP32(min + (n ? hash % n : hash));
        addr[1] = 0;
        return;
    }

    __u64 hi = DP_SWAP64(range->min[0]), lo = DP_SWAP64(range->min[1]);
    __u64 max_hi = DP_SWAP64(range->max[0]), max_lo = DP_SWAP64(range->max[1]);
    __u64 n = max_lo - lo;
    int near = hi == max_hi ? lo <= max_lo : hi + 1 == max_hi && lo > max_lo;

    /* At most 32 bits of an address vary. */
    n = !near || n > 0xfffffffe ? 0xffffffff : n + 1;

    __u64 sum = lo + hash % n;

    addr[0] = DP_SWAP64(hi + (sum < lo));
    addr[1] = DP_SWAP64(sum);
}

/* Whether a live connection has run->reply already. */
DP_INLINE int dp_ct_is_taken(struct dp_ctx *ctx, struct dp_ct_run *run, __u32 now)
{
    return dp_ct_find(ctx, &run->reply, now) != 0;
}

/* Never in programs: dp_ct_op_read(). */
DP_INLINE int dp_ct_has_sctp_ports(const struct dp_ct_tuple *t)
{
    return DP_CT_IN_ENGINE && t->proto == DP_IP_SCTP && t->l4[0];
}

/* Whether NAT chooses an id for the connection of 't', as it chooses ports for others. */
DP_INLINE int dp_ct_chooses_id(const struct dp_ct_action *action, const struct dp_ct_tuple *t)
{
    return action->flags & DP_CT_ICMP_ID && t->proto == DP_IP_ICMP && !t->v6;
}

/* Gives end 'i' of 't' a port (host byte order), or both ends that id. */
DP_INLINE void dp_ct_put_port(struct dp_ct_tuple *t, int i, __u32 port)
{
    __u16 raw = dp_htons(port).raw;

    if (DP_CT_IN_ENGINE && t->proto == DP_IP_ICMP) {
        t->l4[0] = DP_CT_L4(raw, DP_CT_L4_TYPE(t->l4[0]));
        t->l4[1] = DP_CT_L4(raw, DP_CT_L4_TYPE(t->l4[1]));
        return;
    }
    t->l4[i & 1] = DP_CT_L4(raw, 0);
}

/* Gives end 'i' of run->reply the next port.  Returns whether nobody has that tuple.  A stage, because the verifier
 * would follow each port of dp_ct_choose_port() for itself. */
DP_STAGE int dp_ct_try_port(struct dp_ctx *ctx, struct dp_ct_run *run, int i, struct dp_ct_ports_of *ports, __u32 now)
{
    __u32 port;

    if (!run || !ports) {
        return 0;
    }
    port = ports->next;
    ports->next = port < ports->min || port >= ports->max ? ports->min : port + 1;
    dp_ct_put_port(&run->reply, i, port);
    return !dp_ct_is_taken(ctx, run, now);
}

/* Looks for a port of end 'i' of run->reply with which nobody has it.  Returns 0, with the port as it was at first, if
 * there is none among those that it tries. */
DP_STAGE int dp_ct_choose_port(struct dp_ctx *ctx, struct dp_ct_run *run, int i, struct dp_ct_ports_of *ports,
                               __u32 now)
{
    __u32 range;

    if (!run || !ports) {
        return 0;
    }
    range = (__u16) (ports->max - ports->min + 1);
    ports->tries = range < DP_CT_NAT_TRIES ? range : DP_CT_NAT_TRIES;
    ports->next = ports->first;
    for (__u32 round = 0; round < DP_CT_NAT_ROUNDS; round++) {
        for (__u32 n = 0; n < DP_CT_NAT_TRIES && n < DP_READ_ONCE(ports->tries); n++) {
            if (dp_ct_try_port(ctx, run, i, ports, now)) {
                return 1;
            }
        }
        if (ports->tries >= range || ports->tries < DP_CT_NAT_LEAST_TRIES) {
            break;
        }
        ports->tries /= 2;
        ports->next = ports->min + ((ports->first * 0x9e3779b1u + round * 0x85ebca6bu) >> 8) % range;
    }
    dp_ct_put_port(&run->reply, i, ports->first);
    return 0;
}

/* Makes run->reply what replies to the connection of run->tuple will have.  Returns 0 if the range is exhausted, or if
 * a program would have to look for an id. */
DP_STAGE int dp_ct_choose(struct dp_ctx *ctx, struct dp_ct_run *run, const struct dp_ct_action *action, __u32 now)
{
    struct dp_ct_ports_of src, dst;
    struct dp_ct_tuple *reply;
    __u32 hash;

    if (!run || !action) {
        return 0;
    }
    reply = &run->reply;
    dp_ct_reverse(reply, &run->tuple);

    int expected = DP_CT_EXPECTED(ctx, run, action, now);

    if (expected) {
        return expected > 0;
    }
    if (!(action->flags & DP_CT_NAT) || !(action->flags & (DP_CT_TO_SRC | DP_CT_TO_DST))) {
        return 1;
    }
    hash = DP_CT_NAT_HASH(ctx, run, action);
    if (action->nat.min[0] || action->nat.min[1]) {
        dp_ct_pick_address(&action->nat, reply->v6, hash, reply->addr[action->flags & DP_CT_TO_SRC ? 1 : 0]);
    }
    if (run->tuple.proto != DP_IP_TCP && run->tuple.proto != DP_IP_UDP && !dp_ct_has_sctp_ports(&run->tuple)
        && !(DP_CT_IN_ENGINE && dp_ct_chooses_id(action, &run->tuple))) {
        return !(dp_ct_chooses_id(action, &run->tuple) && action->flags & DP_CT_TO_PORTS)
            && !dp_ct_is_taken(ctx, run, now);
    }
    dp_ct_source_ports(action, &run->tuple, hash, &src);
    dst.first = dst.min = dst.max = dp_ct_port(&run->tuple, 1);
    dp_ct_put_port(reply, 1, src.first);
    if (action->flags & DP_CT_TO_DST && action->flags & DP_CT_TO_PORTS && run->tuple.proto != DP_IP_ICMP) {
        dp_ct_ports_of_range(&action->nat, hash, &dst);
        if (dp_ct_choose_port(ctx, run, 0, &dst, now)) {
            return 1;
        }
    }
    return dp_ct_choose_port(ctx, run, 1, &src, now);
}

/* The IPv4 or IPv6 address at 'ofs' of the header at 'l3' becomes 'addr'.  Returns what that adds to the complement of
 * a checksum that covers it. */
DP_INLINE __u64 dp_ct_put_address(struct dp_ctx *ctx, __u32 l3, int v6, int dst, const __u64 addr[2])
{
    __u64 changes;

    if (!v6) {
        __u8 *ip = dp_at(ctx, l3 & DP_OFS_MASK, DP_IP4_LEN);
        __u8 *field = ip + (dst ? 16 : 12);

        if (!ip) {
            return 0;
        }
        changes = dp_csum_change32(dp_load32(field), addr[0]);
        dp_store32(field, addr[0]);
        dp_csum_apply(ip + 10, changes);
        return changes;
    }

    __u8 *ip6 = dp_at(ctx, l3 & DP_OFS_MASK, DP_IP6_LEN);
    __u8 *field = ip6 + (dst ? 24 : 8);

    if (!ip6) {
        return 0;
    }

    __u64 hi = dp_load64(field), lo = dp_load64(field + 8);

    dp_store64(field, addr[0]);
    dp_store64(field + 8, addr[1]);
    changes = dp_csum_change32(hi, addr[0]) + dp_csum_change32(hi >> 32, addr[0] >> 32)
        + dp_csum_change32(lo, addr[1]) + dp_csum_change32(lo >> 32, addr[1] >> 32);
    dp_csum_packet(ctx, changes);
    return changes;
}

/* Source and destination port at 'l4' become those of 't' reversed.  Returns as dp_ct_put_address(). */
DP_INLINE __u64 dp_ct_put_ports(struct dp_ctx *ctx, __u32 l4, const struct dp_ct_tuple *t)
{
    __u8 *p = dp_at(ctx, l4 & DP_OFS_MASK, 4);
    __u64 changes = 0;

    for (int i = 0; p && i < 2; i++) {
        __u16 port = DP_CT_L4_PORT(t->l4[!i]);

        if (dp_load16(p + 2 * i) != port) {
            changes += dp_csum_change16(dp_load16(p + 2 * i), port);
            dp_store16(p + 2 * i, port);
        }
    }
    return changes;
}

/* Likewise, of the SCTP message of 'l4_len' bytes at 'l4', with its checksum if it is there. */
DP_INLINE void dp_ct_put_sctp_ports(struct dp_ctx *ctx, __u32 l4, __u32 l4_len, const struct dp_ct_tuple *t)
{
    __u8 *sctp = dp_at(ctx, l4, l4_len);
    __u32 old = sctp ? dp_load32(sctp) : 0;

    dp_ct_put_ports(ctx, l4, t);
    if (sctp && l4_len >= DP_SCTP_LEN) {
        dp_store32(sctp + 8, dp_load32(sctp + 8)
                   ^ dp_le32(dp_crc32c_change(dp_le32(old ^ dp_load32(sctp)), l4_len - 4)));
    }
}

/* The id of the ICMP message at 'l4', a question or an answer, becomes that of 't'. */
DP_INLINE void dp_ct_put_id(struct dp_ctx *ctx, __u32 l4, const struct dp_ct_tuple *t)
{
    __u8 *icmp = dp_at(ctx, l4, DP_ICMP_LEN);
    __u16 id = DP_CT_L4_PORT(t->l4[0]);

    if (icmp && dp_ct_icmp_answer(0, icmp[0]) >= 0) {
        dp_csum_transport(ctx, l4 + 2, dp_csum_change16(dp_load16(icmp + 4), id), 0);
        dp_store16(icmp + 4, id);
    }
}

/* A packet whose headers are at 'l3' and 'l4', 'l4_len' bytes of transport, gets the addresses of 't' reversed: its
 * source (or else its destination) and its ports. */
DP_INLINE void dp_ct_rewrite(struct dp_ctx *ctx, __u32 l3, __u32 l4, __u32 l4_len, const struct dp_ct_tuple *t, int src)
{
    __u32 proto = t->proto;
    __u64 pseudo = dp_ct_put_address(ctx, l3, t->v6, !src, t->addr[src ? 1 : 0]);
    __u64 ports = proto == DP_IP_TCP || proto == DP_IP_UDP ? dp_ct_put_ports(ctx, l4, t) : 0;

    l4 &= DP_OFS_MASK;
    if (proto == DP_IP_TCP && l4_len >= DP_CT_TCP_SUMMED) {
        /* Of a header that an ICMP error quotes in part, Open vSwitch makes up for the ports only. */
        if (l4_len >= DP_TCP_LEN) {
            dp_csum_transport(ctx, l4 + 16, pseudo, DP_CSUM_PSEUDO);
        }
        if (ports) {
            dp_csum_transport(ctx, l4 + 16, ports, 0);
        }
    } else if (proto == DP_IP_UDP && l4_len >= DP_UDP_LEN) {
        dp_csum_transport(ctx, l4 + 6, pseudo, DP_CSUM_PSEUDO | DP_CSUM_UDP);
        if (ports) {
            dp_csum_transport(ctx, l4 + 6, ports, DP_CSUM_UDP);
        }
    } else if (proto == DP_IP_ICMP6 && t->v6 && l4_len >= 4) {
        dp_csum_transport(ctx, l4 + 2, pseudo, DP_CSUM_PSEUDO);
    } else if (DP_CT_IN_ENGINE && proto == DP_IP_ICMP && !t->v6 && l4_len >= DP_ICMP_LEN) {
        dp_ct_put_id(ctx, l4, t);
    } else if (dp_ct_has_sctp_ports(t)) {
        dp_ct_put_sctp_ports(ctx, l4, l4_len, t);
    }
}

/* The checksum of the ICMP error in 'run', anew. */
DP_INLINE void dp_ct_sum_error(struct dp_ctx *ctx, const struct dp_ct_run *run)
{
    __u8 *icmp = dp_at(ctx, run->l4 & DP_OFS_MASK, DP_ICMP_LEN);

    if (!icmp) {
        return;
    }
    dp_store16(icmp + 2, 0);

    __u64 sum = dp_ct_sum(ctx, run->l4, run->l4_len);

    if (run->v6) {
        sum += dp_ct_pseudo(ctx, run->l3, 1, DP_IP_ICMP6, run->l4_len);
    }
    icmp = dp_at(ctx, run->l4 & DP_OFS_MASK, DP_ICMP_LEN);
    if (icmp) {
        dp_store16(icmp + 2, ~dp_csum_fold(sum));
    }
}

/* Rewrites the packet in 'run' as its connection run->ref says, and what it quotes if it is an ICMP error.  Returns the
 * DP_CS_* that it has for it, 0 if the connection has no NAT. */
DP_STAGE int dp_ct_translate(struct dp_ctx *ctx, struct dp_ct_run *run)
{
    const struct dp_ct_key *key = run ? dp_ct_keys_at(ctx, DP_CT_REF_INDEX(run->ref)) : 0;
    struct dp_ct_tuple *other;          /* In memory that is there, because the stack is small. */
    __u32 reply;
    int src;

    if (!key || !key->nat) {
        return 0;
    }
    reply = DP_CT_REF_REPLY(run->ref);
    src = !!(key->nat & DP_CT_NAT_SRC) != reply;
    other = &run->reply;
    dp_ct_tuple_of(ctx, DP_CT_REF_INDEX(run->ref), !reply, other);
    if (!run->related) {
        dp_ct_rewrite(ctx, run->l3, run->l4, run->l4_len, other, src);
    } else {
        struct dp_ct_tuple same;

        /* The quoted packet went the other way: it is as the other direction's packets arrive. */
        dp_ct_put_address(ctx, run->l3, run->v6, !src, other->addr[src ? 1 : 0]);
        dp_ct_reverse(&same, other);
        dp_ct_rewrite(ctx, run->inner_l3, run->inner_l4, run->l4 + run->l4_len - run->inner_l4, &same, !src);
        dp_ct_sum_error(ctx, run);
    }
    run->md.cached = 0;
    return src ? DP_CS_SNAT : DP_CS_DNAT;
}

#endif /* dp/ct_nat.h */
