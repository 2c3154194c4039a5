/* SPDX-License-Identifier: Apache-2.0 */
/* Which frames the ports' devices take, for programs and for the code that decides what programs run: the table
 * 'limits' (bpf/maps.h).  A port without an entry takes everything. */
#include "core/programs/limit.h"

#include <errno.h>
#include <linux/if_ether.h>

#include "core/programs/group_private.h"
#include "core/programs/progs_struct.h"
#include "core/programs/tcx_private.h"

/* The longest frame that no driver spreads over several buffers: without jumbo frames all are whole. */
#define WHOLE_LEN 1514u

static void write_all(struct oxdp_progs *progs);

int oxdp_progs_set_limit(struct oxdp_progs *progs, uint32_t port_no, const struct oxdp_limit *limit)
{
    static const struct bpf_limit none = { .max_len = UINT32_MAX, .buffers = 1 };
    struct bpf_limit *entry;
    bool sends;

    if (port_no >= progs->max_ports) {
        return -ERANGE;
    }
    entry = &oxdp_memory_limits(&progs->memory)[BPF_LIMIT_OF_PORT(port_no)];
    *entry = limit ? (struct bpf_limit) { .max_len = limit->mtu + ETH_HLEN, .buffers = limit->takes_buffers } : none;
    sends = limit && limit->sends_buffers;
    if (sends != progs->sends_buffers[port_no]) {
        __atomic_fetch_add(&progs->n_send_buffers, sends ? 1 : -1, __ATOMIC_RELAXED);
        __atomic_store_n(&progs->sends_buffers[port_no], sends, __ATOMIC_RELAXED);
    }
    write_all(progs);
    oxdp_groups_limit_changed(progs, port_no);
    return oxdp_tcx_limit_changed(progs, port_no);
}

bool oxdp_progs_suits_buffers(const struct oxdp_progs *progs, uint32_t from, uint32_t to)
{
    const struct bpf_limit *limits = oxdp_memory_limits(&progs->memory);
    bool sends = from < progs->max_ports ? __atomic_load_n(&progs->sends_buffers[from], __ATOMIC_RELAXED)
        : __atomic_load_n(&progs->n_send_buffers, __ATOMIC_RELAXED) != 0;

    return !sends || to >= progs->max_ports || limits[BPF_LIMIT_OF_PORT(to)].buffers;
}

/* What every port takes: programs look no further at shorter frames. */
static void write_all(struct oxdp_progs *progs)
{
    struct bpf_limit *limits = oxdp_memory_limits(&progs->memory);
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < progs->max_ports; i++) {
        const struct bpf_limit *limit = &limits[BPF_LIMIT_OF_PORT(i)];
        uint32_t whole = limit->buffers || limit->max_len < WHOLE_LEN ? limit->max_len : WHOLE_LEN;

        least = whole < least ? whole : least;
    }
    __atomic_store_n(&limits[BPF_LIMIT_ALL].max_len, least, __ATOMIC_RELAXED);
}
