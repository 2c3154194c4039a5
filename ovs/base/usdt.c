/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#ifdef OXDP_USDT

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include "ovs/base/usdt.h"

#include <linux/netlink.h>
#include <linux/genetlink.h>

#include "dp-packet.h"
#include "flow.h"
#include "netlink.h"
#include "odp-netlink.h"
#include "odp-util.h"
#include "openvswitch/match.h"
#include "openvswitch/ofpbuf.h"

#define SEMAPHORE(PROBE)                                                    \
    unsigned short PROBE##_semaphore __attribute__((section(".probes")))

SEMAPHORE(dpif_recv_recv_upcall);
SEMAPHORE(dpif_netlink_operate___op_flow_put);
SEMAPHORE(dpif_netlink_operate___op_flow_del);
SEMAPHORE(dpif_netlink_operate___op_flow_get);
SEMAPHORE(dpif_netlink_operate___op_flow_execute);
SEMAPHORE(ovs_xdp_slow_path);
SEMAPHORE(ovs_xdp_flow_moved);

/* Appends a key or a mask of a flow to 'message' as the kernel has it: without
 * the packet type, which tracers of the kernel's datapath do not know. */
static void
put_attrs(struct ofpbuf *message, const struct nlattr *attrs, size_t len)
{
    const struct nlattr *attr;
    unsigned int left;

    NL_ATTR_FOR_EACH (attr, left, attrs, len) {
        if (nl_attr_type(attr) != OVS_KEY_ATTR_PACKET_TYPE) {
            ofpbuf_put(message, attr, NLA_ALIGN(attr->nla_len));
        }
    }
}

static void
put_nested(struct ofpbuf *message, uint16_t type, const struct nlattr *attrs,
           size_t len)
{
    size_t start = nl_msg_start_nested(message, type);

    put_attrs(message, attrs, len);
    nl_msg_end_nested(message, start);
}

void
dpif_xdp_usdt_upcall(const char *dp_name, enum dpif_upcall_type type,
                     const struct dp_packet *packet, const struct flow *flow)
{
    const struct odp_flow_key_parms parms = { .flow = flow };
    const void *data = dp_packet_data(packet);
    uint32_t size = dp_packet_size(packet);
    struct ofpbuf all, key;

    ofpbuf_init(&all, 0);
    ofpbuf_init(&key, 0);
    odp_flow_key_from_flow(&parms, &all);
    put_attrs(&key, all.data, all.size);
    DTRACE_PROBE6(dpif_recv, recv_upcall, dp_name, (int) type, data, size,
                  key.data, (size_t) key.size);
    ofpbuf_uninit(&key);
    ofpbuf_uninit(&all);
}

/* Begins a message as lib/dpif-netlink.c does: 'command' of a family. */
static void
begin_message(struct ofpbuf *message, uint16_t flags, uint8_t command,
              uint8_t version)
{
    const struct ovs_header header = { .dp_ifindex = 0 };

    ofpbuf_init(message, 0);
    nl_msg_put_genlmsghdr(message, 0, 0, NLM_F_REQUEST | flags, command,
                          version);
    ofpbuf_put(message, &header, sizeof header);
}

static void
end_message(struct ofpbuf *message)
{
    nl_msg_nlmsghdr(message)->nlmsg_len = message->size;
}

static void
put_flow(struct ofpbuf *message, const ovs_u128 *ufid,
         const struct nlattr *key, size_t key_len)
{
    if (ufid) {
        nl_msg_put_unspec(message, OVS_FLOW_ATTR_UFID, ufid, sizeof *ufid);
    }
    put_nested(message, OVS_FLOW_ATTR_KEY, key, key_len);
}

static void
probe_put(struct dpif *dpif, const struct dpif_flow_put *put)
{
    struct ofpbuf message;

    begin_message(&message, put->flags & DPIF_FP_CREATE ? NLM_F_CREATE : 0,
                  put->flags & DPIF_FP_CREATE ? OVS_FLOW_CMD_NEW
                  : OVS_FLOW_CMD_SET, OVS_FLOW_VERSION);
    put_flow(&message, put->ufid, put->key, put->key_len);
    put_nested(&message, OVS_FLOW_ATTR_MASK, put->mask, put->mask_len);
    nl_msg_put_unspec(&message, OVS_FLOW_ATTR_ACTIONS, put->actions,
                      put->actions_len);
    end_message(&message);
    DTRACE_PROBE4(dpif_netlink_operate__, op_flow_put, dpif, put, NULL,
                  &message);
    ofpbuf_uninit(&message);
}

