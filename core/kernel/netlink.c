/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/netlink.h"
#include "core/kernel/netlink_private.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/net_namespace.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void parse_link_attr(const struct rtattr *attr, struct oxdp_link *link);
static void parse_info(const struct rtattr *info, struct oxdp_link *link);
static int get_link(struct oxdp_nl_request *request, struct oxdp_link *ret_link, struct oxdp_link_counts *ret_counts);
static void parse_link(const struct nlmsghdr *answer, struct oxdp_link *ret_link, struct rtnl_link_stats64 *stats);
static int ask(int protocol, struct oxdp_nl_request *request, uint16_t type);

int oxdp_link_get(const char *ifname, struct oxdp_link *ret_link)
{
    struct oxdp_nl_request request = { .header.nlmsg_len = NLMSG_HDRLEN };
    struct ifinfomsg info = { .ifi_family = AF_UNSPEC };
    size_t name_len = strlen(ifname);

    if (!name_len || name_len >= IF_NAMESIZE) {
        return -ENODEV;
    }
    oxdp_nl_add_payload(&request, &info, sizeof info);
    oxdp_nl_add_attr(&request, IFLA_IFNAME, ifname, name_len + 1);
    return get_link(&request, ret_link, NULL);
}

int oxdp_link_get_in(int nsid, int ifindex, struct oxdp_link *ret_link, struct oxdp_link_counts *ret_counts)
{
    struct oxdp_nl_request request = { .header.nlmsg_len = NLMSG_HDRLEN };
    struct ifinfomsg info = { .ifi_family = AF_UNSPEC, .ifi_index = ifindex };

    oxdp_nl_add_payload(&request, &info, sizeof info);
    if (nsid >= 0) {
        oxdp_nl_add_attr(&request, IFLA_TARGET_NETNSID, &nsid, sizeof nsid);
    }
    return get_link(&request, ret_link, ret_counts);
}

static int get_link(struct oxdp_nl_request *request, struct oxdp_link *ret_link, struct oxdp_link_counts *ret_counts)
{
    uint32_t mask = ret_counts ? 0 : RTEXT_FILTER_SKIP_STATS;
    struct rtnl_link_stats64 stats = { 0 };
    union oxdp_nl_reply reply;
    int err;

    oxdp_nl_add_attr(request, IFLA_EXT_MASK, &mask, sizeof mask);
    err = oxdp_nl_transact(NETLINK_ROUTE, request, RTM_GETLINK, &reply);
    if (err) {
        return err;
    }
    parse_link(&reply.header, ret_link, &stats);
    if (ret_counts) {
        *ret_counts = (struct oxdp_link_counts) {
            .rx_packets = stats.rx_packets, .rx_bytes = stats.rx_bytes,
            .rx_dropped = stats.rx_dropped, .tx_dropped = stats.tx_dropped,
        };
    }
    return 0;
}

struct each_link {
    bool (*each)(const struct oxdp_link *, void *aux);
    void *aux;
};

static bool give_link(const struct nlmsghdr *answer, void *each_)
{
    const struct each_link *each = each_;
    struct rtnl_link_stats64 stats;
    struct oxdp_link link;

    if (answer->nlmsg_type != RTM_NEWLINK) {
        return true;
    }
    parse_link(answer, &link, &stats);
    return each->each(&link, each->aux);
}

int oxdp_link_each(bool (*each)(const struct oxdp_link *, void *aux), void *aux)
{
    struct oxdp_nl_request request = { .header.nlmsg_len = NLMSG_HDRLEN };
    struct ifinfomsg info = { .ifi_family = AF_UNSPEC };
    uint32_t mask = RTEXT_FILTER_SKIP_STATS;
    struct each_link give = { .each = each, .aux = aux };

    oxdp_nl_add_payload(&request, &info, sizeof info);
    oxdp_nl_add_attr(&request, IFLA_EXT_MASK, &mask, sizeof mask);
    return oxdp_nl_dump(NETLINK_ROUTE, &request, RTM_GETLINK, give_link, &give);
}

int oxdp_link_set_promiscuous(const char *ifname, bool on, bool *ret_changed)
{
    struct oxdp_nl_request request = { .header = { .nlmsg_len = NLMSG_HDRLEN, .nlmsg_flags = NLM_F_ACK } };
    struct ifinfomsg info = { .ifi_family = AF_UNSPEC, .ifi_change = IFF_PROMISC };
    union oxdp_nl_reply reply;
    struct oxdp_link link;
    int err = oxdp_link_get(ifname, &link);

    *ret_changed = false;
    if (err || !(link.flags & IFF_PROMISC) == !on) {
        return err;
    }
    info.ifi_index = link.ifindex;
    info.ifi_flags = on ? IFF_PROMISC : 0;
    oxdp_nl_add_payload(&request, &info, sizeof info);
    err = oxdp_nl_transact(NETLINK_ROUTE, &request, RTM_NEWLINK, &reply);
    *ret_changed = !err;
    return err;
}

