/* SPDX-License-Identifier: Apache-2.0 */
/* A device as a port of a switch: everything is read, nothing is tried, because trying would change the device. */
#include "tools/check/check.h"

#include <errno.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/kernel/clsact.h"
#include "core/kernel/device.h"
#include "core/multi_buffer.h"
#include "core/kernel/ethtool.h"
#include "core/kernel/netdev_genl.h"
#include "core/kernel/netlink.h"
#include "core/kernel/peer.h"
#include "core/kernel/shortcut.h"
#include "core/programs/progs.h"
#include "core/programs/tcx.h"
#include "tools/check/fact.h"

#define OUR_ALIAS "OVS-XDP"

/* linux/netdev.h: bits of the features that core/kernel/netdev_genl.h has no names for. */
#define BASIC 1u
#define RX_SG 32u

struct device {
    const char *name;
    struct oxdp_link link;
    struct oxdp_device facts;
    uint64_t features;          /* Of core/kernel/netdev_genl.h, if the kernel tells. */
    bool tells;
    bool is_veth, tcx;          /* 'tcx': the hook that xdp-hook=auto chooses. */
};

static bool is_possible(const struct device *);
static void check_state(const struct device *);
static void check_driver(const struct device *);
static void check_hook(const struct device *);
static void check_mtu(const struct device *);
static void check_master(const struct device *);
static void check_upper_devices(const struct device *);
static void check_addresses(const struct device *);
static void check_programs(const struct device *);
static void check_filters(const struct device *);
static void check_shortcut(const struct device *);
static void check_peer(const struct device *);

void oxdp_check_device(const char *ifname)
{
    struct device dev = { .name = ifname };
    int err = oxdp_link_get(ifname, &dev.link);

    err = err ? err : oxdp_device_get(ifname, &dev.facts);
    if (err) {
        oxdp_fact(OXDP_REFUSED, ifname, "device", "ip link show",
                  "there is no such device in this network namespace (%s)", strerror(-err));
        return;
    }
    dev.tells = !oxdp_netdev_features(dev.link.ifindex, &dev.features);
    dev.is_veth = !strcmp(dev.facts.driver, "veth");
    dev.tcx = oxdp_device_sends_unfinished(&dev.facts);
    if (!is_possible(&dev)) {
        return;
    }
    check_state(&dev);
    check_driver(&dev);
    check_hook(&dev);
    check_mtu(&dev);
    check_master(&dev);
    check_upper_devices(&dev);
    check_addresses(&dev);
    check_programs(&dev);
    check_filters(&dev);
    if (dev.is_veth) {
        check_shortcut(&dev);
        check_peer(&dev);
    }
}

static bool check_next(const struct oxdp_link *link, void *aux)
{
    if (!(link->flags & IFF_LOOPBACK)) {
        oxdp_check_device(link->name);
    }
    return true;
}

void oxdp_check_all_devices(void)
{
    int err = oxdp_link_each(check_next, NULL);

    if (err) {
        oxdp_fact(OXDP_WARNING, OXDP_HOST, "devices", NULL, "the devices cannot be listed: %s", strerror(-err));
    }
}

static bool is_possible(const struct device *dev)
{
    if (dev->link.type != ARPHRD_ETHER) {
        oxdp_fact(OXDP_REFUSED, dev->name, "device",
                  dev->link.flags & IFF_LOOPBACK ? NULL
                                                 : "use an Ethernet device, for example a tap instead of a tun",
                  "it is no Ethernet device (type %u%s%s)", dev->link.type, dev->link.kind[0] ? ", " : "",
                  dev->link.kind);
        return false;
    }
    if (!strncmp(dev->link.alias, OUR_ALIAS, strlen(OUR_ALIAS))) {
        oxdp_fact(OXDP_REFUSED, dev->name, "device", NULL, "it belongs to OVS-XDP itself: %s", dev->link.alias);
        return false;
    }
    return true;
}

static void check_state(const struct device *dev)
{
    char todo[64] = "";

    if (dev->link.flags & IFF_UP) {
        oxdp_fact(OXDP_OK, dev->name, "state", NULL, "up%s", dev->link.flags & IFF_RUNNING ? "" : ", without carrier");
        return;
    }
    if (oxdp_check_is_plain(dev->name)) {
        snprintf(todo, sizeof todo, "ip link set dev %s up", dev->name);
    }
    oxdp_fact(OXDP_WARNING, dev->name, "state", todo, "down: the switch does not set it up");
}

