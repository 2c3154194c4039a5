/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Connection tracking: one ct() action from beginning to end, stage after stage. */
#ifndef DP_CT_RUN_H
#define DP_CT_RUN_H 1

#include "dp/ct_error.h"
#include "dp/ct_new.h"

/* Translates the packet unless it is already, in this zone. */
DP_INLINE void dp_ct_nat(struct dp_ctx *ctx, struct dp_ct_run *run, const struct dp_ct_action *action)
{
    if (!(run->md.state & DP_CS_NAT) || run->md.zone != action->zone) {
        int bits = dp_ct_translate(ctx, run);

        if (bits) {
            run->md.state = (run->md.state & ~DP_CS_NAT) | bits;
        }
    }
}

/* The connection that this packet's last ct() found, if it is of the same zone and still there; 0 if not. */
DP_INLINE __u32 dp_ct_cached(struct dp_ctx *ctx, const struct dp_ct_md *md, const struct dp_ct_action *action)
{
    const struct dp_ct_key *key = dp_ct_keys_at(ctx, DP_CT_REF_INDEX(md->cached));

    return md->cached && key && key->zone == action->zone && DP_READ_ONCE(key->generation) == md->generation
        && !(action->flags & (DP_CT_FORCE | DP_CT_ANEW_EACH)) ? md->cached : 0;
}

/* The packet comes to the same zone again: it is not judged again. */
DP_INLINE void dp_ct_again(struct dp_ctx *ctx, struct dp_ct_run *run, const struct dp_ct_action *action)
{
    const struct dp_ct_key *key = dp_ct_keys_at(ctx, DP_CT_REF_INDEX(run->ref));
    const struct dp_ct_marks *marks;

    if (action->flags & DP_CT_NAT) {
        dp_ct_nat(ctx, run, action);
        run->md.cached = 0;
    }
    marks = key ? dp_ct_marks_at(ctx, DP_READ_ONCE(key->marks)) : 0;
    run->md.zone = action->zone;
    run->md.mark = marks ? marks->mark : 0;
    run->md.label[0] = marks ? marks->label[0] : 0;
    run->md.label[1] = marks ? marks->label[1] : 0;
    run->remark = dp_ct_set_marks(ctx, &run->md, action, run->ref);
}

/* Finds the connection of the packet.  A packet that this zone has translated has lost its tuple: what answers it has
 * not.  run->tuple becomes what the packet had before. */
DP_INLINE void dp_ct_look_up(struct dp_ctx *ctx, struct dp_ct_run *run, __u32 now)
{
    if (!(run->md.state & DP_CS_NAT)) {
        run->ref = dp_ct_find(ctx, &run->tuple, now);
        return;
    }
    dp_ct_reverse(&run->reply, &run->tuple);
    run->ref = dp_ct_find(ctx, &run->reply, now);
    if (run->ref) {
        run->ref ^= 1;
        dp_ct_tuple_of(ctx, DP_CT_REF_INDEX(run->ref), DP_CT_REF_REPLY(run->ref), &run->tuple);
    }
}

/* A packet that this zone has translated, and that other actions changed since, is found by the original tuple in its
 * metadata. */
DP_INLINE __u32 dp_ct_look_up_original(struct dp_ctx *ctx, struct dp_ct_run *run, const struct dp_ct_action *action,
                                       __u32 now)
{
    const struct dp_ct_md *md = &run->md;
    struct dp_ct_tuple *t = &run->reply;

    if (!(md->state & DP_CS_NAT) || !md->proto || action->flags & DP_CT_NAT || md->v6 != run->tuple.v6) {
        return 0;
    }
    __builtin_memcpy(t->addr, md->addr, sizeof t->addr);
    t->zone = md->zone;
    t->proto = md->proto;
    t->v6 = md->v6;
    t->pad = 0;
    if (dp_ct_is_icmp(&run->tuple)) {
        __u8 type = dp_ntohs((dp_be16) { md->tp[0] });

        t->l4[0] = DP_CT_L4(DP_CT_L4_PORT(run->tuple.l4[0]), type);
        t->l4[1] = DP_CT_L4(DP_CT_L4_PORT(run->tuple.l4[1]), dp_ct_icmp_answer(t->v6, type) & 0xff);
    } else {
        t->l4[0] = DP_CT_L4(md->tp[0], 0);
        t->l4[1] = DP_CT_L4(md->tp[1], 0);
    }
    return dp_ct_find(ctx, t, now) & ~1u;
}

