/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/order.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/kernel/clsact.h"
#include "core/kernel/made_device.h"
#include "core/kernel/netlink.h"
#include "core/kernel/veth.h"

#define ALIAS "OVS-XDP: order of TCP's packets"
#define MTU 65535u              /* Nothing is too long for it. */
#define MAX_CPUS 8192           /* Of the kernel, with CONFIG_MAXSMP. */
#define N_PROVIDED 2            /* Devices that root makes for a process that may not: one may be in use. */
#define MAX_SETS 10             /* Of devices of one datapath, while one takes over from the other. */

/* "ovs-xdp-ord0"; its peer, "ovs-xdp-ore0". */
static void name_device(const char *name, char end, unsigned int set, char device[IF_NAMESIZE])
{
    snprintf(device, IF_NAMESIZE, "%.10s-or%c%u", name, end, set % MAX_SETS);
}

bool oxdp_order_has_name(const char *name, const char *device)
{
    char near[IF_NAMESIZE], far[IF_NAMESIZE];

    for (unsigned int set = 0; set < MAX_SETS; set++) {
        name_device(name, 'd', set, near);
        name_device(name, 'e', set, far);
        if (!strcmp(near, device) || !strcmp(far, device)) {
            return true;
        }
    }
    return false;
}

/* Opens the file with the CPUs (RPS) that handle what 'device' receives by 'queue' (Linux,
 * Documentation/networking/scaling.rst).  Returns a descriptor or a negative errno. */
static int open_rps(const char *device, uint32_t queue)
{
    char path[128];
    int fd;

    snprintf(path, sizeof path, "/sys/class/net/%s/queues/rx-%u/rps_cpus", device, queue);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Has 'cpu' handle what comes by receive queue 'cpu'.  The file has groups of 32 bits, the highest first.  A CPU that
 * is isolated the kernel refuses: what would go there stays where it is. */
static int set_rps(const char *device, uint32_t cpu)
{
    char mask[9 + 9 * (MAX_CPUS / 32)];
    int fd, err, n;

    if (cpu >= MAX_CPUS) {
        return 0;
    }
    n = snprintf(mask, sizeof mask, "%x", 1u << cpu % 32);
    for (uint32_t i = 0; i < cpu / 32; i++) {
        n += snprintf(mask + n, sizeof mask - n, ",00000000");
    }
    fd = open_rps(device, cpu);
    if (fd < 0) {
        return fd;
    }
    err = write(fd, mask, n) == n || errno == EINVAL ? 0 : -errno;
    close(fd);
    return err;
}

/* Why this process cannot make such a device: a negative errno; 0: it can. */
static int why_not_make(void)
{
    int fd = open_rps("lo", 0);

    if (fd >= 0) {
        close(fd);
    }
    return fd < 0 ? fd : 0;
}

/* Makes set number 'set'.  It has its alias when it is complete. */
static int make_set(const char *name, unsigned int set, uint32_t n_cpus, struct oxdp_order *order)
{
    char far[IF_NAMESIZE];
    int err;

    name_device(name, 'd', set, order->device);
    name_device(name, 'e', set, far);
    err = oxdp_veth_create(order->device, far, n_cpus, MTU);
    if (err) {
        return err;
    }
    order->ifindex = if_nametoindex(order->device);
    for (uint32_t cpu = 0; cpu < n_cpus && !err; cpu++) {
        err = set_rps(order->device, cpu);
    }
    err = err ? err : oxdp_device_up(far);
    err = err ? err : oxdp_device_set(order->device, 0, ALIAS);
    if (err) {
        oxdp_device_delete(order->device);
    }
    return err;
}

static int cannot_make(int err, const struct oxdp_order *order, char **ret_error)
{
    return oxdp_fail(err, ret_error, "cannot make the veth %s with a receive queue for each CPU: %s", order->device,
                     strerror(-err));
}

/* Takes set number 'set' if it is there, and down: then it is nobody's. */
static bool take_set(const char *name, unsigned int set, uint32_t n_cpus, struct oxdp_order *order)
{
    struct oxdp_link link;

    name_device(name, 'd', set, order->device);
    if (oxdp_link_get(order->device, &link) || strcmp(link.kind, "veth") || strcmp(link.alias, ALIAS)
        || link.flags & IFF_UP || link.max_rx_queues < n_cpus) {
        return false;
    }
    order->ifindex = link.ifindex;
    return true;
}

int oxdp_order_make(const char *name, uint32_t n_cpus, struct oxdp_order *ret_order, char **ret_error)
{
    struct oxdp_order order = { .ifindex = 0 };
    int err;

    for (unsigned int set = 0; set < MAX_SETS; set++) {
        if (take_set(name, set, n_cpus, &order)) {
            *ret_order = order;
            return 0;
        }
    }
    err = why_not_make();
    if (err) {
        return oxdp_fail(err, ret_error, "cannot write rps_cpus of devices below /sys/class/net: %s", strerror(-err));
    }
    err = -EEXIST;
    for (unsigned int set = 0; set < MAX_SETS && err == -EEXIST; set++) {
        err = make_set(name, set, n_cpus, &order);
    }
    if (err) {
        return cannot_make(err, &order, ret_error);
    }
    *ret_order = order;
    return 0;
}

int oxdp_order_provide(const char *name, uint32_t n_cpus, char **ret_error)
{
    for (unsigned int set = 0; set < N_PROVIDED; set++) {
        struct oxdp_order order;
        int err = make_set(name, set, n_cpus, &order);

        if (err && err != -EEXIST) {
            return cannot_make(err, &order, ret_error);
        }
    }
    return 0;
}

/* Sets a device down that another process is to take.  Returns whether it could. */
static bool put_away(const char *device, int ifindex)
{
    oxdp_clsact_detach(ifindex);        /* Before Linux 6.6: it would keep a program, and that its tables. */
    return !oxdp_device_down(device);
}

void oxdp_order_remove(struct oxdp_order *order)
{
    if (order->ifindex && why_not_make()) {
        put_away(order->device, order->ifindex);
    } else if (order->ifindex) {
        oxdp_device_delete(order->device);
    }
    order->ifindex = 0;
}

bool oxdp_order_works(const struct oxdp_order *order)
{
    return oxdp_device_is_up(order->device, order->ifindex);
}

/* Calls 'each' for the device of each set of 'name' that is not 'order'; returns for how many it was true. */
static unsigned int count_sets(const char *name, const struct oxdp_order *order, bool (*each)(const struct oxdp_link *))
{
    unsigned int n = 0;

    for (unsigned int set = 0; set < MAX_SETS; set++) {
        char device[IF_NAMESIZE];
        struct oxdp_link link;

        name_device(name, 'd', set, device);
        if (!oxdp_link_get(device, &link) && !strcmp(link.kind, "veth") && link.ifindex != order->ifindex) {
            n += each(&link);
        }
    }
    return n;
}

static bool is_up(const struct oxdp_link *link)
{
    return link->flags & IFF_UP;
}

bool oxdp_order_exists(const char *name)
{
    static const struct oxdp_order none;

    return count_sets(name, &none, is_up);
}

static bool delete(const struct oxdp_link *link)
{
    return !oxdp_device_delete(link->name);
}

static bool put_away_if_up(const struct oxdp_link *link)
{
    return is_up(link) && put_away(link->name, link->ifindex);
}

unsigned int oxdp_order_sweep(const char *name, const struct oxdp_order *order)
{
    return count_sets(name, order, why_not_make() ? put_away_if_up : delete);
}
