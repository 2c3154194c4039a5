/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/tunnel_gro.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/kernel/made_device.h"
#include "core/kernel/netlink.h"
#include "core/kernel/netlink_private.h"

#define ALIAS "OVS-XDP: GRO of tunnels"

/* A device. */
struct gro_device {
    enum oxdp_tunnel_kind kind;
    int family;                 /* Of the remote address of Geneve, else AF_UNSPEC. */
    const char *link_kind;      /* IFLA_INFO_KIND. */
    const char *name_format;    /* With the port's number. */
};

static const struct gro_device devices[] = {
    { OXDP_TUNNEL_VXLAN, AF_UNSPEC, "vxlan", "vxlan%u-xdp" },
    { OXDP_TUNNEL_GENEVE, AF_INET, "geneve", "geneve%u-xdp" },
    { OXDP_TUNNEL_GENEVE, AF_INET6, "geneve", "gnv6-%u-xdp" },
};
#define N_DEVICES (sizeof devices / sizeof devices[0])

static void name_of(const struct gro_device *device, uint16_t port, char name[IF_NAMESIZE])
{
    snprintf(name, IF_NAMESIZE, device->name_format, (unsigned int) port);
}

/* Whether 'link' is one that we made as 'device'. */
static bool is_ours(const struct oxdp_link *link, const struct gro_device *device)
{
    return !strcmp(link->alias, ALIAS) && !strcmp(link->kind, device->link_kind);
}

static void put_vxlan(struct oxdp_nl_request *request, uint16_t port)
{
    const __be16 be_port = htons(port);
    const uint8_t on = 1, off = 0;

    oxdp_nl_add_attr(request, IFLA_VXLAN_PORT, &be_port, sizeof be_port);
    oxdp_nl_add_attr(request, IFLA_VXLAN_LEARNING, &off, sizeof off);
    oxdp_nl_add_attr(request, IFLA_VXLAN_COLLECT_METADATA, &on, sizeof on);
    oxdp_nl_add_attr(request, IFLA_VXLAN_VNIFILTER, &on, sizeof on);
}

static void put_geneve(struct oxdp_nl_request *request, int family, uint16_t port)
{
    const struct in_addr loopback = { htonl(INADDR_LOOPBACK) };
    const __be16 be_port = htons(port);
    const uint32_t id = 0;

    oxdp_nl_add_attr(request, IFLA_GENEVE_ID, &id, sizeof id);
    oxdp_nl_add_attr(request, IFLA_GENEVE_PORT, &be_port, sizeof be_port);
    if (family == AF_INET) {
        oxdp_nl_add_attr(request, IFLA_GENEVE_REMOTE, &loopback, sizeof loopback);
    } else {
        oxdp_nl_add_attr(request, IFLA_GENEVE_REMOTE6, &in6addr_loopback, sizeof in6addr_loopback);
    }
}

static int make(const struct gro_device *device, const char *name, uint16_t port)
{
    const struct ifinfomsg info = { .ifi_family = AF_UNSPEC };
    struct oxdp_nl_request request = {
        .header = { .nlmsg_len = NLMSG_HDRLEN, .nlmsg_flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL },
    };
    union oxdp_nl_reply reply;
    struct rtattr *link, *data;

    oxdp_nl_add_payload(&request, &info, sizeof info);
    oxdp_nl_add_attr(&request, IFLA_IFNAME, name, strlen(name) + 1);
    link = oxdp_nl_nest(&request, IFLA_LINKINFO);
    oxdp_nl_add_attr(&request, IFLA_INFO_KIND, device->link_kind, strlen(device->link_kind) + 1);
    data = oxdp_nl_nest(&request, IFLA_INFO_DATA);
    if (device->kind == OXDP_TUNNEL_VXLAN) {
        put_vxlan(&request, port);
    } else {
        put_geneve(&request, device->family, port);
    }
    oxdp_nl_end_nest(&request, data);
    oxdp_nl_end_nest(&request, link);
    return oxdp_nl_transact(NETLINK_ROUTE, &request, RTM_NEWLINK, &reply);
}

/* Makes 'device' for 'port', and opens its socket by setting it up.  Of a host without IPv6 that of IPv6 is not
 * missed. */
static int start(const struct gro_device *device, uint16_t port, char **ret_error)
{
    char name[IF_NAMESIZE];
    struct oxdp_link link;
    bool exists;
    int err;

    name_of(device, port, name);
    exists = !oxdp_link_get(name, &link);
    if (exists && !is_ours(&link, device)) {
        return oxdp_fail(-EEXIST, ret_error, "there is a device %s already, a name that this needs: rename it", name);
    }
    err = exists ? 0 : make(device, name, port);
    if (err) {
        return device->family == AF_INET6 && err == -EAFNOSUPPORT ? 0
            : oxdp_fail(err, ret_error, "cannot make the %s device %s: %s%s", device->link_kind, name, strerror(-err),
                        err == -EEXIST ? ": another one has the UDP port" : "");
    }
    err = oxdp_device_set(name, 0, ALIAS);
    err = err ? err : oxdp_device_up(name);
    if (err) {
        oxdp_device_delete(name);
        return device->family == AF_INET6 && err == -EAFNOSUPPORT ? 0
            : oxdp_fail(err, ret_error, "cannot set %s up: %s%s", name, strerror(-err),
                        err == -EADDRINUSE ? ": another socket has the UDP port" : "");
    }
    return 0;
}

int oxdp_tunnel_gro_start(enum oxdp_tunnel_kind kind, uint16_t port, char **ret_error)
{
    int err = 0;

    for (size_t i = 0; i < N_DEVICES && !err; i++) {
        err = devices[i].kind == kind ? start(&devices[i], port, ret_error) : 0;
    }
    if (err) {
        oxdp_tunnel_gro_stop(kind, port);
    }
    return err;
}

void oxdp_tunnel_gro_stop(enum oxdp_tunnel_kind kind, uint16_t port)
{
    for (size_t i = 0; i < N_DEVICES; i++) {
        char name[IF_NAMESIZE];
        struct oxdp_link link;

        name_of(&devices[i], port, name);
        if (devices[i].kind == kind && !oxdp_link_get(name, &link) && is_ours(&link, &devices[i])) {
            oxdp_device_delete(name);
        }
    }
}

struct sweep {
    bool (*keep)(enum oxdp_tunnel_kind, uint16_t port, void *aux);
    void *aux;
    unsigned int n_gone;
};

/* Removes 'link' if it is one of ours that is not kept. */
static bool sweep_link(const struct oxdp_link *link, void *sweep_)
{
    struct sweep *sweep = sweep_;

    for (size_t i = 0; i < N_DEVICES; i++) {
        char name[IF_NAMESIZE];
        unsigned int port;

        if (is_ours(link, &devices[i]) && sscanf(link->name, devices[i].name_format, &port) == 1
            && port <= UINT16_MAX) {
            name_of(&devices[i], port, name);
            if (!strcmp(name, link->name) && !sweep->keep(devices[i].kind, port, sweep->aux)) {
                sweep->n_gone += !oxdp_device_delete(name);
            }
        }
    }
    return true;
}

unsigned int oxdp_tunnel_gro_sweep(bool (*keep)(enum oxdp_tunnel_kind kind, uint16_t port, void *aux), void *aux)
{
    struct sweep sweep = { .keep = keep, .aux = aux };

    oxdp_link_each(sweep_link, &sweep);
    return sweep.n_gone;
}
