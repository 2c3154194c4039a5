/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/lookup/validate.h"

#include <errno.h>
#include <string.h>

#include "flow.h"
#include "netlink.h"
#include "odp-netlink.h"
#include "odp-util.h"
#include "openvswitch/nsh.h"
#include "packets.h"
#include "util.h"

#define MAX_DEPTH 32                    /* Actions nested in actions. */

static bool valid_actions(const struct nlattr *, size_t len, int depth);
static bool valid_action(const struct nlattr *, int depth);

int
dpif_xdp_validate_actions(const struct nlattr *actions, size_t len)
{
    return valid_actions(actions, len, 0) ? 0 : EINVAL;
}

static bool
valid_actions(const struct nlattr *actions, size_t len, int depth)
{
    const struct nlattr *a;
    size_t left;

    if (depth > MAX_DEPTH) {
        return false;
    }
    NL_ATTR_FOR_EACH (a, left, actions, len) {
        if (!valid_action(a, depth)) {
            return false;
        }
    }
    return !left;
}

static bool
has_size(const struct nlattr *a, size_t size)
{
    return nl_attr_get_size(a) == size;
}

/* Whether the attribute 'type' nested in 'a' is there and holds actions. */
static bool
has_actions(const struct nlattr *a, uint16_t type, int depth)
{
    const struct nlattr *nested = nl_attr_find_nested(a, type);

    return nested && valid_actions(nl_attr_get(nested),
                                   nl_attr_get_size(nested), depth + 1);
}

static bool
has_nested(const struct nlattr *a, uint16_t type, size_t size)
{
    const struct nlattr *nested = nl_attr_find_nested(a, type);

    return nested && has_size(nested, size);
}

/* The bytes of the key that a "set" of 'type' changes, 0 if lib/odp-execute
 * does not set it. */
static size_t
settable_size(enum ovs_key_attr type, bool masked)
{
    switch ((int) type) {
    case OVS_KEY_ATTR_PRIORITY:
    case OVS_KEY_ATTR_SKB_MARK:
    case OVS_KEY_ATTR_DP_HASH:
    case OVS_KEY_ATTR_RECIRC_ID:
    case OVS_KEY_ATTR_MPLS:
        return sizeof(uint32_t);
    case OVS_KEY_ATTR_ETHERNET:
        return sizeof(struct ovs_key_ethernet);
    case OVS_KEY_ATTR_IPV4:
        return sizeof(struct ovs_key_ipv4);
    case OVS_KEY_ATTR_IPV6:
        return sizeof(struct ovs_key_ipv6);
    case OVS_KEY_ATTR_TCP:
        return sizeof(struct ovs_key_tcp);
    case OVS_KEY_ATTR_UDP:
        return sizeof(struct ovs_key_udp);
    case OVS_KEY_ATTR_SCTP:
        return sizeof(struct ovs_key_sctp);
    case OVS_KEY_ATTR_ARP:
        return sizeof(struct ovs_key_arp);
    case OVS_KEY_ATTR_ND:
        return sizeof(struct ovs_key_nd);
    case OVS_KEY_ATTR_ND_EXTENSIONS:
        return sizeof(struct ovs_key_nd_extensions);
    case OVS_KEY_ATTR_ICMP:
    case OVS_KEY_ATTR_ICMPV6:
        return masked ? 0 : sizeof(struct ovs_key_icmp);
    default:
        return 0;
    }
}

static bool
valid_set(const struct nlattr *set, bool masked)
{
    const struct nlattr *key = nl_attr_get(set);
    size_t len = nl_attr_get_size(set);
    size_t size;

    if (!nl_attr_is_valid(key, len) || nl_attr_len_pad(key, len) != len) {
        return false;
    }
    if (nl_attr_type(key) == OVS_KEY_ATTR_TUNNEL) {
        struct flow_tnl tunnel;

        memset(&tunnel, 0, sizeof tunnel);
        return (!masked
                && odp_tun_key_from_attr(key, &tunnel, NULL)
                   != ODP_FIT_ERROR);
    }
    if (nl_attr_type(key) == OVS_KEY_ATTR_NSH) {
        struct ovs_key_nsh nsh, nsh_mask;

        memset(&nsh, 0, sizeof nsh);
        memset(&nsh_mask, 0, sizeof nsh_mask);
        return odp_nsh_key_from_attr(key, &nsh, masked ? &nsh_mask : NULL,
                                     NULL) != ODP_FIT_ERROR;
    }
    size = settable_size(nl_attr_type(key), masked);
    return size && has_size(key, masked ? 2 * size : size);
}

