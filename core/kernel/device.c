/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/device.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/kernel/ethtool.h"
#include "core/kernel/netdev_genl.h"
#include "core/kernel/netlink.h"
#include "core/multi_buffer.h"

static void get_queues(int fd, const struct oxdp_link *link, uint32_t *ret_rx, uint32_t *ret_tx);
static uint32_t count_queues(const struct oxdp_link *link, const char *direction, uint32_t allocated);
static bool is_local_stack(const char *kind, const char *driver);

int oxdp_device_get(const char *ifname, struct oxdp_device *ret_dev)
{
    struct oxdp_device dev = { 0 };
    struct oxdp_link link;
    uint64_t features;
    int err = oxdp_link_get(ifname, &link);

    if (err) {
        return err;
    }
    dev.ifindex = link.ifindex;
    dev.mtu = link.mtu;
    dev.peer_ifindex = strcmp(link.kind, "veth") ? 0 : link.peer_ifindex;
    dev.peer_nsid = link.peer_nsid;
    dev.vnet_hdr = link.vnet_hdr;

    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -errno;
    }
    oxdp_ethtool_driver(fd, ifname, dev.driver);
    get_queues(fd, &link, &dev.n_rx_queues, &dev.n_tx_queues);
    close(fd);
    dev.max_rx_queues = link.max_rx_queues;
    dev.peer_xdp = oxdp_device_peer_has_xdp(ifname);
    dev.guest_offloads = oxdp_device_has_guest_offloads(ifname);
    dev.rx_buffers = !oxdp_netdev_features(dev.ifindex, &features) && features & OXDP_NETDEV_RX_BUFFERS;
    dev.zerocopy = oxdp_netdev_features(dev.ifindex, &features) || features & OXDP_NETDEV_ZEROCOPY;
    dev.local_stack = is_local_stack(link.kind, dev.driver);
    *ret_dev = dev;
    return 0;
}

uint32_t oxdp_device_rx_queues(const char *ifname)
{
    uint32_t n_rx = 0, n_tx;
    struct oxdp_link link;
    int fd;

    if (oxdp_link_get(ifname, &link)) {
        return 0;
    }
    if (link.max_rx_queues == 1) {
        return 1;
    }
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        get_queues(fd, &link, &n_rx, &n_tx);
        close(fd);
    }
    return n_rx;
}

/* virtio_net calls the queues combined on which it receives because of XDP, too, although the kernel sends nothing on
 * them. */
static void get_queues(int fd, const struct oxdp_link *link, uint32_t *ret_rx, uint32_t *ret_tx)
{
    uint32_t rx, tx;

    if (oxdp_ethtool_queues(fd, link->name, &rx, &tx)) {
        rx = count_queues(link, "rx-", link->max_rx_queues);
        tx = count_queues(link, "tx-", link->max_tx_queues);
    } else {
        uint32_t counted = count_queues(link, "tx-", tx);

        tx = counted < tx ? counted : tx;
    }
    *ret_rx = rx ? rx : 1;
    *ret_tx = tx ? tx : 1;
}

/* The kernel turns segmentation offload off on a veth whose peer has an XDP program (drivers/net/veth.c, veth_xdp_set).
 * This shows the program also where the peer's namespace cannot be entered. */
bool oxdp_device_peer_has_xdp(const char *ifname)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_veth = false, available = true;
    char driver[32];

    if (fd >= 0) {
        is_veth = !oxdp_ethtool_driver(fd, ifname, driver) && !strcmp(driver, "veth")
            && !oxdp_ethtool_feature_available(fd, ifname, "tx-tcp-segmentation", &available);
        close(fd);
    }
    return is_veth && !available;
}

/* The offloads that a reader sets with TUNSETOFFLOAD are features of the device, and each includes checksums
 * (drivers/net/tun.c, set_offload).  Nothing shows which offloads it will send with: guests' drivers negotiate both. */
bool oxdp_device_has_guest_offloads(const char *ifname)
{
    struct oxdp_link link;
    bool on = false;
    int fd;

    if (oxdp_link_get(ifname, &link) || !link.vnet_hdr) {
        return false;
    }
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        oxdp_ethtool_feature_get(fd, ifname, "tx-checksum-ip-generic", &on);
        close(fd);
    }
    return on;
}

bool oxdp_device_sends_unfinished(const struct oxdp_device *device)
{
    return !strcmp(device->driver, "veth") ? !device->peer_xdp : device->guest_offloads;
}

/* Queues in use of a driver that does not say: sysfs shows them if it is mounted for this network
 * namespace. */
static uint32_t count_queues(const struct oxdp_link *link, const char *direction, uint32_t allocated)
{
    char path[64];
    int ifindex = 0;
    uint32_t n = 0;

    snprintf(path, sizeof path, "/sys/class/net/%s/ifindex", link->name);

    FILE *file = fopen(path, "re");

    if (file) {
        if (fscanf(file, "%d", &ifindex) != 1) {
            ifindex = 0;
        }
        fclose(file);
    }
    snprintf(path, sizeof path, "/sys/class/net/%s/queues", link->name);

    DIR *queues = ifindex == link->ifindex ? opendir(path) : NULL;

    if (!queues) {
        return allocated;
    }
    for (const struct dirent *entry; (entry = readdir(queues)); ) {
        n += !strncmp(entry->d_name, direction, strlen(direction));
    }
    closedir(queues);
    return n;
}

uint32_t oxdp_device_longest_frame(int ifindex)
{
    struct oxdp_link link;
    bool bounded = !oxdp_link_get_in(-1, ifindex, &link, NULL) && (link.vnet_hdr || !strcmp(link.kind, "veth"));

    return OXDP_FRAME_LEN(bounded ? link.mtu : oxdp_max_mtu());
}

static bool is_local_stack(const char *kind, const char *driver)
{
    static const char *const guests[] = {
        "virtio_net", "vmxnet3", "hv_netvsc", "xen_netfront", "vif", "tun",
    };

    for (size_t i = 0; i < sizeof guests / sizeof guests[0]; i++) {
        if (!strcmp(driver, guests[i])) {
            return true;
        }
    }
    return kind[0];
}
