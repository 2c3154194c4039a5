/* SPDX-License-Identifier: Apache-2.0 */
#include "core/programs/tcx.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/error.h"
#include "core/kernel/clsact.h"
#include "core/kernel/ethtool.h"
#include "core/kernel/grace.h"
#include "core/kernel/made_device.h"
#include "core/kernel/netlink.h"
#include "core/kernel/ticks.h"
#include "core/kernel/veth.h"
#include "core/programs/attachment.h"
#include "core/programs/before.h"
#include "core/programs/detour.h"
#include "core/programs/link.h"
#include "core/programs/order.h"
#include "core/programs/pin.h"
#include "core/programs/progs_struct.h"
#include "core/programs/specialise.h"
#include "core/programs/tcx_private.h"
#include "dp/op.h"

/* After core/tables/memory.h, which has the types of the maps. */
#include "bpf/tcx.skel.h"

#define MAX_OTHERS 64                   /* BPF_MPROG_MAX of the kernel. */

/* Offloads that are turned off, so that the kernel segments and checksums in software. */
static const char *const unfinished[] = {
    OXDP_OFFLOADS_TO_FINISH, "tx-scatter-gather", "tx-scatter-gather-fraglist", "tx-generic-segmentation",
    "tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation", "tx-tcp6-segmentation",
    "tx-fcoe-segmentation", "tx-gre-segmentation", "tx-gre-csum-segmentation", "tx-ipxip4-segmentation",
    "tx-ipxip6-segmentation", "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation", "tx-gso-partial",
    "tx-tunnel-remcsum-segmentation", "tx-sctp-segmentation", "tx-esp-segmentation", "tx-udp-segmentation",
    "tx-gso-list", "tx-gso-robust", NULL,
};

static void destroy(struct oxdp_progs *progs, struct oxdp_tcx *tcx);

static void name_pair(const char *name, char near[IF_NAMESIZE], char far[IF_NAMESIZE])
{
    snprintf(near, IF_NAMESIZE, "%.12s-up", name);
    snprintf(far, IF_NAMESIZE, "%.12s-in", name);
}

bool oxdp_tcx_needs_device(const char *name, const char *device)
{
    char near[IF_NAMESIZE], far[IF_NAMESIZE];

    name_pair(name, near, far);
    return !strcmp(device, near) || !strcmp(device, far) || oxdp_detour_has_name(name, device)
        || oxdp_order_has_name(name, device);
}

static int make_pair(struct oxdp_tcx *tcx, const char *name, uint32_t n_queues, char **ret_error);
static int attach_upcall(struct oxdp_progs *progs, struct oxdp_tcx *tcx, char **ret_error);
static int attach_filter(struct oxdp_progs *progs, struct oxdp_attachment *at, char **ret_error);
static int put_filter(struct oxdp_progs *progs, const struct oxdp_attachment *at, char **ret_error);

int oxdp_tcx_open(struct oxdp_progs *progs, const char *name, uint32_t n_queues, char **ret_error)
{
    struct oxdp_tcx *tcx;
    int err;

    if (progs->tcx) {
        return 0;
    }
    tcx = calloc(1, sizeof *tcx);
    if (tcx) {
        tcx->outputs = calloc(progs->max_ports, sizeof *tcx->outputs);
    }
    if (!tcx || !tcx->outputs) {
        free(tcx);
        return oxdp_fail(-ENOMEM, ret_error, "not enough memory to load the tcx program");
    }
    tcx->upcall_link_fd = -1;
    tcx->detour_fds[OXDP_DETOUR_IN] = tcx->detour_fds[OXDP_DETOUR_BACK] = -1;
    tcx->order_fd = -1;
    err = make_pair(tcx, name, n_queues, ret_error);
    err = err ? err : oxdp_tcx_load(progs, tcx, ret_error);
    err = err ? err : attach_upcall(progs, tcx, ret_error);
    if (err) {
        destroy(progs, tcx);
        return err;
    }
    if (oxdp_ticks_open(&tcx->ticks)) {
        tcx->ticks = NULL;              /* Then peer redirect is never permitted. */
    }
    oxdp_detour_inherit(tcx, name);
    oxdp_order_inherit(tcx, name);
    __atomic_store_n(&progs->tcx, tcx, __ATOMIC_RELEASE);       /* Complete: other threads may ask for it now. */
    oxdp_tcx_pin_upcall(progs);
    return 0;
}