static void check_driver(const struct device *dev)
{
    const char *driver = dev->facts.driver[0] ? dev->facts.driver : dev->link.kind[0] ? dev->link.kind : "unknown";
    bool native = dev->tells ? dev->features & BASIC : dev->is_veth || !strcmp(driver, "tun");

    oxdp_fact(OXDP_OK, dev->name, "driver", NULL, "%s, %u receive and %u transmit queues", driver,
              dev->facts.n_rx_queues, dev->facts.n_tx_queues);
    if (native) {
        oxdp_fact(OXDP_OK, dev->name, "xdp", NULL, "native XDP, %s, %s multi-buffer (which OVS-XDP does not use)",
                  !dev->tells ? "not known whether with zero-copy"
                  : dev->facts.zerocopy ? "with zero-copy AF_XDP" : "without zero-copy AF_XDP",
                  !dev->tells ? "unknown" : dev->features & RX_SG ? "with" : "without");
    } else if (!dev->tells) {
        oxdp_fact(OXDP_OK, dev->name, "xdp", NULL, "the kernel does not say whether driver %s has native XDP; "
                  "options:xdp-mode=best-effort tries it", driver);
    } else {
        oxdp_fact(OXDP_WARNING, dev->name, "xdp",
                  dev->tcx ? NULL
                           : "options:xdp-hook=tcx where segmented TCP matters more than packets",
                  "driver %s has no native XDP as the device is set up now: generic XDP works, but is slow", driver);
    }
}

static void check_hook(const struct device *dev)
{
    oxdp_fact(OXDP_OK, dev->name, "hook", NULL, "xdp-hook=auto chooses %s here: %s", dev->tcx ? "tcx" : "xdp",
              dev->facts.guest_offloads ? "packets of the guest keep their offloads"
              : dev->tcx ? "packets of sockets keep their offloads"
              : dev->facts.peer_xdp ? "an XDP program runs on its peer" : "frames come from a wire or a guest");
}

static void check_mtu(const struct device *dev)
{
    uint32_t limit = !dev->tcx ? oxdp_max_mtu() : oxdp_has_multi_buffer() ? OXDP_VETH_MTU : OXDP_FRAME_TCX_MTU;
    char todo[96] = "", bound[64] = "";

    if (dev->link.max_mtu) {
        snprintf(bound, sizeof bound, "; the device itself allows %u", dev->link.max_mtu);
    }
    if (dev->link.mtu <= limit) {
        oxdp_fact(OXDP_OK, dev->name, "mtu", NULL,
                  "%u, of at most %u with hook %s%s; with native XDP a driver may allow less", dev->link.mtu, limit,
                  dev->tcx ? "tcx" : "xdp", bound);
        return;
    }
    if (oxdp_check_is_plain(dev->name)) {
        snprintf(todo, sizeof todo, "ip link set dev %s mtu %u", dev->name, limit);
    }
    if (dev->tcx) {
        oxdp_fact(OXDP_WARNING, dev->name, "mtu", todo,
                  "%u is more than the %u bytes that tcx hands to the engine: longer packets are lost where no flow is "
                  "known yet",
                  dev->link.mtu, limit);
    } else {
        oxdp_fact(OXDP_WARNING, dev->name, "mtu", todo,
                  "%u is more than XDP takes, which is %u: tcx would serve the port, or the engine",
                  dev->link.mtu, limit);
    }
}

static void check_master(const struct device *dev)
{
    char name[IF_NAMESIZE] = "", todo[96] = "";
    struct oxdp_link master = { 0 };
    bool plain = oxdp_check_is_plain(dev->name);

    if (!dev->link.master) {
        return;
    }
    if (!if_indextoname(dev->link.master, name) || oxdp_link_get(name, &master)) {
        snprintf(master.kind, sizeof master.kind, "device");
    }
    if (plain && !strcmp(master.kind, "openvswitch")) {
        snprintf(todo, sizeof todo, "ovs-vsctl del-port %s", dev->name);
        snprintf(master.kind, sizeof master.kind, "datapath");
    } else if (plain) {
        snprintf(todo, sizeof todo, "ip link set dev %s nomaster", dev->name);
    }
    oxdp_fact(OXDP_REFUSED, dev->name, "master", todo, "it is in %s %s, which would get no packet any more",
              master.kind, name);
}

struct uppers {
    const struct device *lower;
    unsigned int n;
};

/* Devices on top of another one name it where a veth names its peer. */
static bool check_upper(const struct oxdp_link *link, void *uppers_)
{
    static const char *const takes_frames[] = { "macvlan", "macvtap", "ipvlan", "ipvtap" };
    static const char *const gets_the_rest[] = { "vlan", "macsec" };
    const struct uppers *uppers = uppers_;
    char todo[96] = "";

    if (link->peer_ifindex != uppers->lower->link.ifindex || link->peer_nsid >= 0) {
        return true;
    }
    if (oxdp_check_is_plain(link->name)) {
        snprintf(todo, sizeof todo, "ip link delete dev %s, and give its user a port of the switch", link->name);
    }
    for (size_t i = 0; i < sizeof takes_frames / sizeof takes_frames[0]; i++) {
        if (!strcmp(link->kind, takes_frames[i])) {
            oxdp_fact(OXDP_REFUSED, uppers->lower->name, "upper", todo,
                      "%s %s is on top of it and would get no packet any more", link->kind, link->name);
        }
    }
    for (size_t i = 0; i < sizeof gets_the_rest / sizeof gets_the_rest[0]; i++) {
        if (!strcmp(link->kind, gets_the_rest[i])) {
            oxdp_fact(OXDP_WARNING, uppers->lower->name, "upper",
                      "ovs-vsctl add-port BRIDGE NAME tag=VLAN -- set interface NAME type=internal",
                      "%s %s is on top of it and would get no packet any more", link->kind, link->name);
        }
    }
    return true;
}

