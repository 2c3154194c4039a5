/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/error.h"
#include "core/kernel/device.h"
#include "core/kernel/ethtool.h"
#include "core/kernel/made_device.h"
#include "core/kernel/netlink.h"
#include "core/kernel/veth.h"
#include "core/multi_buffer.h"

#define SUFFIX "-xdp"
#define ALIAS "OVS-XDP: other end of internal port "
#define HOST_MTU 1500u
#define N_QUEUES 1

static void remove_idle_tap(const char *name);
static void have_poll(const char *name);
static bool is_end_of(const char *device, const char *name);

bool oxdp_internal_supported(char **ret_why)
{
    char name[IF_NAMESIZE], peer[IF_NAMESIZE];
    int err;

    snprintf(name, sizeof name, "oxdp%d-a", (int) getpid());
    snprintf(peer, sizeof peer, "oxdp%d-b", (int) getpid());
    err = oxdp_veth_create(name, peer, N_QUEUES, HOST_MTU);
    if (err) {
        oxdp_fail(err, ret_why, "a veth pair cannot be made (%s)%s", strerror(-err),
                  err == -EOPNOTSUPP ? ": the kernel needs CONFIG_VETH" : "");
        return false;
    }
    oxdp_device_delete(name);
    return true;
}

/* FNV-1a, 32 bits: the same in every process. */
static uint32_t hash_name(const char *name)
{
    uint32_t hash = 2166136261u;

    for (; *name; name++) {
        hash = (hash ^ (uint8_t) *name) * 16777619u;
    }
    return hash;
}

void oxdp_internal_device(const char *name, char ret_device[IF_NAMESIZE])
{
    if (strlen(name) + strlen(SUFFIX) < IF_NAMESIZE) {
        snprintf(ret_device, IF_NAMESIZE, "%s" SUFFIX, name);
    } else {
        snprintf(ret_device, IF_NAMESIZE, "%.4s-%06x" SUFFIX, name, hash_name(name) >> 8);
    }
}

/* The alias comes first: if this process dies in between, the next one recognizes the device. */
static int make_pair(const char *name, const char *device, char **ret_error)
{
    char alias[sizeof ALIAS + IF_NAMESIZE];
    int err;

    remove_idle_tap(name);
    err = oxdp_veth_create(name, device, N_QUEUES, HOST_MTU);
    if (err == -EEXIST) {
        return oxdp_fail(err, ret_error, "there is a device %s or %s already, names that this port needs: rename it",
                         name, device);
    } else if (err) {
        return oxdp_fail(err, ret_error, "cannot make the veth pair %s and %s: %s", name, device, strerror(-err));
    }
    snprintf(alias, sizeof alias, ALIAS "%s", name);
    err = oxdp_device_set(device, oxdp_max_internal_mtu(), alias);
    if (err) {
        oxdp_device_delete(device);
        return oxdp_fail(err, ret_error, "cannot set up %s: %s", device, strerror(-err));
    }
    have_poll(name);
    return 0;
}

/* Turns GRO on, which a veth has off unlike other devices: so it takes packets from a ring by NAPI, not from the CPU's
 * backlog (drivers/net/veth.c, veth_open), at less cost for the host, and joins segments that come from a wire.  It is
 * a matter of speed: no error. */
static void have_poll(const char *name)
{
    static const char *const gro[] = { "rx-gro", NULL };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct oxdp_features changed;

    if (fd >= 0) {
        oxdp_ethtool_features_switch(fd, name, gro, true, &changed);
        close(fd);
    }
}

int oxdp_internal_create(const char *name, char **ret_error)
{
    char device[IF_NAMESIZE];
    struct oxdp_link link;
    int err = 0;

    oxdp_internal_device(name, device);
    if (!is_end_of(device, name)) {
        err = make_pair(name, device, ret_error);
        if (err) {
            return err;
        }
    } else if (!oxdp_link_get(name, &link) && link.peer_ifindex != (int) if_nametoindex(device)) {
        return oxdp_fail(-EEXIST, ret_error, "there is a device %s already, and the interface that had this name is "
                         "elsewhere: rename or remove one of them (\"ip link delete %s\")", name, device);
    }
    err = oxdp_device_up(device);
    if (err) {
        oxdp_device_delete(device);
        return oxdp_fail(err, ret_error, "cannot set %s up: %s", device, strerror(-err));
    }
    return 0;
}

/* A tap without a reader is left from a daemon whose internal ports were taps, and which would reuse it. */
static void remove_idle_tap(const char *name)
{
    struct ifreq ifr = { .ifr_flags = IFF_TAP | IFF_NO_PI };
    struct oxdp_link link;
    int fd;

    if (oxdp_link_get(name, &link) || strcmp(link.kind, "tun")) {
        return;
    }
    fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    snprintf(ifr.ifr_name, sizeof ifr.ifr_name, "%s", name);
    if (!ioctl(fd, TUNSETIFF, &ifr)) {
        ioctl(fd, TUNSETPERSIST, 0);
    }
    close(fd);
}

void oxdp_internal_delete(const char *name)
{
    char device[IF_NAMESIZE];

    oxdp_internal_device(name, device);
    if (is_end_of(device, name)) {
        oxdp_device_delete(device);
    }
}

/* The name of the interface whose peer is 'device', or NULL. */
static const char *name_behind(const struct oxdp_link *link)
{
    return !strcmp(link->kind, "veth") && !strncmp(link->alias, ALIAS, strlen(ALIAS))
        ? link->alias + strlen(ALIAS) : NULL;
}

static bool is_end_of(const char *device, const char *name)
{
    struct oxdp_link link;
    const char *behind = oxdp_link_get(device, &link) ? NULL : name_behind(&link);

    return behind && !strcmp(behind, name);
}

unsigned int oxdp_internal_sweep(bool (*keep)(const char *name))
{
    struct if_nameindex *devices = if_nameindex();
    unsigned int n = 0;

    for (const struct if_nameindex *device = devices; device && device->if_index; device++) {
        size_t length = strlen(device->if_name);
        struct oxdp_link link;
        const char *name;

        if (length < strlen(SUFFIX) || strcmp(device->if_name + length - strlen(SUFFIX), SUFFIX)) {
            continue;
        }
        name = oxdp_link_get(device->if_name, &link) ? NULL : name_behind(&link);
        if (name && !keep(name)) {
            n += !oxdp_device_delete(device->if_name);
        }
    }
    if_freenameindex(devices);
    return n;
}
