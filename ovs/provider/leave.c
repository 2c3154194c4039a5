/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the daemon, when programs and flows in the kernel stay.
 *
 * vswitchd takes its bridges down one after the other, first their OpenFlow
 * rules, while threads of ofproto still revalidate flows and answer upcalls:
 * from what is left of the rules they would conclude that flows must go, or
 * that packets are to be dropped.  So nothing changes flows any more from here
 * on.  With "exit --cleanup" they go all the same. */
#include <config.h>

#include "ovs/provider/provider_private.h"

#include "dpif.h"
#include "odp-util.h"
#include "openvswitch/ofpbuf.h"
#include "ovs-atomic.h"
#include "ovs/datapath/datapath.h"
#include "ovs/engine/engine.h"
#include "ovs/flows/flows.h"
#include "ovs/provider/ct_commands.h"

static atomic_bool leaving;

void __real_bridge_exit(bool delete_datapath);
void __wrap_bridge_exit(bool delete_datapath);

static void
end_upcalls(struct dpif_xdp_dp *dp, void *aux OVS_UNUSED)
{
    dpif_xdp_upcall_forget(dp);
}

/* vswitchd's main() calls this instead of bridge_exit(). */
void
__wrap_bridge_exit(bool delete_datapath)
{
    dpif_xdp_ct_commands_end();
    if (!delete_datapath) {
        atomic_store(&leaving, true);
        dpif_xdp_for_each(end_upcalls, NULL);
    } else {
        dpif_xdp_version_forget();
    }
    __real_bridge_exit(delete_datapath);
}

bool
dpif_xdp_is_leaving(void)
{
    bool is;

    atomic_read_relaxed(&leaving, &is);
    return is;
}

/* Instead of deleting a flow: reports its counts. */
static int
keep_flow(struct dpif *dpif, const struct dpif_flow_del *del)
{
    struct odputil_keybuf stub;
    struct dpif_flow flow;
    struct ofpbuf buffer;
    int error;

    ofpbuf_use_stub(&buffer, &stub, sizeof stub);
    error = dpif_xdp_flow_get(dpif, &(struct dpif_flow_get) {
                                  .key = del->key,
                                  .key_len = del->key_len,
                                  .ufid = del->ufid,
                                  .buffer = &buffer,
                                  .flow = &flow,
                              });
    if (!error && del->stats) {
        *del->stats = flow.stats;
    }
    ofpbuf_uninit(&buffer);
    return error;
}

/* Does what 'op' asks for as far as it leaves the flow as it is; returns
 * whether that was all. */
bool
dpif_xdp_leaving_operate(struct dpif *dpif, struct dpif_op *op)
{
    switch (op->type) {
    case DPIF_OP_FLOW_PUT:
        op->error = 0;
        return true;
    case DPIF_OP_FLOW_DEL:
        op->error = keep_flow(dpif, &op->flow_del);
        return true;
    case DPIF_OP_FLOW_GET:
    case DPIF_OP_EXECUTE:
    default:
        return false;
    }
}
