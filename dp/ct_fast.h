/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Connection tracking: what most packets need, in one call: a TCP segment in the middle of an established connection, a
 * UDP packet of one with replies; in a second call, what segments need that open and close a connection that is there.
 * All else goes through the stages of dp/ct_op.h, which come to the same result. */
#ifndef DP_CT_FAST_H
#define DP_CT_FAST_H 1

#include "dp/ct_run.h"
#include "dp/key.h"
#include "dp/op.h"

/* The time in ticks.  A test replaces it. */
#ifndef DP_CT_NOW
#define DP_CT_NOW(CTX) ((__u32) dp_ticks(CTX))
#endif

/* What dp_ct_fast() returns. */
#define DP_CT_FAST_DONE 1
#define DP_CT_FAST_NAT 2
#define DP_CT_FAST_CHANGE 3

/* What it reads of a packet, besides the tuple. */
struct dp_ct_segment {
    __u32 seq, ack, len, win;
};

/* Whether IPv4's header has no options, is no fragment's, and has a good checksum. */
DP_INLINE int dp_ct_fast_ip4_is_good(const __u8 *ip)
{
    __u64 first = dp_load64(ip), second = dp_load64(ip + 8);

    return ip[0] == 0x45 && !(dp_load16(ip + 6) & DP_SWAP16(0x3fff))
        && dp_ct_sum_is_good((first & 0xffffffff) + (first >> 32) + (second & 0xffffffff) + (second >> 32)
                             + dp_load32(ip + 16));
}

/* Reads addresses and protocol.  Returns 0 if the packet is not for this file. */
DP_INLINE int dp_ct_fast_ip(struct dp_ctx *ctx, const struct dp_frame *frame, struct dp_ct_tuple *t)
{
    __u32 l3 = frame->l3 & DP_OFS_MASK;

    if (frame->has & DP_HAS_IP4) {
        const __u8 *ip = dp_at(ctx, l3, DP_IP4_LEN);

        if (!ip || !dp_ct_fast_ip4_is_good(ip)) {
            return 0;
        }
        t->v6 = 0;
        t->proto = ip[9];
        t->addr[0][0] = dp_load32(ip + 12);
        t->addr[1][0] = dp_load32(ip + 16);
        t->addr[0][1] = t->addr[1][1] = 0;
        return 1;
    }
    if (frame->has & DP_HAS_IP6) {
        const __u8 *ip = dp_at(ctx, l3, DP_IP6_LEN);

        if (!ip) {
            return 0;
        }
        t->v6 = 1;
        t->proto = ip[6];
        for (int i = 0; i < 2; i++) {
            t->addr[i][0] = dp_load64(ip + 8 + 16 * i);
            t->addr[i][1] = dp_load64(ip + 16 + 16 * i);
        }
        return 1;
    }
    return 0;
}

/* Reads TCP's header at 'p', with 'l4_len' bytes from there on.  Returns 0 if the segment is not one in the middle of a
 * connection. */
DP_INLINE int dp_ct_fast_tcp(const __u8 *p, __u32 l4_len, struct dp_ct_segment *s)
{
    __u32 len = (p[12] >> 4) * 4;

    if ((p[13] & (DP_TCP_FIN | DP_TCP_SYN | DP_TCP_RST | DP_TCP_ACK | DP_TCP_URG)) != DP_TCP_ACK || len < DP_TCP_LEN
        || len > l4_len) {
        return 0;
    }
    s->seq = dp_ntohl(dp_load_be32(p + 4));
    s->ack = dp_ntohl(dp_load_be32(p + 8));
    s->win = dp_ntohs(dp_load_be16(p + 14));
    s->len = l4_len - len;
    return 1;
}

/* The same of UDP. */
DP_INLINE int dp_ct_fast_udp(const __u8 *p, __u32 l4_len)
{
    __u32 len = dp_ntohs(dp_load_be16(p + 4));

    return len >= DP_UDP_LEN && len <= l4_len;
}

/* Whether a segment with these flags does not begin a connection. */
DP_INLINE int dp_ct_fast_follows(__u8 flags)
{
    return (flags & (DP_TCP_SYN | DP_TCP_ACK)) != DP_TCP_SYN;
}

/* Reads ports, and '*s' of TCP.  Returns as dp_ct_fast_ip(); or DP_CT_FAST_CHANGE: it is TCP, but not to be judged
 * here. */