static void
probe_del(struct dpif *dpif, const struct dpif_flow_del *del)
{
    struct ofpbuf message;

    begin_message(&message, 0, OVS_FLOW_CMD_DEL, OVS_FLOW_VERSION);
    put_flow(&message, del->ufid, del->key, del->key_len);
    end_message(&message);
    DTRACE_PROBE4(dpif_netlink_operate__, op_flow_del, dpif, del, NULL,
                  &message);
    ofpbuf_uninit(&message);
}

static void
probe_get(struct dpif *dpif, const struct dpif_flow_get *get)
{
    struct ofpbuf message;

    begin_message(&message, 0, OVS_FLOW_CMD_GET, OVS_FLOW_VERSION);
    put_flow(&message, get->ufid, get->key, get->key_len);
    end_message(&message);
    DTRACE_PROBE4(dpif_netlink_operate__, op_flow_get, dpif, get, NULL,
                  &message);
    ofpbuf_uninit(&message);
}

static void
probe_execute(struct dpif *dpif, const struct dpif_execute *execute)
{
    const struct odp_flow_key_parms parms = { .flow = execute->flow };
    const void *data = dp_packet_data(execute->packet);
    uint32_t size = dp_packet_size(execute->packet);
    struct ofpbuf message;
    size_t start;

    begin_message(&message, 0, OVS_PACKET_CMD_EXECUTE, OVS_PACKET_VERSION);
    nl_msg_put_unspec(&message, OVS_PACKET_ATTR_PACKET, data, size);
    start = nl_msg_start_nested(&message, OVS_PACKET_ATTR_KEY);
    odp_flow_key_from_flow(&parms, &message);
    nl_msg_end_nested(&message, start);
    nl_msg_put_unspec(&message, OVS_PACKET_ATTR_ACTIONS, execute->actions,
                      execute->actions_len);
    end_message(&message);
    DTRACE_PROBE5(dpif_netlink_operate__, op_flow_execute, dpif, execute,
                  data, size, &message);
    ofpbuf_uninit(&message);
}

void
dpif_xdp_usdt_operate__(struct dpif *dpif, struct dpif_op *op)
{
    switch (op->type) {
    case DPIF_OP_FLOW_PUT:
        probe_put(dpif, &op->flow_put);
        break;
    case DPIF_OP_FLOW_DEL:
        probe_del(dpif, &op->flow_del);
        break;
    case DPIF_OP_FLOW_GET:
        probe_get(dpif, &op->flow_get);
        break;
    case DPIF_OP_EXECUTE:
        probe_execute(dpif, &op->execute);
        break;
    }
}

void
dpif_xdp_usdt_install__(const struct match *match, const ovs_u128 *ufid,
                        const struct nlattr *actions, size_t actions_len)
{
    struct odp_flow_key_parms parms = {
        .flow = &match->flow, .mask = &match->wc.masks,
    };
    struct dpif_flow_put put = {
        .flags = DPIF_FP_CREATE, .ufid = ufid, .actions = actions,
        .actions_len = actions_len, .pmd_id = PMD_ID_NULL,
    };
    struct ofpbuf key, mask;

    ofpbuf_init(&key, 0);
    ofpbuf_init(&mask, 0);
    odp_flow_key_from_flow(&parms, &key);
    parms.key_buf = &key;
    odp_flow_key_from_mask(&parms, &mask);
    put.key = key.data;
    put.key_len = key.size;
    put.mask = mask.data;
    put.mask_len = mask.size;
    probe_put(NULL, &put);
    ofpbuf_uninit(&key);
    ofpbuf_uninit(&mask);
}

void
dpif_xdp_usdt_slow_path__(uint32_t in_port, uint32_t reason,
                          const struct dp_packet *packet)
{
    const void *data = dp_packet_data(packet);
    uint32_t size = dp_packet_size(packet);

    DTRACE_PROBE4(ovs_xdp, slow_path, in_port, reason, data, size);
}

void
dpif_xdp_usdt_flow_moved__(const ovs_u128 *ufid, int from, int to,
                           bool on_tcx)
{
    DTRACE_PROBE4(ovs_xdp, flow_moved, ufid, from, to, (int) on_tcx);
}

#endif /* OXDP_USDT */
