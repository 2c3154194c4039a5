/* SPDX-License-Identifier: Apache-2.0 */
#include "core/programs/attachment.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

#include "core/error.h"
#include "core/kernel/device.h"
#include "core/multi_buffer.h"
#include "core/programs/before.h"
#include "core/programs/counter.h"
#include "core/programs/progs.h"
#include "core/programs/progs_struct.h"
#include "core/programs/skeleton.h"

static int set_port(struct oxdp_progs *progs, struct oxdp_attachment *at, const int sock_fds[]);

int oxdp_attachment_new(struct oxdp_progs *progs, int ifindex, uint32_t port_no, bool local_stack,
                        const int sock_fds[], uint32_t n_queues, struct oxdp_attachment **ret_at, char **ret_error)
{
    struct oxdp_attachment *at;
    int err;

    if (oxdp_attachment_find(progs, ifindex)) {
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
        .out_fd = -1,
        .pass_fd = -1,
        .port = {
            .ifindex = ifindex,
            .port_no = port_no,
            .n_queues = n_queues,
            .local_stack = local_stack,
            .max_len = oxdp_device_longest_frame(ifindex),
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

/* Frames in several buffers are not looked for where none are to come, because that costs each frame a nanosecond: on a
 * device whose longest frame fits into one buffer.  A packet with GSO comes all the same.  Its first buffer is full
 * then (skb_pp_cow_data() of Linux's net/core/skbuff.c), and so longer than the longest frame, which programs notice.
 * In generic mode packets of every driver are longer than the MTU allows: GRO merges them before. */
uint32_t oxdp_attachment_parts(const struct oxdp_attachment *at)
{
    return (at->port.local_stack ? DP_PART_CHECKSUM : 0)
        | (at->native && at->port.max_len <= OXDP_FRAME_LEN(OXDP_FRAME_MTU) ? 0 : DP_PART_FRAGS);
}

struct oxdp_attachment *oxdp_attachment_find(const struct oxdp_progs *progs, int ifindex)
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

int oxdp_attachment_take_sockets(struct oxdp_progs *progs, struct bpf_port *port, const int sock_fds[],
                                 uint32_t n_queues)
{
    int err = n_queues ? reserve_sockets(progs, n_queues, &port->first_socket) : 0;

    port->n_queues = err ? 0 : n_queues;
    for (uint32_t q = 0; !err && q < n_queues; q++) {
        uint32_t i = port->first_socket + q;

        err = bpf_map_update_elem(bpf_map__fd(progs->maps->maps.sockets), &i, &sock_fds[q], BPF_ANY);
    }
    return err;
}

void oxdp_attachment_give_sockets_back(struct oxdp_progs *progs, struct bpf_port *port)
{
    for (uint32_t i = port->first_socket; i < port->first_socket + port->n_queues; i++) {
        bpf_map_delete_elem(bpf_map__fd(progs->maps->maps.sockets), &i);
        progs->socket_used[i] = false;
    }
    port->n_queues = 0;
}

/* The port is written last, because programs then use the rest. */
static int set_port(struct oxdp_progs *progs, struct oxdp_attachment *at, const int sock_fds[])
{
    struct bpf_port *port = &at->port;
    uint32_t direct = port->ifindex & (progs->n_direct - 1);
    int err = oxdp_attachment_take_sockets(progs, port, sock_fds, port->n_queues);

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
        return bpf_map_update_elem(bpf_map__fd(progs->maps->maps.ports_overflow), &at->port.ifindex, &at->port,
                                   BPF_ANY);
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
    oxdp_attachment_give_sockets_back(progs, &at->port);
    memset(at, 0, sizeof *at);
}

int oxdp_progs_get_counters(const struct oxdp_progs *progs, int ifindex,
                            uint64_t ret_counters[DP_N_COUNTERS])
{
    const struct oxdp_attachment *at = oxdp_attachment_find(progs, ifindex);

    if (ifindex && !at) {
        return -ENODEV;
    }
    memset(ret_counters, 0, DP_N_COUNTERS * sizeof *ret_counters);
    oxdp_counters_sum(progs, at ? at->port.counter_slot : BPF_COUNTER_SLOT_NO_PORT, ret_counters);
    if (at) {
        oxdp_before_add(progs, at, ret_counters);
    }
    return 0;
}
