/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/state/ct.h"

#include "conntrack.h"
#include "conntrack-tp.h"
#include "dp-packet.h"
#include "netlink.h"
#include "odp-netlink.h"
#include "openvswitch/vlog.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_ct);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 5);

/* An OVS_ACTION_ATTR_CT attribute, understood. */
struct ct_action {
    bool commit;
    bool force;
    bool nat;                           /* 'nat_info' is meant. */
    bool nat_configured;                /* It names a direction. */
    uint16_t zone;
    uint32_t timeout_policy;
    const char *helper;
    const uint32_t *mark;               /* Value and mask. */
    const struct ovs_key_ct_labels *label;
    struct nat_action_info_t nat_info;
};

static void parse_ct(const struct nlattr *, struct ct_action *);
static void parse_nat(const struct nlattr *, struct ct_action *);

void
dpif_xdp_ct_execute(struct conntrack *conntrack, struct dp_packet_batch *batch,
                    const struct nlattr *ct, const struct flow *flow,
                    long long int now_ms)
{
    struct ct_action action;

    parse_ct(ct, &action);
    if (action.nat_configured && !action.commit) {
        VLOG_WARN_RL(&rl, "NAT specified without commit.");
    }
    conntrack_execute(conntrack, batch, flow->dl_type, action.force,
                      action.commit, action.zone, action.mark, action.label,
                      flow->tp_src, flow->tp_dst, action.helper,
                      action.nat ? &action.nat_info : NULL, now_ms,
                      action.timeout_policy);
}

static void
parse_ct(const struct nlattr *ct, struct ct_action *action)
{
    const struct nlattr *a;
    unsigned int left;

    memset(action, 0, sizeof *action);
    NL_NESTED_FOR_EACH_UNSAFE (a, left, ct) {
        switch ((enum ovs_ct_attr) nl_attr_type(a)) {
        case OVS_CT_ATTR_FORCE_COMMIT:
            action->force = true;
            action->commit = true;
            break;
        case OVS_CT_ATTR_COMMIT:
            action->commit = true;
            break;
        case OVS_CT_ATTR_ZONE:
            action->zone = nl_attr_get_u16(a);
            break;
        case OVS_CT_ATTR_HELPER:
            action->helper = nl_attr_get_string(a);
            break;
        case OVS_CT_ATTR_MARK:
            action->mark = nl_attr_get(a);
            break;
        case OVS_CT_ATTR_LABELS:
            action->label = nl_attr_get(a);
            break;
        case OVS_CT_ATTR_TIMEOUT:
            if (!str_to_uint(nl_attr_get_string(a), 10,
                             &action->timeout_policy)) {
                VLOG_WARN_RL(&rl, "Invalid Timeout Policy ID: %s.",
                             nl_attr_get_string(a));
                action->timeout_policy = DEFAULT_TP_ID;
            }
            break;
        case OVS_CT_ATTR_NAT:
            parse_nat(a, action);
            break;
        case OVS_CT_ATTR_EVENTMASK:
            /* There are no Netlink events to choose from. */
            break;
        case OVS_CT_ATTR_UNSPEC:
        case __OVS_CT_ATTR_MAX:
            OVS_NOT_REACHED();
        }
    }
}

static void
parse_nat(const struct nlattr *nat, struct ct_action *action)
{
    struct nat_action_info_t *info = &action->nat_info;
    bool have_max_ip = false, have_min_ip = false;
    bool have_max_port = false, have_min_port = false;
    const struct nlattr *a;
    unsigned int left;

    action->nat = true;
    NL_NESTED_FOR_EACH_UNSAFE (a, left, nat) {
        switch ((enum ovs_nat_attr) nl_attr_type(a)) {
        case OVS_NAT_ATTR_SRC:
            info->nat_action |= NAT_ACTION_SRC;
            action->nat_configured = true;
            break;
        case OVS_NAT_ATTR_DST:
            info->nat_action |= NAT_ACTION_DST;
            action->nat_configured = true;
            break;
        case OVS_NAT_ATTR_IP_MIN:
            memcpy(&info->min_addr, nl_attr_get(a),
                   MIN(nl_attr_get_size(a), sizeof info->min_addr));
            have_min_ip = true;
            break;
        case OVS_NAT_ATTR_IP_MAX:
            memcpy(&info->max_addr, nl_attr_get(a),
                   MIN(nl_attr_get_size(a), sizeof info->max_addr));
            have_max_ip = true;
            break;
        case OVS_NAT_ATTR_PROTO_MIN:
            info->min_port = nl_attr_get_u16(a);
            have_min_port = true;
            break;
        case OVS_NAT_ATTR_PROTO_MAX:
            info->max_port = nl_attr_get_u16(a);
            have_max_port = true;
            break;
        case OVS_NAT_ATTR_PERSISTENT:
        case OVS_NAT_ATTR_PROTO_HASH:
        case OVS_NAT_ATTR_PROTO_RANDOM:
            break;
        case OVS_NAT_ATTR_UNSPEC:
        case __OVS_NAT_ATTR_MAX:
            OVS_NOT_REACHED();
        }
    }

    /* A range without an end is one address, one port. */
    if (have_min_ip && !have_max_ip) {
        info->max_addr = info->min_addr;
    }
    if (have_min_port && !have_max_port) {
        info->max_port = info->min_port;
    }
    if (have_min_port || have_max_port) {
        if (info->nat_action & NAT_ACTION_SRC) {
            info->nat_action |= NAT_ACTION_SRC_PORT;
        } else if (info->nat_action & NAT_ACTION_DST) {
            info->nat_action |= NAT_ACTION_DST_PORT;
        }
    }
}
