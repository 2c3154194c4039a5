/* SPDX-License-Identifier: Apache-2.0 */
/* Packets through sockets, UMEM and XDP program together. */
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

#include "core/multi_buffer.h"
#include "dp/record.h"
#include "tests/bpf/switch.h"

/* Every frame reaches the engine with its port in the record and its bytes unchanged, whatever its length. */
static void test_receive(void **state)
{
    static const size_t lens[] = { 60, 64, 1000, 1514 };
    struct switch_ *sw = *state;

    for (int i = 0; i < 2; i++) {
        struct port *port = &sw->ports[i];

        for (uint32_t tag = 0; tag < 200; tag++) {
            size_t len = lens[tag % 4];
            uint8_t sent[2000];
            struct oxdp_desc desc = { .more = false };
            struct dp_record record;

            sandbox_make_frame(sent, len, tag);
            assert_int_equal(send(port->peer, sent, len, 0), len);
            receive(port, &desc, 1);
            assert_int_equal(desc.len, len + DP_RECORD_LEN);
            memcpy(&record, at(sw, &desc), sizeof record);
            assert_int_equal(record.in_port, PORT_NO(i));
            assert_int_equal(record.reason, DP_REASON_UP_OFF);
            assert_int_equal(record.passes, 0);
            assert_int_equal(record.flow, DP_NO_FLOW);
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
    struct oxdp_desc descs[N] = { { .more = false } };
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
    struct oxdp_desc descs[3] = { { .more = false } };
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
        struct oxdp_desc desc = { .more = false };

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
    struct oxdp_desc descs[FILL] = { { .more = false } };
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
    struct oxdp_desc descs[FILL] = { { .more = false } };
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
    struct oxdp_desc desc = { .more = false };
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
    struct oxdp_desc descs[32] = { { .more = false } };
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
    struct oxdp_desc desc = { .more = false };

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
    struct oxdp_desc desc = { .more = false };

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

/* The second process gets an error that names the first. */
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

/* The kernel frees a queue when it has dealt with what a closed socket sent there: a qdisc behind the veth keeps that.
 * It is no socket of another program, and only the first try waits. */
static void test_queue_not_freed(void **state)
{
    static const uint8_t unicast[] = { 2, 0, 0, 0, 0, 0x99 };
    struct switch_ *sw = *state;
    struct port *port = &sw->ports[0];
    struct oxdp_desc descs[4] = { { .more = false } };
    struct oxdp_sock *sock;
    uint64_t addrs[4];
    int64_t begin;
    int err;

    sandbox_run("ip link add keeping type bridge && ip link set keeping up && ip link set q0 master keeping && "
                "ip link add slow type veth peer name slowpeer && ip link set slow master keeping && "
                "ip link set slow up && ip link set slowpeer up && "
                "tc qdisc add dev slow root tbf rate 800bit burst 1600 limit 100000");
    assert_int_equal(oxdp_umem_get(sw->umem, addrs, 4), 4);
    for (int i = 0; i < 4; i++) {
        descs[i] = (struct oxdp_desc) { .addr = addrs[i], .len = 1500 };
        sandbox_make_frame(at(sw, &descs[i]), 1500, i);
        memcpy(at(sw, &descs[i]), unicast, sizeof unicast);
    }
    assert_int_equal(oxdp_sock_tx(port->sock, descs, 4), 4);
    oxdp_progs_detach(sw->progs, port->dev.ifindex);
    oxdp_sock_close(port->sock);

    assert_int_equal(oxdp_sock_open(sw->umem, port->dev.ifindex, 0, false, FILL, &sock), -EAGAIN);
    begin = sandbox_now();
    assert_int_equal(oxdp_sock_open(sw->umem, port->dev.ifindex, 0, false, FILL, &sock), -EAGAIN);
    assert_true(sandbox_now() - begin < 1000);

    sandbox_run("tc qdisc del dev slow root");
    do {
        err = oxdp_sock_open(sw->umem, port->dev.ifindex, 0, false, FILL, &port->sock);
    } while (err == -EAGAIN && sandbox_now() - begin < 10 * WAIT_MS);
    assert_int_equal(err, 0);
    sandbox_run("ip link del slow && ip link del keeping");
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
    if (oxdp_has_multi_buffer()) {
        assert_int_equal(oxdp_progs_attach(sw->progs, dev.ifindex, true, false, 1, &fd, 1, &error), 0);
        oxdp_progs_detach(sw->progs, dev.ifindex);
    } else {
        assert_int_equal(oxdp_progs_attach(sw->progs, dev.ifindex, true, false, 1, &fd, 1, &error), -ERANGE);
        assert_non_null(strstr(error, "MTU of big (9000)"));
        free(error);
    }
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
        cmocka_unit_test_setup_teardown(test_queue_not_freed, start_native, stop),
        cmocka_unit_test_setup_teardown(test_errors, start_native, stop),
        { "test_receive (generic)", test_receive, start_generic, stop, NULL },
        { "test_forward (generic)", test_forward, start_generic, stop, NULL },
    };

    sandbox_enter();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
