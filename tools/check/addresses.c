/* SPDX-License-Identifier: Apache-2.0 */
/* Moving the addresses of a device to a bridge's internal port: one command, so that a host that is reached over the
 * device gets through it. */
#include "tools/check/check.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/kernel/netlink.h"

#define BRIDGE "br0"

struct text {
    char *at;
    size_t size, len;
};

static void add(struct text *, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool write_address(const struct ifaddrs *, char *text, size_t size);
static void add_ipv4_routes(struct text *, const char *ifname);
static void add_ipv6_routes(struct text *, const char *ifname);

unsigned int oxdp_check_addresses(const char *ifname, char *names, size_t names_size, char *command,
                                  size_t command_size)
{
    struct text list = { .at = names, .size = names_size }, moves = { .at = command, .size = command_size };
    char address[INET6_ADDRSTRLEN + 8];
    struct oxdp_link link = { 0 };
    struct ifaddrs *all;
    unsigned int n = 0;

    names[0] = command[0] = '\0';
    if (oxdp_link_get(ifname, &link) || getifaddrs(&all)) {
        return 0;
    }
    add(&moves,
        "nohup sh -c 'ovs-vsctl --may-exist add-br " BRIDGE " -- set bridge " BRIDGE " datapath_type=xdp "
        "other_config:hwaddr=\\\"%02x:%02x:%02x:%02x:%02x:%02x\\\" -- --may-exist add-port " BRIDGE
        " %s && ip address flush dev %s "
        "&& ip link set dev " BRIDGE " up",
        link.address[0], link.address[1], link.address[2], link.address[3], link.address[4], link.address[5], ifname,
        ifname);
    for (const struct ifaddrs *ifa = all; ifa; ifa = ifa->ifa_next) {
        if (!strcmp(ifa->ifa_name, ifname) && write_address(ifa, address, sizeof address)) {
            add(&list, "%s%s", n++ ? ", " : "", address);
            add(&moves, " && ip address add %s dev " BRIDGE "%s", address, strchr(address, ':') ? " nodad" : "");
        }
    }
    freeifaddrs(all);
    add_ipv4_routes(&moves, ifname);
    add_ipv6_routes(&moves, ifname);
    add(&moves, "'");
    if (!n || !oxdp_check_is_plain(ifname) || moves.len >= moves.size) {
        command[0] = '\0';
    }
    return n;
}

static void add(struct text *text, const char *format, ...)
{
    size_t room = text->len < text->size ? text->size - text->len : 0;
    va_list args;

    va_start(args, format);
    text->len += vsnprintf(room ? text->at + text->len : NULL, room, format, args);
    va_end(args);
}

static unsigned int prefix_len(const uint8_t *mask, size_t bytes)
{
    unsigned int n = 0;

    for (size_t i = 0; i < bytes; i++) {
        n += __builtin_popcount(mask[i]);
    }
    return n;
}

/* As "10.0.0.1/24".  False for link-local addresses, which the kernel adds itself. */
static bool write_address(const struct ifaddrs *ifa, char *text, size_t size)
{
    if (ifa->ifa_addr && ifa->ifa_netmask && ifa->ifa_addr->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *) ifa->ifa_addr, *mask = (const void *) ifa->ifa_netmask;

        inet_ntop(AF_INET, &in->sin_addr, text, size);
        snprintf(text + strlen(text), size - strlen(text), "/%u", prefix_len((const void *) &mask->sin_addr, 4));
        return true;
    }
    if (ifa->ifa_addr && ifa->ifa_netmask && ifa->ifa_addr->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const void *) ifa->ifa_addr, *mask = (const void *) ifa->ifa_netmask;

        if (IN6_IS_ADDR_LINKLOCAL(&in->sin6_addr)) {
            return false;
        }
        inet_ntop(AF_INET6, &in->sin6_addr, text, size);
        snprintf(text + strlen(text), size - strlen(text), "/%u", prefix_len((const void *) &mask->sin6_addr, 16));
        return true;
    }
    return false;
}

/* Those with a gateway; the others come with the addresses.  See proc(5) for the file, whose numbers are in network
 * order. */
static void add_ipv4_routes(struct text *moves, const char *ifname)
{
    FILE *routes = fopen("/proc/self/net/route", "re");
    char line[256], name[64];
    uint32_t to, gateway, mask;
    unsigned int flags, metric;

    while (routes && fgets(line, sizeof line, routes)) {
        if (sscanf(line, "%63s %x %x %x %*d %*d %u %x", name, &to, &gateway, &flags, &metric, &mask) == 6
            && !strcmp(name, ifname) && flags & RTF_GATEWAY) {
            char to_text[INET_ADDRSTRLEN], gateway_text[INET_ADDRSTRLEN];

            inet_ntop(AF_INET, &to, to_text, sizeof to_text);
            inet_ntop(AF_INET, &gateway, gateway_text, sizeof gateway_text);
            add(moves, " && ip route replace ");
            add(moves, mask ? "%s/%u" : "default", to_text, prefix_len((const void *) &mask, 4));
            add(moves, " via %s dev " BRIDGE, gateway_text);
            if (metric) {
                add(moves, " metric %u", metric);
            }
        }
    }
    if (routes) {
        fclose(routes);
    }
}

static bool read_ipv6(const char *hex, struct in6_addr *ret_address)
{
    for (size_t i = 0; i < 16; i++) {
        unsigned int byte;

        if (sscanf(hex + 2 * i, "%2x", &byte) != 1) {
            return false;
        }
        ret_address->s6_addr[i] = byte;
    }
    return true;
}

/* Those that routers announce come by themselves. */
static void add_ipv6_routes(struct text *moves, const char *ifname)
{
    FILE *routes = fopen("/proc/self/net/ipv6_route", "re");
    char line[256], name[64], to_hex[33], gateway_hex[33];
    unsigned int len, metric, flags;

    while (routes && fgets(line, sizeof line, routes)) {
        if (sscanf(line, "%32s %x %*s %*s %32s %x %*x %*x %x %63s", to_hex, &len, gateway_hex, &metric, &flags, name)
                == 6
            && !strcmp(name, ifname) && flags & RTF_GATEWAY && !(flags & RTF_ADDRCONF)) {
            char to_text[INET6_ADDRSTRLEN], gateway_text[INET6_ADDRSTRLEN];
            struct in6_addr to, gateway;

            if (read_ipv6(to_hex, &to) && read_ipv6(gateway_hex, &gateway)) {
                inet_ntop(AF_INET6, &to, to_text, sizeof to_text);
                inet_ntop(AF_INET6, &gateway, gateway_text, sizeof gateway_text);
                add(moves, " && ip -6 route replace %s/%u via %s dev " BRIDGE " metric %u", to_text, len, gateway_text,
                    metric);
            }
        }
    }
    if (routes) {
        fclose(routes);
    }
}
