/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets, UMEM and XDP program together, on veth pairs in a network namespace of the test's own:
 *
 *     q0 ---- p0 [XDP] --+
 *                        |-- sockets on one UMEM: the test
 *     q1 ---- p1 [XDP] --+
 */
#ifndef TESTS_BPF_SWITCH_H
#define TESTS_BPF_SWITCH_H 1

#include <net/if.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <cmocka.h>

#include "core/kernel/device.h"
#include "core/programs/progs.h"
#include "core/xsk/sock.h"
#include "core/xsk/umem.h"
#include "tests/bpf/sandbox.h"

#define N_FRAMES 1024u
#define FILL 64u
#define WAIT_MS 3000
#define PORT_NO(N) (100u + (N))

struct port {
    char name[IF_NAMESIZE];
    struct oxdp_device dev;
    struct oxdp_sock *sock;
    int peer;                   /* AF_PACKET socket on the peer. */
};

struct switch_ {
    struct oxdp_umem *umem;
    struct oxdp_progs *progs;
    struct port ports[2];
};

static inline void open_port(struct switch_ *sw, struct port *port, int n, bool native)
{
    char *error = NULL;
    int fd;

    snprintf(port->name, sizeof port->name, "p%d", n);
    assert_int_equal(oxdp_device_get(port->name, &port->dev), 0);
    assert_int_equal(oxdp_sock_open(sw->umem, port->dev.ifindex, 0, false, FILL, &port->sock), 0);
    fd = oxdp_sock_fd(port->sock);
    if (oxdp_progs_attach(sw->progs, port->dev.ifindex, native, false, PORT_NO(n), &fd, 1, &error)) {
        fail_msg("%s", error);
    }
}

static inline int start(void **state, bool native)
{
    struct switch_ *sw = calloc(1, sizeof *sw);
    char *error = NULL;

    *state = sw;
    assert_int_equal(oxdp_umem_create(N_FRAMES, &sw->umem), 0);
    if (oxdp_progs_load(&(struct oxdp_progs_config) { .max_ports = 64, .max_sockets = 64 }, &sw->progs,
                        &error)) {
        fail_msg("%s", error);
    }
    for (int i = 0; i < 2; i++) {
        char peer[IF_NAMESIZE];

        sandbox_run("ip link add p%d type veth peer name q%d && "
                    "ip link set p%d up && ip link set q%d up", i, i, i, i);
        open_port(sw, &sw->ports[i], i, native);
        snprintf(peer, sizeof peer, "q%d", i);
        sw->ports[i].peer = sandbox_packet_socket(peer);
    }
    return 0;
}

static inline int start_native(void **state)
{
    return start(state, true);
}

static inline int start_generic(void **state)
{
    return start(state, false);
}

static inline int stop(void **state)
{
    struct switch_ *sw = *state;

    for (int i = 0; i < 2; i++) {
        oxdp_progs_detach(sw->progs, sw->ports[i].dev.ifindex);
        oxdp_sock_close(sw->ports[i].sock);
        close(sw->ports[i].peer);
        sandbox_run("! ip link show dev p%d >/dev/null 2>&1 || ip link del p%d", i, i);
    }
    assert_int_equal(oxdp_umem_n_free(sw->umem), N_FRAMES);
    oxdp_progs_unload(sw->progs);
    oxdp_umem_destroy(sw->umem);
    free(sw);
    return 0;
}

static inline uint8_t *at(const struct switch_ *sw, const struct oxdp_desc *desc)
{
    return (uint8_t *) oxdp_umem_base(sw->umem) + desc->addr;
}

/* Receives 'n' packets, waiting for them as the engine does. */
static inline void receive(struct port *port, struct oxdp_desc descs[], uint32_t n)
{
    int64_t deadline = sandbox_now() + WAIT_MS;
    uint32_t got = 0;

    while (got < n && sandbox_now() < deadline) {
        sandbox_wait(oxdp_sock_fd(port->sock), 100);
        got += oxdp_sock_rx(port->sock, descs + got, n - got);
    }
    assert_int_equal(got, n);
}

static inline uint64_t counter(const struct switch_ *sw, int ifindex, enum dp_counter which)
{
    uint64_t counters[DP_N_COUNTERS];

    assert_int_equal(oxdp_progs_get_counters(sw->progs, ifindex, counters), 0);
    return counters[which];
}

static inline void put(struct switch_ *sw, const struct oxdp_desc *desc)
{
    oxdp_umem_put(sw->umem, &desc->addr, 1);
}

#endif /* tests/bpf/switch.h */
