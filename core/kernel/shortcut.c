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
        return "the kernel does not describe its peer";
    }
    if (!(link.flags & IFF_UP) || !(peer.flags & IFF_UP)) {
        return "it or its peer is down";
    }
    if (strcmp(link.qdisc, "noqueue")) {
        return "it has a qdisc";
    }
    if (link.promiscuity > 1) {         /* 1: it is a port. */
        return "it is promiscuous: packets are captured";
    }
    if (!makes_segments(ifname)) {
        return "its segmentation offload is off, or its peer has an XDP program";
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

/* Since Linux 6.7 and 6.1.120 the peer counts what is redirected into it.  The same change brought this type ("bpf: Fix
 * dev's rx stats for bpf_redirect_peer traffic"). */
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

/* Peer redirect would bypass a native XDP program on the peer.  Such a program turns this feature off on the veth
 * (drivers/net/veth.c, veth_fix_features), and the kernel reports the change, unless the feature was off before. */
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
