/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets, UMEM and XDP program together, on veth pairs in a network namespace of the test's own:
 *
 *     q0 ---- p0 [XDP] --+
 *                        |-- sockets on one UMEM: the test
 *     q1 ---- p1 [XDP] --+
 */
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <cmocka.h>

#include "core/device.h"
#include "core/prog.h"
#include "core/sock.h"
#include "core/umem.h"
#include "dp/record.h"
#include "tests/bpf/sandbox.h"

#define N_FRAMES 1024u
#define FILL 64u
#define WAIT_MS 3000
#define PORT_NO(N) (100u + (N))

struct port {
    char name[IF_NAMESIZE];
    struct oxdp_device dev;
    struct oxdp_sock *sock;
    int peer;                   /* AF_PACKET socket on the other end. */
};

struct switch_ {
    struct oxdp_umem *umem;
    struct oxdp_progs *progs;
    struct port ports[2];
};

static void open_port(struct switch_ *sw, struct port *port, int n, bool native)
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

static int start(void **state, bool native)
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

static int start_native(void **state)
{
    return start(state, true);
}

static int start_generic(void **state)
{
    return start(state, false);
}

static int stop(void **state)
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

static uint8_t *at(const struct switch_ *sw, const struct oxdp_desc *desc)
{
    return (uint8_t *) oxdp_umem_base(sw->umem) + desc->addr;
}

/* Receives 'n' packets, waiting for them as the engine does. */
static void receive(struct port *port, struct oxdp_desc descs[], uint32_t n)
{
    int64_t deadline = sandbox_now() + WAIT_MS;
    uint32_t got = 0;

    while (got < n && sandbox_now() < deadline) {
        sandbox_wait(oxdp_sock_fd(port->sock), 100);
        got += oxdp_sock_rx(port->sock, descs + got, n - got);
    }
    assert_int_equal(got, n);
}

static uint64_t counter(const struct switch_ *sw, int ifindex, enum dp_counter which)
{
    uint64_t counters[DP_N_COUNTERS];

    assert_int_equal(oxdp_progs_get_counters(sw->progs, ifindex, counters), 0);
    return counters[which];
}

static void put(struct switch_ *sw, const struct oxdp_desc *desc)
{
    oxdp_umem_put(sw->umem, &desc->addr, 1);
}

/* Every frame goes up with its port in the record and its bytes unchanged, whatever its length. */
static void test_receive(void **state)
{
    static const size_t lens[] = { 60, 64, 1000, 1514 };
    struct switch_ *sw = *state;

    for (int i = 0; i < 2; i++) {
        struct port *port = &sw->ports[i];

        for (uint32_t tag = 0; tag < 200; tag++) {
            size_t len = lens[tag % 4];
            uint8_t sent[2000];
            struct oxdp_desc desc;
            struct dp_record record;

            sandbox_make_frame(sent, len, tag);
            assert_int_equal(send(port->peer, sent, len, 0), len);
            receive(port, &desc, 1);
            assert_int_equal(desc.len, len + DP_RECORD_LEN);
            memcpy(&record, at(sw, &desc), sizeof record);
            assert_int_equal(record.in_port, PORT_NO(i));
            assert_int_equal(record.reason, DP_REASON_NO_PROGRAM);
            assert_int_equal(record.passes, 0);
            assert_int_equal(record.flow, DP_RECORD_NO_FLOW);
            assert_memory_equal(at(sw, &desc) + DP_RECORD_LEN, sent, len);
            put(sw, &desc);
        }
        assert_int_equal(counter(sw, port->dev.ifindex, DP_COUNTER_UP_OFF), 200);
        assert_int_equal(counter(sw, port->dev.ifindex, DP_COUNTER_NO_SOCKET), 0);
        assert_int_equal(counter(sw, port->dev.ifindex, DP_COUNTER_RX_BYTES), 50 * (60 + 64 + 1000 + 1514));

        struct oxdp_sock_stats stats;

        oxdp_sock_get_stats(port->sock, &stats);
        assert_int_equal(stats.rx_packets, 200);
        assert_int_equal(stats.rx_bytes, 50 * (60 + 64 + 1000 + 1514) + 200 * DP_RECORD_LEN);
    }
}

