/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/tunnel_device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_link.h>
#include <linux/if_tunnel.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/kernel/made_device.h"
#include "core/kernel/netlink.h"
#include "core/kernel/netlink_private.h"

static const char *const aliases[] = {
    [OXDP_TUNNEL_GRO] = "OVS-XDP: GRO of tunnels",
    [OXDP_TUNNEL_HOST] = "OVS-XDP: tunnels by the routes of the host",
};

/* A device. */
struct tunnel_device {
    enum oxdp_tunnel_use use;
    enum oxdp_tunnel_kind kind;
    int family;                 /* Of the remote address of Geneve for GRO, else AF_UNSPEC. */
    const char *link_kind;      /* IFLA_INFO_KIND. */
    const char *name_format;    /* With the port's number, if there is one. */
};

static const struct tunnel_device devices[] = {
    { OXDP_TUNNEL_GRO, OXDP_TUNNEL_VXLAN, AF_UNSPEC, "vxlan", "vxlan%u-xdp" },
    { OXDP_TUNNEL_GRO, OXDP_TUNNEL_GENEVE, AF_INET, "geneve", "geneve%u-xdp" },
    { OXDP_TUNNEL_GRO, OXDP_TUNNEL_GENEVE, AF_INET6, "geneve", "gnv6-%u-xdp" },
    { OXDP_TUNNEL_HOST, OXDP_TUNNEL_VXLAN, AF_UNSPEC, "vxlan", "vxlan%u-host" },
    { OXDP_TUNNEL_HOST, OXDP_TUNNEL_GENEVE, AF_UNSPEC, "geneve", "genev%u-host" },
    { OXDP_TUNNEL_HOST, OXDP_TUNNEL_GRE, AF_UNSPEC, "gretap", "gre-host" },
    { OXDP_TUNNEL_HOST, OXDP_TUNNEL_IP6GRE, AF_UNSPEC, "ip6gretap", "ip6gre-host" },
};
#define N_DEVICES (sizeof devices / sizeof devices[0])

static bool has_port(const struct tunnel_device *device)
{
    return strchr(device->name_format, '%');
}

static void name_of(const struct tunnel_device *device, uint16_t port, char name[IF_NAMESIZE])
{
    if (has_port(device)) {
        snprintf(name, IF_NAMESIZE, device->name_format, (unsigned int) port);
    } else {
        snprintf(name, IF_NAMESIZE, "%s", device->name_format);
    }
}

/* Whether 'link' is one that we made as 'device'. */
static bool is_ours(const struct oxdp_link *link, const struct tunnel_device *device)
{
    return !strcmp(link->alias, aliases[device->use]) && !strcmp(link->kind, device->link_kind);
}

static void put_flag(struct oxdp_nl_request *request, uint16_t type)
{
    oxdp_nl_add_attr(request, type, "", 0);
}

static void put_vxlan(struct oxdp_nl_request *request, enum oxdp_tunnel_use use, uint16_t port)
{
    const __be16 be_port = htons(port);
    const uint8_t on = 1, off = 0;

    oxdp_nl_add_attr(request, IFLA_VXLAN_PORT, &be_port, sizeof be_port);
    oxdp_nl_add_attr(request, IFLA_VXLAN_LEARNING, &off, sizeof off);
    oxdp_nl_add_attr(request, IFLA_VXLAN_COLLECT_METADATA, &on, sizeof on);
    if (use == OXDP_TUNNEL_GRO) {
        oxdp_nl_add_attr(request, IFLA_VXLAN_VNIFILTER, &on, sizeof on);
    } else {
        oxdp_nl_add_attr(request, IFLA_VXLAN_UDP_ZERO_CSUM6_RX, &on, sizeof on);
    }
}

static void put_geneve(struct oxdp_nl_request *request, int family, uint16_t port)
{
    const struct in_addr loopback = { htonl(INADDR_LOOPBACK) };
    const __be16 be_port = htons(port);
    const uint8_t on = 1;
    const uint32_t id = 0;

    oxdp_nl_add_attr(request, IFLA_GENEVE_PORT, &be_port, sizeof be_port);
    if (family == AF_UNSPEC) {
        put_flag(request, IFLA_GENEVE_COLLECT_METADATA);
        oxdp_nl_add_attr(request, IFLA_GENEVE_UDP_ZERO_CSUM6_RX, &on, sizeof on);
        return;
    }
    oxdp_nl_add_attr(request, IFLA_GENEVE_ID, &id, sizeof id);
    if (family == AF_INET) {
        oxdp_nl_add_attr(request, IFLA_GENEVE_REMOTE, &loopback, sizeof loopback);
    } else {
        oxdp_nl_add_attr(request, IFLA_GENEVE_REMOTE6, &in6addr_loopback, sizeof in6addr_loopback);
    }
}

static void put_data(struct oxdp_nl_request *request, const struct tunnel_device *device, uint16_t port)
{
    if (device->kind == OXDP_TUNNEL_VXLAN) {
        put_vxlan(request, device->use, port);
    } else if (device->kind == OXDP_TUNNEL_GENEVE) {
        put_geneve(request, device->family, port);
    } else {
        put_flag(request, IFLA_GRE_COLLECT_METADATA);
    }
}

static int make(const struct tunnel_device *device, const char *name, uint16_t port)
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
    put_data(&request, device, port);
    oxdp_nl_end_nest(&request, data);
    oxdp_nl_end_nest(&request, link);
    return oxdp_nl_transact(NETLINK_ROUTE, &request, RTM_NEWLINK, &reply);
}

