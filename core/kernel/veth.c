/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/veth.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/veth.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/kernel/netlink_private.h"

static struct rtattr *nest(struct oxdp_nl_request *request, uint16_t type);
static void end_nest(struct oxdp_nl_request *request, struct rtattr *nest);
static int transact(struct oxdp_nl_request *request, uint16_t type);

static void put_end(struct oxdp_nl_request *request, const char *name, uint32_t n_queues, uint32_t mtu)
{
    const struct ifinfomsg info = { .ifi_family = AF_UNSPEC };

    oxdp_nl_add_payload(request, &info, sizeof info);
    oxdp_nl_add_attr(request, IFLA_IFNAME, name, strlen(name) + 1);
    oxdp_nl_add_attr(request, IFLA_NUM_TX_QUEUES, &n_queues, sizeof n_queues);
    oxdp_nl_add_attr(request, IFLA_NUM_RX_QUEUES, &n_queues, sizeof n_queues);
    oxdp_nl_add_attr(request, IFLA_MTU, &mtu, sizeof mtu);
}

int oxdp_veth_create(const char *name, const char *peer, uint32_t n_queues, uint32_t mtu)
{
    struct oxdp_nl_request request = {
        .header = { .nlmsg_len = NLMSG_HDRLEN, .nlmsg_flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL },
    };

    put_end(&request, name, n_queues, mtu);

    struct rtattr *info = nest(&request, IFLA_LINKINFO);

    oxdp_nl_add_attr(&request, IFLA_INFO_KIND, "veth", sizeof "veth");

    struct rtattr *data = nest(&request, IFLA_INFO_DATA);
    struct rtattr *other = nest(&request, VETH_INFO_PEER);

    put_end(&request, peer, n_queues, mtu);
    end_nest(&request, other);
    end_nest(&request, data);
    end_nest(&request, info);
    return transact(&request, RTM_NEWLINK);
}

int oxdp_veth_set(const char *name, uint32_t mtu, const char *alias)
{
    const struct ifinfomsg info = { .ifi_family = AF_UNSPEC };
    struct oxdp_nl_request request = { .header = { .nlmsg_len = NLMSG_HDRLEN, .nlmsg_flags = NLM_F_ACK } };

    oxdp_nl_add_payload(&request, &info, sizeof info);
    oxdp_nl_add_attr(&request, IFLA_IFNAME, name, strlen(name) + 1);
    oxdp_nl_add_attr(&request, IFLA_MTU, &mtu, sizeof mtu);
    oxdp_nl_add_attr(&request, IFLA_IFALIAS, alias, strlen(alias));
    return transact(&request, RTM_NEWLINK);
}

int oxdp_veth_delete(const char *name)
{
    const struct ifinfomsg info = { .ifi_family = AF_UNSPEC };
    struct oxdp_nl_request request = { .header = { .nlmsg_len = NLMSG_HDRLEN, .nlmsg_flags = NLM_F_ACK } };

    oxdp_nl_add_payload(&request, &info, sizeof info);
    oxdp_nl_add_attr(&request, IFLA_IFNAME, name, strlen(name) + 1);
    return transact(&request, RTM_DELLINK);
}

/* Without IPv6 the device has no address and announces none. */
static void disable_ipv6(const char *name)
{
    char path[80];
    int fd;

    snprintf(path, sizeof path, "/proc/sys/net/ipv6/conf/%s/disable_ipv6", name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (write(fd, "1", 1) != 1) {
            /* Packets that the kernel sends then reach a program that ignores them. */
        }
        close(fd);
    }
}

int oxdp_veth_up(const char *name)
{
    struct ifreq ifr = { .ifr_flags = IFF_UP | IFF_NOARP };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int err;

    if (fd < 0) {
        return -errno;
    }
    snprintf(ifr.ifr_name, sizeof ifr.ifr_name, "%s", name);
    disable_ipv6(name);
    err = ioctl(fd, SIOCSIFFLAGS, &ifr) ? -errno : 0;
    close(fd);
    return err;
}

static struct rtattr *nest(struct oxdp_nl_request *request, uint16_t type)
{
    const struct rtattr attr = { .rta_len = RTA_LENGTH(0), .rta_type = type };
    void *nest = (uint8_t *) request + request->header.nlmsg_len;

    oxdp_nl_add_payload(request, &attr, sizeof attr);
    return nest;
}

static void end_nest(struct oxdp_nl_request *request, struct rtattr *nest)
{
    nest->rta_len = (uint8_t *) request + request->header.nlmsg_len - (uint8_t *) nest;
}

static int transact(struct oxdp_nl_request *request, uint16_t type)
{
    union oxdp_nl_reply reply;

    return oxdp_nl_transact(NETLINK_ROUTE, request, type, &reply);
}