/* More packets in one call than the kernel sends in one system call; the peer gets each one, in order. */
static void test_send(void **state)
{
    enum { N = 300 };
    struct switch_ *sw = *state;
    struct port *port = &sw->ports[1];
    struct oxdp_desc descs[N];
    uint64_t addrs[N];
    struct oxdp_sock_stats stats;

    assert_int_equal(oxdp_umem_get(sw->umem, addrs, N), N);
    for (uint32_t i = 0; i < N; i++) {
        descs[i] = (struct oxdp_desc) { .addr = addrs[i] + 256, .len = 60 + i };
        sandbox_make_frame(at(sw, &descs[i]), descs[i].len, i);
    }
    assert_int_equal(oxdp_sock_tx(port->sock, descs, N), N);
    for (uint32_t i = 0; i < N; i++) {
        uint8_t expected[2000], got[2000];

        assert_true(sandbox_wait(port->peer, WAIT_MS));
        assert_int_equal(recv(port->peer, got, sizeof got, 0), 60 + i);
        sandbox_make_frame(expected, 60 + i, i);
        assert_memory_equal(got, expected, 60 + i);
    }
    oxdp_sock_get_stats(port->sock, &stats);
    assert_int_equal(stats.tx_packets, N);
    assert_int_equal(stats.tx_dropped + stats.tx_invalid, 0);

    /* The receiver's sockets hold no reference any more: all frames come back. */
    int64_t deadline = sandbox_now() + WAIT_MS;

    while (oxdp_umem_n_free(sw->umem) < N_FRAMES - 2 * FILL && sandbox_now() < deadline) {
        oxdp_sock_complete(port->sock);
    }
    assert_int_equal(oxdp_umem_n_free(sw->umem), N_FRAMES - 2 * FILL);
}

/* Packets that wait for more leave with what is sent next, be it nothing; too many do not wait. */
static void test_send_queued(void **state)
{
    struct switch_ *sw = *state;
    struct port *port = &sw->ports[1];
    uint8_t got[200];

    for (uint32_t tag = 0; tag < 400; tag++) {
        struct oxdp_desc desc = { .len = 64 };

        assert_int_equal(oxdp_umem_get(sw->umem, &desc.addr, 1), 1);
        sandbox_make_frame(at(sw, &desc), desc.len, tag);
        assert_int_equal(oxdp_sock_tx_queue(port->sock, &desc, 1), 1);
    }
    assert_true(sandbox_wait(port->peer, WAIT_MS));
    assert_int_equal(oxdp_sock_tx(port->sock, NULL, 0), 0);
    for (uint32_t tag = 0; tag < 400; tag++) {
        uint8_t expected[64];

        assert_true(sandbox_wait(port->peer, WAIT_MS));
        assert_int_equal(recv(port->peer, got, sizeof got, 0), 64);
        sandbox_make_frame(expected, sizeof expected, tag);
        assert_memory_equal(got, expected, sizeof expected);
    }
}

/* What the kernel would skip silently is refused and comes back. */
static void test_send_invalid(void **state)
{
    struct switch_ *sw = *state;
    struct port *port = &sw->ports[0];
    struct oxdp_desc descs[3];
    uint64_t addrs[3];
    struct oxdp_sock_stats stats;

    assert_int_equal(oxdp_umem_get(sw->umem, addrs, 3), 3);
    descs[0] = (struct oxdp_desc) { .addr = addrs[0] + 256, .len = 0 };
    descs[1] = (struct oxdp_desc) { .addr = addrs[1] + 256, .len = OXDP_FRAME_SIZE };
    descs[2] = (struct oxdp_desc) { .addr = addrs[2] + 256, .len = 64 };
    sandbox_make_frame(at(sw, &descs[2]), 64, 1);
    assert_int_equal(oxdp_sock_tx(port->sock, descs, 3), 1);
    oxdp_sock_get_stats(port->sock, &stats);
    assert_int_equal(stats.tx_invalid, 2);
    assert_int_equal(stats.tx_packets, 1);
}