int oxdp_nsid_get(int ns_fd)
{
    struct oxdp_nl_request request = { .header.nlmsg_len = NLMSG_HDRLEN };
    struct rtgenmsg general = { .rtgen_family = AF_UNSPEC };
    uint32_t fd = ns_fd;
    union oxdp_nl_reply reply;
    int err;

    oxdp_nl_add_payload(&request, &general, sizeof general);
    oxdp_nl_add_attr(&request, NETNSA_FD, &fd, sizeof fd);
    err = oxdp_nl_transact(NETLINK_ROUTE, &request, RTM_GETNSID, &reply);
    if (err) {
        return err;
    }

    int len = NLMSG_PAYLOAD(&reply.header, NLMSG_ALIGN(sizeof general));
    const uint8_t *attrs = (uint8_t *) NLMSG_DATA(&reply.header) + NLMSG_ALIGN(sizeof general);
    const struct rtattr *attr = (const void *) attrs;

    for (; RTA_OK(attr, len); attr = RTA_NEXT(attr, len)) {
        if (attr->rta_type == NETNSA_NSID && (int32_t) oxdp_nl_u32(attr) >= 0) {
            return oxdp_nl_u32(attr);
        }
    }
    return -ENOENT;
}

void oxdp_nl_add_payload(struct oxdp_nl_request *request, const void *data, size_t len)
{
    memcpy((uint8_t *) request + request->header.nlmsg_len, data, len);
    request->header.nlmsg_len += NLMSG_ALIGN(len);
}

void oxdp_nl_add_attr(struct oxdp_nl_request *request, uint16_t type, const void *data, size_t len)
{
    struct rtattr attr = { .rta_len = RTA_LENGTH(len), .rta_type = type };

    oxdp_nl_add_payload(request, &attr, sizeof attr);
    oxdp_nl_add_payload(request, data, len);
}

int oxdp_nl_transact(int protocol, struct oxdp_nl_request *request, uint16_t type, union oxdp_nl_reply *reply)
{
    int fd = ask(protocol, request, type);
    ssize_t n;

    if (fd < 0) {
        return fd;
    }
    n = recv(fd, reply, sizeof *reply, 0);

    int err = n < 0 ? -errno : 0;
    bool wants_ack = request->header.nlmsg_flags & NLM_F_ACK;

    close(fd);
    if (err) {
        return err;
    }
    if (!NLMSG_OK(&reply->header, n)) {
        return -EPROTO;
    }
    if (reply->header.nlmsg_type == NLMSG_ERROR && n >= (ssize_t) NLMSG_LENGTH(sizeof(struct nlmsgerr))) {
        const struct nlmsgerr *error = NLMSG_DATA(&reply->header);

        return error->error || wants_ack ? error->error : -EPROTO;
    }
    return wants_ack || reply->header.nlmsg_type == NLMSG_ERROR ? -EPROTO : 0;
}

int oxdp_nl_dump(int protocol, struct oxdp_nl_request *request, uint16_t type,
                 bool (*each)(const struct nlmsghdr *, void *aux), void *aux)
{
    union oxdp_nl_reply reply;
    int fd, err = 0;
    bool more = true;

    request->header.nlmsg_flags |= NLM_F_DUMP;
    fd = ask(protocol, request, type);
    if (fd < 0) {
        return fd;
    }
    while (more && !err) {
        ssize_t n = recv(fd, &reply, sizeof reply, 0);
        unsigned int len = n < 0 ? 0 : n;

        err = n < 0 ? -errno : !n ? -EPROTO : 0;
        for (const struct nlmsghdr *nlh = &reply.header; more && !err && NLMSG_OK(nlh, len);
             nlh = NLMSG_NEXT(nlh, len)) {
            if (nlh->nlmsg_type == NLMSG_ERROR) {
                err = ((const struct nlmsgerr *) NLMSG_DATA(nlh))->error;
            }
            more = !err && nlh->nlmsg_type != NLMSG_DONE && each(nlh, aux);
        }
    }
    close(fd);
    return err;
}

/* Sends 'request'.  Returns a socket from which to read the answer, or a negative errno. */
static int ask(int protocol, struct oxdp_nl_request *request, uint16_t type)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

    if (fd < 0) {
        return -errno;
    }
    request->header.nlmsg_type = type;
    request->header.nlmsg_flags |= NLM_F_REQUEST;
    request->header.nlmsg_seq = 1;
    if (send(fd, request, request->header.nlmsg_len, 0) < 0) {
        int err = -errno;

        close(fd);
        return err;
    }
    return fd;
}