static bool
valid_nat(const struct nlattr *nat)
{
    const struct nlattr *a;
    size_t left;

    NL_NESTED_FOR_EACH (a, left, nat) {
        size_t size = nl_attr_get_size(a);

        switch (nl_attr_type(a)) {
        case OVS_NAT_ATTR_SRC:
        case OVS_NAT_ATTR_DST:
        case OVS_NAT_ATTR_PERSISTENT:
        case OVS_NAT_ATTR_PROTO_HASH:
        case OVS_NAT_ATTR_PROTO_RANDOM:
            if (size) {
                return false;
            }
            break;
        case OVS_NAT_ATTR_IP_MIN:
        case OVS_NAT_ATTR_IP_MAX:
            if (size != sizeof(ovs_be32) && size != sizeof(struct in6_addr)) {
                return false;
            }
            break;
        case OVS_NAT_ATTR_PROTO_MIN:
        case OVS_NAT_ATTR_PROTO_MAX:
            if (size != sizeof(uint16_t)) {
                return false;
            }
            break;
        default:
            return false;
        }
    }
    return !left;
}

static bool
is_string(const struct nlattr *a)
{
    return memchr(nl_attr_get(a), '\0', nl_attr_get_size(a)) != NULL;
}

static bool
valid_ct(const struct nlattr *ct)
{
    const struct nlattr *a;
    size_t left;

    NL_NESTED_FOR_EACH (a, left, ct) {
        bool valid;

        switch (nl_attr_type(a)) {
        case OVS_CT_ATTR_COMMIT:
        case OVS_CT_ATTR_FORCE_COMMIT:
            valid = has_size(a, 0);
            break;
        case OVS_CT_ATTR_ZONE:
            valid = has_size(a, sizeof(uint16_t));
            break;
        case OVS_CT_ATTR_MARK:
            valid = has_size(a, 2 * sizeof(uint32_t));
            break;
        case OVS_CT_ATTR_LABELS:
            valid = has_size(a, 2 * sizeof(struct ovs_key_ct_labels));
            break;
        case OVS_CT_ATTR_EVENTMASK:
            valid = has_size(a, sizeof(uint32_t));
            break;
        case OVS_CT_ATTR_HELPER:
        case OVS_CT_ATTR_TIMEOUT:
            valid = is_string(a);
            break;
        case OVS_CT_ATTR_NAT:
            valid = valid_nat(a);
            break;
        default:
            valid = false;
            break;
        }
        if (!valid) {
            return false;
        }
    }
    return !left;
}

static bool
valid_hash(const struct nlattr *a)
{
    const struct ovs_action_hash *hash = nl_attr_get(a);

    return (has_size(a, sizeof *hash)
            && (hash->hash_alg == OVS_HASH_ALG_L4
                || hash->hash_alg == OVS_HASH_ALG_SYM_L4));
}

static bool
valid_trunc(const struct nlattr *a)
{
    const struct ovs_action_trunc *trunc = nl_attr_get(a);

    return has_size(a, sizeof *trunc) && trunc->max_len >= ETH_HEADER_LEN;
}

static bool
valid_tunnel_push(const struct nlattr *a)
{
    const struct ovs_action_push_tnl *push = nl_attr_get(a);

    /* Only as much of the header as is used (odp_put_tnl_push_action()). */
    return (nl_attr_get_size(a) >= offsetof(struct ovs_action_push_tnl, header)
            && push->header_len <= sizeof push->header
            && has_size(a, offsetof(struct ovs_action_push_tnl, header)
                           + push->header_len));
}

