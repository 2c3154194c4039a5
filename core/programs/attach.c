/* SPDX-License-Identifier: Apache-2.0 */
/* Ports: what programs know about the devices they are attached to, and the attaching. */
#include "core/programs/progs_private.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bpf/xdp.skel.h"
#include "core/kernel/device.h"
#include "core/kernel/grace.h"
#include "core/programs/tcx.h"

#define OUR_PREFIX "oxdp_"              /* Of the names of programs in bpf/. */

static int attach(struct oxdp_progs *progs, struct oxdp_attachment *at, bool native, bool local_stack);
static int set_port(struct oxdp_progs *progs, struct oxdp_attachment *at, const int sock_fds[]);
static int take_sockets(struct oxdp_progs *progs, struct bpf_port *port, const int sock_fds[], uint32_t n_queues);
static void give_sockets_back(struct oxdp_progs *progs, struct bpf_port *port);
static int attach_error(int ifindex, bool native, int err, char **ret_error);

static const char *const mode_names[] = {
    [OXDP_MODE_BEST_EFFORT] = "best-effort",
    [OXDP_MODE_NATIVE_ZEROCOPY] = "native-with-zerocopy",
    [OXDP_MODE_NATIVE] = "native",
    [OXDP_MODE_GENERIC] = "generic",
};
#define N_MODES (sizeof mode_names / sizeof mode_names[0])

int oxdp_progs_attach(struct oxdp_progs *progs, int ifindex, bool native, bool local_stack, uint32_t port_no,
                      const int sock_fds[], uint32_t n_queues, char **ret_error)
{
    struct oxdp_attachment *at;
    int err;

    if (!n_queues) {
        return oxdp_fail(-EINVAL, ret_error, "XDP needs at least one AF_XDP socket");
    }
    err = oxdp_attachment_new(progs, ifindex, port_no, local_stack, sock_fds, n_queues, &at, ret_error);
    if (err) {
        return err;
    }
    err = attach(progs, at, native, local_stack);
    if (err) {
        err = attach_error(ifindex, native, err, ret_error);
        oxdp_attachment_free(progs, at);
    }
    return err;
}

int oxdp_progs_attach_before(struct oxdp_progs *progs, int ifindex, bool native, bool local_stack, const int sock_fds[],
                             uint32_t n_queues, char **ret_error)
{
    struct oxdp_attachment *at = oxdp_progs_find(progs, ifindex);
    struct bpf_port before;
    int err;

    if (!at) {
        return oxdp_fail(-ENODEV, ret_error, "the device is no port");
    }
    before = at->port;
    err = take_sockets(progs, &at->port, sock_fds, n_queues);
    at->port.local_stack = local_stack;
    at->port.continues = 1;
    err = err ? err : oxdp_attachment_write(progs, at);
    err = err ? err : attach(progs, at, native, local_stack);
    if (err) {
        err = attach_error(ifindex, native, err, ret_error);
        give_sockets_back(progs, &at->port);
        at->port = before;
        oxdp_attachment_write(progs, at);
    }
    return err;
}

/* The program that only lets packets pass (core/programs/tcx.c) makes room for ours. */
static int attach(struct oxdp_progs *progs, struct oxdp_attachment *at, bool native, bool local_stack)
{
    int err;

    oxdp_special_begin_attach(progs, local_stack);
    if (at->passes && at->link_fd >= 0) {
        at->passes = false;
        err = oxdp_link_exchange(progs, at);
    } else {
        at->passes = false;
        at->native = native;
        err = oxdp_link_attach(progs, at);
    }
    oxdp_special_end_attach(progs);
    return err;
}

void oxdp_progs_leave_xdp(struct oxdp_progs *progs, int ifindex)
{
    struct oxdp_attachment *at = oxdp_progs_find(progs, ifindex);

    if (at) {
        oxdp_special_begin_attach(progs, false);
        oxdp_link_detach(progs, "link", at->link_fd, ifindex);
        at->link_fd = -1;
        oxdp_special_end_attach(progs);
        oxdp_grace(NULL);               /* Frames that the program has are still to find their socket. */
        give_sockets_back(progs, &at->port);
        at->port.local_stack = 0;
        at->port.continues = 0;
        oxdp_attachment_write(progs, at);
    }
}