static void check_upper_devices(const struct device *dev)
{
    struct uppers uppers = { .lower = dev };

    oxdp_link_each(check_upper, &uppers);
}

static void check_addresses(const struct device *dev)
{
    char names[256], command[1536];

    if (oxdp_check_addresses(dev->name, names, sizeof names, command, sizeof command)) {
        oxdp_fact(OXDP_WARNING, dev->name, "addresses", command,
                  "it has %s: packets for them go to the switch, and the host is not reached by them until they are "
                  "moved to a bridge's internal port",
                  names);
    }
}

static void check_programs(const struct device *dev)
{
    char owner[160], todo[160] = "";
    uint32_t others;
    bool ours;

    if (oxdp_progs_describe_owner(dev->link.ifindex, owner, sizeof owner, &ours)) {
        if (oxdp_check_is_plain(dev->name)) {
            snprintf(todo, sizeof todo, "ip link set dev %s xdp off, or stop the program that attached it", dev->name);
        }
        oxdp_fact(ours ? OXDP_OK : OXDP_WARNING, dev->name, "program", ours ? NULL : todo, "%s has its XDP hook: %s",
                  owner, ours ? "OVS-XDP's own" : dev->tcx ? "only what it lets pass reaches the switch"
                  : "the switch's is refused there, and tcx serves the port, or the engine");
    }
    others = oxdp_tcx_is_native() ? oxdp_tcx_others_first(NULL, dev->link.ifindex) : 0;
    if (others) {
        oxdp_fact(OXDP_WARNING, dev->name, "tcx", "bpftool net show",
                  "%u foreign program%s at tcx before the switch: only packets for which they return TCX_NEXT would "
                  "reach it",
                  others, others == 1 ? "" : "s");
    }
}

static void check_filters(const struct device *dev)
{
    struct oxdp_clsact_filter filter;
    char todo[64] = "";

    if (!oxdp_clsact_find_other(dev->link.ifindex, 0, &filter)) {
        return;
    }
    if (oxdp_check_is_plain(dev->name)) {
        snprintf(todo, sizeof todo, "tc filter show dev %s ingress", dev->name);
    }
    oxdp_fact(OXDP_WARNING, dev->name, "filter", todo,
              "it has filters of tc at ingress (the first: %s, pref %u): they see no packet that the switch takes",
              filter.kind, filter.priority);
}

/* Packets into a container. */
static void check_shortcut(const struct device *dev)
{
    struct oxdp_shortcut shortcut;
    const char *why = oxdp_shortcut_get(dev->name, &shortcut);

    oxdp_fact(OXDP_OK, dev->name, "redirect-peer", NULL, "%s%s",
              why ? "not used: "
                  : "packets to it are redirected into its peer",
              why ? why : "");
}

/* Native XDP on a veth depends on its peer, wherever that is. */
static void check_peer(const struct device *dev)
{
    const char *where = dev->link.peer_nsid < 0 ? "this network namespace" : "another network namespace";
    uint32_t limit = oxdp_max_mtu();
    uint32_t n_rx, n_tx;
    char name[IF_NAMESIZE];
    struct oxdp_link peer;
    int fd = oxdp_peer_open(&dev->link, name);

    if (fd < 0) {
        oxdp_fact(OXDP_WARNING, dev->name, "peer", "keep the namespace in /run/netns, or use options:xdp-hook=tcx",
                  "its peer cannot be set up (%s): with hook xdp, CHECKSUM_PARTIAL packets go to the engine",
                  fd == -ENOENT ? "no process or mount shows its network namespace" : strerror(-fd));
        return;
    }
    oxdp_fact(OXDP_OK, dev->name, "peer", NULL, "its peer is %s in %s", name, where);
    if (!oxdp_ethtool_queues(fd, name, &n_rx, &n_tx) && n_tx > dev->facts.n_rx_queues) {
        oxdp_fact(dev->tcx ? OXDP_OK : OXDP_WARNING, dev->name, "queues",
                  "make the pair with as many receive queues here (ip link add ... numrxqueues N)",
                  "its peer has %u transmit queues, more than the %u receive queues here: native XDP is refused",
                  n_tx, dev->facts.n_rx_queues);
    }
    if (!oxdp_link_get_in(dev->link.peer_nsid, dev->link.peer_ifindex, &peer, NULL) && peer.mtu > limit) {
        oxdp_fact(dev->tcx ? OXDP_OK : OXDP_WARNING, dev->name, "peer-mtu", "set it to that or less, there",
                  "the MTU of its peer is %u: native XDP is refused above %u",
                  peer.mtu, limit);
    }
    close(fd);
}
