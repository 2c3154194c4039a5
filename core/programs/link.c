/* SPDX-License-Identifier: Apache-2.0 */
/* The links that hold programs on devices: made, updated, taken over from the previous instance.
 *
 * Links are pinned and outlive the process, each with its program, and that with its maps.  A new process inherits the
 * XDP links of its devices, which go on running the old flows until oxdp_progs_take_over().  Until then tcx links of
 * the previous instance come before the new ones, and handle every packet. */
#include "core/programs/link.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdio.h>
#include <unistd.h>

#include "core/programs/attachment.h"
#include "core/programs/before.h"
#include "core/programs/pin.h"
#include "core/programs/program.h"
#include "core/programs/progs_struct.h"

static int inherit(struct oxdp_progs *progs, struct oxdp_attachment *at) OXDP_REQUIRES(oxdp_special_mutex);
static int create(struct oxdp_progs *progs, struct oxdp_attachment *at) OXDP_REQUIRES(oxdp_special_mutex);
static int prog_of(const struct oxdp_progs *progs, const struct oxdp_attachment *at) OXDP_REQUIRES(oxdp_special_mutex);
static bool is_attached(int link_fd, int ifindex, bool native);

int oxdp_link_attach(struct oxdp_progs *progs, struct oxdp_attachment *at)
{
    return inherit(progs, at) ? create(progs, at) : 0;
}

void oxdp_link_detach(struct oxdp_progs *progs, const char *hook, int fd, int ifindex)
{
    char name[32];

    if (fd >= 0) {
        snprintf(name, sizeof name, "%s-%d", hook, ifindex);
        oxdp_pins_remove(progs->pins, name);
        bpf_link_detach(fd);
        close(fd);
    }
}

/* Takes over the link that a previous instance left on the device; -ENOENT if there is none that can be used. */
static int inherit(struct oxdp_progs *progs, struct oxdp_attachment *at)
    OXDP_REQUIRES(oxdp_special_mutex)
{
    char name[32];
    int fd;

    snprintf(name, sizeof name, "link-%d", at->ifindex);
    fd = oxdp_pins_inherit(progs->pins, name);
    if (fd < 0) {
        return -ENOENT;
    }
    if (!is_attached(fd, at->ifindex, at->native)) {
        oxdp_link_detach(progs, "link", fd, at->ifindex);
        return -ENOENT;
    }
    at->link_fd = fd;
    at->old_program = true;
    oxdp_before_adopt(progs, at);
    return progs->taken_over ? oxdp_link_exchange(progs, at) : 0;
}

static int create(struct oxdp_progs *progs, struct oxdp_attachment *at)
    OXDP_REQUIRES(oxdp_special_mutex)
{
    LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = at->native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE);
    int fd = bpf_link_create(prog_of(progs, at), at->ifindex, BPF_XDP, &opts);

    if (fd < 0) {
        char ifname[IF_NAMESIZE];

        /* The kernel says EINVAL of a device that does not exist. */
        return if_indextoname(at->ifindex, ifname) ? fd : -ENODEV;
    }
    at->link_fd = fd;
    oxdp_link_pin(progs, at);
    return 0;
}

void oxdp_link_pin(const struct oxdp_progs *progs, const struct oxdp_attachment *at)
{
    char name[32];

    if (at->link_fd >= 0 && at->ifindex) {
        snprintf(name, sizeof name, "link-%d", at->ifindex);
        oxdp_pins_add(progs->pins, name, at->link_fd);
    }
}

int oxdp_link_exchange(struct oxdp_progs *progs, struct oxdp_attachment *at)
{
    at->old_program = false;
    if (!bpf_link_update(at->link_fd, prog_of(progs, at), NULL)) {
        return 0;
    }
    oxdp_link_detach(progs, "link", at->link_fd, at->ifindex);
    at->link_fd = -1;
    return create(progs, at);
}

static int prog_of(const struct oxdp_progs *progs, const struct oxdp_attachment *at)
    OXDP_REQUIRES(oxdp_special_mutex)
{
    return at->pass_fd >= 0 ? at->pass_fd
        : oxdp_program_fd(progs, oxdp_program_of(progs, at->port.port_no));
}

/* Whether 'link_fd' is attached to 'ifindex', in the mode asked for.  A device that was moved to another
 * namespace may have left a link of the same name. */
static bool is_attached(int link_fd, int ifindex, bool native)
{
    LIBBPF_OPTS(bpf_xdp_query_opts, query);
    struct bpf_link_info info = { 0 };
    uint32_t len = sizeof info;

    return !bpf_obj_get_info_by_fd(link_fd, &info, &len) && info.type == BPF_LINK_TYPE_XDP
        && info.xdp.ifindex == (uint32_t) ifindex && !bpf_xdp_query(ifindex, 0, &query)
        && info.prog_id == (native ? query.drv_prog_id : query.skb_prog_id);
}
