/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Connection tracking: TCP.  Windows are those of Guido van Rooij, "Real Stateful TCP Packet Filtering in IP Filter"
 * (2000), with the states and the exceptions of Open vSwitch.
 *
 * A segment is judged once, from one reading of state and windows.  It is not judged again when another CPU was faster,
 * because a segment can be in the window only once: what it made of each word is merged into what the other made. */
#ifndef DP_CT_TCP_H
#define DP_CT_TCP_H 1

#include "dp/ct_packet.h"

#define DP_CT_MERGES 4                  /* Then the word stays without this segment: those of others are newer. */
#define DP_CT_TCP_SKEW (0xffff + 1500)  /* How far behind or before what its peer sent an ACK may be. */

#define DP_SEQ_GEQ(A, B) ((__s32) ((A) - (B)) >= 0)
#define DP_SEQ_GT(A, B) ((__s32) ((A) - (B)) > 0)

/* What state and windows say about one end. */
struct dp_ct_peer {
    __u32 seqlo;                /* Highest sequence number that it sent. */
    __u32 seqhi;                /* Highest that its peer lets it send. */
    __u32 win;                  /* Its largest window, before scaling, 16 bits. */
    __u8 wscale;
    __u8 state;                 /* enum dp_ct_tcp_state. */
};

DP_INLINE int dp_ct_tcp_flags_are_good(__u32 flags)
{
    if (flags & DP_TCP_SYN ? flags & (DP_TCP_RST | DP_TCP_FIN) : !(flags & (DP_TCP_ACK | DP_TCP_RST))) {
        return 0;
    }
    return flags & DP_TCP_ACK || !(flags & (DP_TCP_FIN | DP_TCP_PSH | DP_TCP_URG));
}

/* Whether the segment may begin a connection: an answer to a SYN may not, data in the middle of one may. */
DP_INLINE int dp_ct_tcp_may_begin(__u32 flags)
{
    return dp_ct_tcp_flags_are_good(flags) && (flags & (DP_TCP_SYN | DP_TCP_ACK)) != (DP_TCP_SYN | DP_TCP_ACK);
}

DP_INLINE void dp_ct_tcp_load(struct dp_ct_peer *peer, const struct dp_ct_words *w, __u32 d)
{
    peer->seqlo = DP_CT_WINDOW_LO(w->window[d]);
    peer->seqhi = DP_CT_WINDOW_HI(w->window[!d]);
    peer->win = DP_CT_GET(w->state, DP_CT_STATE_WIN(d), 16);
    peer->wscale = DP_CT_GET(w->state, DP_CT_STATE_WSCALE(d), 8);
    peer->state = DP_CT_GET(w->state, DP_CT_STATE_TCP(d), 4);
}

/* 'src' is end 'd'. */
DP_INLINE void dp_ct_tcp_store(struct dp_ct_words *w, __u32 d, const struct dp_ct_peer *src,
                               const struct dp_ct_peer *dst)
{
    w->window[d] = DP_CT_WINDOW(src->seqlo, dst->seqhi);
    w->window[!d] = DP_CT_WINDOW(dst->seqlo, src->seqhi);
    w->state = DP_CT_PUT(w->state, DP_CT_STATE_WIN(d), 16, src->win & 0xffff);
    w->state = DP_CT_PUT(w->state, DP_CT_STATE_WIN(!d), 16, dst->win & 0xffff);
    w->state = DP_CT_PUT(w->state, DP_CT_STATE_WSCALE(d), 8, src->wscale);
    w->state = DP_CT_PUT(w->state, DP_CT_STATE_WSCALE(!d), 8, dst->wscale);
    w->state = DP_CT_PUT(w->state, DP_CT_STATE_TCP(d), 4, src->state);
    w->state = DP_CT_PUT(w->state, DP_CT_STATE_TCP(!d), 4, dst->state);
}

DP_INLINE __u32 dp_ct_max(__u32 a, __u32 b) { return a > b ? a : b; }

/* 'win' without the scale factor, rounded up. */
DP_INLINE __u32 dp_ct_unscale(__u32 win, __u32 shift) { return (win + (1u << shift) - 1) >> shift; }

