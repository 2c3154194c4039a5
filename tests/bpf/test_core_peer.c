/* SPDX-License-Identifier: Apache-2.0 */
/* CHECKSUM_PARTIAL and GSO of a container's stack, and how it gets finished:
 *
 *     [ namespace of a child process ]            [ namespace of the test ]
 *       UDP, TCP, SCTP, VLAN --- q0 ------------- p0 [XDP] --- AF_XDP: the test
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <cmocka.h>

#include "core/checksum.h"
#include "core/kernel/device.h"
#include "core/programs/progs.h"
#include "core/xsk/sock.h"
#include "core/xsk/umem.h"
#include "dp/record.h"
#include "tests/bpf/sandbox.h"

#define N_FRAMES 256u
#define WAIT_MS 3000

struct world {
    pid_t container;            /* Holds the peer's namespace; 0 if a mount does. */
    char ns[64];                /* Path of that namespace. */
    struct oxdp_umem *umem;
    struct oxdp_progs *progs;
    struct oxdp_device dev;
    struct oxdp_sock *sock;
    uint8_t frame[OXDP_FRAME_SIZE];         /* Received last, without the record. */
    size_t len;
};

/* A process in a network namespace of its own that ends with the test. */
static pid_t start_container(void)
{
    int ready[2];
    char byte;

    assert_int_equal(pipe(ready), 0);

    pid_t pid = fork();

    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!unshare(CLONE_NEWNET) && write(ready[1], "", 1) == 1) {
            pause();
        }
        _exit(1);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void stop_container(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

#define IN_NS "nsenter --net=%s "

static int start(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    char *error = NULL;
    int fd;

    *state = w;
    w->container = start_container();
    snprintf(w->ns, sizeof w->ns, "/proc/%d/ns/net", w->container);
    sandbox_run("ip link add p0 type veth peer name q0 netns %d && ip link set p0 up", w->container);
    sandbox_run(IN_NS "sh -c 'ip link set q0 address 02:00:00:00:00:02 up && "
                "ip addr add 10.9.0.2/24 dev q0 && "
                "ip neigh add 10.9.0.1 lladdr 02:00:00:00:00:01 dev q0'", w->ns);
    assert_int_equal(oxdp_device_get("p0", &w->dev), 0);
    assert_int_equal(oxdp_umem_create(N_FRAMES, &w->umem), 0);
    if (oxdp_progs_load(&(struct oxdp_progs_config) { .max_ports = 4, .max_sockets = 4 }, &w->progs,
                        &error)) {
        fail_msg("%s", error);
    }
    assert_int_equal(oxdp_sock_open(w->umem, w->dev.ifindex, 0, false, 64, &w->sock), 0);
    fd = oxdp_sock_fd(w->sock);
    if (oxdp_progs_attach(w->progs, w->dev.ifindex, true, false, 1, &fd, 1, &error)) {
        fail_msg("%s", error);
    }
    return 0;
}

static int stop(void **state)
{
    struct world *w = *state;

    oxdp_progs_unload(w->progs);
    oxdp_sock_close(w->sock);
    oxdp_umem_destroy(w->umem);
    sandbox_run("! ip link show dev p0 >/dev/null 2>&1 || ip link del p0");
    if (w->container) {
        stop_container(w->container);
    }
    free(w);
    return 0;
}

/* Sends one packet of 'type', 'protocol' from the container to port 'port' of the test; 0, or the errno. */
static int send_one(const struct world *w, int type, int protocol, const struct sockaddr *to, socklen_t len)
{
    int status;
    pid_t pid = fork();

    if (!pid) {
        int ns = open(w->ns, O_RDONLY);

        if (ns < 0 || setns(ns, CLONE_NEWNET)) {
            _exit(errno);
        }

        int fd = socket(to->sa_family, type | SOCK_NONBLOCK, protocol);

        if (fd < 0 || (connect(fd, to, len) && errno != EINPROGRESS)) {
            _exit(errno);
        }
        if (type == SOCK_DGRAM && send(fd, "hello", 5, 0) != 5) {
            _exit(errno);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static int send_ipv4(const struct world *w, int type, int protocol, const char *address)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(7) };

    inet_pton(AF_INET, address, &to.sin_addr);
    return send_one(w, type, protocol, (struct sockaddr *) &to, sizeof to);
}

static int send_ipv6(const struct world *w, int type, int protocol, const char *address)
{
    struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_port = htons(7) };

    inet_pton(AF_INET6, address, &to.sin6_addr);
    return send_one(w, type, protocol, (struct sockaddr *) &to, sizeof to);
}

/* Receives the next frame whose IP protocol is 'protocol' (IPv4 or IPv6, behind 'tags' VLAN tags). */
static void receive(struct world *w, int tags, uint8_t protocol)
{
    int64_t deadline = sandbox_now() + WAIT_MS;
    size_t ip = 14 + 4 * tags;

    while (sandbox_now() < deadline) {
        struct oxdp_desc desc = { .more = false };

        sandbox_wait(oxdp_sock_fd(w->sock), 100);
        if (!oxdp_sock_rx(w->sock, &desc, 1)) {
            continue;
        }
        w->len = desc.len - DP_RECORD_LEN;
        memcpy(w->frame, (uint8_t *) oxdp_umem_base(w->umem) + desc.addr + DP_RECORD_LEN, w->len);
        oxdp_umem_put(w->umem, &desc.addr, 1);
        if (w->len >= ip + 40 - 20 * (w->frame[ip] >> 4 == 4)
            && protocol == w->frame[w->frame[ip] >> 4 == 6 ? ip + 6 : ip + 9]) {
            return;
        }
    }
    fail_msg("no frame of protocol %d arrived", protocol);
}

/* True if the TCP or UDP checksum of the frame is right: everything adds up to ones (RFC 1071). */
static bool is_valid(const struct world *w, int tags)
{
    const uint8_t *ip = w->frame + 14 + 4 * tags;
    bool v6 = ip[0] >> 4 == 6;
    size_t header = v6 ? 40 : (ip[0] & 0xf) * 4;
    size_t len = v6 ? ip[4] << 8 | ip[5] : (ip[2] << 8 | ip[3]) - header;
    const uint8_t *addresses = v6 ? ip + 8 : ip + 12;
    uint32_t sum = (v6 ? ip[6] : ip[9]) + len;

    for (size_t i = 0; i < (v6 ? 32 : 8); i += 2) {
        sum += addresses[i] << 8 | addresses[i + 1];
    }
    for (size_t i = 0; i < len; i++) {
        sum += i % 2 ? ip[header + i] : ip[header + i] << 8;
    }
    while (sum >> 16) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum == 0xffff;
}

/* CHECKSUM_PARTIAL is recognised and completed. */
static void assert_completes(struct world *w, int tags, uint8_t protocol)
{
    receive(w, tags, protocol);
    assert_false(is_valid(w, tags));
    assert_true(oxdp_checksum_complete(w->frame, w->len));
    assert_true(is_valid(w, tags));
}

static void test_complete_ipv4(void **state)
{
    struct world *w = *state;

    assert_int_equal(send_ipv4(w, SOCK_DGRAM, 0, "10.9.0.1"), 0);
    assert_completes(w, 0, IPPROTO_UDP);
    assert_int_equal(send_ipv4(w, SOCK_STREAM, 0, "10.9.0.1"), 0);
    assert_completes(w, 0, IPPROTO_TCP);
}

static void test_complete_ipv6(void **state)
{
    struct world *w = *state;

    if (access("/proc/sys/net/ipv6", F_OK)) {
        print_message("skipped: the kernel has no IPv6\n");
        skip();
    }
    sandbox_run(IN_NS "sh -c 'echo 0 >/proc/sys/net/ipv6/conf/q0/disable_ipv6 && "
                "ip addr add fc00::2/64 dev q0 nodad && "
                "ip neigh add fc00::1 lladdr 02:00:00:00:00:01 dev q0'", w->ns);
    assert_int_equal(send_ipv6(w, SOCK_DGRAM, 0, "fc00::1"), 0);
    assert_completes(w, 0, IPPROTO_UDP);
    assert_int_equal(send_ipv6(w, SOCK_STREAM, 0, "fc00::1"), 0);
    assert_completes(w, 0, IPPROTO_TCP);
}

static void test_complete_sctp(void **state)
{
    struct world *w = *state;
    int fd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);

    if (fd < 0) {
        print_message("skipped: the kernel has no SCTP (%s)\n", strerror(errno));
        skip();
    }
    close(fd);
    assert_int_equal(send_ipv4(w, SOCK_STREAM, IPPROTO_SCTP, "10.9.0.1"), 0);
    receive(w, 0, IPPROTO_SCTP);

    /* The same INIT again, with the checksum that the kernel computes. */
    uint8_t unfinished[OXDP_FRAME_SIZE];
    struct oxdp_offload_undo *undo = NULL;

    memcpy(unfinished, w->frame, w->len);
    assert_true(oxdp_checksum_complete(w->frame, w->len));
    assert_false(oxdp_checksum_complete(w->frame, w->len));
    assert_int_equal(oxdp_offloads_off("p0", &undo), 0);
    assert_int_equal(send_ipv4(w, SOCK_STREAM, IPPROTO_SCTP, "10.9.0.1"), 0);
    receive(w, 0, IPPROTO_SCTP);

    uint8_t *field = w->frame + 14 + 20 + 8;
    uint8_t right[4];

    memcpy(right, field, 4);
    memset(field, 0, 4);
    assert_true(oxdp_checksum_complete(w->frame, w->len));
    assert_memory_equal(field, right, 4);
    oxdp_offloads_restore(undo);
}

