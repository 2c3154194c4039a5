/* SPDX-License-Identifier: Apache-2.0 */
/* Many queues, and many devices, on one UMEM. */
#include <errno.h>
#include <string.h>

#include "dp/record.h"
#include "tests/bpf/switch.h"

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
        struct oxdp_desc desc = { .more = false };

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

    /* More transmit queues on the peer than receive queues here. */
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
        struct oxdp_desc desc = { .more = false };
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
        cmocka_unit_test_setup_teardown(test_queues, start_native, stop),
        cmocka_unit_test(test_many),
    };

    sandbox_enter();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
