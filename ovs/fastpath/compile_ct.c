/* SPDX-License-Identifier: Apache-2.0 */
/* The action ct() -> the operation CT of dp/table.h. */
#include <config.h>

#include "dp/seam_native.h"
#include "dp/ct_op.h"
#include "ovs/fastpath/compile_private.h"

#include <netinet/in.h>
#include <string.h>

#include "openvswitch/types.h"
#include "ovs/state/ct_parse.h"
#include "util.h"

/* A flow with CT begins with one.  These may come before ct() all the same,
 * because they have nothing to do with what it reads or writes. */
static bool
suits_before_ct(const struct dp_op *op)
{
    switch (op->code) {
    case DP_OP_SET_ETH:
    case DP_OP_PUSH_VLAN:
    case DP_OP_POP_VLAN:
    case DP_OP_SET_IP6:
    case DP_OP_SET_MARK:
    case DP_OP_SET_PRIORITY:
    case DP_OP_CT_CLEAR:
        return true;
    case DP_OP_SET_IP4:
        return !op->u.ip4.src_mask && !op->u.ip4.dst_mask;
    default:
        return false;
    }
}

/* Takes ct_clear out of the operations, which CT does itself then.  Returns
 * whether there was one. */
static bool
take_clear(struct dpif_xdp_compiled *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < out->n_ops; i++) {
        if (out->ops[i].code != DP_OP_CT_CLEAR) {
            out->ops[n++] = out->ops[i];
        }
    }
    if (n == out->n_ops) {
        return false;
    }
    out->n_ops = n;
    return true;
}

static bool
can_begin_with_ct(const struct dpif_xdp_compiled *out)
{
    for (uint32_t i = 0; i < out->n_ops; i++) {
        if (!suits_before_ct(&out->ops[i])) {
            return false;
        }
    }
    return !out->n_blobs;
}

/* The operation that was added last becomes the first. */
static void
move_to_front(struct dpif_xdp_compiled *out)
{
    struct dp_op op = out->ops[out->n_ops - 1];

    memmove(&out->ops[1], &out->ops[0], (out->n_ops - 1) * sizeof op);
    out->ops[0] = op;
}

/* Tells the CT before the last operation that this is the next. */
static void
link_to_previous(struct dpif_xdp_compiled *out)
{
    uint32_t last = out->n_ops - 1, i = last;

    while (out->ops[--i].code != DP_OP_CT) {
        continue;
    }
    out->ops[i].u.ct.next = last - i;
}

/* Whether a flow may have several ct(): nothing may change addresses or ports,
 * after which a packet is not the same connection's any more (dp/ct_op.h). */
bool
dpif_xdp_compile_ct_suits(const struct dpif_xdp_program *p)
{
    const struct dpif_xdp_compiled *out = p->out;

    for (uint32_t i = 0; p->n_ct > 1 && i < out->n_ops; i++) {
        struct dp_op op = out->ops[i];

        op.codes = 1ULL << op.code;
        if (op.code != DP_OP_CT && dp_ct_is_forgotten(&op)) {
            return false;
        }
    }
    return true;
}

void
dpif_xdp_compile_ct(struct dpif_xdp_program *p, const struct nlattr *attr)
{
    bool v6 = p->out->key.eth_type.raw == (OVS_FORCE uint16_t)
                                          htons(DP_ETH_IP6);
    struct dpif_xdp_compiled *out = p->out;
    struct dpif_xdp_ct_action action;
    union dp_op_arg *arg;
    struct dp_blob *blob;
    bool fresh;

    dpif_xdp_ct_parse(attr, v6, &action);
    if (!(p->caps->ops & 1ULL << DP_OP_CT)) {
        p->reason = DPIF_XDP_COMPILE_PROGRAM;
        return;
    }
    if (p->tunnelled || p->trunc || out->n_outputs || p->n_ct == DP_MAX_CT
        || (!p->n_ct && !can_begin_with_ct(out))
        || action.dp.flags & DP_CT_FORCE || action.helper) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
        return;
    }
    fresh = !p->n_ct && take_clear(out);
    blob = dpif_xdp_op_add_blobs(p, DP_OP_CT, 1);
    if (p->reason) {
        return;
    }
    arg = &p->last->u;
    arg->ct.zone = action.dp.zone;
    arg->ct.flags = action.dp.flags | (fresh ? DP_CT_FRESH : 0);
    arg->ct.mark = action.dp.mark;
    arg->ct.mark_mask = action.dp.mark_mask;
    arg->ct.min_port = action.dp.nat.min_port;
    arg->ct.max_port = action.dp.nat.max_port;
    memcpy(blob->ct.label, action.dp.label, sizeof blob->ct.label);
    memcpy(blob->ct.label_mask, action.dp.label_mask,
           sizeof blob->ct.label_mask);
    memcpy(blob->ct.min, action.dp.nat.min, sizeof blob->ct.min);
    memcpy(blob->ct.max, action.dp.nat.max, sizeof blob->ct.max);
    out->ct_policy[p->n_ct] = action.timeout_policy;
    if (p->n_ct++) {
        link_to_previous(out);
    } else {
        move_to_front(out);
    }
    p->rewritten |= (action.dp.flags & DP_CT_NAT) != 0;
}
