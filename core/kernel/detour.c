/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/detour.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_link.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/error.h"
#include "core/kernel/made_device.h"
#include "core/kernel/netlink_private.h"
#include "core/kernel/veth.h"

#define ALIAS "OVS-XDP: outer checksums of segments"
#define REMOTE 0xc0000008u      /* 192.0.0.8. */
#define MTU 65535u              /* Nothing is too long for these devices. */
#define MAX_SETS 10             /* Of devices of one datapath, while one takes over from the other. */

/* The devices of a set by their places in a name: "ovs-xdp-csum0". */
static const char *const parts[] = { "csum", "back", "void" };
enum {
    CSUM,
    BACK,
    VOID,
    N_PARTS,
};

static void name_part(const char *name, int part, unsigned int set, char device[IF_NAMESIZE])
{
    snprintf(device, IF_NAMESIZE, "%.9s-%s%u", name, parts[part], set % MAX_SETS);
}

bool oxdp_detour_has_name(const char *name, const char *device)
{
    char candidate[IF_NAMESIZE];

    for (int part = 0; part < N_PARTS; part++) {
        for (unsigned int set = 0; set < MAX_SETS; set++) {
            name_part(name, part, set, candidate);
            if (!strcmp(candidate, device)) {
                return true;
            }
        }
    }
    return false;
}

/* A UDP port that no socket has, in network byte order; 0 if there is none, or none that has another behind it. */
static __be16 free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0 && !bind(fd, (struct sockaddr *) &address, len)
        && !getsockname(fd, (struct sockaddr *) &address, &len);

    if (fd >= 0) {
        close(fd);
    }
    return found && address.sin_port != htons(UINT16_MAX) ? address.sin_port : 0;
}

/* One source port, so that the host's tracking of connections, if there is any, has one connection. */
static void put_vxlan(struct oxdp_nl_request *request, uint32_t link_ifindex, __be16 port)
{
    const struct ifla_vxlan_port_range range = { port, htons(ntohs(port) + 1) };
    const struct in_addr remote = { htonl(REMOTE) };
    const uint8_t on = 1, off = 0;
    const uint32_t id = 0;

    oxdp_nl_add_attr(request, IFLA_VXLAN_ID, &id, sizeof id);
    oxdp_nl_add_attr(request, IFLA_VXLAN_GROUP, &remote, sizeof remote);
    oxdp_nl_add_attr(request, IFLA_VXLAN_LINK, &link_ifindex, sizeof link_ifindex);
    oxdp_nl_add_attr(request, IFLA_VXLAN_PORT, &port, sizeof port);
    oxdp_nl_add_attr(request, IFLA_VXLAN_PORT_RANGE, &range, sizeof range);
    oxdp_nl_add_attr(request, IFLA_VXLAN_LEARNING, &off, sizeof off);
    oxdp_nl_add_attr(request, IFLA_VXLAN_UDP_CSUM, &on, sizeof on);
}

static int make_vxlan(const char *name, uint32_t link_ifindex)
{
    const struct ifinfomsg info = { .ifi_family = AF_UNSPEC };
    struct oxdp_nl_request request = {
        .header = { .nlmsg_len = NLMSG_HDRLEN, .nlmsg_flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL },
    };
    const __be16 port = free_port();
    union oxdp_nl_reply reply;
    struct rtattr *link, *data;

    if (!port) {
        return -EADDRINUSE;
    }
    oxdp_nl_add_payload(&request, &info, sizeof info);
    oxdp_nl_add_attr(&request, IFLA_IFNAME, name, strlen(name) + 1);
    link = oxdp_nl_nest(&request, IFLA_LINKINFO);
    oxdp_nl_add_attr(&request, IFLA_INFO_KIND, "vxlan", sizeof "vxlan");
    data = oxdp_nl_nest(&request, IFLA_INFO_DATA);
    put_vxlan(&request, link_ifindex, port);
    oxdp_nl_end_nest(&request, data);
    oxdp_nl_end_nest(&request, link);
    return oxdp_nl_transact(NETLINK_ROUTE, &request, RTM_NEWLINK, &reply);
}

/* Makes set number 'set'. */
static int make_set(const char *name, unsigned int set, struct oxdp_detour *detour)
{
    char end[IF_NAMESIZE];
    int err;

    name_part(name, CSUM, set, detour->vxlan);
    name_part(name, BACK, set, detour->back);
    name_part(name, VOID, set, end);
    if (if_nametoindex(detour->vxlan)) {
        return -EEXIST;
    }
    err = oxdp_veth_create(detour->back, end, 1, MTU);
    if (err) {
        return err;
    }
    detour->back_ifindex = if_nametoindex(detour->back);
    err = oxdp_device_set(detour->back, 0, ALIAS);
    err = err ? err : make_vxlan(detour->vxlan, detour->back_ifindex);
    detour->vxlan_ifindex = err ? 0 : if_nametoindex(detour->vxlan);
    err = err ? err : oxdp_device_set(detour->vxlan, 0, ALIAS);
    err = err ? err : oxdp_device_up(end);
    if (err) {
        oxdp_detour_remove(detour);
    }
    return err;
}

int oxdp_detour_make(const char *name, struct oxdp_detour *ret_detour, char **ret_error)
{
    struct oxdp_detour detour = { .vxlan_ifindex = 0 };
    int err = -EEXIST;

    for (unsigned int set = 0; set < MAX_SETS && err == -EEXIST; set++) {
        err = make_set(name, set, &detour);
    }
    if (err) {
        return oxdp_fail(err, ret_error, "cannot make a VXLAN device over a veth (%s)%s", strerror(-err),
                         err == -EOPNOTSUPP ? ": the kernel needs CONFIG_VXLAN" : "");
    }
    *ret_detour = detour;
    return 0;
}

int oxdp_detour_up(const struct oxdp_detour *detour, char **ret_error)
{
    int err = oxdp_device_up(detour->back);

    err = err ? err : oxdp_device_up(detour->vxlan);
    return err ? oxdp_fail(err, ret_error, "cannot set %s up: %s", detour->vxlan, strerror(-err)) : 0;
}

void oxdp_detour_remove(struct oxdp_detour *detour)
{
    if (detour->vxlan_ifindex) {
        oxdp_device_delete(detour->vxlan);
    }
    if (detour->back_ifindex) {
        oxdp_device_delete(detour->back);
    }
    *detour = (struct oxdp_detour) { .vxlan_ifindex = 0 };
}

bool oxdp_detour_works(const struct oxdp_detour *detour)
{
    return oxdp_device_is_up(detour->vxlan, detour->vxlan_ifindex)
        && oxdp_device_is_up(detour->back, detour->back_ifindex);
}

bool oxdp_detour_exists(const char *name)
{
    bool exists = false;

    for (unsigned int set = 0; set < MAX_SETS && !exists; set++) {
        char device[IF_NAMESIZE];

        name_part(name, CSUM, set, device);
        exists = oxdp_device_is(device, "vxlan");
    }
    return exists;
}

unsigned int oxdp_detour_sweep(const char *name, const struct oxdp_detour *detour)
{
    unsigned int n = 0;

    for (unsigned int set = 0; set < MAX_SETS; set++) {
        char device[IF_NAMESIZE];

        name_part(name, CSUM, set, device);
        n += oxdp_device_sweep(device, "vxlan", detour->vxlan_ifindex);
        name_part(name, BACK, set, device);
        n += oxdp_device_sweep(device, "veth", detour->back_ifindex);
    }
    return n;
}