/* The action holds a key attribute. */
static bool
valid_push_nsh(const struct nlattr *a)
{
    const struct nlattr *key = nl_attr_get(a);
    uint32_t buffer[NSH_HDR_MAX_LEN / 4];
    struct nsh_hdr *nsh = ALIGNED_CAST(struct nsh_hdr *, buffer);

    if (!nl_attr_is_valid(key, nl_attr_get_size(a))
        || nl_attr_type(key) != OVS_KEY_ATTR_NSH) {
        return false;
    }
    nsh_reset_ver_flags_ttl_len(nsh);
    return odp_nsh_hdr_from_attr(key, nsh, sizeof buffer) != ODP_FIT_ERROR;
}

static bool
valid_action(const struct nlattr *a, int depth)
{
    switch ((enum ovs_action_attr) nl_attr_type(a)) {
    case OVS_ACTION_ATTR_OUTPUT:
    case OVS_ACTION_ATTR_RECIRC:
    case OVS_ACTION_ATTR_METER:
    case OVS_ACTION_ATTR_LB_OUTPUT:
    case OVS_ACTION_ATTR_TUNNEL_POP:
    case OVS_ACTION_ATTR_DROP:
        return has_size(a, sizeof(uint32_t));

    case OVS_ACTION_ATTR_POP_VLAN:
    case OVS_ACTION_ATTR_POP_ETH:
    case OVS_ACTION_ATTR_POP_NSH:
    case OVS_ACTION_ATTR_CT_CLEAR:
        return has_size(a, 0);

    case OVS_ACTION_ATTR_POP_MPLS:
        return has_size(a, sizeof(ovs_be16));

    case OVS_ACTION_ATTR_PUSH_VLAN:
        return has_size(a, sizeof(struct ovs_action_push_vlan));

    case OVS_ACTION_ATTR_PUSH_MPLS:
        return has_size(a, sizeof(struct ovs_action_push_mpls));

    case OVS_ACTION_ATTR_ADD_MPLS:
        return has_size(a, sizeof(struct ovs_action_add_mpls));

    case OVS_ACTION_ATTR_PUSH_ETH:
        return has_size(a, sizeof(struct ovs_action_push_eth));

    case OVS_ACTION_ATTR_PUSH_NSH:
        return valid_push_nsh(a);

    case OVS_ACTION_ATTR_SET:
        return valid_set(a, false);

    case OVS_ACTION_ATTR_SET_MASKED:
        return valid_set(a, true);

    case OVS_ACTION_ATTR_HASH:
        return valid_hash(a);

    case OVS_ACTION_ATTR_TRUNC:
        return valid_trunc(a);

    case OVS_ACTION_ATTR_TUNNEL_PUSH:
        return valid_tunnel_push(a);

    case OVS_ACTION_ATTR_CT:
        return valid_ct(a);

    case OVS_ACTION_ATTR_USERSPACE:
        return nl_attr_find_nested(a, OVS_USERSPACE_ATTR_PID) != NULL;

    case OVS_ACTION_ATTR_CLONE:
        return valid_actions(nl_attr_get(a), nl_attr_get_size(a), depth + 1);

    case OVS_ACTION_ATTR_SAMPLE:
        return (has_nested(a, OVS_SAMPLE_ATTR_PROBABILITY, sizeof(uint32_t))
                && has_actions(a, OVS_SAMPLE_ATTR_ACTIONS, depth));

    case OVS_ACTION_ATTR_CHECK_PKT_LEN:
        return (has_nested(a, OVS_CHECK_PKT_LEN_ATTR_PKT_LEN,
                           sizeof(uint16_t))
                && has_actions(a, OVS_CHECK_PKT_LEN_ATTR_ACTIONS_IF_GREATER,
                               depth)
                && has_actions(
                    a, OVS_CHECK_PKT_LEN_ATTR_ACTIONS_IF_LESS_EQUAL, depth));

    case OVS_ACTION_ATTR_UNSPEC:
    case __OVS_ACTION_ATTR_MAX:
    default:
        return false;
    }
}
