/* SPDX-License-Identifier: Apache-2.0 */
/* Other users of a device: what forbids to make it a port, and what the host
 * loses when it is one. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include <dirent.h>
#include <errno.h>
#include <net/if_arp.h>

#include "core/kernel/clsact.h"
#include "core/kernel/netlink.h"
#include "core/programs/progs.h"
#include "core/programs/tcx.h"
#include "netdev-provider.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/vlog.h"
#include "packets.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_check);

#define MAX_ADDRESSES 4                 /* To name in a warning. */

/* "a port of bridge br7", for the master of device 'link'; NULL if it has
 * none.  The caller frees it. */
static char *
describe_master(const struct oxdp_link *link)
{
    struct oxdp_link master;

    if (!link->master
        || oxdp_link_get_in(-1, link->master, &master, NULL)) {
        return NULL;
    }
    if (!strcmp(master.kind, "openvswitch")) {
        return xstrdup("a port of the kernel's Open vSwitch datapath");
    }
    return xasprintf("in %s %s", master.kind[0] ? master.kind : "device",
                     master.name);
}

/* Finds a foreign XDP program on 'port', which is not at XDP.  Without
 * CAP_SYS_ADMIN, which shows names of programs, it is not known whether a
 * program is foreign. */
static bool
find_other_xdp(const struct dpif_xdp_port *port, char *owner, size_t size)
{
    bool ours;

    return (!dpif_xdp_hook_has_xdp(dpif_xdp_port_get_hook(port))
            && oxdp_progs_describe_owner(port->device.ifindex, owner, size,
                                         &ours)
            && !ours && !strncmp(owner, "XDP program", 11));
}

bool
dpif_xdp_port_has_other_xdp(const struct dpif_xdp_port *port)
{
    char owner[128];

    return find_other_xdp(port, owner, sizeof owner);
}

/* The sentence on such a program, or NULL. */
static char *
describe_xdp_program(const struct dpif_xdp_port *port)
{
    const char *name = netdev_get_name(port->dev);
    char owner[128];

    if (!find_other_xdp(port, owner, sizeof owner)) {
        return NULL;
    }
    return xasprintf("%s on %s runs before the switch, which gets only the "
                     "packets that it passes (XDP_PASS): remove it if it does "
                     "not belong there (\"ip link set dev %s xdp off\")",
                     owner, name, name);
}

/* Calls 'cb' for each device that is stacked on device 'name' (a VLAN, a
 * macvlan ...), until that returns true.  Returns whether it did.  If /sys is
 * not of this network namespace, then they are not found. */
static bool
for_each_upper(const struct oxdp_link *link,
               bool (*cb)(const struct oxdp_link *, void *aux), void *aux)
{
    char *path = xasprintf("/sys/class/net/%s", link->name);
    DIR *folder = opendir(path);
    const struct dirent *entry;
    bool done = false;

    free(path);
    while (folder && !done && (entry = readdir(folder)) != NULL) {
        struct oxdp_link upper;

        if (!strncmp(entry->d_name, "upper_", 6)
            && !oxdp_link_get(entry->d_name + 6, &upper)
            && upper.peer_ifindex == link->ifindex) {
            done = cb(&upper, aux);
        }
    }
    if (folder) {
        closedir(folder);
    }
    return done;
}

/* Whether 'upper' takes packets where openvswitch.ko would. */
static bool
takes_packets(const struct oxdp_link *upper, void *found)
{
    static const char *const kinds[] = {
        "macvlan", "macvtap", "ipvlan", "ipvtap",
    };

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (!strcmp(upper->kind, kinds[i])) {
            *(struct oxdp_link *) found = *upper;
            return true;
        }
    }
    return false;
}

static int
check_type(const struct oxdp_link *link, char **errorp)
{
    if (link->type == ARPHRD_LOOPBACK) {
        *errorp = xasprintf("%s is the loopback device, which cannot be a "
                            "port: to connect the host to a bridge use the "
                            "bridge's own interface, or an interface with "
                            "type=internal", link->name);
        return EINVAL;
    }
    if (link->type != ARPHRD_ETHER) {
        *errorp = xasprintf("%s is not an Ethernet device (its hardware type "
                            "is %"PRIu16"), and a port must be one%s",
                            link->name, link->type,
                            strcmp(link->kind, "tun") ? ""
                            : ": make it with \"mode tap\" in place of "
                              "\"mode tun\"");
        return EINVAL;
    }
    return 0;
}