void oxdp_tcx_close(struct oxdp_progs *progs)
{
    if (progs->tcx) {
        oxdp_order_close(progs);
        oxdp_detour_close(progs);
        destroy(progs, progs->tcx);
        progs->tcx = NULL;
    }
}

static void destroy(struct oxdp_progs *progs, struct oxdp_tcx *tcx)
{
    oxdp_pins_remove(progs->pins, "upcall");
    if (tcx->upcall_link_fd >= 0) {
        close(tcx->upcall_link_fd);
    }
    oxdp_tcx_trace_stop(tcx);
    bpf_object__close(tcx->traced);
    bpf_object__close(tcx->tracked);
    tcx_bpf__destroy(tcx->skel);
    oxdp_ticks_close(tcx->ticks);
    if (tcx->has_pair) {
        oxdp_device_delete(tcx->near);    /* Needs a descriptor, which may be one of those just closed. */
    }
    free(tcx->outputs);
    free(tcx);
}

const char *oxdp_tcx_upcall_device(const struct oxdp_progs *progs)
{
    return progs->tcx->far;
}

uint64_t oxdp_tcx_n_overrun(const struct oxdp_progs *progs)
{
    struct oxdp_link_counts near = { 0 }, far = { 0 };
    struct oxdp_link link;

    if (progs->tcx) {
        oxdp_link_get_in(-1, if_nametoindex(progs->tcx->near), &link, &near);
        oxdp_link_get_in(-1, if_nametoindex(progs->tcx->far), &link, &far);
    }
    return near.tx_dropped + far.rx_dropped;
}

int oxdp_tcx_set_upcall_socket(struct oxdp_progs *progs, uint32_t queue, int sock_fd)
{
    return bpf_map_update_elem(bpf_map__fd(progs->tcx->skel->maps.upcall_sockets), &queue, &sock_fd, BPF_ANY);
}

const struct dp_capability *oxdp_tcx_capability(const struct oxdp_progs *progs)
{
    static const struct dp_capability none;
    const struct oxdp_tcx *tcx = __atomic_load_n(&progs->tcx, __ATOMIC_ACQUIRE);         /* Any thread. */

    return tcx ? &tcx->capability : &none;
}

/* A link if the kernel has tcx (6.6), else a clsact filter. */
static int attach(struct oxdp_progs *progs, struct oxdp_attachment *at, char **ret_error)
{
    LIBBPF_OPTS(bpf_link_create_opts, link);
    char name[32];

    at->tcx_fd = bpf_link_create(oxdp_tcx_program(progs->tcx), at->ifindex, OXDP_ATTACH_TCX_INGRESS, &link);
    if (at->tcx_fd == -EINVAL) {
        return attach_filter(progs, at, ret_error);
    }
    if (at->tcx_fd < 0) {
        return at->tcx_fd;
    }
    snprintf(name, sizeof name, "tcx-%d", at->ifindex);
    at->old_tcx = oxdp_pins_has_old(progs->pins, name);
    if (at->old_tcx) {
        oxdp_before_adopt(progs, at);
    }
    oxdp_tcx_pin(progs, at);
    return 0;
}

/* The pinned program of a filter tells the next process whose filter it is. */
void oxdp_tcx_pin(const struct oxdp_progs *progs, const struct oxdp_attachment *at)
{
    char name[32];

    if (at->clsact) {
        snprintf(name, sizeof name, "filter-%d", at->ifindex);
        oxdp_pins_add(progs->pins, name, oxdp_tcx_program(progs->tcx));
    } else if (at->ifindex && at->tcx_fd >= 0) {
        snprintf(name, sizeof name, "tcx-%d", at->ifindex);
        oxdp_pins_add(progs->pins, name, at->tcx_fd);
    }
    if (at->ifindex && at->out_fd >= 0) {
        snprintf(name, sizeof name, "out-%d", at->ifindex);
        oxdp_pins_add(progs->pins, name, at->out_fd);
    }
}

/* The programs of pinned links hold their maps. */
void oxdp_tcx_pin_upcall(const struct oxdp_progs *progs)
{
    if (progs->tcx) {
        oxdp_pins_add(progs->pins, "upcall", progs->tcx->upcall_link_fd);
        oxdp_detour_pin(progs);
        oxdp_order_pin(progs);
    }
}