/* The words of a connection that the segment begins. */
DP_INLINE void dp_ct_tcp_begin(const struct dp_ct_run *run, struct dp_ct_words *w)
{
    struct dp_ct_peer src = { .state = DP_CT_TCP_SYN_SENT }, dst = { .state = DP_CT_TCP_CLOSED };

    src.seqlo = run->tcp_seq;
    src.seqhi = src.seqlo + run->tcp_len + 1 + !!(run->tcp_flags & DP_TCP_SYN) + !!(run->tcp_flags & DP_TCP_FIN);
    src.win = dp_ct_max(run->tcp_window, 1);
    if (run->tcp_flags & DP_TCP_SYN) {
        src.wscale = run->tcp_wscale;
        src.win = dp_ct_unscale(src.win, src.wscale & DP_CT_WSCALE_MASK);
    } else {
        src.wscale = dst.wscale = DP_CT_WSCALE_UNKNOWN;
    }
    dst.seqhi = 1;
    dst.win = 1;
    w->state = (__u64) DP_CT_TM_TCP_FIRST << DP_CT_STATE_CLASS;
    dp_ct_tcp_store(w, 0, &src, &dst);
}

/* The first segment that an end sends sets its window up, before it is judged and whatever comes of that.  Returns
 * whether the ACK is still to be checked. */
DP_INLINE int dp_ct_tcp_first(const struct dp_ct_run *run, struct dp_ct_peer *src, struct dp_ct_peer *dst, __u32 end,
                              __u32 *sws, __u32 *dws, __u32 *win)
{
    int check_ack = 1;

    if (run->tcp_flags & DP_TCP_SYN && dst->wscale & DP_CT_WSCALE_FLAG) {
        src->wscale = run->tcp_wscale;
        if (src->wscale & DP_CT_WSCALE_FLAG) {
            *sws = src->wscale & DP_CT_WSCALE_MASK;
            *win = dp_ct_unscale(*win, *sws);
            *dws = dst->wscale & DP_CT_WSCALE_MASK;
        } else {
            dst->win = dst->win << (dst->wscale & DP_CT_WSCALE_MASK) & 0xffff;
            dst->wscale = 0;
        }
    }
    src->seqlo = run->tcp_seq;
    src->state = DP_CT_TCP_SYN_SENT;

    __u32 hi = end + dp_ct_max(1, dst->win << *dws);

    if (src->seqhi == 1 || DP_SEQ_GEQ(hi, src->seqhi)) {
        src->seqhi = hi;
        check_ack = 0;
    }
    src->win = dp_ct_max(src->win, *win);
    return check_ack;
}

/* A segment inside, or tolerated outside, the window moves it. */
DP_INLINE void dp_ct_tcp_slide(struct dp_ct_peer *src, struct dp_ct_peer *dst, __u32 end, __u32 ack, __u32 win,
                               __u32 sws)
{
    src->win = dp_ct_max(src->win, win);
    if (DP_SEQ_GT(end, src->seqlo)) {
        src->seqlo = end;
    }
    if (DP_SEQ_GEQ(ack + (win << sws), dst->seqhi)) {
        dst->seqhi = ack + dp_ct_max(win << sws, 1);
    }
}

DP_INLINE __u32 dp_ct_tcp_class(const struct dp_ct_peer *src, const struct dp_ct_peer *dst)
{
    __u32 less = src->state < dst->state ? src->state : dst->state;
    __u32 more = dp_ct_max(src->state, dst->state);

    return less >= DP_CT_TCP_FIN_WAIT_2 ? DP_CT_TM_TCP_CLOSED
        : less >= DP_CT_TCP_CLOSING ? DP_CT_TM_TCP_FIN_WAIT
        : less < DP_CT_TCP_ESTABLISHED ? DP_CT_TM_TCP_OPENING
        : more >= DP_CT_TCP_CLOSING ? DP_CT_TM_TCP_CLOSING
        : DP_CT_TM_TCP_ESTABLISHED;
}

/* What the segment of direction 'd' does to the words 'w'.  '*refresh': the connection's time begins anew. */
DP_INLINE enum dp_ct_verdict dp_ct_tcp_judge(const struct dp_ct_run *run, __u32 d, int no_seq_check,
                                             struct dp_ct_words *w, int *refresh)
{
    __u32 flags = run->tcp_flags;
    __u32 seq = run->tcp_seq, ack = run->tcp_ack, win = run->tcp_window;
    __u32 end = seq + run->tcp_len + !!(flags & DP_TCP_SYN) + !!(flags & DP_TCP_FIN);
    struct dp_ct_peer src, dst;
    __u32 sws = 0, dws = 0;
    int check_ack = 1;

    *refresh = 0;
    if (!dp_ct_tcp_flags_are_good(flags)) {
        return DP_CT_INVALID;
    }
    dp_ct_tcp_load(&src, w, d);
    dp_ct_tcp_load(&dst, w, !d);

