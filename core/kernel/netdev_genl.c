/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/netdev_genl.h"

#include <errno.h>
#include <linux/genetlink.h>
#include <string.h>

#include "core/kernel/netlink_private.h"

/* linux/netdev.h, absent from headers older than Linux 6.3. */
#define NETDEV_FAMILY "netdev"
#define NETDEV_GROUP "mgmt"
#define NETDEV_DEV_GET 1
#define NETDEV_DEV_IFINDEX 1
#define NETDEV_DEV_XDP_FEATURES 3

static const struct rtattr *find_attr(const void *attrs, int len, uint16_t type);

int oxdp_netdev_features(int ifindex, uint64_t *ret_features)
{
    struct oxdp_nl_request request = { .header.nlmsg_len = NLMSG_HDRLEN };
    struct genlmsghdr general = { .cmd = NETDEV_DEV_GET, .version = 1 };
    uint32_t index = ifindex;
    union oxdp_nl_reply reply;
    uint16_t family;
    int err = oxdp_netdev_family(&family, NULL);

    if (err) {
        return err;
    }
    oxdp_nl_add_payload(&request, &general, sizeof general);
    oxdp_nl_add_attr(&request, NETDEV_DEV_IFINDEX, &index, sizeof index);
    err = oxdp_nl_transact(NETLINK_GENERIC, &request, family, &reply);
    if (err) {
        return err;
    }

    const uint8_t *attrs = (uint8_t *) NLMSG_DATA(&reply.header) + GENL_HDRLEN;
    const struct rtattr *attr = find_attr(attrs, NLMSG_PAYLOAD(&reply.header, GENL_HDRLEN),
                                          NETDEV_DEV_XDP_FEATURES);

    if (!attr || RTA_PAYLOAD(attr) < sizeof *ret_features) {
        return -ENOENT;
    }
    memcpy(ret_features, RTA_DATA(attr), sizeof *ret_features);
    return 0;
}

int oxdp_netdev_family(uint16_t *ret_family, uint32_t *ret_group)
{
    struct oxdp_nl_request request = { .header.nlmsg_len = NLMSG_HDRLEN };
    struct genlmsghdr general = { .cmd = CTRL_CMD_GETFAMILY, .version = 1 };
    const struct rtattr *id, *groups, *name, *number;
    union oxdp_nl_reply reply;
    int err;

    oxdp_nl_add_payload(&request, &general, sizeof general);
    oxdp_nl_add_attr(&request, CTRL_ATTR_FAMILY_NAME, NETDEV_FAMILY, sizeof NETDEV_FAMILY);
    err = oxdp_nl_transact(NETLINK_GENERIC, &request, GENL_ID_CTRL, &reply);
    if (err) {
        return err;
    }

    const uint8_t *attrs = (uint8_t *) NLMSG_DATA(&reply.header) + GENL_HDRLEN;
    int len = NLMSG_PAYLOAD(&reply.header, GENL_HDRLEN);

    id = find_attr(attrs, len, CTRL_ATTR_FAMILY_ID);
    groups = find_attr(attrs, len, CTRL_ATTR_MCAST_GROUPS);
    if (!id || !groups) {
        return -ENOENT;
    }
    len = RTA_PAYLOAD(groups);
    for (const struct rtattr *group = RTA_DATA(groups); RTA_OK(group, len); group = RTA_NEXT(group, len)) {
        name = find_attr(RTA_DATA(group), RTA_PAYLOAD(group), CTRL_ATTR_MCAST_GRP_NAME);
        number = find_attr(RTA_DATA(group), RTA_PAYLOAD(group), CTRL_ATTR_MCAST_GRP_ID);
        if (name && number && !strncmp(RTA_DATA(name), NETDEV_GROUP, RTA_PAYLOAD(name))) {
            *ret_family = oxdp_nl_u32(id);
            if (ret_group) {
                *ret_group = oxdp_nl_u32(number);
            }
            return 0;
        }
    }
    return -ENOENT;
}

int oxdp_netdev_changed(const struct nlmsghdr *message)
{
    const struct rtattr *attr = find_attr((const uint8_t *) NLMSG_DATA(message) + GENL_HDRLEN,
                                          NLMSG_PAYLOAD(message, GENL_HDRLEN), NETDEV_DEV_IFINDEX);

    return attr ? oxdp_nl_u32(attr) : 0;
}

static const struct rtattr *find_attr(const void *attrs, int len, uint16_t type)
{
    for (const struct rtattr *attr = attrs; RTA_OK(attr, len); attr = RTA_NEXT(attr, len)) {
        if ((attr->rta_type & NLA_TYPE_MASK) == type) {
            return attr;
        }
    }
    return NULL;
}