/* From one port to the other through the same memory, without a copy by us. */
static void test_forward(void **state)
{
    struct switch_ *sw = *state;

    for (uint32_t tag = 0; tag < 500; tag++) {
        uint8_t sent[100], got[200];
        struct oxdp_desc desc;

        sandbox_make_frame(sent, sizeof sent, tag);
        assert_int_equal(send(sw->ports[0].peer, sent, sizeof sent, 0), sizeof sent);
        receive(&sw->ports[0], &desc, 1);
        desc.addr += DP_RECORD_LEN;
        desc.len -= DP_RECORD_LEN;
        assert_int_equal(oxdp_sock_tx(sw->ports[1].sock, &desc, 1), 1);
        assert_true(sandbox_wait(sw->ports[1].peer, WAIT_MS));
        assert_int_equal(recv(sw->ports[1].peer, got, sizeof got, 0), sizeof sent);
        assert_memory_equal(got, sent, sizeof sent);
    }
}

/* A burst that nobody receives: the kernel counts what had no frame, nothing is lost from the UMEM, and
 * receiving goes on; afterwards the socket keeps more frames ready. */
static void test_burst(void **state)
{
    struct switch_ *sw = *state;
    struct port *port = &sw->ports[0];
    struct oxdp_desc descs[FILL];
    struct oxdp_sock_stats stats;
    uint8_t frame[64];

    for (uint32_t tag = 0; tag < 3 * FILL; tag++) {
        sandbox_make_frame(frame, sizeof frame, tag);
        assert_int_equal(send(port->peer, frame, sizeof frame, 0), sizeof frame);
    }
    receive(port, descs, FILL);
    oxdp_sock_get_stats(port->sock, &stats);
    assert_int_equal(stats.rx_fill_empty, 2 * FILL);
    for (uint32_t i = 0; i < FILL; i++) {
        put(sw, &descs[i]);
    }

    for (uint32_t tag = 0; tag < 2 * FILL; tag++) {
        sandbox_make_frame(frame, sizeof frame, tag);
        assert_int_equal(send(port->peer, frame, sizeof frame, 0), sizeof frame);
    }
    for (uint32_t i = 0; i < 2 * FILL; i++) {
        receive(port, descs, 1);
        put(sw, &descs[0]);
    }
}

/* With no free frame the socket says that it is starved, and recovers as soon as there are frames again. */
static void test_starved(void **state)
{
    struct switch_ *sw = *state;
    struct port *port = &sw->ports[0];
    struct oxdp_desc descs[FILL];
    uint64_t addrs[N_FRAMES];
    uint32_t n_taken = oxdp_umem_get(sw->umem, addrs, N_FRAMES);
    uint8_t frame[64];

    assert_int_equal(n_taken, N_FRAMES - 2 * FILL);
    sandbox_make_frame(frame, sizeof frame, 1);
    for (uint32_t i = 0; i < FILL; i++) {
        assert_false(oxdp_sock_starved(port->sock));
        assert_int_equal(send(port->peer, frame, sizeof frame, 0), sizeof frame);
        receive(port, &descs[i], 1);
    }
    assert_true(oxdp_sock_starved(port->sock));
    assert_int_equal(oxdp_umem_n_free(sw->umem), 0);
    oxdp_umem_put(sw->umem, addrs, n_taken);
    assert_int_equal(oxdp_sock_rx(port->sock, descs, 0), 0);
    assert_false(oxdp_sock_starved(port->sock));
    for (uint32_t i = 0; i < FILL; i++) {
        put(sw, &descs[i]);
    }
    assert_int_equal(send(port->peer, frame, sizeof frame, 0), sizeof frame);
    receive(port, descs, 1);
    put(sw, &descs[0]);
}

