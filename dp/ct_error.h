/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Connection tracking: ICMP errors, which belong to the connection of the packet that they quote. */
#ifndef DP_CT_ERROR_H
#define DP_CT_ERROR_H 1

#include "dp/ct_packet.h"

#define DP_CT_QUOTED 8          /* Bytes of the transport header that an ICMPv4 error quotes at least. */

/* Ports, or id and types, of the quoted packet whose transport header of 'len' bytes is at run->inner_l4. */
DP_INLINE int dp_ct_quoted_l4(struct dp_ctx *ctx, const struct dp_ct_action *action, struct dp_ct_run *run, __u32 len)
{
    struct dp_ct_tuple *t = &run->tuple;
    __u32 least = 0;

    if (t->proto == DP_IP_TCP) {
        least = t->v6 ? DP_TCP_LEN : DP_CT_QUOTED;
    } else if (t->proto == DP_IP_SCTP && action->flags & DP_CT_SCTP) {
        least = t->v6 ? DP_SCTP_LEN : DP_CT_QUOTED;
    } else if (t->proto == DP_IP_UDP || dp_ct_is_icmp(t)) {
        least = DP_CT_QUOTED;
    } else {
        return 1;
    }
    if (len < least) {
        return 0;
    }
    return dp_ct_is_icmp(t) ? dp_ct_icmp_ids(ctx, t, run->inner_l4) : dp_ct_ports(ctx, t, run->inner_l4);
}

/* run->tuple becomes that of an answer to the packet that the ICMP error quotes.  Returns 0 if it is damaged, or was
 * not sent by whom the error goes to. */
DP_STAGE int dp_ct_error(struct dp_ctx *ctx, const struct dp_ct_action *action, struct dp_ct_run *run)
{
    struct dp_ct_tuple *t;
    struct dp_ct_tuple quoted;
    __u32 l3, end;
    const __u8 *ip;

    if (!action || !run) {
        return 0;
    }
    t = &run->tuple;
    l3 = run->l4 + DP_ICMP_LEN;
    end = run->l4 + run->l4_len;
    if (t->v6) {
        ip = dp_at(ctx, l3 & DP_OFS_MASK, DP_IP6_LEN);
        if (!ip || l3 + DP_IP6_LEN > end || dp_load64(ip + 8) != t->addr[1][0] || dp_load64(ip + 16) != t->addr[1][1]) {
            return 0;
        }
        for (int i = 0; i < 2; i++) {
            t->addr[i][0] = dp_load64(ip + 8 + 16 * i);
            t->addr[i][1] = dp_load64(ip + 16 + 16 * i);
        }

        int proto = dp_ct_extensions(ctx, l3, end, &run->inner_l4);

        if (proto < 0) {
            return 0;
        }
        t->proto = proto;
    } else {
        __u16 fragment = action->flags & DP_CT_FIRST_FRAGMENT ? 0x1fff : 0x3fff;

        ip = dp_at(ctx, l3 & DP_OFS_MASK, DP_IP4_LEN);
        if (!ip || l3 + DP_IP4_LEN > end || dp_load32(ip + 12) != t->addr[1][0]
            || dp_load16(ip + 6) & dp_htons(fragment).raw) {
            return 0;
        }

        __u32 len = (ip[0] & 15) * 4;

        if (len < DP_IP4_LEN || l3 + len > end) {
            return 0;
        }
        t->addr[0][0] = dp_load32(ip + 12);
        t->addr[1][0] = dp_load32(ip + 16);
        t->proto = ip[9];
        run->inner_l4 = l3 + len;
    }
    run->inner_l3 = l3;
    run->related = 1;
    if (!dp_ct_quoted_l4(ctx, action, run, end - run->inner_l4)) {
        return 0;
    }
    quoted = *t;
    dp_ct_reverse(t, &quoted);
    return 1;
}

#endif /* dp/ct_error.h */
