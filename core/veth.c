/* SPDX-License-Identifier: Apache-2.0 */
#include "core/veth.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

struct request {
    struct nlmsghdr header;
    uint8_t payload[512];
};

static void *append(struct request *request, const void *data, size_t len);
static void put(struct request *request, uint16_t type, const void *data, size_t len);
static struct rtattr *nest(struct request *request, uint16_t type);
static void end_nest(struct request *request, struct rtattr *nest);
static int transact(struct request *request);

static void put_end(struct request *request, const char *name, uint32_t n_queues, uint32_t mtu)
{
    const struct ifinfomsg info = { .ifi_family = AF_UNSPEC };

    append(request, &info, sizeof info);
    put(request, IFLA_IFNAME, name, strlen(name) + 1);
    put(request, IFLA_NUM_TX_QUEUES, &n_queues, sizeof n_queues);
    put(request, IFLA_NUM_RX_QUEUES, &n_queues, sizeof n_queues);
    put(request, IFLA_MTU, &mtu, sizeof mtu);
}

int oxdp_veth_create(const char *name, const char *peer, uint32_t n_queues, uint32_t mtu)
{
    struct request request = {
        .header = {
            .nlmsg_len = NLMSG_HDRLEN,
            .nlmsg_type = RTM_NEWLINK,
            .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL,
        },
    };

    put_end(&request, name, n_queues, mtu);

    struct rtattr *info = nest(&request, IFLA_LINKINFO);

    put(&request, IFLA_INFO_KIND, "veth", sizeof "veth");

    struct rtattr *data = nest(&request, IFLA_INFO_DATA);
    struct rtattr *other = nest(&request, VETH_INFO_PEER);

    put_end(&request, peer, n_queues, mtu);
    end_nest(&request, other);
    end_nest(&request, data);
    end_nest(&request, info);
    return transact(&request);
}

int oxdp_veth_set(const char *name, uint32_t mtu, const char *alias)
{
    const struct ifinfomsg info = { .ifi_family = AF_UNSPEC };
    struct request request = {
        .header = {
            .nlmsg_len = NLMSG_HDRLEN,
            .nlmsg_type = RTM_NEWLINK,
            .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
        },
    };

    append(&request, &info, sizeof info);
    put(&request, IFLA_IFNAME, name, strlen(name) + 1);
    put(&request, IFLA_MTU, &mtu, sizeof mtu);
    put(&request, IFLA_IFALIAS, alias, strlen(alias));
    return transact(&request);
}

int oxdp_veth_delete(const char *name)
{
    const struct ifinfomsg info = { .ifi_family = AF_UNSPEC };
    struct request request = {
        .header = {
            .nlmsg_len = NLMSG_HDRLEN,
            .nlmsg_type = RTM_DELLINK,
            .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
        },
    };

    append(&request, &info, sizeof info);
    put(&request, IFLA_IFNAME, name, strlen(name) + 1);
    return transact(&request);
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
            /* What the kernel then says reaches a program that ignores it. */
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

static void *append(struct request *request, const void *data, size_t len)
{
    void *to = (uint8_t *) request + request->header.nlmsg_len;

    memcpy(to, data, len);
    request->header.nlmsg_len += NLMSG_ALIGN(len);
    return to;
}

static void put(struct request *request, uint16_t type, const void *data, size_t len)
{
    const struct rtattr attr = { .rta_len = RTA_LENGTH(len), .rta_type = type };

    append(request, &attr, sizeof attr);
    append(request, data, len);
}

static struct rtattr *nest(struct request *request, uint16_t type)
{
    const struct rtattr attr = { .rta_len = RTA_LENGTH(0), .rta_type = type };

    return append(request, &attr, sizeof attr);
}

static void end_nest(struct request *request, struct rtattr *nest)
{
    nest->rta_len = (uint8_t *) request + request->header.nlmsg_len - (uint8_t *) nest;
}

/* Sends 'request' and returns what the kernel says to it. */
static int transact(struct request *request)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        uint8_t rest[2048];
    } reply;
    ssize_t n;

    if (fd < 0) {
        return -errno;
    }
    n = send(fd, request, request->header.nlmsg_len, 0);
    if (n >= 0) {
        n = recv(fd, &reply, sizeof reply, 0);
    }

    int err = n < 0 ? -errno : 0;

    close(fd);
    if (!err && (n < (ssize_t) NLMSG_LENGTH(sizeof reply.error) || reply.header.nlmsg_type != NLMSG_ERROR)) {
        return -EPROTO;
    }
    return err ? err : reply.error.error;
}