/* Makes 'device' for 'port', unless a previous instance has left it.  Stores its name. */
static int find_or_make(const struct tunnel_device *device, uint16_t port, char name[IF_NAMESIZE], char **ret_error)
{
    uint32_t mtu = device->use == OXDP_TUNNEL_HOST ? OXDP_TUNNEL_HOST_MTU : 0;
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
        return oxdp_fail(err, ret_error, "cannot make the %s device %s: %s%s", device->link_kind, name, strerror(-err),
                         err == -EEXIST || err == -EBUSY ? ": another one has the UDP port" : "");
    }
    err = oxdp_device_set(name, mtu, aliases[device->use]);
    if (err) {
        oxdp_device_delete(name);
        return oxdp_fail(err, ret_error, "cannot set up %s: %s", name, strerror(-err));
    }
    return 0;
}

/* Opens the socket of device 'name' by setting it up. */
static int set_up(const char *name, char **ret_error)
{
    int err = oxdp_device_up(name);

    return err ? oxdp_fail(err, ret_error, "cannot set %s up: %s%s", name, strerror(-err),
                           err == -EADDRINUSE ? ": another socket has the UDP port" : "") : 0;
}

/* Makes 'device' for 'port', and sets it up.  Of a host without IPv6 that of IPv6 is not missed. */
static int start(const struct tunnel_device *device, uint16_t port, char **ret_error)
{
    char name[IF_NAMESIZE];
    char *error = NULL;
    int err = find_or_make(device, port, name, &error);

    if (!err) {
        err = set_up(name, &error);
        if (err) {
            oxdp_device_delete(name);
        }
    }
    if (device->family == AF_INET6 && err == -EAFNOSUPPORT) {
        err = 0;
    }
    if (err) {
        *ret_error = error;
    } else {
        free(error);
    }
    return err;
}

int oxdp_tunnel_gro_start(enum oxdp_tunnel_kind kind, uint16_t port, char **ret_error)
{
    int err = 0;

    for (size_t i = 0; i < N_DEVICES && !err; i++) {
        err = devices[i].use == OXDP_TUNNEL_GRO && devices[i].kind == kind ? start(&devices[i], port, ret_error) : 0;
    }
    if (err) {
        oxdp_tunnel_gro_stop(kind, port);
    }
    return err;
}

/* Removes the devices of 'kind' for 'use'. */
static void remove_all(enum oxdp_tunnel_use use, enum oxdp_tunnel_kind kind, uint16_t port)
{
    for (size_t i = 0; i < N_DEVICES; i++) {
        char name[IF_NAMESIZE];
        struct oxdp_link link;

        name_of(&devices[i], port, name);
        if (devices[i].use == use && devices[i].kind == kind && !oxdp_link_get(name, &link)
            && is_ours(&link, &devices[i])) {
            oxdp_device_delete(name);
        }
    }
}

void oxdp_tunnel_gro_stop(enum oxdp_tunnel_kind kind, uint16_t port)
{
    remove_all(OXDP_TUNNEL_GRO, kind, port);
}

int oxdp_tunnel_host_make(enum oxdp_tunnel_kind kind, uint16_t port, char ret_name[IF_NAMESIZE], char **ret_error)
{
    for (size_t i = 0; i < N_DEVICES; i++) {
        if (devices[i].use == OXDP_TUNNEL_HOST && devices[i].kind == kind) {
            return find_or_make(&devices[i], port, ret_name, ret_error);
        }
    }
    return oxdp_fail(-EOPNOTSUPP, ret_error, "the kernel has no device for such tunnels");
}

int oxdp_tunnel_host_up(const char *name, char **ret_error)
{
    return set_up(name, ret_error);
}

void oxdp_tunnel_host_remove(enum oxdp_tunnel_kind kind, uint16_t port)
{
    remove_all(OXDP_TUNNEL_HOST, kind, port);
}

/* The kind of device that 'link' is, and its UDP port in '*ret_port'; NULL if it is none of ours. */
static const struct tunnel_device *identify(const struct oxdp_link *link, uint16_t *ret_port)
{
    for (size_t i = 0; i < N_DEVICES; i++) {
        char name[IF_NAMESIZE];
        unsigned int port = 0;

        if (is_ours(link, &devices[i])
            && (!has_port(&devices[i]) || sscanf(link->name, devices[i].name_format, &port) == 1)
            && port <= UINT16_MAX) {
            name_of(&devices[i], port, name);
            if (!strcmp(name, link->name)) {
                *ret_port = port;
                return &devices[i];
            }
        }
    }
    return NULL;
}

bool oxdp_tunnel_device_is(const struct oxdp_link *link)
{
    uint16_t port;

    return identify(link, &port);
}

struct sweep {
    bool (*keep)(enum oxdp_tunnel_use, enum oxdp_tunnel_kind, uint16_t port, void *aux);
    void *aux;
    unsigned int n_gone;
};

/* Removes 'link' if it is one of ours that is not kept. */
static bool sweep_link(const struct oxdp_link *link, void *sweep_)
{
    struct sweep *sweep = sweep_;
    uint16_t port;
    const struct tunnel_device *device = identify(link, &port);

    if (device && !sweep->keep(device->use, device->kind, port, sweep->aux)) {
        sweep->n_gone += !oxdp_device_delete(link->name);
    }
    return true;
}

unsigned int oxdp_tunnel_devices_sweep(bool (*keep)(enum oxdp_tunnel_use, enum oxdp_tunnel_kind, uint16_t port,
                                                    void *aux), void *aux)
{
    struct sweep sweep = { .keep = keep, .aux = aux };

    oxdp_link_each(sweep_link, &sweep);
    return sweep.n_gone;
}