/* A device that is down: nothing blocks, packets are counted as dropped; up again, it sends. */
static void test_down(void **state)
{
    struct switch_ *sw = *state;
    struct port *port = &sw->ports[0];
    struct oxdp_sock_stats stats;
    struct oxdp_desc desc;
    uint8_t got[200];

    sandbox_run("ip link set p0 down");
    for (int i = 0; i < 10; i++) {
        assert_int_equal(oxdp_umem_get(sw->umem, &desc.addr, 1), 1);
        desc.len = 64;
        sandbox_make_frame(at(sw, &desc), desc.len, i);
        oxdp_sock_tx(port->sock, &desc, 1);
    }
    oxdp_sock_get_stats(port->sock, &stats);
    assert_int_equal(stats.tx_dropped, 9);

    sandbox_run("ip link set p0 up");
    assert_int_equal(oxdp_umem_get(sw->umem, &desc.addr, 1), 1);
    sandbox_make_frame(at(sw, &desc), desc.len, 99);
    assert_int_equal(oxdp_sock_tx(port->sock, &desc, 1), 1);
    for (uint32_t tag = 0; tag != 99; ) {
        assert_true(sandbox_wait(port->peer, WAIT_MS));
        assert_int_equal(recv(port->peer, got, sizeof got, 0), 64);
        memcpy(&tag, got + 14, sizeof tag);
    }
}

/* The device disappears under an open socket; the other port, and new ports, work on.  The removed one was
 * the first: the one whose registration the others share. */
static void test_device_removed(void **state)
{
    struct switch_ *sw = *state;
    struct port *first = &sw->ports[0];
    uint8_t frame[64];
    struct oxdp_desc descs[32];
    uint64_t addrs[32];

    sandbox_run("ip link del p0");
    assert_int_equal(oxdp_umem_get(sw->umem, addrs, 32), 32);
    for (int i = 0; i < 32; i++) {
        descs[i] = (struct oxdp_desc) { .addr = addrs[i], .len = 64 };
        sandbox_make_frame(at(sw, &descs[i]), 64, i);
    }
    oxdp_sock_tx(first->sock, descs, 32);
    assert_int_equal(oxdp_sock_rx(first->sock, descs, 32), 0);
    close(first->peer);

    sandbox_run("ip link add p0 type veth peer name q0 && "
                "ip link set p0 up && ip link set q0 up");
    struct oxdp_sock *gone = first->sock;
    int gone_ifindex = first->dev.ifindex;

    open_port(sw, first, 0, true);
    first->peer = sandbox_packet_socket("q0");
    oxdp_progs_detach(sw->progs, gone_ifindex);
    oxdp_sock_close(gone);

    for (int i = 0; i < 2; i++) {
        sandbox_make_frame(frame, sizeof frame, i);
        assert_int_equal(send(sw->ports[i].peer, frame, sizeof frame, 0), sizeof frame);
        receive(&sw->ports[i], descs, 1);
        put(sw, &descs[0]);
    }
}

/* Closing gives the queue back at once, and frames in the receive ring too. */
static void test_reopen(void **state)
{
    struct switch_ *sw = *state;
    struct port *port = &sw->ports[0];
    uint8_t frame[64];
    struct oxdp_desc desc;

    for (int round = 0; round < 5; round++) {
        uint32_t n_free;

        sandbox_make_frame(frame, sizeof frame, round);
        assert_int_equal(send(port->peer, frame, sizeof frame, 0), sizeof frame);
        assert_int_equal(send(port->peer, frame, sizeof frame, 0), sizeof frame);
        receive(port, &desc, 1);
        put(sw, &desc);
        oxdp_progs_detach(sw->progs, port->dev.ifindex);
        oxdp_sock_close(port->sock);
        n_free = oxdp_umem_n_free(sw->umem);
        assert_int_equal(n_free, N_FRAMES - FILL);
        open_port(sw, port, 0, true);
    }
}

