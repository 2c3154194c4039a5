/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of the kernel for tunnels, which the switch makes for itself.  The name, the kind and the alias say what they
 * are for, so that a later process recognizes them.  Control only.
 *
 * For GRO: has the kernel merge the frames of tunnels in UDP before programs at tcx see them.  GRO looks behind an
 * outer UDP header only if a socket of a tunnel device has the port (net/ipv4/udp_offload.c, udp_gro_receive()), and no
 * program can open such a socket.  So for each UDP port there is a device, for its socket alone.  It gives no packet to
 * the host: one of VXLAN has a VNI filter without a VNI; those of Geneve, one for each IP version, take only packets
 * that come from a loopback address, which none can.  GRE needs none.
 *
 * For the host's routes: a device without a peer of its own ("external"), through which packets of tunnels come and go
 * whose endpoint is an address of the host (bpf/host_tunnel.h).  It has the socket, so the kernel merges frames, too:
 * where it is, there is none for GRO. */
#ifndef OXDP_TUNNEL_DEVICE_H
#define OXDP_TUNNEL_DEVICE_H 1

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

struct oxdp_link;

enum oxdp_tunnel_kind {
    OXDP_TUNNEL_VXLAN,
    OXDP_TUNNEL_GENEVE,
    OXDP_TUNNEL_GRE,            /* These have no UDP port: it is 0. */
    OXDP_TUNNEL_IP6GRE,
};

/* What a device is for. */
enum oxdp_tunnel_use {
    OXDP_TUNNEL_GRO,
    OXDP_TUNNEL_HOST,
};

/* Begins to merge frames of tunnels of 'kind' to UDP port 'port', in host byte order.  What a previous instance began
 * goes on.  0, or a negative errno with a sentence in '*ret_error' (malloc'd): then nothing has changed.  -EOPNOTSUPP:
 * the kernel has no such devices; -EADDRINUSE: another socket has the port. */
int oxdp_tunnel_gro_start(enum oxdp_tunnel_kind kind, uint16_t port, char **ret_error);

/* Ends that.  Nothing if it did not begin. */
void oxdp_tunnel_gro_stop(enum oxdp_tunnel_kind kind, uint16_t port);

/* MTU of a device for the host's routes: 65,535 bytes less all headers.  What the way has room for, the kernel looks at
 * behind it. */
#define OXDP_TUNNEL_HOST_MTU 65000u

/* Makes the device for the host's routes, and leaves it down: oxdp_tunnel_host_up() opens its socket.  One that a
 * previous instance left stays as it is.  Stores its name.  0, or a negative errno with a sentence in '*ret_error'
 * (malloc'd). */
int oxdp_tunnel_host_make(enum oxdp_tunnel_kind kind, uint16_t port, char ret_name[IF_NAMESIZE], char **ret_error);
void oxdp_tunnel_host_remove(enum oxdp_tunnel_kind kind, uint16_t port);

/* Sets it up.  0, or a negative errno with a sentence in '*ret_error' (malloc'd). */
int oxdp_tunnel_host_up(const char *name, char **ret_error);

/* Whether 'link' is such a device. */
bool oxdp_tunnel_device_is(const struct oxdp_link *link);

/* Removes all such devices for which 'keep' is false, and returns how many that were. */
unsigned int oxdp_tunnel_devices_sweep(bool (*keep)(enum oxdp_tunnel_use, enum oxdp_tunnel_kind, uint16_t port,
                                                    void *aux), void *aux);

#endif /* core/kernel/tunnel_device.h */