void oxdp_progs_detach(struct oxdp_progs *progs, int ifindex)
{
    struct oxdp_attachment *at = oxdp_progs_find(progs, ifindex);

    if (at) {
        oxdp_link_detach(progs, "link", at->link_fd, ifindex);
        oxdp_tcx_leave(progs, ifindex);
        oxdp_attachment_free(progs, at);
    }
}

int oxdp_progs_error(const struct oxdp_progs *progs, int ifindex)
{
    const struct oxdp_attachment *at = oxdp_progs_find(progs, ifindex);

    return at ? at->error : -ENODEV;
}

int oxdp_progs_set_output(struct oxdp_progs *progs, uint32_t port_no, int ifindex)
{
    int fd = bpf_map__fd(progs->maps->maps.outputs);
    int err;

    if (port_no >= progs->max_ports) {
        return -ERANGE;
    }
    if (ifindex) {
        err = bpf_map_update_elem(fd, &port_no, &ifindex, BPF_ANY);
    } else {
        err = bpf_map_delete_elem(fd, &port_no);
        err = err == -ENOENT ? 0 : err;
    }
    if (!err) {
        err = oxdp_groups_set_output(progs, port_no, ifindex);
    }
    progs->can_output[port_no] = ifindex && !err;
    progs->absent[port_no] = false;
    return err;
}

int oxdp_progs_set_absent(struct oxdp_progs *progs, uint32_t port_no)
{
    int err = oxdp_progs_set_output(progs, port_no, 0);

    if (!err) {
        progs->absent[port_no] = true;
    }
    return err;
}

bool oxdp_progs_is_absent(const struct oxdp_progs *progs, uint32_t port_no)
{
    return port_no < progs->max_ports && progs->absent[port_no];
}

bool oxdp_progs_can_output(const struct oxdp_progs *progs, uint32_t port_no)
{
    return port_no < progs->max_ports && progs->can_output[port_no];
}

bool oxdp_progs_lost_output(const struct oxdp_progs *progs, uint32_t port_no)
{
    int ifindex;

    return oxdp_progs_can_output(progs, port_no)
        && bpf_map_lookup_elem(bpf_map__fd(progs->maps->maps.outputs), &port_no, &ifindex) == -ENOENT;
}

const char *oxdp_mode_to_string(enum oxdp_mode mode)
{
    return mode < N_MODES ? mode_names[mode] : NULL;
}

bool oxdp_mode_from_string(const char *s, enum oxdp_mode *ret_mode)
{
    for (size_t i = 0; i < N_MODES; i++) {
        if (!strcmp(s, mode_names[i])) {
            *ret_mode = i;
            return true;
        }
    }
    return false;
}

int oxdp_attachment_new(struct oxdp_progs *progs, int ifindex, uint32_t port_no, bool local_stack,
                        const int sock_fds[], uint32_t n_queues, struct oxdp_attachment **ret_at, char **ret_error)
{
    struct oxdp_attachment *at;
    int err;

    if (oxdp_progs_find(progs, ifindex)) {
        return oxdp_fail(-EBUSY, ret_error, "the device is already a port of this datapath");
    }
    for (at = progs->attachments; at < progs->attachments + progs->max_ports && at->ifindex; at++) {
        continue;
    }
    if (at == progs->attachments + progs->max_ports) {
        return oxdp_fail(-ENOSPC, ret_error, "the datapath has its maximum of %u ports", progs->max_ports);
    }

    *at = (struct oxdp_attachment) {
        .ifindex = ifindex,
        .link_fd = -1,
        .tcx_fd = -1,
        .port = {
            .ifindex = ifindex,
            .port_no = port_no,
            .n_queues = n_queues,
            .local_stack = local_stack,
            .counter_slot = at - progs->attachments + 1,
        },
    };
    err = set_port(progs, at, sock_fds);
    if (err) {
        oxdp_attachment_free(progs, at);
        return oxdp_fail(err, ret_error, "cannot write the port into the datapath's tables: %s", strerror(-err));
    }
    *ret_at = at;
    return 0;
}