/* A packet that the caller still has when its socket closes stays the caller's. */
static void test_close_while_held(void **state)
{
    struct switch_ *sw = *state;
    struct port *port = &sw->ports[0];
    uint8_t frame[64];
    struct oxdp_desc desc;

    sandbox_make_frame(frame, sizeof frame, 7);
    assert_int_equal(send(port->peer, frame, sizeof frame, 0), sizeof frame);
    receive(port, &desc, 1);
    oxdp_progs_detach(sw->progs, port->dev.ifindex);
    oxdp_sock_close(port->sock);
    port->sock = NULL;
    assert_int_equal(oxdp_umem_n_free(sw->umem), N_FRAMES - FILL - 1);
    assert_memory_equal(at(sw, &desc) + DP_RECORD_LEN, frame, sizeof frame);
    desc.addr += DP_RECORD_LEN;
    desc.len -= DP_RECORD_LEN;
    assert_int_equal(oxdp_sock_tx(sw->ports[1].sock, &desc, 1), 1);
    assert_true(sandbox_wait(sw->ports[1].peer, WAIT_MS));
    assert_int_equal(recv(sw->ports[1].peer, frame, sizeof frame, 0), sizeof frame);
}

static void test_counters(void **state)
{
    struct switch_ *sw = *state;
    struct port *port = &sw->ports[0];
    uint64_t counters[DP_N_COUNTERS];
    uint8_t frame[64];

    /* A queue without a socket: the kernel takes a closed socket out of the XSKMAP. */
    oxdp_sock_close(port->sock);
    port->sock = NULL;
    sandbox_make_frame(frame, sizeof frame, 1);
    assert_int_equal(send(port->peer, frame, sizeof frame, 0), sizeof frame);

    int64_t deadline = sandbox_now() + WAIT_MS;

    while (!counter(sw, port->dev.ifindex, DP_COUNTER_NO_SOCKET) && sandbox_now() < deadline) {
        continue;
    }
    assert_int_equal(counter(sw, port->dev.ifindex, DP_COUNTER_NO_SOCKET), 1);

    /* Attached anew, it counts anew. */
    oxdp_progs_detach(sw->progs, port->dev.ifindex);
    open_port(sw, port, 0, true);
    assert_int_equal(counter(sw, port->dev.ifindex, DP_COUNTER_NO_SOCKET), 0);
    assert_int_equal(oxdp_progs_get_counters(sw->progs, 999999, counters), -ENODEV);
    assert_int_equal(counter(sw, 0, DP_COUNTER_UNKNOWN_PORT), 0);
    for (int i = 0; i < DP_N_COUNTERS; i++) {
        assert_non_null(oxdp_counter_text(i));
    }
    assert_null(oxdp_counter_text(DP_N_COUNTERS));
}

/* Whoever comes second is told so, and who was first. */
static void test_busy(void **state)
{
    struct switch_ *sw = *state;
    struct port *port = &sw->ports[0];
    int fd = oxdp_sock_fd(port->sock);
    struct oxdp_progs *other;
    struct oxdp_umem *other_umem;
    struct oxdp_sock *sock;
    char *error = NULL;

    assert_int_equal(oxdp_progs_load(&(struct oxdp_progs_config) { .max_ports = 1, .max_sockets = 1 }, &other,
                                     &error), 0);
    assert_int_equal(oxdp_progs_attach(other, port->dev.ifindex, true, false, 1, &fd, 1, &error), -EBUSY);
    assert_non_null(strstr(error, "p0 is in use by XDP program 'oxdp_xdp'"));
    assert_non_null(strstr(error, "native mode"));
    free(error);
    assert_int_equal(oxdp_progs_attach(other, port->dev.ifindex, false, false, 1, &fd, 1, &error), -EBUSY);
    assert_non_null(strstr(error, "p0 is in use by"));
    free(error);
    assert_int_equal(oxdp_progs_attach(sw->progs, port->dev.ifindex, true, false, 1, &fd, 1, &error), -EBUSY);
    free(error);
    oxdp_progs_unload(other);

    assert_int_equal(oxdp_sock_open(sw->umem, port->dev.ifindex, 0, false, FILL, &sock), -EBUSY);
    assert_int_equal(oxdp_umem_create(64, &other_umem), 0);
    assert_int_equal(oxdp_sock_open(other_umem, port->dev.ifindex, 0, false, FILL, &sock),
                     -EBUSY);
    oxdp_umem_destroy(other_umem);
}

