/* SPDX-License-Identifier: Apache-2.0 */
/* What a list of actions, nested ones included, needs. */
#include <config.h>

#include "ovs/lookup/flow_table.h"

#include "netlink.h"
#include "odp-netlink.h"
#include "packets.h"
#include "util.h"

/* Calls 'cb' for each of 'actions' and the actions nested in them. */
static void
for_each_action(const struct nlattr *actions, size_t actions_len,
                void (*cb)(const struct nlattr *, void *aux), void *aux)
{
    static const uint16_t branches[] = {
        OVS_CHECK_PKT_LEN_ATTR_ACTIONS_IF_GREATER,
        OVS_CHECK_PKT_LEN_ATTR_ACTIONS_IF_LESS_EQUAL,
    };
    const struct nlattr *a, *nested;
    unsigned int left;

    NL_ATTR_FOR_EACH_UNSAFE (a, left, actions, actions_len) {
        cb(a, aux);
        switch (nl_attr_type(a)) {
        case OVS_ACTION_ATTR_CLONE:
            for_each_action(nl_attr_get(a), nl_attr_get_size(a), cb, aux);
            break;

        case OVS_ACTION_ATTR_SAMPLE:
            nested = nl_attr_find_nested(a, OVS_SAMPLE_ATTR_ACTIONS);
            if (nested) {
                for_each_action(nl_attr_get(nested), nl_attr_get_size(nested),
                                cb, aux);
            }
            break;

        case OVS_ACTION_ATTR_CHECK_PKT_LEN:
            for (size_t i = 0; i < ARRAY_SIZE(branches); i++) {
                nested = nl_attr_find_nested(a, branches[i]);
                if (nested) {
                    for_each_action(nl_attr_get(nested),
                                    nl_attr_get_size(nested), cb, aux);
                }
            }
            break;

        default:
            break;
        }
    }
}

static void
add_growth(const struct nlattr *a, void *growth_)
{
    uint32_t *growth = growth_;

    switch (nl_attr_type(a)) {
    case OVS_ACTION_ATTR_PUSH_VLAN:
        *growth += VLAN_HEADER_LEN;
        break;
    case OVS_ACTION_ATTR_PUSH_MPLS:
    case OVS_ACTION_ATTR_ADD_MPLS:
        *growth += MPLS_HLEN;
        break;
    case OVS_ACTION_ATTR_PUSH_ETH:
        *growth += ETH_HEADER_LEN;
        break;
    case OVS_ACTION_ATTR_PUSH_NSH:
        *growth += NSH_HDR_MAX_LEN;
        break;
    case OVS_ACTION_ATTR_TUNNEL_PUSH: {
        const struct ovs_action_push_tnl *data = nl_attr_get(a);

        *growth += data->header_len;
        break;
    }
    default:
        break;
    }
}

uint32_t
dpif_xdp_actions_growth(const struct nlattr *actions, size_t actions_len)
{
    uint32_t growth = 0;

    for_each_action(actions, actions_len, add_growth, &growth);
    return growth;
}

static void
find_hash(const struct nlattr *a, void *uses_hash)
{
    switch (nl_attr_type(a)) {
    case OVS_ACTION_ATTR_HASH:
    case OVS_ACTION_ATTR_LB_OUTPUT:
    case OVS_ACTION_ATTR_RECIRC:
    case OVS_ACTION_ATTR_TUNNEL_PUSH:
        *(bool *) uses_hash = true;
        break;
    default:
        break;
    }
}

bool
dpif_xdp_actions_use_hash(const struct nlattr *actions, size_t actions_len)
{
    bool uses_hash = false;

    for_each_action(actions, actions_len, find_hash, &uses_hash);
    return uses_hash;
}