/* A previous instance's filter handles every packet until oxdp_tcx_take_over(), as its link would. */
static int attach_filter(struct oxdp_progs *progs, struct oxdp_attachment *at, char **ret_error)
{
    char name[32];

    snprintf(name, sizeof name, "filter-%d", at->ifindex);
    at->clsact = true;
    at->old_tcx = oxdp_pins_has_old(progs->pins, name);
    if (at->old_tcx) {
        oxdp_before_adopt(progs, at);
    }
    return at->old_tcx ? 0 : put_filter(progs, at, ret_error);
}

static int put_filter(struct oxdp_progs *progs, const struct oxdp_attachment *at, char **ret_error)
{
    int err = oxdp_clsact_attach(at->ifindex, oxdp_tcx_program(progs->tcx), ret_error);

    if (!err) {
        oxdp_tcx_pin(progs, at);
    }
    return err;
}

int oxdp_tcx_take_over(struct oxdp_progs *progs, struct oxdp_attachment *at)
{
    at->old_tcx = false;
    return at->clsact ? put_filter(progs, at, NULL) : 0;
}

static uint32_t id_of(int prog_fd)
{
    struct bpf_prog_info info = { 0 };
    uint32_t len = sizeof info;

    return bpf_obj_get_info_by_fd(prog_fd, &info, &len) ? 0 : info.id;
}

/* A device that is gone has no program, and needs none. */
void oxdp_tcx_renew(struct oxdp_progs *progs)
{
    progs->tcx->prog_id = id_of(oxdp_tcx_program(progs->tcx));
    for (uint32_t i = 0; i < progs->max_ports; i++) {
        struct oxdp_attachment *at = &progs->attachments[i];

        if (at->ifindex && at->clsact && !at->old_tcx) {
            put_filter(progs, at, NULL);
        } else if (at->ifindex && at->tcx_fd >= 0) {
            bpf_link_update(at->tcx_fd, oxdp_tcx_program(progs->tcx), NULL);
        }
    }
    oxdp_detour_renew(progs);
    oxdp_order_renew(progs);
}

void oxdp_tcx_use(struct oxdp_progs *progs, struct bpf_object *object)
{
    struct oxdp_tcx *tcx = progs->tcx;
    struct bpf_object *before = tcx->tracked;

    tcx->tracked = object;
    tcx->over_ct = true;
    oxdp_tcx_trace_end(progs);          /* A trace that runs goes on with a program that tracks, too. */
    bpf_object__close(before);
    __atomic_store_n(&tcx->capability.ops, tcx->capability.ops | UINT64_C(1) << DP_OP_CT, __ATOMIC_RELAXED);
}

/* A foreign program there serves the same purpose. */
static int attach_pass(struct oxdp_progs *progs, struct oxdp_attachment *at)
{
    int err;

    at->native = true;
    at->pass_fd = bpf_program__fd(progs->tcx->skel->progs.oxdp_pass);
    oxdp_special_begin_attach(progs, 0);
    err = oxdp_link_attach(progs, at);
    oxdp_special_end_attach(progs);
    return err == -EBUSY || err == -EEXIST ? 0 : err;
}

static void detach_pass(struct oxdp_progs *progs, struct oxdp_attachment *at)
{
    oxdp_special_begin_attach(progs, 0);
    oxdp_link_detach(progs, "link", at->link_fd, at->ifindex);
    at->link_fd = -1;
    at->old_program = false;
    at->pass_fd = -1;
    oxdp_special_end_attach(progs);
}

bool oxdp_tcx_is_native(void)
{
    uint32_t n = 0;

    return bpf_prog_query(if_nametoindex("lo"), OXDP_ATTACH_TCX_INGRESS, 0, NULL, NULL, &n) != -EINVAL;
}

/* Compares ids: without CAP_SYS_ADMIN a process cannot read the names of programs. */
static bool is_ours(const struct oxdp_progs *progs, uint32_t prog_id)
{
    return progs ? prog_id == progs->tcx->prog_id : oxdp_clsact_is_ours(prog_id);
}

uint32_t oxdp_tcx_others_first(const struct oxdp_progs *progs, int ifindex)
{
    const struct oxdp_attachment *at = progs ? oxdp_attachment_find(progs, ifindex) : NULL;
    uint32_t ids[MAX_OTHERS], n = MAX_OTHERS, first = 0;

    if ((progs && (!at || at->tcx_fd < 0)) || bpf_prog_query(ifindex, OXDP_ATTACH_TCX_INGRESS, 0, NULL, ids, &n)) {
        return 0;                       /* No tcx. */
    }
    while (first < n && !is_ours(progs, ids[first])) {
        first++;
    }
    /* The previous instance's is before ours until it is taken over. */
    return at && at->old_tcx && first ? first - 1 : first;
}

