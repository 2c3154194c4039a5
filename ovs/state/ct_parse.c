/* SPDX-License-Identifier: Apache-2.0 */
/* The action ct(), from Open vSwitch's attributes. */
#include <config.h>

#include "dp/seam_native.h"
#include "ovs/base/compat.h"
#include "ovs/state/ct_parse.h"

#include "ct-dpif.h"
#include "netlink.h"
#include "odp-netlink.h"
#include "openvswitch/vlog.h"
#include "packets.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_ct_parse);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 5);

static void parse_nat(const struct nlattr *, bool v6,
                      struct dpif_xdp_ct_action *);

void
dpif_xdp_ct_parse(const struct nlattr *attr, bool v6,
                  struct dpif_xdp_ct_action *action)
{
    const struct nlattr *a;
    unsigned int left;

    memset(action, 0, sizeof *action);
    action->timeout_policy = DEFAULT_TP_ID;
    action->dp.flags = (DPIF_XDP_CT_SCTP ? DP_CT_SCTP : 0)
                       | (DPIF_XDP_CT_ICMP_ID ? DP_CT_ICMP_ID : 0)
                       | (DPIF_XDP_CT_FIRST_FRAGMENT
                          ? DP_CT_FIRST_FRAGMENT : 0);
    NL_NESTED_FOR_EACH_UNSAFE (a, left, attr) {
        switch ((enum ovs_ct_attr) nl_attr_type(a)) {
        case OVS_CT_ATTR_FORCE_COMMIT:
            action->dp.flags |= DP_CT_FORCE | DP_CT_COMMIT;
            break;
        case OVS_CT_ATTR_COMMIT:
            action->dp.flags |= DP_CT_COMMIT;
            break;
        case OVS_CT_ATTR_ZONE:
            action->dp.zone = nl_attr_get_u16(a);
            break;
        case OVS_CT_ATTR_HELPER:
            action->helper = nl_attr_get_string(a);
            break;
        case OVS_CT_ATTR_MARK: {
            const uint32_t *mark = nl_attr_get(a);

            action->dp.mark = mark[0];
            action->dp.mark_mask = mark[1];
            action->dp.flags |= DP_CT_MARK;
            break;
        }
        case OVS_CT_ATTR_LABELS: {
            const struct ovs_key_ct_labels *label = nl_attr_get(a);

            memcpy(action->dp.label, &label[0], sizeof action->dp.label);
            memcpy(action->dp.label_mask, &label[1],
                   sizeof action->dp.label_mask);
            action->dp.flags |= DP_CT_LABEL;
            break;
        }
        case OVS_CT_ATTR_TIMEOUT:
            if (!str_to_uint(nl_attr_get_string(a), 10,
                             &action->timeout_policy)) {
                VLOG_WARN_RL(&rl, "Invalid Timeout Policy ID: %s.",
                             nl_attr_get_string(a));
                action->timeout_policy = DEFAULT_TP_ID;
            }
            break;
        case OVS_CT_ATTR_NAT:
            parse_nat(a, v6, action);
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
parse_nat(const struct nlattr *nat, bool v6, struct dpif_xdp_ct_action *action)
{
    struct dp_ct_range *range = &action->dp.nat;
    bool have_max_ip = false, have_min_port = false, have_max_port = false;
    const struct nlattr *a;
    unsigned int left;

    action->dp.flags |= DP_CT_NAT;
    NL_NESTED_FOR_EACH_UNSAFE (a, left, nat) {
        size_t address_len = MIN(nl_attr_get_size(a), v6 ? 16 : 4);

        switch ((enum ovs_nat_attr) nl_attr_type(a)) {
        case OVS_NAT_ATTR_SRC:
            action->dp.flags |= DP_CT_TO_SRC;
            action->nat_configured = true;
            break;
        case OVS_NAT_ATTR_DST:
            action->dp.flags |= DP_CT_TO_DST;
            action->nat_configured = true;
            break;
        case OVS_NAT_ATTR_IP_MIN:
            memcpy(range->min, nl_attr_get(a), address_len);
            break;
        case OVS_NAT_ATTR_IP_MAX:
            memcpy(range->max, nl_attr_get(a), address_len);
            have_max_ip = true;
            break;
        case OVS_NAT_ATTR_PROTO_MIN:
            range->min_port = nl_attr_get_u16(a);
            have_min_port = true;
            break;
        case OVS_NAT_ATTR_PROTO_MAX:
            range->max_port = nl_attr_get_u16(a);
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
    if (!have_max_ip) {
        memcpy(range->max, range->min, sizeof range->max);
    }
    if (have_min_port && !have_max_port) {
        range->max_port = range->min_port;
    }
    if ((have_min_port || have_max_port) && action->nat_configured) {
        action->dp.flags |= DP_CT_TO_PORTS;
    }
}
