/* SPDX-License-Identifier: Apache-2.0 */
/* Has the kernel merge the frames of tunnels in UDP (GRO) before programs at tcx see them.
 *
 * GRO looks behind an outer UDP header only if a socket of a tunnel device has the port (net/ipv4/udp_offload.c,
 * udp_gro_receive()), and no program can open such a socket.  So for each UDP port there is a device, for its socket
 * alone.  It gives no packet to the host: one of VXLAN has a VNI filter without a VNI; those of Geneve, one for each IP
 * version, take only packets that come from a loopback address, which none can.
 *
 * The name, the kind and the alias say what they are for, so that a later process recognizes them.  GRE needs none. */
#ifndef OXDP_TUNNEL_GRO_H
#define OXDP_TUNNEL_GRO_H 1

#include <stdbool.h>
#include <stdint.h>

enum oxdp_tunnel_kind {
    OXDP_TUNNEL_VXLAN,
    OXDP_TUNNEL_GENEVE,
};

/* Begins to merge frames of tunnels of 'kind' to UDP port 'port', in host byte order.  What a previous instance began
 * goes on.  0, or a negative errno with a sentence in '*ret_error' (malloc'd): then nothing has changed.  -EOPNOTSUPP:
 * the kernel has no such devices; -EADDRINUSE: another socket has the port. */
int oxdp_tunnel_gro_start(enum oxdp_tunnel_kind kind, uint16_t port, char **ret_error);

/* Ends that.  Nothing if it did not begin. */
void oxdp_tunnel_gro_stop(enum oxdp_tunnel_kind kind, uint16_t port);

/* Ends all for which 'keep' is false, and returns how many devices that were. */
unsigned int oxdp_tunnel_gro_sweep(bool (*keep)(enum oxdp_tunnel_kind kind, uint16_t port, void *aux), void *aux);

#endif /* core/kernel/tunnel_gro.h */