static void test_errors(void **state)
{
    struct switch_ *sw = *state;
    struct oxdp_sock *sock;
    struct oxdp_device dev;
    char *error = NULL;
    int fd;

    assert_int_equal(oxdp_umem_create(0, &(struct oxdp_umem *) { NULL }), -EINVAL);
    assert_int_equal(oxdp_device_get("nothere", &dev), -ENODEV);
    assert_int_equal(oxdp_device_get("a-name-that-is-too-long", &dev), -ENODEV);
    assert_int_equal(oxdp_sock_open(sw->umem, 999999, 0, false, FILL, &sock), -ENODEV);
    assert_int_equal(oxdp_sock_open(sw->umem, sw->ports[0].dev.ifindex, 99, false, FILL, &sock),
                     -EINVAL);

    sandbox_run("ip link add big mtu 9000 type veth peer name bigpeer mtu 9000");
    assert_int_equal(oxdp_device_get("big", &dev), 0);
    assert_int_equal(dev.mtu, 9000);
    assert_string_equal(dev.driver, "veth");
    assert_true(dev.local_stack);
    assert_int_equal(oxdp_sock_open(sw->umem, dev.ifindex, 0, true, FILL, &sock), -EOPNOTSUPP);
    assert_int_equal(oxdp_sock_open(sw->umem, dev.ifindex, 0, false, FILL, &sock), 0);
    fd = oxdp_sock_fd(sock);
    assert_int_equal(oxdp_progs_attach(sw->progs, dev.ifindex, true, false, 1, &fd, 1, &error), -ERANGE);
    assert_non_null(strstr(error, "MTU of big (9000)"));
    free(error);
    assert_int_equal(oxdp_progs_attach(sw->progs, dev.ifindex, true, false, 1, &fd, 0, &error), -EINVAL);
    free(error);
    assert_int_equal(oxdp_progs_attach(sw->progs, 999999, true, false, 1, &fd, 1, &error), -ENODEV);
    free(error);
    oxdp_sock_close(sock);

    assert_int_equal(oxdp_device_get("lo", &dev), 0);
    assert_int_equal(oxdp_sock_open(sw->umem, dev.ifindex, 0, false, FILL, &sock), 0);
    fd = oxdp_sock_fd(sock);
    assert_int_equal(oxdp_progs_attach(sw->progs, dev.ifindex, true, false, 1, &fd, 1, &error), -EOPNOTSUPP);
    assert_non_null(strstr(error, "no native XDP"));
    free(error);
    oxdp_sock_close(sock);
    sandbox_run("ip link del big");
}

