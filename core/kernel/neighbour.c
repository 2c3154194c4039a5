/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/neighbour.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <unistd.h>

#include "core/kernel/netlink_private.h"

/* States in which the kernel sends to a neighbour at once. */
#define KNOWN (NUD_PERMANENT | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE)

struct each_neighbour {
    bool (*each)(const struct oxdp_neighbour *, void *aux);
    void *aux;
    int ifindex;
};

static bool put_address(const struct rtattr *attr, int family, struct in6_addr *ip)
{
    const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    size_t len = family == AF_INET ? 4 : 16;

    if (RTA_PAYLOAD(attr) < len) {
        return false;
    }
    memcpy(ip->s6_addr, mapped, sizeof mapped);
    memcpy(ip->s6_addr + sizeof *ip - len, RTA_DATA(attr), len);
    return true;
}

/* The kernel counts in ticks for users. */
static uint64_t age_of(const struct rtattr *attr)
{
    struct nda_cacheinfo info = { 0 };
    uint32_t ticks;

    memcpy(&info, RTA_DATA(attr), RTA_PAYLOAD(attr) < sizeof info ? RTA_PAYLOAD(attr) : sizeof info);
    ticks = info.ndm_confirmed < info.ndm_updated ? info.ndm_confirmed : info.ndm_updated;
    return ticks * 1000ull / sysconf(_SC_CLK_TCK);
}

static bool give(const struct nlmsghdr *answer, void *each_)
{
    const struct each_neighbour *each = each_;
    const struct ndmsg *info = NLMSG_DATA(answer);
    const uint8_t *attrs = (const uint8_t *) info + NLMSG_ALIGN(sizeof *info);
    struct oxdp_neighbour neighbour = { .age_ms = 0 };
    int len = NLMSG_PAYLOAD(answer, NLMSG_ALIGN(sizeof *info));
    bool has_ip = false, has_mac = false;

    if (answer->nlmsg_type != RTM_NEWNEIGH || info->ndm_ifindex != each->ifindex || !(info->ndm_state & KNOWN)
        || (info->ndm_family != AF_INET && info->ndm_family != AF_INET6)) {
        return true;
    }
    for (const struct rtattr *attr = (const void *) attrs; RTA_OK(attr, len); attr = RTA_NEXT(attr, len)) {
        switch (attr->rta_type) {
        case NDA_DST:
            has_ip = put_address(attr, info->ndm_family, &neighbour.ip);
            break;
        case NDA_LLADDR:
            has_mac = RTA_PAYLOAD(attr) == sizeof neighbour.mac;
            if (has_mac) {
                memcpy(neighbour.mac, RTA_DATA(attr), sizeof neighbour.mac);
            }
            break;
        case NDA_CACHEINFO:
            neighbour.age_ms = info->ndm_state & NUD_PERMANENT ? 0 : age_of(attr);
            break;
        }
    }
    return !has_ip || !has_mac || each->each(&neighbour, each->aux);
}

int oxdp_neighbours_each(const char *ifname, bool (*each)(const struct oxdp_neighbour *, void *aux), void *aux)
{
    struct oxdp_nl_request request = { .header.nlmsg_len = NLMSG_HDRLEN };
    struct ndmsg info = { .ndm_family = AF_UNSPEC };
    struct each_neighbour all = { .each = each, .aux = aux, .ifindex = if_nametoindex(ifname) };

    if (!all.ifindex) {
        return -ENODEV;
    }
    oxdp_nl_add_payload(&request, &info, sizeof info);
    return oxdp_nl_dump(NETLINK_ROUTE, &request, RTM_GETNEIGH, give, &all);
}