    if ((flags & (DP_TCP_SYN | DP_TCP_ACK)) == DP_TCP_SYN) {
        if (dst.state >= DP_CT_TCP_FIN_WAIT_2 && src.state >= DP_CT_TCP_FIN_WAIT_2) {
            return DP_CT_ANEW;
        }
        if (src.state <= DP_CT_TCP_SYN_SENT) {
            src.state = DP_CT_TCP_SYN_SENT;
            dp_ct_tcp_store(w, d, &src, &dst);
            w->state = DP_CT_PUT(w->state, DP_CT_STATE_CLASS, 4, DP_CT_TM_TCP_FIRST);
            *refresh = 1;
            return DP_CT_VALID_NEW;
        }
    }

    if (!(flags & DP_TCP_SYN)) {
        if (src.wscale & dst.wscale & DP_CT_WSCALE_FLAG) {
            sws = src.wscale & DP_CT_WSCALE_MASK;
            dws = dst.wscale & DP_CT_WSCALE_MASK;
        } else if (src.wscale & dst.wscale & DP_CT_WSCALE_UNKNOWN) {
            sws = dws = DP_TCP_WSCALE_MAX;
        }
    }
    if (src.state < DP_CT_TCP_SYN_SENT) {
        check_ack = dp_ct_tcp_first(run, &src, &dst, end, &sws, &dws, &win);
    }
    if (!(flags & DP_TCP_ACK) || (!ack && flags & DP_TCP_RST)) {
        ack = dst.seqlo;                /* Nothing is acknowledged. */
    }
    if (seq == end) {
        seq = end = src.seqlo;          /* Without data it is only the ACK that counts. */
    }

    __s32 skew = check_ack ? (__s32) (dst.seqlo - ack) : 0;
    __s32 off = (__s32) (run->tcp_seq - src.seqlo);     /* Of an RST: its exact place. */
    int inside = DP_SEQ_GEQ(src.seqhi, end) && DP_SEQ_GEQ(seq, src.seqlo - (dst.win << dws))
        && skew >= -DP_CT_TCP_SKEW && skew <= DP_CT_TCP_SKEW << sws
        && (!(flags & DP_TCP_RST) || (off >= -1 && off <= 1));
    enum dp_ct_verdict verdict = DP_CT_VALID;

    if (inside || no_seq_check) {
        dp_ct_tcp_slide(&src, &dst, end, ack, win, sws);
        if (flags & DP_TCP_SYN) {
            src.state = dp_ct_max(src.state, DP_CT_TCP_SYN_SENT);
        }
        if (flags & DP_TCP_FIN) {
            src.state = dp_ct_max(src.state, DP_CT_TCP_CLOSING);
        }
        if (flags & DP_TCP_ACK) {
            dst.state = dst.state == DP_CT_TCP_SYN_SENT ? DP_CT_TCP_ESTABLISHED
                : dst.state == DP_CT_TCP_CLOSING ? DP_CT_TCP_FIN_WAIT_2 : dst.state;
        }
        if (flags & DP_TCP_RST) {
            src.state = dst.state = DP_CT_TCP_TIME_WAIT;
        }
        w->state = DP_CT_PUT(w->state, DP_CT_STATE_CLASS, 4, dp_ct_tcp_class(&src, &dst));
        *refresh = 1;
    } else if ((dst.state < DP_CT_TCP_SYN_SENT || dst.state >= DP_CT_TCP_FIN_WAIT_2
                || src.state >= DP_CT_TCP_FIN_WAIT_2)
               && DP_SEQ_GEQ(src.seqhi + DP_CT_TCP_SKEW, end) && DP_SEQ_GEQ(seq, src.seqlo - DP_CT_TCP_SKEW)) {
        /* While a connection opens or closes; its time does not begin anew, so that a flood cannot keep it. */
        dp_ct_tcp_slide(&src, &dst, end, ack, win, sws);
        if (flags & DP_TCP_FIN) {
            src.state = dp_ct_max(src.state, DP_CT_TCP_CLOSING);
        }
        if (flags & DP_TCP_RST) {
            src.state = dst.state = DP_CT_TCP_TIME_WAIT;
        }
    } else {
        verdict = DP_CT_INVALID;
    }
    dp_ct_tcp_store(w, d, &src, &dst);
    return verdict;
}

/* What a field is when a segment made 'new' of 'old' while others made 'now' of it: the later one. */
DP_INLINE __u32 dp_ct_merge_seq(__u32 old, __u32 new, __u32 now)
{
    return now == old || (new != old && DP_SEQ_GT(new, now)) ? new : now;
}

