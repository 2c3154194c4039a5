/* SPDX-License-Identifier: Apache-2.0 */
/* Where programs at tcx send the packets of each port: its device, or the peer of that. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

#include "core/kernel/shortcut.h"
#include "core/kernel/ticks.h"
#include "core/programs/progs_struct.h"
#include "core/programs/tcx.h"
#include "core/programs/tcx_private.h"

/* After core/tables/memory.h, which has the types of the maps. */
#include "bpf/tcx.skel.h"

static int write_output(struct oxdp_tcx *tcx, uint32_t port_no, const struct bpf_skb_output *output)
{
    int err = bpf_map_update_elem(bpf_map__fd(tcx->skel->maps.skb_outputs), &port_no, output, BPF_ANY);

    if (!err) {
        struct bpf_skb_output *copy = &tcx->outputs[port_no];

        copy->peer_max_len = output->peer_max_len;
        copy->max_len = output->max_len;
        memcpy(copy->peer_address, output->peer_address, sizeof copy->peer_address);
        __atomic_store_n(&copy->ifindex, output->ifindex, __ATOMIC_RELAXED);
    }
    return err;
}

/* The longest frame that port 'port_no' takes. */
static uint32_t max_len(const struct oxdp_progs *progs, uint32_t port_no)
{
    return oxdp_memory_limit_of(&progs->memory, &port_no, 1).max_len;
}

int oxdp_tcx_set_output(struct oxdp_progs *progs, uint32_t port_no, int ifindex)
{
    struct bpf_skb_output output = { .ifindex = ifindex };
    struct oxdp_tcx *tcx = progs->tcx;
    int err;

    if (!tcx) {
        return ifindex ? -ENOENT : 0;
    }
    if (port_no >= progs->max_ports) {
        return -ERANGE;
    }
    output.max_len = max_len(progs, port_no);
    err = write_output(tcx, port_no, &output);
    if (err) {
        __atomic_store_n(&tcx->outputs[port_no].ifindex, 0, __ATOMIC_RELAXED);
    }
    return err;
}

bool oxdp_tcx_can_output(const struct oxdp_progs *progs, uint32_t port_no)
{
    const struct oxdp_tcx *tcx = __atomic_load_n(&progs->tcx, __ATOMIC_ACQUIRE);         /* Any thread. */

    return tcx && port_no < progs->max_ports && __atomic_load_n(&tcx->outputs[port_no].ifindex, __ATOMIC_RELAXED);
}

int oxdp_tcx_set_shortcut(struct oxdp_progs *progs, uint32_t port_no, const struct oxdp_shortcut *shortcut)
{
    struct bpf_skb_output output;

    if (!oxdp_tcx_can_output(progs, port_no)) {
        return -ENOENT;
    }
    output = (struct bpf_skb_output) {
        .ifindex = progs->tcx->outputs[port_no].ifindex,
        .max_len = max_len(progs, port_no),
    };
    if (shortcut) {
        output.peer_max_len = shortcut->max_len;
        memcpy(output.peer_address, shortcut->address, sizeof output.peer_address);
    }
    return memcmp(&output, &progs->tcx->outputs[port_no], sizeof output)
        ? write_output(progs->tcx, port_no, &output) : 0;
}

int oxdp_tcx_limit_changed(struct oxdp_progs *progs, uint32_t port_no)
{
    struct bpf_skb_output output;

    if (!oxdp_tcx_can_output(progs, port_no)) {
        return 0;
    }
    output = progs->tcx->outputs[port_no];
    output.max_len = max_len(progs, port_no);
    return output.max_len != progs->tcx->outputs[port_no].max_len ? write_output(progs->tcx, port_no, &output) : 0;
}

int oxdp_tcx_permit_shortcuts(struct oxdp_progs *progs, unsigned int ms)
{
    struct oxdp_tcx *tcx = progs->tcx;
    int err;

    if (!tcx || !tcx->ticks) {
        return -ENOENT;
    }
    err = oxdp_ticks_update(tcx->ticks);
    if (!err) {
        tcx->skel->bss->peers_until = oxdp_ticks_after(tcx->ticks, ms);
    }
    return err;
}
