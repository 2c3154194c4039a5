/* SPDX-License-Identifier: Apache-2.0 */
/* The actions sample(), of sFlow and IPFIX -> one operation SAMPLE.
 *
 * The program copies a packet with the chance that at least one of them is
 * drawn; the engine draws which, knowing that.  So each is drawn as often as
 * it should, whether the others are or not. */
#include <config.h>

#include "ovs/fastpath/compile_private.h"

#include <string.h>

#include "netlink.h"
#include "odp-netlink.h"
#include "openvswitch/ofpbuf.h"
#include "random.h"

#define ALL 4294967296.0                /* Of all random numbers. */

/* The chance of the sample() that is 'a', at most 1 - 1 / ALL. */
static double
chance_of(const struct nlattr *a)
{
    const struct nlattr *probability
        = nl_attr_find_nested(a, OVS_SAMPLE_ATTR_PROBABILITY);

    return probability ? nl_attr_get_u32(probability) / ALL : 0;
}

/* Whether all that the sample() that is 'a' does is to ask ofproto. */
static bool
only_asks(const struct nlattr *a)
{
    const struct nlattr *actions
        = nl_attr_find_nested(a, OVS_SAMPLE_ATTR_ACTIONS);
    const struct nlattr *nested;
    size_t left;

    if (!actions || !nl_attr_get_size(actions)) {
        return false;
    }
    NL_NESTED_FOR_EACH (nested, left, actions) {
        if (nl_attr_type(nested) != OVS_ACTION_ATTR_USERSPACE) {
            return false;
        }
    }
    return true;
}

/* Whether the engine may do 'op' to the copy, and again if it draws another
 * packet: it has no effect elsewhere, but for outputs, which it leaves out. */
static bool
suits_before_sample(const struct dp_op *op)
{
    switch (op->code) {
    case DP_OP_SET_ETH:
    case DP_OP_PUSH_VLAN:
    case DP_OP_POP_VLAN:
    case DP_OP_PUSH_MPLS:
    case DP_OP_POP_MPLS:
    case DP_OP_SET_MPLS:
    case DP_OP_SET_IP4:
    case DP_OP_SET_IP6:
    case DP_OP_SET_IP6_SRC:
    case DP_OP_SET_IP6_DST:
    case DP_OP_SET_TCP:
    case DP_OP_SET_UDP:
    case DP_OP_SET_SCTP:
    case DP_OP_SET_ICMP:
    case DP_OP_SET_ARP:
    case DP_OP_SET_ND:
    case DP_OP_SET_ND_EXT:
    case DP_OP_SET_MARK:
    case DP_OP_SET_PRIORITY:
    case DP_OP_OUTPUT:
        return true;
    default:
        return false;
    }
}

void
dpif_xdp_compile_sample(struct dpif_xdp_program *p, const struct nlattr *a)
{
    bool suits = !p->nested && !p->cloned && !p->ended && only_asks(a);

    if (p->reason) {
        return;
    }
    for (uint32_t i = 0; i < p->out->n_ops; i++) {
        suits &= suits_before_sample(&p->out->ops[i]);
    }
    if (!suits) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
        return;
    }
    p->unsampled = (p->sampled ? p->unsampled : 1) * (1 - chance_of(a));
    p->sampled = true;
}

void
dpif_xdp_compile_samples_end(struct dpif_xdp_program *p)
{
    struct dpif_xdp_compiled *out = p->out;
    union dp_op_arg *arg;
    struct dp_op op;

    if (!p->sampled || p->reason) {
        return;
    }
    p->tunnelled = false;               /* It does not come behind a header. */
    arg = dpif_xdp_op_add(p, DP_OP_SAMPLE);
    if (p->reason) {
        return;
    }
    arg->sample.chance = MIN((1 - p->unsampled) * ALL, UINT32_MAX);
    arg->sample.tracks = out->ops[0].code == DP_OP_CT;
    op = *p->last;
    memmove(&out->ops[1], &out->ops[0], (out->n_ops - 1) * sizeof op);
    out->ops[0] = op;
}

void
dpif_xdp_draw_samples(const struct nlattr *actions, size_t actions_len,
                      struct ofpbuf *drawn)
{
    double none = 1;                    /* Chance that none is drawn of those
                                         * that are left. */
    bool any = false;
    size_t n_left = 0;
    const struct nlattr *a;
    size_t left;

    NL_ATTR_FOR_EACH (a, left, actions, actions_len) {
        if (nl_attr_type(a) == OVS_ACTION_ATTR_SAMPLE) {
            none *= 1 - chance_of(a);
            n_left++;
        }
    }
    NL_ATTR_FOR_EACH (a, left, actions, actions_len) {
        const struct nlattr *nested;
        double chance;

        if (!n_left) {
            break;
        }
        if (nl_attr_type(a) == OVS_ACTION_ATTR_OUTPUT) {
            continue;
        }
        if (nl_attr_type(a) != OVS_ACTION_ATTR_SAMPLE) {
            ofpbuf_put(drawn, a, NLA_ALIGN(a->nla_len));
            continue;
        }
        chance = chance_of(a);
        if (random_uint32() / ALL * (any ? 1 : 1 - none) < chance) {
            any = true;
            nested = nl_attr_find_nested(a, OVS_SAMPLE_ATTR_ACTIONS);
            ofpbuf_put(drawn, nl_attr_get(nested), nl_attr_get_size(nested));
        }
        none /= 1 - chance;
        n_left--;
    }
}

void
dpif_xdp_drop_samples(const struct nlattr *actions, size_t actions_len,
                      struct ofpbuf *others)
{
    const struct nlattr *a;
    size_t left;

    NL_ATTR_FOR_EACH (a, left, actions, actions_len) {
        if (nl_attr_type(a) != OVS_ACTION_ATTR_SAMPLE) {
            ofpbuf_put(others, a, NLA_ALIGN(a->nla_len));
        }
    }
}