struct oxdp_attachment *oxdp_progs_find(const struct oxdp_progs *progs, int ifindex)
{
    for (uint32_t i = 0; ifindex && i < progs->max_ports; i++) {
        if (progs->attachments[i].ifindex == ifindex) {
            return &progs->attachments[i];
        }
    }
    return NULL;
}

static int reserve_sockets(struct oxdp_progs *progs, uint32_t n, uint32_t *ret_first)
{
    uint32_t run = 0;

    for (uint32_t i = 0; i < progs->max_sockets; i++) {
        run = progs->socket_used[i] ? 0 : run + 1;
        if (run == n) {
            *ret_first = i + 1 - n;
            memset(progs->socket_used + *ret_first, true, n * sizeof *progs->socket_used);
            return 0;
        }
    }
    return -ENOSPC;
}

static int take_sockets(struct oxdp_progs *progs, struct bpf_port *port, const int sock_fds[], uint32_t n_queues)
{
    int err = n_queues ? reserve_sockets(progs, n_queues, &port->first_socket) : 0;

    port->n_queues = err ? 0 : n_queues;
    for (uint32_t q = 0; !err && q < n_queues; q++) {
        uint32_t i = port->first_socket + q;

        err = bpf_map_update_elem(bpf_map__fd(progs->maps->maps.sockets), &i, &sock_fds[q], BPF_ANY);
    }
    return err;
}

static void give_sockets_back(struct oxdp_progs *progs, struct bpf_port *port)
{
    for (uint32_t i = port->first_socket; i < port->first_socket + port->n_queues; i++) {
        bpf_map_delete_elem(bpf_map__fd(progs->maps->maps.sockets), &i);
        progs->socket_used[i] = false;
    }
    port->n_queues = 0;
}

/* The port itself is written last: from then on the program uses the rest. */
static int set_port(struct oxdp_progs *progs, struct oxdp_attachment *at, const int sock_fds[])
{
    struct bpf_port *port = &at->port;
    uint32_t direct = port->ifindex & (progs->n_direct - 1);
    int err = take_sockets(progs, port, sock_fds, port->n_queues);

    if (!err) {
        oxdp_counters_take_slot(progs, port->counter_slot);
        at->overflow = progs->direct[direct];
        err = oxdp_attachment_write(progs, at);
        if (!at->overflow) {
            progs->direct[direct] = port->ifindex;
        }
    }
    return err;
}

int oxdp_attachment_write(const struct oxdp_progs *progs, const struct oxdp_attachment *at)
{
    if (at->overflow) {
        return bpf_map_update_elem(bpf_map__fd(progs->maps->maps.ports_overflow), &at->port.ifindex, &at->port, BPF_ANY);
    }

    struct bpf_port *entry = &oxdp_memory_ports(&progs->memory)[at->port.ifindex & (progs->n_direct - 1)];
    struct bpf_port port = at->port;

    /* Programs look at 'ifindex' first. */
    port.ifindex = entry->ifindex;
    *entry = port;
    __atomic_store_n(&entry->ifindex, at->port.ifindex, __ATOMIC_RELEASE);
    return 0;
}

void oxdp_attachment_free(struct oxdp_progs *progs, struct oxdp_attachment *at)
{
    const struct xdp_bpf *skel = progs->maps;
    const struct bpf_port *port = &at->port;
    uint32_t direct = port->ifindex & (progs->n_direct - 1);

    if (at->overflow) {
        bpf_map_delete_elem(bpf_map__fd(skel->maps.ports_overflow), &port->ifindex);
    } else if (progs->direct[direct] == port->ifindex) {
        __atomic_store_n(&oxdp_memory_ports(&progs->memory)[direct].ifindex, 0, __ATOMIC_RELEASE);
        progs->direct[direct] = 0;
    }
    give_sockets_back(progs, &at->port);
    memset(at, 0, sizeof *at);
}

