/* SPDX-License-Identifier: Apache-2.0 */
/* The devices that are ports, and what programs know about them: core/programs/attachment.c. */
#ifndef OXDP_ATTACHMENT_H
#define OXDP_ATTACHMENT_H 1

#include <stdbool.h>
#include <stdint.h>

#include "bpf/maps.h"
#include "dp/counter.h"

struct oxdp_progs;

struct oxdp_attachment {
    int ifindex;                /* 0: free. */
    int link_fd;                /* XDP, or -1. */
    int tcx_fd;                 /* tcx, or -1. */
    int out_fd;                 /* tcx at egress, of a device for tunnels, or -1. */
    int pass_fd;                /* The XDP program, if it only lets packets pass to tcx; -1: it is that of the port. */
    bool native;                /* XDP's mode, as in oxdp_progs_attach(). */
    bool old_program;           /* The XDP link, inherited, still runs the previous instance's program. */
    bool old_tcx;               /* The previous instance's program at tcx still handles the packets. */
    bool clsact;                /* A clsact filter takes the place of a tcx link. */
    int error;                  /* Why it has no program any more (oxdp_progs_error()). */
    bool overflow;              /* The port is in 'ports_overflow', not in 'ports'. */
    uint32_t before_slot;       /* Slot in the previous instance's counters, where its program still counts; 0: none. */
    uint64_t before[DP_N_COUNTERS];     /* What it counted that is nowhere else. */
    struct bpf_port port;
};

/* The port of device 'ifindex', or NULL. */
struct oxdp_attachment *oxdp_attachment_find(const struct oxdp_progs *progs, int ifindex);

/* A new port for device 'ifindex', in the programs' tables; nothing is attached yet.  'sock_fds' as in
 * oxdp_progs_attach().  0, or a negative errno with a sentence in '*ret_error'. */
int oxdp_attachment_new(struct oxdp_progs *progs, int ifindex, uint32_t port_no, bool local_stack,
                        const int sock_fds[], uint32_t n_queues, struct oxdp_attachment **ret_at, char **ret_error);
void oxdp_attachment_free(struct oxdp_progs *progs, struct oxdp_attachment *at);

/* The parts that the XDP program of a port has to have because of its device (dp/omit.h): frames may be
 * CHECKSUM_PARTIAL, or in several buffers. */
uint32_t oxdp_attachment_parts(const struct oxdp_attachment *at);

/* Writes a changed 'at->port' into the programs' tables.  0 or a negative errno. */
int oxdp_attachment_write(const struct oxdp_progs *progs, const struct oxdp_attachment *at);

/* Reserves sockets for the 'n_queues' queues of 'port' and puts 'sock_fds' there.  0 or a negative errno.  Release
 * them with oxdp_attachment_give_sockets_back(), also after an error. */
int oxdp_attachment_take_sockets(struct oxdp_progs *progs, struct bpf_port *port, const int sock_fds[],
                                 uint32_t n_queues);
void oxdp_attachment_give_sockets_back(struct oxdp_progs *progs, struct bpf_port *port);

#endif /* core/programs/attachment.h */