DP_INLINE int dp_ct_fast_l4(struct dp_ctx *ctx, const struct dp_frame *frame, struct dp_ct_tuple *t,
                            struct dp_ct_segment *s)
{
    __u32 l4 = frame->l4 & DP_OFS_MASK;
    int kind = 1;
    const __u8 *p;

    __asm__ volatile("" ::: "memory");  /* The compiler would keep 32 bits of a pointer into the packet. */
    if (t->proto == DP_IP_TCP) {
        p = dp_at(ctx, l4, DP_TCP_LEN);
        if (!p || !dp_ct_fast_follows(p[13])) {
            return 0;
        }
        kind = dp_ct_fast_tcp(p, frame->l4_len, s) ? 1 : DP_CT_FAST_CHANGE;
    } else if (t->proto == DP_IP_UDP) {
        p = dp_at(ctx, l4, DP_UDP_LEN);
        if (!p || !dp_ct_fast_udp(p, frame->l4_len)) {
            return 0;
        }
    } else {
        return 0;
    }
    t->l4[0] = DP_CT_L4(dp_load16(p), 0);
    t->l4[1] = DP_CT_L4(dp_load16(p + 2), 0);
    return t->l4[0] && t->l4[1] ? kind : 0;
}

/* As dp_ct_tcp_judge(), of a segment that leaves 'state' and the other end's word as they are: returns 1, and what its
 * own word becomes.  0: the segment is not like that. */
DP_INLINE int dp_ct_fast_judge(const struct dp_ct_segment *s, __u64 state, __u64 own, __u64 others, __u32 d,
                               __u64 *ret_own)
{
    __u32 src_wscale = DP_CT_GET(state, DP_CT_STATE_WSCALE(d), 8);
    __u32 dst_wscale = DP_CT_GET(state, DP_CT_STATE_WSCALE(!d), 8);
    __u32 both = src_wscale & dst_wscale;
    __u32 unscaled = both & DP_CT_WSCALE_UNKNOWN ? DP_TCP_WSCALE_MAX : 0;
    __u32 sws = both & DP_CT_WSCALE_FLAG ? src_wscale & DP_CT_WSCALE_MASK : unscaled;
    __u32 dws = both & DP_CT_WSCALE_FLAG ? dst_wscale & DP_CT_WSCALE_MASK : unscaled;
    __u32 seqlo = DP_CT_WINDOW_LO(own), dst_seqhi = DP_CT_WINDOW_HI(own);
    __u32 dst_seqlo = DP_CT_WINDOW_LO(others), seqhi = DP_CT_WINDOW_HI(others);
    __u32 seq = s->len ? s->seq : seqlo;
    __u32 end = seq + s->len;
    __u32 upto = s->ack + (s->win << sws);
    __s32 skew = (__s32) (dst_seqlo - s->ack);

    /* Sign bits: no branches, which the verifier would follow each for itself. */
    __u32 outside = (seqhi - end) | (seq - (seqlo - (DP_CT_GET(state, DP_CT_STATE_WIN(!d), 16) << dws)))
        | (DP_CT_GET(state, DP_CT_STATE_WIN(d), 16) - s->win);

    if (outside >> 31 || skew < -DP_CT_TCP_SKEW || skew > DP_CT_TCP_SKEW << sws) {
        return 0;
    }
    *ret_own = DP_CT_WINDOW(DP_SEQ_GT(end, seqlo) ? end : seqlo,
                            DP_SEQ_GEQ(upto, dst_seqhi) ? s->ack + dp_ct_max(s->win << sws, 1) : dst_seqhi);
    return 1;
}

/* Whether an established TCP connection has this state. */
DP_INLINE int dp_ct_fast_is_steady(__u64 state)
{
    return DP_CT_GET(state, DP_CT_STATE_TCP(0), 8) == (DP_CT_TCP_ESTABLISHED | DP_CT_TCP_ESTABLISHED << 4)
        && DP_CT_CLASS(state) == DP_CT_TM_TCP_ESTABLISHED;
}

/* Counts a segment of a connection that is not known for long: most have only few.  Returns whether there were few.
 * CPUs that count at once may go past the last value to 0: then it takes longer. */
DP_INLINE __u32 dp_ct_fast_is_young(struct dp_ct_life *life, __u64 state)
{
    if (DP_CT_GET(state, DP_CT_STATE_CALM, 3) >= DP_CT_CALM) {
        return 0;
    }
    __sync_fetch_and_add(&life->state, 1ull << DP_CT_STATE_CALM);
    return 1;
}

