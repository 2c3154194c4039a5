/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bpf/sandbox.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <setjmp.h>
#include <cmocka.h>

void sandbox_enter(void)
{
    if (unshare(CLONE_NEWNET)) {
        printf("skipped: no network namespace of its own (%s): run as root\n", strerror(errno));
        exit(77);
    }

    /* No frames but the test's: without IPv6 there are no router solicitations. */
    FILE *ipv6 = fopen("/proc/sys/net/ipv6/conf/default/disable_ipv6", "we");

    if (ipv6) {
        fputs("1", ipv6);
        fclose(ipv6);
    }
    if (system("ip link set lo up")) {
        printf("skipped: \"ip link set lo up\" fails: install iproute2\n");
        exit(77);
    }
}

void sandbox_run(const char *format, ...)
{
    char command[512];
    va_list args;

    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    if (system(command)) {
        fail_msg("failed: %s", command);
    }
}

int sandbox_packet_socket(const char *ifname)
{
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET,
        .sll_protocol = htons(ETH_P_ALL),
        .sll_ifindex = if_nametoindex(ifname),
    };
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

    int buffer = 8 << 20;

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer), 0);
    assert_int_equal(bind(fd, (struct sockaddr *) &address, sizeof address), 0);
    return fd;
}

bool sandbox_wait(int fd, int ms)
{
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

    return poll(&poll_fd, 1, ms) == 1 && poll_fd.revents & POLLIN;
}

int64_t sandbox_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

void sandbox_make_frame(uint8_t *frame, size_t len, uint32_t tag)
{
    memset(frame, 0xff, ETH_ALEN);
    memcpy(frame + ETH_ALEN, "\x02\x00\x00\x00\x00\x01", ETH_ALEN);
    memcpy(frame + 2 * ETH_ALEN, "\x88\xb5", 2);
    for (size_t i = ETH_HLEN; i < len; i++) {
        frame[i] = tag + i;
    }
    memcpy(frame + ETH_HLEN, &tag, sizeof tag);
}