DP_INLINE __u64 dp_ct_merge_window(__u64 old, __u64 new, __u64 now)
{
    return DP_CT_WINDOW(dp_ct_merge_seq(DP_CT_WINDOW_LO(old), DP_CT_WINDOW_LO(new), DP_CT_WINDOW_LO(now)),
                        dp_ct_merge_seq(DP_CT_WINDOW_HI(old), DP_CT_WINDOW_HI(new), DP_CT_WINDOW_HI(now)));
}

/* Likewise of a field of 'state', whose values grow. */
DP_INLINE __u64 dp_ct_merge_field(__u64 old, __u64 new, __u64 now, __u64 merged, __u32 shift, __u32 bits)
{
    __u32 o = DP_CT_GET(old, shift, bits), n = DP_CT_GET(new, shift, bits), v = DP_CT_GET(now, shift, bits);

    return DP_CT_PUT(merged, shift, bits, v == o || (n != o && n > v) ? n : v);
}

DP_STAGE __u64 dp_ct_merge_state(__u64 old, __u64 new, __u64 now)
{
    __u64 merged = now;                 /* A connection that was killed stays dead. */

    for (int d = 0; d < 2; d++) {
        merged = dp_ct_merge_field(old, new, now, merged, DP_CT_STATE_WIN(d), 16);
        merged = dp_ct_merge_field(old, new, now, merged, DP_CT_STATE_WSCALE(d), 8);
        merged = dp_ct_merge_field(old, new, now, merged, DP_CT_STATE_TCP(d), 4);
    }
    return dp_ct_merge_field(old, new, now, merged, DP_CT_STATE_CLASS, 4);
}

/* Makes 'new' of a word that was 'old' when the packet was judged. */
DP_INLINE void dp_ct_put_window(__u64 *word, __u64 old, __u64 new)
{
    __u64 expected = old;
    __u64 value = new;

    for (int i = 0; i < DP_CT_MERGES && value != expected && !dp_ct_swap(word, &expected, value); i++) {
        value = dp_ct_merge_window(old, new, expected);
    }
}

DP_INLINE void dp_ct_put_state(__u64 *word, __u64 old, __u64 new)
{
    __u64 expected = old;
    __u64 value = new;

    for (int i = 0; i < DP_CT_MERGES && value != expected && !dp_ct_swap(word, &expected, value); i++) {
        value = dp_ct_merge_state(old, new, expected);
    }
}

DP_INLINE void dp_ct_refresh(struct dp_ct_life *life, __u32 now)
{
    if (DP_READ_ONCE(life->used) != now) {
        DP_WRITE_ONCE(life->used, now);
    }
}

/* Judges the segment in 'run', of connection run->ref.  dp_ct_put_tcp() is to follow. */
DP_STAGE int dp_ct_update_tcp(struct dp_ctx *ctx, struct dp_ct_run *run)
{
    const struct dp_ct_head *head = dp_ct_head_at(ctx, 0);
    const struct dp_ct_life *life = run ? dp_ct_lives_at(ctx, DP_CT_REF_INDEX(run->ref)) : 0;
    int refresh, verdict;

    if (!head || !life) {
        return DP_CT_INVALID;
    }
    run->found.state = DP_READ_ONCE(life->state);
    run->found.window[0] = DP_READ_ONCE(life->window[0]);
    run->found.window[1] = DP_READ_ONCE(life->window[1]);
    run->judged = run->found;
    verdict = dp_ct_tcp_judge(run, DP_CT_REF_REPLY(run->ref), head->no_seq_check, &run->judged, &refresh);
    run->refresh = refresh;
    return verdict;
}

/* Merges what dp_ct_update_tcp() made of the connection's words into them.  Returns 0. */
DP_STAGE int dp_ct_put_tcp(struct dp_ctx *ctx, const struct dp_ct_run *run, __u32 now)
{
    struct dp_ct_life *life = run ? dp_ct_lives_at(ctx, DP_CT_REF_INDEX(run->ref)) : 0;

    if (!life) {
        return 0;
    }
    dp_ct_put_window(&life->window[0], run->found.window[0], run->judged.window[0]);
    dp_ct_put_window(&life->window[1], run->found.window[1], run->judged.window[1]);
    dp_ct_put_state(&life->state, run->found.state, run->judged.state);
    if (run->refresh) {
        dp_ct_refresh(life, now);
    }
    return 0;
}

#endif /* dp/ct_tcp.h */
