/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of struct dpif_class: on flows, in runs of one type, and
 * executing actions on a packet. */
#include <config.h>

#include "ovs/provider/provider_private.h"

#include <errno.h>

#include "dpif.h"
#include "flow.h"
#include "ovs/base/compat.h"
#include "ovs/base/usdt.h"
#include "ovs/datapath/datapath.h"
#include "ovs/engine/engine.h"
#include "ovs/flows/flows.h"
#include "ovs/lookup/validate.h"
#include "packets.h"

/* The 'execute' operation: see lib/dpif.h.  Any thread may call it, also from
 * inside an upcall. */
static int
execute(struct dpif *dpif, struct dpif_execute *op)
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);
    size_t size = dp_packet_size(op->packet);
    struct dp_packet_batch batch;
    struct dpif_xdp_ctx ctx;
    struct dpif_xdp_flow_key key;

    if (size < ETH_HEADER_LEN || size > UINT16_MAX
        || dpif_xdp_validate_actions(op->actions,
                                     op->actions_len)) {
        return EINVAL;
    }
    if (op->probe) {
        /* Only a probe: executing would send a packet. */
        return 0;
    }

    /* The packet may never have been in the datapath, but actions rely on its
     * hash. */
    if (!dp_packet_rss_valid(op->packet)) {
        dp_packet_set_rss_hash(op->packet,
                               flow_hash_5tuple(op->flow, 0));
    }

    dpif_xdp_flow_key_init(&key, op->flow);

    /* Packets from a controller, and of LACP, CFM or BFD, are few.  They go
     * through the network stack, so that tcpdump shows them. */
    dpif_xdp_ctx_init(&ctx, dp, NULL);
    ctx.via_stack = true;
    dp_packet_batch_init_packet(&batch, dp_packet_clone(op->packet));
    dpif_xdp_execute_actions(&ctx, &batch, false, &key.mf, op->actions,
                             op->actions_len, 0);
    dpif_xdp_output_flush(&ctx);

    /* The caller may want what the actions made of the packet.  It may be
     * gone, or have become several fragments, which the caller cannot use. */
    if (dp_packet_batch_size(&batch) == 1) {
        dp_packet_swap(op->packet, batch.packets[0]);
    }
    dp_packet_delete_batch(&batch, true);
    dp_packet_batch_destroy(&batch);
    return 0;
}

/* Of 'n' operations, how many from the first on have its type. */
static size_t
count_alike(struct dpif_op *ops[], size_t n)
{
    size_t i = 1;

    while (i < n && ops[i]->type == ops[0]->type) {
        i++;
    }
    return i;
}

void
dpif_xdp_operate(struct dpif *dpif, struct dpif_op **ops, size_t n_ops
                 DPIF_XDP_OFFLOAD_TYPE(, enum dpif_offload_type t OVS_UNUSED))
{
    bool leaving = dpif_xdp_is_leaving();

    for (size_t i = 0, n; i < n_ops; i += n) {
        struct dpif_op *op = ops[i];

        dpif_xdp_usdt_operate(dpif, op);
        n = 1;
        if (leaving && dpif_xdp_leaving_operate(dpif, op)) {
            continue;
        }
        switch (op->type) {
        case DPIF_OP_FLOW_PUT:
            n = count_alike(&ops[i], n_ops - i);
            dpif_xdp_flows_put(dpif, &ops[i], n);
            break;
        case DPIF_OP_FLOW_DEL:
            n = count_alike(&ops[i], n_ops - i);
            dpif_xdp_flows_del(dpif, &ops[i], n);
            break;
        case DPIF_OP_FLOW_GET:
            op->error = dpif_xdp_flow_get(dpif, &op->flow_get);
            break;
        case DPIF_OP_EXECUTE:
            op->error = execute(dpif, &op->execute);
            break;
        }
    }
}