static void test_vlan(void **state)
{
    struct world *w = *state;
    char command[256];
    struct oxdp_offload_undo *undo = NULL;

    snprintf(command, sizeof command, IN_NS "ip link add link q0 name q0.5 type vlan id 5 2>/dev/null",
             w->ns);
    if (system(command)) {
        print_message("skipped: the kernel has no VLAN devices (8021q)\n");
        skip();
    }
    sandbox_run(IN_NS "sh -c 'ip link set q0.5 up && ip addr add 10.8.0.2/24 dev q0.5 && "
                "ip neigh add 10.8.0.1 lladdr 02:00:00:00:00:01 dev q0.5'", w->ns);
    assert_int_equal(oxdp_offloads_off("p0", &undo), 0);
    assert_int_equal(send_ipv4(w, SOCK_DGRAM, 0, "10.8.0.1"), 0);
    receive(w, 1, IPPROTO_UDP);
    assert_memory_equal(w->frame + 12, "\x81\x00\x00\x05\x08\x00", 6);
    assert_true(is_valid(w, 1));
    oxdp_offloads_restore(undo);
}

/* Whether the container's packets arrive finished. */
static bool arrives_finished(struct world *w)
{
    assert_int_equal(send_ipv4(w, SOCK_DGRAM, 0, "10.9.0.1"), 0);
    receive(w, 0, IPPROTO_UDP);
    return is_valid(w, 0);
}