/* Judges the packet and notes it in its connection's life.  Returns 0, with nothing changed, if it is not for this
 * file. */
DP_INLINE int dp_ct_fast_update(const struct dp_ct_tuple *t, const struct dp_ct_segment *s, struct dp_ct_life *life,
                                __u32 d, __u32 now, __u32 *is_young)
{
    __u64 state = DP_READ_ONCE(life->state);
    __u64 *word = d ? &life->window[1] : &life->window[0];

    if (t->proto == DP_IP_TCP) {
        __u64 own = DP_READ_ONCE(*word);
        __u64 others = d ? DP_READ_ONCE(life->window[0]) : DP_READ_ONCE(life->window[1]);

        if (!dp_ct_fast_is_steady(state)) {
            return 0;
        }

        __u64 new;

        if (!dp_ct_fast_judge(s, state, own, others, d, &new)) {
            return 0;
        }
        dp_ct_put_window(word, own, new);
        *is_young = dp_ct_fast_is_young(life, state);
    } else if (DP_CT_CLASS(state) != DP_CT_TM_OTHER_BIDIR) {
        return 0;
    }
    dp_ct_refresh(life, now);
    return 1;
}

/* What matches of the next pass see of connection 'index', whose key is 'conn'. */
DP_INLINE void dp_ct_fast_write(struct dp_ctx *ctx, union dp_key *key, __u32 state, const struct dp_ct_key *conn,
                                __u32 index)
{
    const struct dp_ct_marks *marks = dp_ct_marks_at(ctx, DP_READ_ONCE(conn->marks));
    const struct dp_ct_addr6 *a = DP_READ_ONCE(conn->flags) & DP_CT_KEY_V6 ? dp_ct_addr6_at(ctx, index) : 0;

    key->ct_mark = marks ? marks->mark : 0;
    key->ct_label[0] = marks ? marks->label[0] : 0;
    key->ct_label[1] = marks ? marks->label[1] : 0;
    key->ct_state = state;
    key->ct_proto = conn->proto;
    key->ct_zone = conn->zone;
    key->ct_tp_src.raw = DP_CT_L4_PORT(conn->l4[0][0]);
    key->ct_tp_dst.raw = DP_CT_L4_PORT(conn->l4[0][1]);
    if (a) {
        key->ct_ip6_src[0] = a->addr[0][0][0];
        key->ct_ip6_src[1] = a->addr[0][0][1];
        key->ct_ip6_dst[0] = a->addr[0][1][0];
        key->ct_ip6_dst[1] = a->addr[0][1][1];
    } else {
        key->ct_ip6_dst[0] = key->ct_ip6_dst[1] = key->ct_ip6_src[1] = 0;
        key->ct_ip4_src.raw = conn->ip4[0][0];
        key->ct_ip4_dst.raw = conn->ip4[0][1];
    }
}

/* Whether the transport checksum of the packet is to be verified, whose connection is run->ref. */
DP_INLINE int dp_ct_must_verify(const struct dp_ct_run *run)
{
    __u32 proto = run->tuple.proto;

    if (DP_TAKES_SKBS) {
        return 0;
    }
    return proto == DP_IP_TCP ? !run->ref || run->tcp_flags & (DP_TCP_SYN | DP_TCP_FIN | DP_TCP_RST)
        : !run->ref && (proto == DP_IP_UDP || dp_ct_is_icmp(&run->tuple));
}

/* The rest of what CT 'op' does to a packet of connection run->ref.  Returns as dp_ct_fast(). */
DP_INLINE int dp_ct_fast_end(struct dp_ctx *ctx, const struct dp_frame *frame, union dp_key *key,
                             const struct dp_op *op, struct dp_ct_run *run, const struct dp_ct_key *conn)
{
    __u32 state = DP_CS_TRK | DP_CS_EST | (DP_CT_REF_REPLY(run->ref) ? DP_CS_RPL : 0);
    int todo = DP_CT_FAST_DONE;

    run->md.related = 0;
    run->md.zone = op->u.ct.zone;
    run->md.cached = op->u.ct.flags & DP_CT_NAT ? 0 : run->ref;
    run->md.generation = conn->generation;
    if (op->u.ct.flags & DP_CT_NAT && conn->nat) {
        run->l3 = frame->l3;
        run->l4 = frame->l4;
        run->l4_len = frame->l4_len;
        run->v6 = !!(conn->flags & DP_CT_KEY_V6);
        run->related = 0;
        todo = DP_CT_FAST_NAT;
    }
    run->md.state = state;
    dp_ct_fast_write(ctx, key, state, conn, DP_CT_REF_INDEX(run->ref));
    return todo;
}