/* '*stats' is left as it is if 'answer' has none. */
static void parse_link(const struct nlmsghdr *answer, struct oxdp_link *ret_link, struct rtnl_link_stats64 *stats)
{
    const struct ifinfomsg *info = NLMSG_DATA(answer);
    int len = IFLA_PAYLOAD(answer);
    struct oxdp_link link = {
        .ifindex = info->ifi_index, .type = info->ifi_type, .flags = info->ifi_flags, .peer_nsid = -1,
    };

    for (const struct rtattr *attr = IFLA_RTA(info); RTA_OK(attr, len); attr = RTA_NEXT(attr, len)) {
        parse_link_attr(attr, &link);
        if (attr->rta_type == IFLA_STATS64) {
            memcpy(stats, RTA_DATA(attr), RTA_PAYLOAD(attr) < sizeof *stats ? RTA_PAYLOAD(attr) : sizeof *stats);
        }
    }
    *ret_link = link;
}

static void parse_link_attr(const struct rtattr *attr, struct oxdp_link *link)
{
    switch (attr->rta_type & NLA_TYPE_MASK) {
    case IFLA_IFNAME:
        snprintf(link->name, sizeof link->name, "%s", (const char *) RTA_DATA(attr));
        break;
    case IFLA_IFALIAS:
        if (RTA_PAYLOAD(attr) < sizeof link->alias) {
            snprintf(link->alias, sizeof link->alias, "%.*s", (int) RTA_PAYLOAD(attr), (const char *) RTA_DATA(attr));
        }
        break;
    case IFLA_MTU:
        link->mtu = oxdp_nl_u32(attr);
        break;
    case IFLA_MAX_MTU:
        link->max_mtu = oxdp_nl_u32(attr);
        break;
    case IFLA_MASTER:
        link->master = oxdp_nl_u32(attr);
        break;
    case IFLA_ADDRESS:
        if (RTA_PAYLOAD(attr) == sizeof link->address) {
            memcpy(link->address, RTA_DATA(attr), sizeof link->address);
        }
        break;
    case IFLA_QDISC:
        snprintf(link->qdisc, sizeof link->qdisc, "%s", (const char *) RTA_DATA(attr));
        break;
    case IFLA_PROMISCUITY:
        link->promiscuity = oxdp_nl_u32(attr);
        break;
    case IFLA_NUM_RX_QUEUES:
        link->max_rx_queues = oxdp_nl_u32(attr);
        break;
    case IFLA_NUM_TX_QUEUES:
        link->max_tx_queues = oxdp_nl_u32(attr);
        break;
    case IFLA_LINK:
        link->peer_ifindex = oxdp_nl_u32(attr);
        break;
    case IFLA_LINK_NETNSID:
        link->peer_nsid = oxdp_nl_u32(attr);
        break;
    case IFLA_LINKINFO:
        parse_info(attr, link);
        break;
    default:
        break;
    }
}

/* The kernel puts the kind before the data. */
static void parse_info(const struct rtattr *info, struct oxdp_link *link)
{
    int len = RTA_PAYLOAD(info);

    for (const struct rtattr *in = RTA_DATA(info); RTA_OK(in, len); in = RTA_NEXT(in, len)) {
        if (in->rta_type == IFLA_INFO_KIND) {
            snprintf(link->kind, sizeof link->kind, "%s", (const char *) RTA_DATA(in));
        } else if (in->rta_type == IFLA_INFO_DATA && !strcmp(link->kind, "tun")) {
            int data_len = RTA_PAYLOAD(in);

            for (const struct rtattr *data = RTA_DATA(in); RTA_OK(data, data_len); data = RTA_NEXT(data, data_len)) {
                if (data->rta_type == IFLA_TUN_VNET_HDR) {
                    link->vnet_hdr = *(const uint8_t *) RTA_DATA(data);
                }
            }
        }
    }
}

uint32_t oxdp_nl_u32(const struct rtattr *attr)
{
    uint32_t value = 0;

    memcpy(&value, RTA_DATA(attr), RTA_PAYLOAD(attr) < sizeof value ? RTA_PAYLOAD(attr) : sizeof value);
    return value;
}

struct rtattr *oxdp_nl_nest(struct oxdp_nl_request *request, uint16_t type)
{
    const struct rtattr attr = { .rta_len = RTA_LENGTH(0), .rta_type = type };
    void *nest = (uint8_t *) request + request->header.nlmsg_len;

    oxdp_nl_add_payload(request, &attr, sizeof attr);
    return nest;
}

void oxdp_nl_end_nest(struct oxdp_nl_request *request, struct rtattr *nest)
{
    nest->rta_len = (uint8_t *) request + request->header.nlmsg_len - (uint8_t *) nest;
}