/* Each queue has its socket; a queue without one is counted. */
static void test_queues(void **state)
{
    struct switch_ *sw = *state;
    struct oxdp_sock *socks[2];
    struct oxdp_device dev;
    char *error = NULL;
    int fds[2];

    sandbox_run("ip link add multi numrxqueues 3 numtxqueues 3 type veth "
                "peer name sender numrxqueues 3 numtxqueues 3 && "
                "ip link set multi up && ip link set sender up");
    assert_int_equal(oxdp_device_get("multi", &dev), 0);
    assert_int_equal(dev.n_rx_queues, 3);
    assert_int_equal(dev.n_tx_queues, 3);
    for (int q = 0; q < 2; q++) {
        assert_int_equal(oxdp_sock_open(sw->umem, dev.ifindex, q, false, FILL, &socks[q]), 0);
        fds[q] = oxdp_sock_fd(socks[q]);
    }
    if (oxdp_progs_attach(sw->progs, dev.ifindex, true, false, 5, fds, 2, &error)) {
        fail_msg("%s", error);
    }

    /* Another port's socket stands where that of the third queue would. */
    struct oxdp_device next_dev;
    struct oxdp_sock *next;

    sandbox_run("ip link add next type veth peer name nextpeer");
    assert_int_equal(oxdp_device_get("next", &next_dev), 0);
    assert_int_equal(oxdp_sock_open(sw->umem, next_dev.ifindex, 0, false, FILL, &next), 0);
    fds[0] = oxdp_sock_fd(next);
    assert_int_equal(oxdp_progs_attach(sw->progs, next_dev.ifindex, true, false, 6, fds, 1, &error), 0);

    /* The sender's queue follows from a hash of the addresses: send until all queues had one. */
    struct port queues[2] = { { .sock = socks[0] }, { .sock = socks[1] } };
    int64_t deadline = sandbox_now() + WAIT_MS;
    int sender = sandbox_packet_socket("sender");
    uint32_t got[2] = { 0, 0 }, sent = 0, lost = 0;

    while ((!got[0] || !got[1] || !lost) && sandbox_now() < deadline) {
        uint8_t frame[64];
        struct oxdp_desc desc;

        /* IPv4 with another source address each time. */
        sandbox_make_frame(frame, sizeof frame, ++sent);
        memcpy(frame + 12, "\x08\x00\x45\x00\x00\x32\x00\x00\x00\x00\x40\x11\x00\x00", 14);
        memcpy(frame + 26, &sent, sizeof sent);
        assert_int_equal(send(sender, frame, sizeof frame, 0), sizeof frame);
        do {
            for (int q = 0; q < 2; q++) {
                while (oxdp_sock_rx(queues[q].sock, &desc, 1)) {
                    got[q]++;
                    put(sw, &desc);
                }
            }
            lost = counter(sw, dev.ifindex, DP_COUNTER_NO_SOCKET);
        } while (got[0] + got[1] + lost < sent && sandbox_now() < deadline);
    }
    assert_true(got[0] && got[1] && lost);
    assert_int_equal(counter(sw, dev.ifindex, DP_COUNTER_UP_OFF), got[0] + got[1]);
    close(sender);
    oxdp_progs_detach(sw->progs, dev.ifindex);
    for (int q = 0; q < 2; q++) {
        oxdp_sock_close(socks[q]);
    }
    oxdp_progs_detach(sw->progs, next_dev.ifindex);
    oxdp_sock_close(next);
    sandbox_run("ip link del multi && ip link del next");

    /* More transmit queues at the other end than receive queues here. */
    sandbox_run("ip link add few numrxqueues 1 numtxqueues 1 type veth "
                "peer name many numrxqueues 2 numtxqueues 2");
    assert_int_equal(oxdp_device_get("few", &dev), 0);
    assert_int_equal(dev.n_rx_queues, 1);
    assert_int_equal(oxdp_sock_open(sw->umem, dev.ifindex, 0, false, FILL, &socks[0]), 0);
    fds[0] = oxdp_sock_fd(socks[0]);
    assert_int_equal(oxdp_progs_attach(sw->progs, dev.ifindex, true, false, 5, fds, 1, &error), -ENOSPC);
    assert_non_null(strstr(error, "few has 1 receive queue(s), fewer than its peer"));
    free(error);
    oxdp_sock_close(socks[0]);
    sandbox_run("ip link del few");
}

