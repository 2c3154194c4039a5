/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/shortcut.h"

#include <limits.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/kernel/clsact.h"
#include "core/kernel/ethtool.h"
#include "core/kernel/netlink.h"

#define VLAN_LEN 4

static bool kernel_has_name(const char *name);
static bool makes_segments(const char *ifname);

const char *oxdp_shortcut_get(const char *ifname, struct oxdp_shortcut *ret_shortcut)
{
    struct oxdp_link link, peer;

    if (!oxdp_shortcut_supported()) {
        return "the kernel would not count it (before Linux 6.7)";
    }
    if (oxdp_link_get(ifname, &link) || strcmp(link.kind, "veth") || link.peer_nsid < 0) {
        return "not a veth into another network namespace";
    }
    if (oxdp_link_get_in(link.peer_nsid, link.peer_ifindex, &peer, NULL)) {
        return "the other end cannot be asked";
    }
    if (!(link.flags & IFF_UP) || !(peer.flags & IFF_UP)) {
        return "an end is down";
    }
    if (strcmp(link.qdisc, "noqueue")) {
        return "it has a queueing discipline";
    }
    if (link.promiscuity > 1) {         /* 1: it is a port. */
        return "somebody captures packets";
    }
    if (!makes_segments(ifname)) {
        return "its segmentation offload is off, or an XDP program is at the other end";
    }
    if (oxdp_clsact_has_egress(link.ifindex)) {
        return "it has filters at egress";
    }
    *ret_shortcut = (struct oxdp_shortcut) { .max_len = peer.mtu + ETH_HLEN + VLAN_LEN };
    memcpy(ret_shortcut->address, peer.address, sizeof ret_shortcut->address);
    return NULL;
}

bool oxdp_shortcut_counts(const char *ifname, uint64_t *ret_packets, uint64_t *ret_bytes)
{
    struct oxdp_link_counts counts;
    struct oxdp_link link, peer;

    if (!oxdp_shortcut_supported() || oxdp_link_get(ifname, &link) || strcmp(link.kind, "veth") || !link.peer_ifindex
        || oxdp_link_get_in(link.peer_nsid, link.peer_ifindex, &peer, &counts)) {
        return false;
    }
    *ret_packets = counts.rx_packets;
    *ret_bytes = counts.rx_bytes;
    return true;
}

/* Linux 6.7 and 6.1.120 made the other end count what is put there, in a change that also brought this type ("bpf: Fix dev's
 * rx stats for bpf_redirect_peer traffic"). */
bool oxdp_shortcut_supported(void)
{
    static int is = -1;

    if (is < 0) {
        is = kernel_has_name("netdev_stat_type");
    }
    return is;
}

/* Whether a type or member of the kernel has that name, of less than NAME_MAX bytes: a string of its BTF, which is too
 * large to be loaded for this. */
static bool kernel_has_name(const char *name)
{
    FILE *btf = fopen("/sys/kernel/btf/vmlinux", "re");
    size_t len = strlen(name) + 2;      /* With the zeros around it. */
    char text[4096], wanted[NAME_MAX + 2] = { 0 };
    size_t kept = 0, n;
    bool has = false;

    memcpy(wanted + 1, name, len - 2);
    while (!has && btf && (n = fread(text + kept, 1, sizeof text - kept, btf))) {
        n += kept;
        has = memmem(text, n, wanted, len) != NULL;
        kept = n < len ? n : len - 1;
        memmove(text, text + n - kept, kept);
    }
    if (btf) {
        fclose(btf);
    }
    return has;
}

/* A native XDP program at the other end would be passed by.  It takes this feature from a veth (drivers/net/veth.c,
 * veth_fix_features), in whatever namespace it is, and the kernel tells of the change; which it would not if somebody had
 * switched it off before. */
static bool makes_segments(const char *ifname)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool on;

    if (fd < 0 || oxdp_ethtool_feature_get(fd, ifname, "tx-tcp-segmentation", &on)) {
        on = false;
    }
    if (fd >= 0) {
        close(fd);
    }
    return on;
}
