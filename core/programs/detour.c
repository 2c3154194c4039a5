/* SPDX-License-Identifier: Apache-2.0 */
#include "core/programs/detour.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/kernel/clsact.h"
#include "core/kernel/detour.h"
#include "core/kernel/grace.h"
#include "core/programs/pin.h"
#include "core/programs/progs_struct.h"
#include "core/programs/tcx_private.h"

/* After core/tables/memory.h, which has the types of the maps. */
#include "bpf/tcx.skel.h"

/* Names of pins.  They keep the programs where they are when the process ends. */
static const char *const pin_names[OXDP_DETOUR_ENDS] = { "detour-in", "detour-back" };

static bool has_devices(const struct oxdp_progs *progs)
{
    return progs->tcx && progs->tcx->detour.vxlan_ifindex;
}

void oxdp_detour_inherit(struct oxdp_tcx *tcx, const char *name)
{
    tcx->skel->bss->detour_wanted = oxdp_detour_exists(name);
}

bool oxdp_detour_is_wanted(const struct oxdp_progs *progs)
{
    return progs->tcx && !has_devices(progs)
        && __atomic_load_n(&progs->tcx->skel->bss->detour_wanted, __ATOMIC_RELAXED);
}

/* What comes in by the VXLAN device, and what goes out by the veth. */
static int attach(struct oxdp_progs *progs, int end)
{
    LIBBPF_OPTS(bpf_link_create_opts, opts);
    struct oxdp_tcx *tcx = progs->tcx;
    bool egress = end == OXDP_DETOUR_BACK;
    int ifindex = egress ? tcx->detour.back_ifindex : tcx->detour.vxlan_ifindex;
    int fd = bpf_link_create(oxdp_tcx_program(tcx), ifindex,
                             egress ? OXDP_ATTACH_TCX_EGRESS : OXDP_ATTACH_TCX_INGRESS, &opts);

    tcx->detour_fds[end] = fd < 0 ? -1 : fd;
    if (fd == -EINVAL) {
        return oxdp_clsact_put(ifindex, egress, oxdp_tcx_program(tcx));
    }
    return fd < 0 ? fd : 0;
}

void oxdp_detour_pin(const struct oxdp_progs *progs)
{
    for (int end = 0; has_devices(progs) && end < OXDP_DETOUR_ENDS; end++) {
        if (progs->tcx->detour_fds[end] >= 0) {
            oxdp_pins_add(progs->pins, pin_names[end], progs->tcx->detour_fds[end]);
        }
    }
}

int oxdp_detour_open(struct oxdp_progs *progs, const char *name, char **ret_error)
{
    struct oxdp_tcx *tcx = progs->tcx;
    int err = oxdp_detour_make(name, &tcx->detour, ret_error);

    if (err) {
        return err;
    }
    __atomic_store_n(&tcx->skel->bss->detour_back_ifindex, tcx->detour.back_ifindex, __ATOMIC_RELEASE);
    for (int end = 0; end < OXDP_DETOUR_ENDS && !err; end++) {
        err = attach(progs, end);
    }
    err = err ? oxdp_fail(err, ret_error, "attaching tcx to %s failed: %s", tcx->detour.vxlan, strerror(-err))
              : oxdp_detour_up(&tcx->detour, ret_error);
    if (err) {
        oxdp_detour_close(progs);
        return err;
    }
    oxdp_detour_pin(progs);
    __atomic_store_n(&tcx->skel->bss->detour_ifindex, tcx->detour.vxlan_ifindex, __ATOMIC_RELEASE);
    return 0;
}

void oxdp_detour_close(struct oxdp_progs *progs)
{
    struct oxdp_tcx *tcx = progs->tcx;

    if (!tcx || !has_devices(progs)) {
        return;
    }
    __atomic_store_n(&tcx->skel->bss->detour_ifindex, 0, __ATOMIC_RELEASE);
    oxdp_grace(NULL);                   /* No packet is on its way any more. */
    __atomic_store_n(&tcx->skel->bss->detour_wanted, 0, __ATOMIC_RELAXED);
    for (int end = 0; end < OXDP_DETOUR_ENDS; end++) {
        if (tcx->detour_fds[end] >= 0) {
            oxdp_pins_remove(progs->pins, pin_names[end]);
            close(tcx->detour_fds[end]);
            tcx->detour_fds[end] = -1;
        }
    }
    oxdp_detour_remove(&tcx->detour);
}

void oxdp_detour_renew(struct oxdp_progs *progs)
{
    struct oxdp_tcx *tcx = progs->tcx;

    for (int end = 0; has_devices(progs) && end < OXDP_DETOUR_ENDS; end++) {
        if (tcx->detour_fds[end] >= 0) {
            bpf_link_update(tcx->detour_fds[end], oxdp_tcx_program(tcx), NULL);
        } else {
            attach(progs, end);
        }
    }
}

uint32_t oxdp_detour_lost(const struct oxdp_progs *progs, const char **ret_device)
{
    *ret_device = has_devices(progs) ? progs->tcx->detour.vxlan : NULL;
    return progs->tcx ? __atomic_load_n(&progs->tcx->skel->bss->detours_lost, __ATOMIC_RELAXED) : 0;
}

bool oxdp_detour_is_whole(const struct oxdp_progs *progs)
{
    return has_devices(progs) && oxdp_detour_works(&progs->tcx->detour);
}

unsigned int oxdp_detour_forget_old(const struct oxdp_progs *progs, const char *name)
{
    static const struct oxdp_detour none;

    return oxdp_detour_sweep(name, has_devices(progs) ? &progs->tcx->detour : &none);
}
