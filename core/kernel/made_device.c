/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/made_device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/kernel/netlink.h"
#include "core/kernel/netlink_private.h"

static int transact(struct oxdp_nl_request *request, uint16_t type)
{
    union oxdp_nl_reply reply;

    return oxdp_nl_transact(NETLINK_ROUTE, request, type, &reply);
}

int oxdp_device_set(const char *name, uint32_t mtu, const char *alias)
{
    const struct ifinfomsg info = { .ifi_family = AF_UNSPEC };
    struct oxdp_nl_request request = { .header = { .nlmsg_len = NLMSG_HDRLEN, .nlmsg_flags = NLM_F_ACK } };

    oxdp_nl_add_payload(&request, &info, sizeof info);
    oxdp_nl_add_attr(&request, IFLA_IFNAME, name, strlen(name) + 1);
    if (mtu) {
        oxdp_nl_add_attr(&request, IFLA_MTU, &mtu, sizeof mtu);
    }
    oxdp_nl_add_attr(&request, IFLA_IFALIAS, alias, strlen(alias));
    return transact(&request, RTM_NEWLINK);
}

int oxdp_device_delete(const char *name)
{
    const struct ifinfomsg info = { .ifi_family = AF_UNSPEC };
    struct oxdp_nl_request request = { .header = { .nlmsg_len = NLMSG_HDRLEN, .nlmsg_flags = NLM_F_ACK } };

    oxdp_nl_add_payload(&request, &info, sizeof info);
    oxdp_nl_add_attr(&request, IFLA_IFNAME, name, strlen(name) + 1);
    return transact(&request, RTM_DELLINK);
}

/* Switches something off for device 'name', by what the kernel has under /proc/sys/net/FAMILY/conf.  A host without it
 * has nothing to switch off. */
static void disable(const char *name, const char *family, const char *what)
{
    char path[80];
    int fd;

    snprintf(path, sizeof path, "/proc/sys/net/%s/conf/%s/%s", family, name, what);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (write(fd, "1", 1) != 1) {
            /* Packets that the kernel sends then reach a program that ignores them. */
        }
        close(fd);
    }
}

static int set_flags(const char *name, short flags)
{
    struct ifreq ifr = { .ifr_flags = flags };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int err;

    if (fd < 0) {
        return -errno;
    }
    snprintf(ifr.ifr_name, sizeof ifr.ifr_name, "%s", name);
    err = ioctl(fd, SIOCSIFFLAGS, &ifr) ? -errno : 0;
    close(fd);
    return err;
}

int oxdp_device_up(const char *name)
{
    disable(name, "ipv6", "disable_ipv6");      /* It has no address and announces none. */
    disable(name, "ipv4", "disable_xfrm");      /* No IPsec policy takes packets that are sent through it. */
    return set_flags(name, IFF_UP | IFF_NOARP);
}

int oxdp_device_down(const char *name)
{
    return set_flags(name, IFF_NOARP);
}

bool oxdp_device_is_up(const char *name, int ifindex)
{
    struct oxdp_link link;

    return !oxdp_link_get(name, &link) && link.ifindex == ifindex && link.flags & IFF_UP;
}

bool oxdp_device_is(const char *name, const char *kind)
{
    struct oxdp_link link;

    return !oxdp_link_get(name, &link) && !strcmp(link.kind, kind);
}

bool oxdp_device_sweep(const char *name, const char *kind, int ifindex)
{
    struct oxdp_link link;

    return !oxdp_link_get(name, &link) && link.ifindex != ifindex && !strcmp(link.kind, kind)
        && !oxdp_device_delete(name);
}
