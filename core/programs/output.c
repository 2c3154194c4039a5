/* SPDX-License-Identifier: Apache-2.0 */
/* The devices that programs can send to.  Only the control thread writes 'can_output' and 'absent'; any thread reads
 * them (core/programs/progs.h says why a late answer is harmless). */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>

#include "core/programs/group_private.h"
#include "core/programs/progs.h"
#include "core/programs/progs_struct.h"
#include "core/programs/skeleton.h"

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
    __atomic_store_n(&progs->can_output[port_no], ifindex && !err, __ATOMIC_RELAXED);
    __atomic_store_n(&progs->absent[port_no], false, __ATOMIC_RELAXED);
    return err;
}

void oxdp_progs_retire_output(struct oxdp_progs *progs, uint32_t port_no)
{
    if (port_no < progs->max_ports) {
        __atomic_store_n(&progs->can_output[port_no], false, __ATOMIC_RELAXED);
        __atomic_store_n(&progs->absent[port_no], false, __ATOMIC_RELAXED);
    }
}

int oxdp_progs_set_absent(struct oxdp_progs *progs, uint32_t port_no)
{
    int err = oxdp_progs_set_output(progs, port_no, 0);

    if (!err) {
        __atomic_store_n(&progs->absent[port_no], true, __ATOMIC_RELAXED);
    }
    return err;
}

bool oxdp_progs_is_absent(const struct oxdp_progs *progs, uint32_t port_no)
{
    return port_no < progs->max_ports && __atomic_load_n(&progs->absent[port_no], __ATOMIC_RELAXED);
}

bool oxdp_progs_can_output(const struct oxdp_progs *progs, uint32_t port_no)
{
    return port_no < progs->max_ports && __atomic_load_n(&progs->can_output[port_no], __ATOMIC_RELAXED);
}

bool oxdp_progs_lost_output(const struct oxdp_progs *progs, uint32_t port_no)
{
    int ifindex;

    return oxdp_progs_can_output(progs, port_no)
        && bpf_map_lookup_elem(bpf_map__fd(progs->maps->maps.outputs), &port_no, &ifindex) == -ENOENT;
}