/* Many devices: ports whose entries collide work as well, and everything comes back. */
static void test_many(void **state)
{
    enum { N = 200 };
    struct oxdp_sock *socks[N];
    struct oxdp_device devs[N];
    struct switch_ sw = { NULL };
    char *error = NULL;

    assert_int_equal(oxdp_umem_create(N_FRAMES, &sw.umem), 0);
    assert_int_equal(oxdp_progs_load(&(struct oxdp_progs_config) { .max_ports = N, .max_sockets = N },
                                     &sw.progs, &error), 0);
    /* Always eight indexes that are equal in their low bits. */
    sandbox_run("for i in $(seq 0 %d); do "
                "echo link add m$i index $((10000 + 1024 * (i %% 8) + i / 8)) type veth peer name n$i; "
                "echo link set m$i up; echo link set n$i up; done | ip -batch -", N - 1);
    for (int i = 0; i < N; i++) {
        char name[IF_NAMESIZE];
        int fd;

        snprintf(name, sizeof name, "m%d", i);
        assert_int_equal(oxdp_device_get(name, &devs[i]), 0);
        assert_int_equal(oxdp_sock_open(sw.umem, devs[i].ifindex, 0, false, 4, &socks[i]), 0);
        fd = oxdp_sock_fd(socks[i]);
        assert_int_equal(oxdp_progs_attach(sw.progs, devs[i].ifindex, true, false, i, &fd, 1, &error), 0);
    }
    for (int i = 0; i < N; i++) {
        struct port port = { .sock = socks[i] };
        char peer[IF_NAMESIZE];
        uint8_t frame[64];
        struct oxdp_desc desc;
        struct dp_record record;

        snprintf(peer, sizeof peer, "n%d", i);
        port.peer = sandbox_packet_socket(peer);
        sandbox_make_frame(frame, sizeof frame, i);
        assert_int_equal(send(port.peer, frame, sizeof frame, 0), sizeof frame);
        receive(&port, &desc, 1);
        memcpy(&record, at(&sw, &desc), sizeof record);
        assert_int_equal(record.in_port, i);
        put(&sw, &desc);
        close(port.peer);
    }
    for (int i = 0; i < N; i++) {
        oxdp_progs_detach(sw.progs, devs[i].ifindex);
        oxdp_sock_close_later(socks[i]);
    }
    /* Opening waits until the queue is free, and no frame is lost. */
    for (int i = 0; i < N; i++) {
        assert_int_equal(oxdp_sock_open(sw.umem, devs[i].ifindex, 0, false, 4, &socks[i]), 0);
    }
    assert_int_equal(oxdp_umem_n_free(sw.umem), N_FRAMES - 4 * N);
    for (int i = 0; i < N; i++) {
        oxdp_sock_close_later(socks[i]);
    }
    oxdp_progs_unload(sw.progs);
    oxdp_umem_destroy(sw.umem);
    sandbox_run("for i in $(seq 0 %d); do echo link del m$i; done | ip -batch -", N - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_receive, start_native, stop),
        cmocka_unit_test_setup_teardown(test_send, start_native, stop),
        cmocka_unit_test_setup_teardown(test_send_queued, start_native, stop),
        cmocka_unit_test_setup_teardown(test_send_invalid, start_native, stop),
        cmocka_unit_test_setup_teardown(test_forward, start_native, stop),
        cmocka_unit_test_setup_teardown(test_burst, start_native, stop),
        cmocka_unit_test_setup_teardown(test_starved, start_native, stop),
        cmocka_unit_test_setup_teardown(test_down, start_native, stop),
        cmocka_unit_test_setup_teardown(test_device_removed, start_native, stop),
        cmocka_unit_test_setup_teardown(test_reopen, start_native, stop),
        cmocka_unit_test_setup_teardown(test_close_while_held, start_native, stop),
        cmocka_unit_test_setup_teardown(test_counters, start_native, stop),
        cmocka_unit_test_setup_teardown(test_busy, start_native, stop),
        cmocka_unit_test_setup_teardown(test_errors, start_native, stop),
        { "test_receive (generic)", test_receive, start_generic, stop, NULL },
        { "test_forward (generic)", test_forward, start_generic, stop, NULL },
        cmocka_unit_test_setup_teardown(test_queues, start_native, stop),
        cmocka_unit_test(test_many),
    };

    sandbox_enter();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