static void assert_off_and_on_again(struct world *w)
{
    struct oxdp_offload_undo *undo = NULL;

    assert_false(arrives_finished(w));
    assert_int_equal(oxdp_offloads_off("p0", &undo), 0);
    assert_true(arrives_finished(w));
    assert_false(oxdp_checksum_complete(w->frame, w->len));
    oxdp_offloads_restore(undo);
    assert_false(arrives_finished(w));
}

/* A container: a namespace that only a process keeps. */
static void test_peer_of_process(void **state)
{
    assert_off_and_on_again(*state);
}

/* "ip netns": a namespace that only a mount keeps. */
static void test_peer_of_mount(void **state)
{
    struct world *w = *state;
    char path[] = "/tmp/oxdp-test-netns-XXXXXX";

    assert_int_equal(unshare(CLONE_NEWNS), 0);
    assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    close(mkstemp(path));
    assert_int_equal(mount(w->ns, path, NULL, MS_BIND, NULL), 0);
    stop_container(w->container);
    w->container = 0;
    snprintf(w->ns, sizeof w->ns, "%s", path);
    assert_off_and_on_again(w);
    umount2(path, MNT_DETACH);
    unlink(path);
}

/* Many processes and namespaces beside the one that is looked for. */
static void test_peer_among_many(void **state)
{
    enum { N = 30 };
    pid_t others[N];

    for (int i = 0; i < N; i++) {
        others[i] = start_container();
    }
    assert_off_and_on_again(*state);
    for (int i = 0; i < N; i++) {
        stop_container(others[i]);
    }
}

/* Both ends in one namespace. */
static void test_peer_here(void **state)
{
    struct world *w = *state;

    sandbox_run(IN_NS "ip link set q0 netns %d && ip link set q0 up && ip addr add 10.9.0.2/24 dev q0 && "
                "ip neigh add 10.9.0.1 lladdr 02:00:00:00:00:01 dev q0", w->ns, getpid());
    snprintf(w->ns, sizeof w->ns, "/proc/%d/ns/net", getpid());
    assert_off_and_on_again(w);
}

static void test_peer_errors(void **state)
{
    struct world *w = *state;
    struct oxdp_offload_undo *undo = NULL;

    assert_int_equal(oxdp_offloads_off("nothere", &undo), -ENODEV);
    assert_null(undo);
    oxdp_offloads_restore(NULL);
    assert_int_equal(oxdp_offloads_off("lo", &undo), 0);
    oxdp_offloads_restore(undo);
    undo = NULL;

    /* The container is gone, and with it the pair, when it is time to restore. */
    assert_int_equal(oxdp_offloads_off("p0", &undo), 0);
    stop_container(w->container);
    w->container = 0;
    for (int64_t end = sandbox_now() + WAIT_MS; if_nametoindex("p0") && sandbox_now() < end; ) {
        continue;
    }
    assert_int_equal(if_nametoindex("p0"), 0);
    oxdp_offloads_restore(undo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_complete_ipv4, start, stop),
        cmocka_unit_test_setup_teardown(test_complete_ipv6, start, stop),
        cmocka_unit_test_setup_teardown(test_complete_sctp, start, stop),
        cmocka_unit_test_setup_teardown(test_vlan, start, stop),
        cmocka_unit_test_setup_teardown(test_peer_of_process, start, stop),
        cmocka_unit_test_setup_teardown(test_peer_among_many, start, stop),
        cmocka_unit_test_setup_teardown(test_peer_here, start, stop),
        cmocka_unit_test_setup_teardown(test_peer_errors, start, stop),
        cmocka_unit_test_setup_teardown(test_peer_of_mount, start, stop),
    };

    sandbox_enter();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
