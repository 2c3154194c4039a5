/* SPDX-License-Identifier: Apache-2.0 */
/* Attaching programs to devices, and detaching them. */
#include "core/programs/progs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/kernel/device.h"
#include "core/kernel/grace.h"
#include "core/multi_buffer.h"
#include "core/privilege.h"
#include "core/programs/attachment.h"
#include "core/programs/before.h"
#include "core/programs/link.h"
#include "core/programs/order.h"
#include "core/programs/pin.h"
#include "core/programs/progs_struct.h"
#include "core/programs/specialise.h"
#include "core/programs/tcx.h"
#include "core/programs/tcx_private.h"

#define OUR_PREFIX "oxdp_"              /* Of the names of programs in bpf/. */

static int attach(struct oxdp_progs *progs, struct oxdp_attachment *at, bool native);
static int attach_error(struct oxdp_progs *progs, int ifindex, bool native, int err, char **ret_error);

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
    err = attach(progs, at, native);
    if (err) {
        err = attach_error(progs, ifindex, native, err, ret_error);
        oxdp_attachment_free(progs, at);
    }
    return err;
}

/* Gives back the sockets that 'at' has just taken, and what programs know of the port before that. */
static void restore_port(struct oxdp_progs *progs, struct oxdp_attachment *at, const struct bpf_port *before)
{
    oxdp_attachment_give_sockets_back(progs, &at->port);
    at->port = *before;
    oxdp_attachment_write(progs, at);
}

int oxdp_progs_attach_before(struct oxdp_progs *progs, int ifindex, bool native, bool local_stack, const int sock_fds[],
                             uint32_t n_queues, char **ret_error)
{
    struct oxdp_attachment *at = oxdp_attachment_find(progs, ifindex);
    struct bpf_port before;
    int err;

    if (!at) {
        return oxdp_fail(-ENODEV, ret_error, "the device is no port");
    }
    before = at->port;
    err = oxdp_attachment_take_sockets(progs, &at->port, sock_fds, n_queues);
    at->port.local_stack = local_stack;
    at->port.continues = native;
    err = err ? err : oxdp_attachment_write(progs, at);
    err = err ? err : attach(progs, at, native);
    if (err) {
        err = attach_error(progs, ifindex, native, err, ret_error);
        restore_port(progs, at, &before);
    }
    return err;
}

/* The program that only lets packets pass (core/programs/tcx.c) makes room for ours. */
static int attach(struct oxdp_progs *progs, struct oxdp_attachment *at, bool native)
{
    bool passes = at->pass_fd >= 0;
    bool exchanges = passes && at->link_fd >= 0;
    int err;

    at->native = exchanges ? at->native : native;
    oxdp_special_begin_attach(progs, oxdp_attachment_parts(at));
    at->pass_fd = -1;
    err = exchanges ? oxdp_link_exchange(progs, at) : oxdp_link_attach(progs, at);
    oxdp_special_end_attach(progs);
    return err;
}

int oxdp_progs_follow_mtu(struct oxdp_progs *progs, int ifindex)
{
    struct oxdp_attachment *at = oxdp_attachment_find(progs, ifindex);
    uint32_t max_len = oxdp_device_longest_frame(ifindex);
    int err;

    if (!at || at->port.max_len == max_len) {
        return at ? 0 : -ENODEV;
    }
    at->port.max_len = max_len;
    oxdp_special_begin_attach(progs, at->link_fd >= 0 ? oxdp_attachment_parts(at) : 0);
    err = oxdp_attachment_write(progs, at);
    oxdp_special_end_attach(progs);
    return err;
}

int oxdp_progs_exchange_sockets(struct oxdp_progs *progs, int ifindex, const int sock_fds[], uint32_t n_queues,
                                char **ret_error)
{
    struct oxdp_attachment *at = oxdp_attachment_find(progs, ifindex);
    struct bpf_port before;
    int err;

    if (!at) {
        return oxdp_fail(-ENODEV, ret_error, "the device is no port");
    }
    before = at->port;
    err = oxdp_attachment_take_sockets(progs, &at->port, sock_fds, n_queues);
    err = err ? err : oxdp_attachment_write(progs, at);
    if (err) {
        restore_port(progs, at, &before);
        return oxdp_fail(err, ret_error, "cannot write AF_XDP sockets of %u queues into the datapath's tables: %s",
                         n_queues, strerror(-err));
    }
    oxdp_grace(NULL);                   /* Running programs may still redirect to the old ones. */
    oxdp_attachment_give_sockets_back(progs, &before);
    return 0;
}

void oxdp_progs_leave_xdp(struct oxdp_progs *progs, int ifindex)
{
    struct oxdp_attachment *at = oxdp_attachment_find(progs, ifindex);

    if (at) {
        oxdp_special_begin_attach(progs, 0);
        oxdp_link_detach(progs, "link", at->link_fd, ifindex);
        at->link_fd = -1;
        oxdp_special_end_attach(progs);
        oxdp_grace(NULL);               /* Running programs may still redirect to the port's sockets. */
        oxdp_attachment_give_sockets_back(progs, &at->port);
        at->port.local_stack = 0;
        at->port.continues = 0;
        oxdp_attachment_write(progs, at);
    }
}