/* What the packet does to its connection run->ref becomes state.  Returns whether it begins another. */
DP_INLINE int dp_ct_update(struct dp_ctx *ctx, struct dp_ct_run *run, __u32 now)
{
    const struct dp_ct_key *key = dp_ct_keys_at(ctx, DP_CT_REF_INDEX(run->ref));
    __u32 rpl = DP_CT_REF_REPLY(run->ref) ? DP_CS_RPL : 0;
    int verdict;

    if (run->related) {
        run->md.state |= DP_CS_REL | rpl;
        return 0;
    }
    if (key && DP_READ_ONCE(key->flags) & DP_CT_KEY_RELATED) {
        run->md.state |= DP_CS_REL;
    }
    if (run->tuple.proto == DP_IP_TCP) {
        verdict = dp_ct_update_tcp(ctx, run);
        dp_ct_put_tcp(ctx, run, now);
    } else {
        verdict = dp_ct_update_other(ctx, run, now);
    }
    switch (verdict) {
    case DP_CT_VALID:
        run->md.state = (run->md.state & ~DP_CS_NEW) | DP_CS_EST | rpl;
        return 0;
    case DP_CT_VALID_NEW:
        run->md.state |= DP_CS_NEW;
        return 0;
    case DP_CT_ANEW:
        dp_ct_kill(ctx, DP_CT_REF_INDEX(run->ref));
        run->ref = 0;
        return 1;
    default:
        run->md.state = DP_CS_INV;
        return 0;
    }
}

/* A packet without a connection makes one if 'action' says so and nothing speaks against it. */
DP_INLINE int dp_ct_begin(struct dp_ctx *ctx, struct dp_ct_run *run, const struct dp_ct_action *action, __u32 now)
{
    int bits;

    run->ref = 0;
    if (run->md.state & DP_CS_NAT && dp_ct_find(ctx, &run->tuple, now)) {
        return DP_CT_DONE;              /* What it was translated to is another connection's: it belongs to none. */
    }
    if (!dp_ct_may_begin(run)) {
        run->md.state = DP_CS_INV;
        return DP_CT_DONE;
    }
    if (action->flags & DP_CT_COMMIT && dp_ct_make(ctx, run, action, now) == DP_CT_LOCKED) {
        return DP_CT_BUSY;
    }
    run->md.state = DP_CS_NEW;
    if (run->ref && action->flags & DP_CT_NAT) {
        bits = dp_ct_translate(ctx, run);
        run->md.state |= bits;
    }
    return DP_CT_DONE;
}

/* What follows from the lookup of run->tuple, whose result is run->ref. */
DP_INLINE int dp_ct_follow(struct dp_ctx *ctx, struct dp_ct_run *run, const struct dp_ct_action *action, __u32 now)
{
    struct dp_ct_md *md = &run->md;
    int begins = 0;

    if (run->ref) {
        begins = dp_ct_update(ctx, run, now);
        if (action->flags & DP_CT_NAT && !begins) {
            dp_ct_nat(ctx, run, action);
        }
    } else {
        run->ref = dp_ct_look_up_original(ctx, run, action, now);
        if (run->ref) {
            begins = dp_ct_update(ctx, run, now);
        } else if (run->related) {
            md->state = DP_CS_INV;
        } else {
            begins = 1;
        }
    }
    if (begins && dp_ct_begin(ctx, run, action, now) == DP_CT_BUSY) {
        return DP_CT_BUSY;
    }
    dp_ct_write(ctx, md, action->zone, run->ref, &run->tuple);
    run->remark = run->ref && dp_ct_set_marks(ctx, md, action, run->ref);
    md->cached = action->flags & DP_CT_NAT ? 0 : run->ref;
    md->related = run->related;
    if (md->cached) {
        const struct dp_ct_key *key = dp_ct_keys_at(ctx, DP_CT_REF_INDEX(run->ref));

        md->generation = key ? key->generation : 0;
    }
    return DP_CT_DONE;
}

/* Tracks the packet whose layers are 'frame' (v6: IPv6, else IPv4), as 'action' says.  'now': ticks.  See dp/ct.h. */
DP_INLINE int dp_ct(struct dp_ctx *ctx, const struct dp_frame *frame, int v6, const struct dp_ct_action *action,
                    __u32 now, struct dp_ct_run *run)
{
    struct dp_ct_md *md = &run->md;
    int kind;

    run->related = md->related;
    run->remark = 0;
    run->ref = dp_ct_cached(ctx, md, action);
    if (run->ref && !(action->flags & DP_CT_NAT)) {
        dp_ct_again(ctx, run, action);
        return DP_CT_DONE;
    }

    __u32 cached = run->ref;

    kind = dp_ct_packet(ctx, frame, v6, action, run);
    if (kind == 2 && !dp_ct_error(ctx, action, run)) {
        kind = 0;
    }
    if (cached && kind) {
        run->ref = cached;
        dp_ct_again(ctx, run, action);
        return DP_CT_DONE;
    }
    run->ref = 0;
    if (!kind) {
        md->state = DP_CS_INV;
        dp_ct_write(ctx, md, action->zone, 0, 0);
        return DP_CT_DONE;
    }
    if (md->state && md->zone != action->zone) {
        md->state = 0;
    }

    dp_ct_look_up(ctx, run, now);
    if (action->flags & DP_CT_FORCE && DP_CT_REF_REPLY(run->ref) && run->ref) {
        dp_ct_kill(ctx, DP_CT_REF_INDEX(run->ref));
        run->ref = 0;
    }
    return dp_ct_follow(ctx, run, action, now);
}

#endif /* dp/ct_run.h */
