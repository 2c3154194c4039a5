/* SPDX-License-Identifier: Apache-2.0 */
/* A program under construction: its operations and outputs. */
#include <config.h>

#include "ovs/fastpath/compile_private.h"

#include <string.h>

static void output_to_group(struct dpif_xdp_program *);

void
dpif_xdp_program_init(struct dpif_xdp_program *p,
                      const struct dp_capability *caps,
                      struct dpif_xdp_compiled *out)
{
    memset(p, 0, sizeof *p);
    p->out = out;
    p->caps = caps;
    out->fate = DP_FATE_DROP;
    out->arg = 0;
    out->n_ops = 0;
    out->n_blobs = 0;
    out->n_outputs = 0;
}

enum dpif_xdp_compile_reason
dpif_xdp_program_finish(struct dpif_xdp_program *p)
{
    struct dpif_xdp_compiled *out = p->out;

    if (p->outputs && out->n_outputs) {
        output_to_group(p);
        dpif_xdp_program_end(p, DP_FATE_GROUP, 0);
    } else if (p->outputs) {
        dpif_xdp_program_end(p, DP_FATE_OUTPUT, p->output);
    }
    if (p->max_len) {
        dpif_xdp_op_add(p, DP_OP_CHECK_LEN)->max_len = p->max_len;
    }
    if (!p->reason && !dpif_xdp_compile_ct_suits(p)) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
    }
    if (p->reason) {
        out->fate = DP_FATE_ENGINE;
        out->n_ops = 0;
    }
    return p->reason;
}

static const uint32_t op_needs[] = {
#define X(NAME, NEEDS, TEXT) [DP_OP_##NAME] = NEEDS,
    DP_OPS(X)
#undef X
};

/* What a packet may go through behind a tunnel header that was pushed. */
static bool
suits_tunnel(enum dp_op_code code)
{
    return (code == DP_OP_SET_ETH || code == DP_OP_PUSH_VLAN
            || code == DP_OP_SET_MARK || code == DP_OP_SET_PRIORITY
            || code == DP_OP_METER || code == DP_OP_OUTPUT
            || code == DP_OP_CHECK_LEN);
}

union dp_op_arg *
dpif_xdp_op_add(struct dpif_xdp_program *p, enum dp_op_code code)
{
    p->last = &p->nowhere;
    if (!(p->caps->ops & 1ULL << code)) {
        p->reason = DPIF_XDP_COMPILE_PROGRAM;
    } else if (p->tunnelled && !suits_tunnel(code)) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
    } else if (p->out->n_ops == DP_MAX_OPS) {
        p->reason = DPIF_XDP_COMPILE_TOO_LONG;
    } else {
        p->last = &p->out->ops[p->out->n_ops++];
    }
    memset(p->last, 0, sizeof *p->last);
    p->last->code = code;
    p->last->needs = op_needs[code];
    return &p->last->u;
}

struct dp_blob *
dpif_xdp_op_add_blobs(struct dpif_xdp_program *p, enum dp_op_code code,
                      uint32_t n)
{
    struct dpif_xdp_compiled *out = p->out;
    union dp_op_arg *arg = dpif_xdp_op_add(p, code);
    struct dp_blob *blobs = &out->blobs[out->n_blobs];

    if (out->n_blobs + n > DP_MAX_BLOBS) {
        p->reason = DPIF_XDP_COMPILE_TOO_LONG;
        blobs = out->blobs;
        n = 0;
    }
    memset(blobs, 0, n * sizeof *blobs);
    p->last->n_blobs = n;
    arg->blob = out->n_blobs;
    out->n_blobs += n;
    return blobs;
}

void
dpif_xdp_program_end(struct dpif_xdp_program *p, enum dp_fate fate,
                     uint32_t arg)
{
    p->out->fate = fate;
    p->out->arg = arg;
    p->ended = true;
}

void
dpif_xdp_program_output_copy(struct dpif_xdp_program *p)
{
    union dp_op_arg *arg;

    if (p->caps->ops & DP_CAPABILITY_GROUPS) {
        output_to_group(p);
        return;
    }
    p->outputs = false;
    if (!(p->caps->ops & DP_CAPABILITY_COPIES)) {
        p->reason = DPIF_XDP_COMPILE_ORDER;
        return;
    }
    arg = (p->last && p->last->code == DP_OP_OUTPUT
           && p->last->u.output.n < DP_MAX_COPIES
           ? &p->last->u : dpif_xdp_op_add(p, DP_OP_OUTPUT));
    arg->output.port[arg->output.n++] = p->output;
}

/* Adds the port to those that get the frame as it is at last, each once. */
static void
output_to_group(struct dpif_xdp_program *p)
{
    struct dpif_xdp_compiled *out = p->out;

    p->outputs = false;
    for (uint32_t i = 0; i < out->n_outputs; i++) {
        if (out->outputs[i] == p->output) {
            p->reason = DPIF_XDP_COMPILE_ORDER;
        }
    }
    if (p->trunc) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
    } else if (out->n_outputs == DP_MAX_GROUP) {
        p->reason = DPIF_XDP_COMPILE_TOO_LONG;
    }
    if (!p->reason) {
        out->outputs[out->n_outputs++] = p->output;
    }
}