/* Does CT 'op' to the packet.  Returns DP_CT_FAST_DONE; DP_CT_FAST_NAT: dp_ct_translate() is left to do;
 * DP_CT_FAST_CHANGE, with nothing changed: the segment is of connection run->ref, and may be one for dp_ct_change();
 * or 0, with nothing changed, if the packet is not for this file. */
DP_STAGE int dp_ct_fast(struct dp_ctx *ctx, const struct dp_frame *frame, union dp_key *key, const struct dp_op *op,
                        struct dp_ct_run *run)
{
    const struct dp_ct_head *head = dp_ct_head_at(ctx, 0);
    __u32 now = DP_CT_NOW(ctx);
    struct dp_ct_segment s = { 0 };
    struct dp_ct_tuple t;
    int kind;

    if (!frame || !key || !op || !run || !head) {
        return 0;
    }
    if (!key->ct_state) {
        run->verified = 0;
    }
    if (op->u.ct.flags & (DP_CT_MARK | DP_CT_LABEL)
        || (key->ct_state && key->ct_zone == op->u.ct.zone && !(op->u.ct.flags & DP_CT_FRESH))) {
        return 0;
    }
    t.zone = op->u.ct.zone;
    t.pad = 0;
    if (!dp_ct_fast_ip(ctx, frame, &t)) {
        return 0;
    }
    kind = dp_ct_fast_l4(ctx, frame, &t, &s);
    if (!kind) {
        return 0;
    }

    __u64 hash = dp_ct_hash(head, &t);
    const struct dp_ct_bucket *bucket = dp_ct_buckets_at(ctx, dp_hash_bucket(hash, head->bucket_last));
    __u32 ref = bucket ? dp_ct_find_in(ctx, bucket, dp_hash_tag(hash), &t, now) : 0;
    const struct dp_ct_key *conn = dp_ct_keys_at(ctx, DP_CT_REF_INDEX(ref));
    struct dp_ct_life *life = dp_ct_lives_at(ctx, DP_CT_REF_INDEX(ref));

    if (!ref || !conn || !life || DP_READ_ONCE(conn->flags) & (DP_CT_KEY_ENGINE | DP_CT_KEY_RELATED)) {
        return 0;
    }
    run->ref = ref;
    run->version = DP_READ_FIRST(life->version);        /* It grows after marks and end were written. */
    run->is_young = 0;
    if (kind == DP_CT_FAST_CHANGE
        || !dp_ct_fast_update(&t, &s, life, DP_CT_REF_REPLY(ref), now, &run->is_young)) {
        return t.proto == DP_IP_TCP ? DP_CT_FAST_CHANGE : 0;
    }
    return dp_ct_fast_end(ctx, frame, key, op, run, conn);
}

/* Does CT 'op' to a TCP segment of connection run->ref, as dp_ct_fast() left it.  Returns as dp_ct_fast(), but for
 * DP_CT_FAST_CHANGE: a segment that is damaged, or invalid, or begins anew, is left to dp/ct_op.h. */
DP_STAGE int dp_ct_change(struct dp_ctx *ctx, const struct dp_frame *frame, union dp_key *key, const struct dp_op *op,
                          struct dp_ct_run *run)
{
    const struct dp_ct_key *conn = run ? dp_ct_keys_at(ctx, DP_CT_REF_INDEX(run->ref)) : 0;

    if (!frame || !key || !op || !conn) {
        return 0;
    }
    run->l3 = frame->l3;
    run->l4 = frame->l4;
    run->l4_len = frame->l4_len;
    run->v6 = !!(conn->flags & DP_CT_KEY_V6);
    run->proto = run->tuple.proto = DP_IP_TCP;
    run->related = 0;
    if (!dp_ct_read_tcp(ctx, run)) {
        return 0;
    }
    if (!run->verified && dp_ct_must_verify(run)) {
        run->verified = !dp_has_frags(ctx) && dp_ct_l4_is_good(ctx, run);
        if (!run->verified) {
            return 0;
        }
    }
    if (dp_ct_update_tcp(ctx, run) != DP_CT_VALID) {
        return 0;
    }
    dp_ct_put_tcp(ctx, run, DP_CT_NOW(ctx));
    return dp_ct_fast_end(ctx, frame, key, op, run, conn);
}

#endif /* dp/ct_fast.h */
