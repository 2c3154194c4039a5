/* SPDX-License-Identifier: Apache-2.0 */
/* bench-traffic socket: the least that an AF_XDP program can do.  It looks at no packet, and never sleeps. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <xdp/xsk.h>

#include "traffic.h"
#include "traffic.skel.h"

#define N_FRAMES 4096
#define FRAME_SIZE XSK_UMEM__DEFAULT_FRAME_SIZE
#define N_DESCS 2048                /* In each ring. */
#define BURST 32

struct port {
    struct xsk_umem *umem;
    struct xsk_socket *sock;
    struct xsk_ring_prod fill, tx;
    struct xsk_ring_cons completion, rx;
    uint64_t received;
};

static int open_port(struct port *, const char *device, uint32_t bind_flags);
static void run(struct port *, bool back);
static uint32_t receive(struct port *, struct xdp_desc frames[BURST]);
static void give_back(struct port *, const struct xdp_desc *, uint32_t n);
static void transmit(struct port *, const struct xdp_desc *, uint32_t n);
static void reclaim(struct port *);

int bench_run_socket(const struct bench_options *options)
{
    struct traffic_bpf *skel = traffic_bpf__open_and_load();
    struct port port = { 0 };
    uint32_t queue = 0;
    int fd, error;

    if (!skel || bench_move_to_cpu(options->cpu))
        return 1;
    error = open_port(&port, options->dev, XDP_COPY);
    if (error) {
        fprintf(stderr, "bench-traffic: no AF_XDP socket on %s: %s\n", options->dev, strerror(-error));
        return 1;
    }
    fd = xsk_socket__fd(port.sock);
    if (bpf_map_update_elem(bpf_map__fd(skel->maps.sockets), &queue, &fd, BPF_ANY)
        || bpf_link_create(bpf_program__fd(skel->progs.bench_to_socket), options->ifindex, BPF_XDP, NULL) < 0) {
        fprintf(stderr, "bench-traffic: cannot attach XDP to %s: %s\n", options->dev, strerror(errno));
        return 1;
    }
    puts("{}");
    fflush(stdout);
    run(&port, options->back);
    xsk_socket__delete(port.sock);
    xsk_umem__delete(port.umem);
    traffic_bpf__destroy(skel);
    return 0;
}

/* Returns 0 or a negative errno. */
static int open_port(struct port *port, const char *device, uint32_t bind_flags)
{
    size_t size = (size_t)N_FRAMES * FRAME_SIZE;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct xsk_umem_config umem_config = {
        .fill_size = N_FRAMES, .comp_size = N_DESCS, .frame_size = FRAME_SIZE,
    };
    struct xsk_socket_config config = {
        .rx_size = N_DESCS, .tx_size = N_DESCS, .bind_flags = bind_flags | XDP_USE_NEED_WAKEUP,
        .libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
    };
    uint32_t first = 0;
    int error;

    if (memory == MAP_FAILED)
        return -errno;
    error = xsk_umem__create(&port->umem, memory, size, &port->fill, &port->completion, &umem_config);
    if (error)
        return error;
    error = xsk_socket__create(&port->sock, device, 0, port->umem, &port->rx, &port->tx, &config);
    if (error)
        return error;
    xsk_ring_prod__reserve(&port->fill, N_FRAMES, &first);
    for (uint32_t i = 0; i < N_FRAMES; i++)
        *xsk_ring_prod__fill_addr(&port->fill, first + i) = (uint64_t)i * FRAME_SIZE;
    xsk_ring_prod__submit(&port->fill, N_FRAMES);
    return 0;
}

static void run(struct port *port, bool back)
{
    struct pollfd wait = { .fd = STDIN_FILENO, .events = POLLIN };
    struct xdp_desc frames[BURST];
    char line[16];

    for (uint32_t idle = 0;; ) {
        uint32_t n = receive(port, frames);

        port->received += n;
        if (back) {
            transmit(port, frames, n);
            reclaim(port);
        } else {
            give_back(port, frames, n);
        }
        if (n && ++idle < 1024)
            continue;
        idle = 0;
        if (poll(&wait, 1, 0) > 0) {
            if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
                return;
            printf("{\"ns\": %llu, \"packets\": %llu}\n", (unsigned long long)bench_now(),
                   (unsigned long long)port->received);
            fflush(stdout);
        }
    }
}

/* Takes up to BURST frames out of the receive ring.  Returns how many. */
static uint32_t receive(struct port *port, struct xdp_desc frames[BURST])
{
    uint32_t first, n = xsk_ring_cons__peek(&port->rx, BURST, &first);

    for (uint32_t i = 0; i < n; i++)
        frames[i] = *xsk_ring_cons__rx_desc(&port->rx, first + i);
    if (n)
        xsk_ring_cons__release(&port->rx, n);
    return n;
}

/* Hands 'n' frames to the kernel for receiving.  The ring has a place for each frame that exists. */
static void give_back(struct port *port, const struct xdp_desc *frames, uint32_t n)
{
    uint32_t first;

    if (!n || xsk_ring_prod__reserve(&port->fill, n, &first) != n)
        return;
    for (uint32_t i = 0; i < n; i++)
        *xsk_ring_prod__fill_addr(&port->fill, first + i) = frames[i].addr / FRAME_SIZE * FRAME_SIZE;
    xsk_ring_prod__submit(&port->fill, n);
}

/* Sends 'n' frames, or drops them if the ring is full. */
static void transmit(struct port *port, const struct xdp_desc *frames, uint32_t n)
{
    uint32_t first;

    if (!n)
        return;
    if (xsk_ring_prod__reserve(&port->tx, n, &first) != n) {
        give_back(port, frames, n);
    } else {
        for (uint32_t i = 0; i < n; i++)
            *xsk_ring_prod__tx_desc(&port->tx, first + i) = frames[i];
        xsk_ring_prod__submit(&port->tx, n);
    }
    if (xsk_ring_prod__needs_wakeup(&port->tx))
        sendto(xsk_socket__fd(port->sock), NULL, 0, MSG_DONTWAIT, NULL, 0);
}

/* Gives frames that were sent back to receiving. */
static void reclaim(struct port *port)
{
    uint32_t first, n = xsk_ring_cons__peek(&port->completion, N_DESCS, &first);

    for (uint32_t i = 0; i < n; i++) {
        struct xdp_desc frame = { .addr = *xsk_ring_cons__comp_addr(&port->completion, first + i) };

        give_back(port, &frame, 1);
    }
    if (n)
        xsk_ring_cons__release(&port->completion, n);
}
