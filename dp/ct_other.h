/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Connection tracking: ICMP's questions and answers; and UDP and all other protocols, of which only addresses, and
 * ports of UDP, are known.  All the state is what the connection waits for. */
#ifndef DP_CT_OTHER_H
#define DP_CT_OTHER_H 1

#include "dp/ct_tcp.h"

/* By the protocol number alone, whatever the version of IP. */
DP_INLINE int dp_ct_like_icmp(__u32 proto) { return proto == DP_IP_ICMP || proto == DP_IP_ICMP6; }

/* Whether the packet may begin a connection: an ICMP packet that asks may. */
DP_INLINE int dp_ct_icmp_may_begin(const struct dp_ct_run *run)
{
    return run->tuple.proto == DP_IP_ICMP6 ? run->icmp_type == 128
        : run->icmp_type == 8 || run->icmp_type == 13 || run->icmp_type == 15;
}

DP_INLINE __u64 dp_ct_other_begin(__u32 proto)
{
    return (__u64) (dp_ct_like_icmp(proto) ? DP_CT_TM_ICMP_FIRST : DP_CT_TM_OTHER_FIRST) << DP_CT_STATE_CLASS;
}

/* Judges the packet in 'run', of connection run->ref.  ICMP is established by the first answer.  So are the others, but
 * the first end's packets were new until then. */
DP_STAGE int dp_ct_update_other(struct dp_ctx *ctx, const struct dp_ct_run *run, __u32 now)
{
    struct dp_ct_life *life = run ? dp_ct_lives_at(ctx, DP_CT_REF_INDEX(run->ref)) : 0;

    if (!life) {
        return DP_CT_INVALID;
    }

    __u64 old = DP_READ_ONCE(life->state);
    __u32 reply = DP_CT_REF_REPLY(run->ref);
    __u32 class = DP_CT_CLASS(old);

    switch (class) {
    case DP_CT_TM_ICMP_FIRST:
        class = reply ? DP_CT_TM_ICMP_REPLY : class;
        break;
    case DP_CT_TM_OTHER_FIRST:
        class = reply ? DP_CT_TM_OTHER_BIDIR : DP_CT_TM_OTHER_MULTIPLE;
        break;
    case DP_CT_TM_OTHER_MULTIPLE:
        class = reply ? DP_CT_TM_OTHER_BIDIR : class;
        break;
    }
    dp_ct_put_state(&life->state, old, DP_CT_PUT(old, DP_CT_STATE_CLASS, 4, class));
    dp_ct_refresh(life, now);
    return class == DP_CT_TM_OTHER_BIDIR || class == DP_CT_TM_ICMP_REPLY ? DP_CT_VALID : DP_CT_VALID_NEW;
}

#endif /* dp/ct_other.h */