bool oxdp_progs_describe_owner(int ifindex, char *text, size_t size, bool *ret_ours)
{
    LIBBPF_OPTS(bpf_xdp_query_opts, query);
    struct bpf_prog_info info = { 0 };
    uint32_t len = sizeof info;

    snprintf(text, size, "another XDP program");
    *ret_ours = false;
    if (bpf_xdp_query(ifindex, 0, &query)) {
        return false;
    }

    uint32_t id = query.drv_prog_id ? query.drv_prog_id
        : query.skb_prog_id ? query.skb_prog_id : query.hw_prog_id;
    int fd = id ? bpf_prog_get_fd_by_id(id) : -1;

    if (fd >= 0) {
        if (!bpf_obj_get_info_by_fd(fd, &info, &len)) {
            snprintf(text, size, "XDP program '%s' (id %u, %s mode)", info.name, id,
                     query.drv_prog_id ? "native" : query.skb_prog_id ? "generic" : "offloaded");
            *ret_ours = !strncmp(info.name, OUR_PREFIX, strlen(OUR_PREFIX));
        }
        close(fd);
    }
    return id;
}

/* The kernel keeps its reason to itself when a link is created (the text goes only to netlink): ask the
 * device. */
static int attach_error(int ifindex, bool native, int err, char **ret_error)
{
    char name[IF_NAMESIZE] = "";
    char owner[128];
    struct oxdp_device dev;
    bool ours;

    if (!if_indextoname(ifindex, name) || oxdp_device_get(name, &dev)) {
        return oxdp_fail(-ENODEV, ret_error, "the device does not exist any more");
    }
    switch (-err) {
    case EBUSY:
    case EEXIST:
        oxdp_progs_describe_owner(ifindex, owner, sizeof owner, &ours);
        return oxdp_fail(-EBUSY, ret_error, "%s is in use by %s: remove that first "
                         "(\"ip link set dev %s xdp off\", or stop the program that attached it)",
                         name, owner, name);
    case EOPNOTSUPP:
        return native
            ? oxdp_fail(err, ret_error, "driver '%s' of %s has no native XDP as the device is set up now: "
                        "set options:xdp-mode to best-effort or generic", dev.driver, name)
            : oxdp_fail(err, ret_error, "%s cannot run XDP at all", name);
    case ENOSPC:
        return oxdp_fail(err, ret_error, "%s has %u receive queue(s), fewer than its peer has transmit queues: "
                         "raise them (\"ethtool -L %s rx N\")", name, dev.n_rx_queues, name);
    case ERANGE:
        return dev.mtu > OXDP_MAX_MTU
            ? oxdp_fail(err, ret_error, "the MTU of %s (%u) is too large for XDP: set it to %u or less "
                        "(\"ip link set dev %s mtu %u\")", name, dev.mtu, OXDP_MAX_MTU, name, OXDP_MAX_MTU)
            : oxdp_fail(err, ret_error, "the MTU of the other end of %s is too large for XDP: set it to %u or "
                        "less, there (\"ip link set dev NAME mtu %u\")", name, OXDP_MAX_MTU, OXDP_MAX_MTU);
    case EINVAL:
        return oxdp_fail(err, ret_error, "driver '%s' of %s refuses %s XDP with the device's present settings "
                         "(MTU %u, %u receive queues): an MTU of at most %u, or fewer queues, or LRO off may help",
                         dev.driver, name, native ? "native" : "generic", dev.mtu, dev.n_rx_queues, OXDP_MAX_MTU);
    case EPERM:
        return oxdp_fail(err, ret_error, "attaching XDP to %s is not permitted: "
                         "run as root, or with CAP_BPF and CAP_NET_ADMIN", name);
    default:
        return oxdp_fail(err, ret_error, "attaching XDP to %s failed: %s", name, strerror(-err));
    }
}