uint32_t oxdp_progs_take_over(struct oxdp_progs *progs)
{
    uint32_t n = 0;

    oxdp_special_begin_attach(progs, 0);
    for (uint32_t i = 0; !progs->taken_over && i < progs->max_ports; i++) {
        struct oxdp_attachment *at = &progs->attachments[i];

        if (at->old_program || at->old_tcx) {
            int err;

            oxdp_before_hand_on(progs, at);
            err = at->old_program ? oxdp_link_exchange(progs, at) : 0;
            err = err || !at->old_tcx ? err : oxdp_tcx_take_over(progs, at);
            at->error = err;
            n += !err;
        }
    }
    progs->taken_over = true;
    oxdp_special_end_attach(progs);
    if (n) {
        oxdp_order_drain();
    }
    oxdp_pins_forget_old(progs->pins);          /* That detaches the previous instance's programs at tcx. */
    for (uint32_t i = 0; progs->before && i < progs->max_ports; i++) {
        oxdp_before_end(progs, &progs->attachments[i]);
    }
    oxdp_before_close(progs);
    return n;
}

void oxdp_progs_detach(struct oxdp_progs *progs, int ifindex)
{
    struct oxdp_attachment *at = oxdp_attachment_find(progs, ifindex);

    if (at) {
        oxdp_link_detach(progs, "link", at->link_fd, ifindex);
        oxdp_tcx_leave(progs, ifindex);
        oxdp_attachment_free(progs, at);
    }
}

int oxdp_progs_error(const struct oxdp_progs *progs, int ifindex)
{
    const struct oxdp_attachment *at = oxdp_attachment_find(progs, ifindex);

    return at ? at->error : -ENODEV;
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

int oxdp_progs_check_owner(int ifindex, char **ret_error)
{
    char name[IF_NAMESIZE] = "", owner[128];
    bool ours;

    if (!oxdp_progs_describe_owner(ifindex, owner, sizeof owner, &ours) || ours) {
        return 0;
    }
    if_indextoname(ifindex, name);
    return oxdp_fail(-EBUSY, ret_error, "%s is in use by %s: remove that first "
                     "(\"ip link set dev %s xdp off\", or stop the program that attached it)", name, owner, name);
}

/* The kernel gives its reason only to netlink, not to the caller that creates a link: find it from the device's
 * facts. */
static int attach_error(struct oxdp_progs *progs, int ifindex, bool native, int err, char **ret_error)
{
    char name[IF_NAMESIZE] = "";
    char advice[OXDP_PRIVILEGE_ADVICE];
    char owner[128];
    uint32_t limit = oxdp_progs_max_mtu(progs, oxdp_attachment_find(progs, ifindex)->port.port_no);
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
        return native && !strcmp(dev.driver, "virtio_net")
            ? oxdp_fail(err, ret_error,
                        "the hypervisor hands %s packets joined or with CHECKSUM_PARTIAL (guest_tso4, guest_tso6, "
                        "guest_ecn, guest_ufo, guest_csum), which native XDP cannot take, and the driver cannot ask it "
                        "not to (ctrl_guest_offloads): turn these off in the hypervisor, or set options:xdp-hook=tcx",
                        name)
            : native
            ? oxdp_fail(err, ret_error, "driver '%s' of %s has no native XDP as the device is set up now: "
                        "set options:xdp-mode to best-effort or generic", dev.driver, name)
            : oxdp_fail(err, ret_error, "%s cannot run XDP at all", name);
    case ENOSPC:
        return oxdp_fail(err, ret_error, "%s has %u receive queue(s), fewer than its peer has transmit queues: raise "
                         "them (\"ethtool -L %s rx N\")", name, dev.n_rx_queues, name);
    case ERANGE:
        return dev.mtu > limit
            ? oxdp_fail(err, ret_error, "the MTU of %s (%u) is too large for XDP: set it to %u or less "
                        "(\"ip link set dev %s mtu %u\")", name, dev.mtu, limit, name, limit)
            : oxdp_fail(err, ret_error, "the MTU of %s's peer is too large for XDP: set it to %u or "
                        "less, there (\"ip link set dev NAME mtu %u\")", name, limit, limit);
    case EINVAL:
        return oxdp_fail(err, ret_error, "driver '%s' of %s refuses %s XDP with the device's present settings "
                         "(MTU %u, %u receive queues): an MTU of at most %u, or fewer queues, or LRO off may help",
                         dev.driver, name, native ? "native" : "generic", dev.mtu, dev.n_rx_queues, OXDP_FRAME_MTU);
    case EPERM:
        return oxdp_fail(err, ret_error, "attaching XDP to %s is not permitted: %s", name,
                         oxdp_privilege_advice(advice));
    default:
        return oxdp_fail(err, ret_error, "attaching XDP to %s failed: %s", name, strerror(-err));
    }
}