int
dpif_xdp_port_check_device(const struct dpif_xdp_dp *dp, const char *name,
                           char **errorp)
{
    struct oxdp_link link, upper;
    char *master;
    int error = -oxdp_link_get(name, &link);

    if (error) {
        *errorp = xasprintf("cannot ask the kernel about %s: %s", name,
                            ovs_strerror(error));
        return error;
    }
    error = check_type(&link, errorp);
    if (error) {
        return error;
    }
    if (oxdp_tcx_needs_device(dp->name, name)
        || oxdp_tunnel_device_is(&link)) {
        *errorp = xasprintf("%s belongs to the switch, which gets packets "
                            "through it: it cannot be a port", name);
        return EBUSY;
    }
    master = describe_master(&link);
    if (master) {
        *errorp = xasprintf("%s is %s: remove it there first (\"ip link set "
                            "%s nomaster\")", name, master, name);
        free(master);
        return EBUSY;
    }
    if (for_each_upper(&link, takes_packets, &upper)) {
        *errorp = xasprintf("%s carries the %s %s, which would get no packets "
                            "any more: remove that first (\"ip link delete "
                            "%s\")", name, upper.kind, upper.name, upper.name);
        return EBUSY;
    }
    return 0;
}

static void
add_sentence(struct ds *ds, char *text)
{
    if (text) {
        ds_put_format(ds, "%s%s", ds->length ? "; " : "", text);
        free(text);
    }
}

/* The sentence on addresses of the device of 'port', or NULL. */
static char *
describe_addresses(const struct dpif_xdp_port *port)
{
    const char *name = netdev_get_name(port->dev);
    struct in6_addr *addresses = NULL, *masks = NULL;
    struct ds ds = DS_EMPTY_INITIALIZER;
    char *text = NULL;
    int n = 0, n_named = 0;

    if (netdev_get_addr_list(port->dev, &addresses, &masks, &n)) {
        n = 0;
    }
    for (int i = 0; i < n && n_named < MAX_ADDRESSES; i++) {
        if (!IN6_IS_ADDR_LINKLOCAL(&addresses[i])) {
            ds_put_cstr(&ds, n_named++ ? ", " : "");
            ipv6_format_mapped(&addresses[i], &ds);
        }
    }
    if (n_named) {
        text = xasprintf(
            "%s has addresses (%s), which cannot be reached over "
            "this device while it is a port: move them to the "
            "bridge's own interface (docs/how-to/move-a-device.md)",
            name, ds_cstr(&ds));
    }
    ds_destroy(&ds);
    free(addresses);
    free(masks);
    return text;
}

static bool
is_vlan_device(const struct oxdp_link *upper, void *found)
{
    *(struct oxdp_link *) found = *upper;
    return !strcmp(upper->kind, "vlan");
}

void
dpif_xdp_port_warn_of_users(struct dpif_xdp_port *port)
{
    const char *name = netdev_get_name(port->dev);
    struct ds ds = DS_EMPTY_INITIALIZER;
    struct oxdp_link link, upper;

    add_sentence(&ds, describe_addresses(port));
    add_sentence(&ds, describe_xdp_program(port));
    if (!oxdp_link_get(name, &link)) {
        char *master = describe_master(&link);

        if (master) {
            add_sentence(&ds, xasprintf("%s is %s, which gets no packets from "
                                        "it while it is a port: remove it "
                                        "there or here", name, master));
            free(master);
        }
        if (for_each_upper(&link, takes_packets, &upper)
            || for_each_upper(&link, is_vlan_device, &upper)) {
            add_sentence(&ds, xasprintf("%s carries the %s %s, which gets no "
                                        "packets while it is a port: use an "
                                        "interface with type=internal",
                                        name, upper.kind, upper.name));
        }
    }
    dpif_xdp_netdev_set_warning(port->dev, DPIF_XDP_WARNING_USERS,
                                ds.length ? ds_cstr(&ds) : NULL);
    ds_destroy(&ds);
}

void
dpif_xdp_port_warn_of_filters(struct dpif_xdp_dp *dp,
                              struct dpif_xdp_port *port)
{
    struct oxdp_clsact_filter first;

    if (dpif_xdp_port_get_hook(port) != DPIF_XDP_HOOK_NONE
        && port->warned_ifindex != port->device.ifindex
        && oxdp_tcx_hides_filters(dp->progs, port->device.ifindex, &first)) {
        port->warned_ifindex = port->device.ifindex;
        VLOG_WARN(
            "%s: the device has ingress filters of tc, the first of kind "
            "%s with priority %"PRIu32", which see no packet any more "
            "that the switch takes, because it stands before them: do "
            "the same in OpenFlow, or on the other side of the "
            "wire (\"tc filter show dev %s ingress\" lists them)",
            netdev_get_name(port->dev), first.kind, first.priority,
            netdev_get_name(port->dev));
    }
}