bool oxdp_tcx_has_egress(int ifindex)
{
    uint32_t ids[MAX_OTHERS], n = MAX_OTHERS;

    return !bpf_prog_query(ifindex, OXDP_ATTACH_TCX_EGRESS, 0, NULL, ids, &n) && n;      /* Else there is no tcx. */
}

bool oxdp_tcx_hides_filters(const struct oxdp_progs *progs, int ifindex, struct oxdp_clsact_filter *ret_filter)
{
    const struct oxdp_attachment *at = oxdp_attachment_find(progs, ifindex);
    bool after_theirs = at && at->clsact && (at->pass_fd >= 0 || at->link_fd < 0);

    return at && oxdp_clsact_find_other(ifindex, after_theirs ? OXDP_CLSACT_PRIORITY : 0, ret_filter);
}

bool oxdp_tcx_is_attached(const struct oxdp_progs *progs, int ifindex)
{
    const struct oxdp_attachment *at = oxdp_attachment_find(progs, ifindex);
    struct bpf_link_info info = { 0 };
    uint32_t len = sizeof info;

    if (!at) {
        return false;
    }
    if (at->clsact) {
        return at->old_tcx || oxdp_clsact_runs(ifindex, oxdp_tcx_program(progs->tcx));
    }
    /* The info of a tcx link has its device where that of an XDP link has it; libbpf's header may lack tcx. */
    return !bpf_obj_get_info_by_fd(at->tcx_fd, &info, &len) && (int) info.xdp.ifindex == ifindex;
}

static int attach_failed(int err, char **ret_error)
{
    return ret_error && *ret_error
        ? err
        : oxdp_fail(err, ret_error, "attaching tcx to the device failed: %s", strerror(-err));
}

int oxdp_tcx_attach(struct oxdp_progs *progs, int ifindex, uint32_t port_no, bool from_xdp, char **ret_error)
{
    struct oxdp_attachment *at;
    int err = oxdp_attachment_new(progs, ifindex, port_no, false, NULL, 0, &at, ret_error);

    if (!err) {
        err = attach(progs, at, ret_error);
        err = err || !from_xdp ? err : attach_pass(progs, at);
        if (err) {
            oxdp_link_detach(progs, "link", at->link_fd, ifindex);
            oxdp_tcx_leave(progs, ifindex);
            oxdp_attachment_free(progs, at);
            err = attach_failed(err, ret_error);
        }
    }
    return err;
}

/* At egress of a device for tunnels.  The previous instance's program, which no packet needs any more, is replaced at
 * once. */
static int attach_out(struct oxdp_progs *progs, struct oxdp_attachment *at)
{
    LIBBPF_OPTS(bpf_link_create_opts, opts);
    int prog_fd = bpf_program__fd(progs->tcx->skel->progs.oxdp_tunnel_out);
    char name[32];

    snprintf(name, sizeof name, "out-%d", at->ifindex);
    at->out_fd = oxdp_pins_inherit(progs->pins, name);
    if (at->out_fd >= 0 && bpf_link_update(at->out_fd, prog_fd, NULL)) {
        oxdp_link_detach(progs, "out", at->out_fd, at->ifindex);
        at->out_fd = -1;
    }
    if (at->out_fd >= 0) {
        return 0;
    }
    at->out_fd = bpf_link_create(prog_fd, at->ifindex, OXDP_ATTACH_TCX_EGRESS, &opts);
    if (at->out_fd == -EINVAL) {
        return oxdp_clsact_put(at->ifindex, true, prog_fd);
    }
    oxdp_tcx_pin(progs, at);
    return at->out_fd < 0 ? at->out_fd : 0;
}

int oxdp_tcx_attach_tunnel(struct oxdp_progs *progs, int ifindex, uint32_t port_no, char **ret_error)
{
    struct oxdp_attachment *at;
    int err = oxdp_attachment_new(progs, ifindex, port_no, false, NULL, 0, &at, ret_error);

    if (err) {
        return err;
    }
    at->port.tunnel = 1;
    err = oxdp_attachment_write(progs, at);
    err = err ? err : attach(progs, at, ret_error);
    err = err ? err : attach_out(progs, at);
    if (err) {
        oxdp_tcx_leave(progs, ifindex);
        oxdp_attachment_free(progs, at);
        err = attach_failed(err, ret_error);
    }
    return err;
}

