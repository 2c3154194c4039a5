/* SPDX-License-Identifier: Apache-2.0 */
#include "core/programs/order.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/kernel/clsact.h"
#include "core/kernel/grace.h"
#include "core/kernel/made_device.h"
#include "core/kernel/netlink.h"
#include "core/kernel/order.h"
#include "core/programs/pin.h"
#include "core/programs/progs_struct.h"
#include "core/programs/tcx_private.h"

/* After core/tables/memory.h, which has the types of the maps. */
#include "bpf/tcx.skel.h"

#define PIN "order"             /* Keeps the program where it is when the process ends. */
#define DRAIN_US 2000           /* Then no backlog has a packet that was sent there. */

static bool has_device(const struct oxdp_progs *progs)
{
    return progs->tcx && progs->tcx->order.ifindex;
}

void oxdp_order_inherit(struct oxdp_tcx *tcx, const char *name)
{
    tcx->skel->bss->order_wanted = oxdp_order_exists(name);
}

bool oxdp_order_is_wanted(const struct oxdp_progs *progs)
{
    return progs->tcx && !has_device(progs) && __atomic_load_n(&progs->tcx->skel->bss->order_wanted, __ATOMIC_RELAXED);
}

static int attach(struct oxdp_tcx *tcx)
{
    LIBBPF_OPTS(bpf_link_create_opts, opts);
    int fd = bpf_link_create(oxdp_tcx_program(tcx), tcx->order.ifindex, OXDP_ATTACH_TCX_INGRESS, &opts);

    tcx->order_fd = fd < 0 ? -1 : fd;
    if (fd == -EINVAL) {
        return oxdp_clsact_put(tcx->order.ifindex, false, oxdp_tcx_program(tcx));
    }
    return fd < 0 ? fd : 0;
}

void oxdp_order_pin(const struct oxdp_progs *progs)
{
    if (has_device(progs) && progs->tcx->order_fd >= 0) {
        oxdp_pins_add(progs->pins, PIN, progs->tcx->order_fd);
    }
}

int oxdp_order_open(struct oxdp_progs *progs, const char *name, char **ret_error)
{
    struct oxdp_tcx *tcx = progs->tcx;
    int err = oxdp_order_make(name, progs->n_cpu_ids, &tcx->order, ret_error);

    if (err) {
        return err;
    }
    err = attach(tcx);
    err = err ? err : oxdp_device_up(tcx->order.device);
    if (err) {
        oxdp_fail(err, ret_error, "cannot use %s: %s", tcx->order.device, strerror(-err));
        oxdp_order_close(progs);
        return err;
    }
    oxdp_order_pin(progs);
    __atomic_store_n(&tcx->skel->bss->order_ifindex, tcx->order.ifindex, __ATOMIC_RELEASE);
    __atomic_store_n(&tcx->skel->bss->order_cpus, progs->n_cpu_ids, __ATOMIC_RELEASE);
    return 0;
}

void oxdp_order_drain(void)
{
    oxdp_grace(NULL);                   /* No program sends a packet there any more. */
    usleep(DRAIN_US);
}

void oxdp_order_close(struct oxdp_progs *progs)
{
    struct oxdp_tcx *tcx = progs->tcx;

    if (!has_device(progs)) {
        return;
    }
    __atomic_store_n(&tcx->skel->bss->order_cpus, 0, __ATOMIC_RELEASE);
    oxdp_order_drain();
    __atomic_store_n(&tcx->skel->bss->order_ifindex, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&tcx->skel->bss->order_wanted, 0, __ATOMIC_RELAXED);
    if (tcx->order_fd >= 0) {
        oxdp_pins_remove(progs->pins, PIN);
        close(tcx->order_fd);
        tcx->order_fd = -1;
    }
    oxdp_order_remove(&tcx->order);
}

void oxdp_order_renew(struct oxdp_progs *progs)
{
    struct oxdp_tcx *tcx = progs->tcx;

    if (has_device(progs) && tcx->order_fd >= 0) {
        bpf_link_update(tcx->order_fd, oxdp_tcx_program(tcx), NULL);
    } else if (has_device(progs)) {
        attach(tcx);
    }
}

uint64_t oxdp_order_n_moved(const struct oxdp_progs *progs, const char **ret_device)
{
    *ret_device = has_device(progs) ? progs->tcx->order.device : NULL;
    return progs->tcx ? __atomic_load_n(&progs->tcx->skel->bss->order_n_moved, __ATOMIC_RELAXED) : 0;
}

uint64_t oxdp_order_n_lost(const struct oxdp_progs *progs)
{
    struct oxdp_link_counts counts = { 0 };
    struct oxdp_link link;

    if (has_device(progs)) {
        oxdp_link_get_in(-1, progs->tcx->order.ifindex, &link, &counts);
    }
    return counts.rx_dropped;
}

bool oxdp_order_is_whole(const struct oxdp_progs *progs)
{
    return !has_device(progs) || oxdp_order_works(&progs->tcx->order);
}

unsigned int oxdp_order_forget_old(const struct oxdp_progs *progs, const char *name)
{
    static const struct oxdp_order none;

    return oxdp_order_sweep(name, has_device(progs) ? &progs->tcx->order : &none);
}