int oxdp_tcx_set_from_xdp(struct oxdp_progs *progs, int ifindex, bool from_xdp)
{
    struct oxdp_attachment *at = oxdp_attachment_find(progs, ifindex);

    if (!at || from_xdp == (at->pass_fd >= 0)) {
        return at ? 0 : -ENODEV;
    }
    if (from_xdp) {
        return attach_pass(progs, at);
    }
    detach_pass(progs, at);
    return 0;
}

int oxdp_tcx_attach_behind(struct oxdp_progs *progs, int ifindex, char **ret_error)
{
    struct oxdp_attachment *at = oxdp_attachment_find(progs, ifindex);
    int err = at ? attach(progs, at, ret_error) : -ENODEV;

    if (!err) {
        at->port.continues = at->native;
        err = oxdp_attachment_write(progs, at);
    }
    return err ? attach_failed(err, ret_error) : 0;
}

void oxdp_tcx_leave(struct oxdp_progs *progs, int ifindex)
{
    struct oxdp_attachment *at = oxdp_attachment_find(progs, ifindex);

    if (!at) {
        return;
    }
    if (at->port.continues) {
        at->port.continues = 0;
        oxdp_attachment_write(progs, at);
        oxdp_grace(NULL);               /* XDP may have left frames to tcx that have not reached it yet. */
    }
    oxdp_link_detach(progs, "tcx", at->tcx_fd, ifindex);
    at->tcx_fd = -1;
    oxdp_link_detach(progs, "out", at->out_fd, ifindex);
    at->out_fd = -1;
    if (at->clsact) {
        char name[32];

        snprintf(name, sizeof name, "filter-%d", ifindex);
        oxdp_pins_remove(progs->pins, name);
        oxdp_clsact_detach(ifindex);
        at->clsact = false;
    }
    at->old_tcx = false;
}

/* A dead process may have left a pair with these names. */
static bool is_our_pair(const char *near, const char *far)
{
    struct oxdp_link link;

    return !oxdp_link_get(near, &link) && !strcmp(link.kind, "veth") && link.peer_nsid < 0
        && link.peer_ifindex == (int) if_nametoindex(far);
}

static int make_pair(struct oxdp_tcx *tcx, const char *name, uint32_t n_queues, char **ret_error)
{
    struct oxdp_features changed;
    int err, fd;

    name_pair(name, tcx->near, tcx->far);
    if (is_our_pair(tcx->near, tcx->far)) {
        oxdp_device_delete(tcx->near);
    }
    err = oxdp_veth_create(tcx->near, tcx->far, n_queues, oxdp_tcx_upcall_mtu());
    if (err == -EEXIST) {
        return oxdp_fail(err, ret_error, "there is a device %s or %s already, a name that this datapath needs for "
                         "itself: rename it", tcx->near, tcx->far);
    }
    if (err) {
        return oxdp_fail(err, ret_error, "cannot make the veth pair %s and %s: %s", tcx->near, tcx->far,
                         strerror(-err));
    }
    tcx->has_pair = true;
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    err = fd < 0 ? -errno : oxdp_ethtool_features_switch(fd, tcx->near, unfinished, false, &changed);
    if (fd >= 0) {
        close(fd);
    }
    return err ? oxdp_fail(err, ret_error, "cannot turn off the offloads of %s: %s", tcx->near, strerror(-err)) : 0;
}

static int attach_upcall(struct oxdp_progs *progs, struct oxdp_tcx *tcx, char **ret_error)
{
    LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = XDP_FLAGS_DRV_MODE);
    int err;

    tcx->upcall_link_fd = bpf_link_create(bpf_program__fd(tcx->skel->progs.oxdp_upcall), if_nametoindex(tcx->far),
                                          BPF_XDP, &opts);
    err = tcx->upcall_link_fd < 0 ? tcx->upcall_link_fd : oxdp_device_up(tcx->near);
    err = err ? err : oxdp_device_up(tcx->far);
    if (err) {
        return oxdp_fail(err, ret_error, "cannot use %s: %s", tcx->far, strerror(-err));
    }
    return 0;
}
