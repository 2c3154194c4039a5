/* SPDX-License-Identifier: Apache-2.0 */
/* Numbered datagrams at a rate, and which of them do not arrive.  Both ends write their report when they get SIGTERM.
 *
 *     numbered send ADDRESS PORT PACKETS_A_SECOND      sent N
 *     numbered receive ADDRESS PORT                    received N, late N, twice N, overflow N
 *                                                      gap FIRST COUNT MS, of each: when it ended, by the monotonic
 *                                                      clock
 *
 * The receiver has room for a second of datagrams, so that it loses none itself: "overflow" is what it lost. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_DATAGRAMS (16u << 20)
#define ROOM (256 << 20)
#define TICK_NS 1000000

struct datagram {
    uint32_t number;
    uint32_t spare;
    uint64_t sent_ns;
    uint8_t filling[184];
};

static volatile sig_atomic_t ended;

static void on_term(int number)
{
    (void) number;
    ended = 1;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * UINT64_C(1000000000) + now.tv_nsec;
}

/* What is due leaves at each tick, and after a pause of this process what was due meanwhile. */
static int send_all(int fd, double rate)
{
    const struct timespec tick = { .tv_nsec = TICK_NS };
    struct datagram datagram = { 0 };
    uint64_t begin = now_ns();
    uint32_t n_failed = 0;

    while (!ended) {
        uint64_t now = now_ns();
        uint32_t due = (now - begin) * rate / 1e9;

        while (datagram.number < due && !ended) {
            datagram.sent_ns = now;
            n_failed += send(fd, &datagram, sizeof datagram, 0) < 0;
            datagram.number++;
        }
        nanosleep(&tick, NULL);
    }
    printf("sent %u, failed %u\n", datagram.number, n_failed);
    return 0;
}

static int receive_all(int fd)
{
    static uint8_t seen[MAX_DATAGRAMS];
    static uint64_t sent_ns[MAX_DATAGRAMS];
    uint32_t n = 0, n_late = 0, n_twice = 0, next = 0, overflow = 0, gap = 0;

    while (!ended) {
        char control[CMSG_SPACE(sizeof overflow)];
        struct datagram datagram;
        struct iovec iov = { &datagram, sizeof datagram };
        struct msghdr message = {
            .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control,
        };
        struct cmsghdr *cmsg;

        if (recvmsg(fd, &message, 0) != sizeof datagram || datagram.number >= MAX_DATAGRAMS) {
            continue;
        }
        cmsg = CMSG_FIRSTHDR(&message);
        if (cmsg && cmsg->cmsg_type == SO_RXQ_OVFL) {
            memcpy(&overflow, CMSG_DATA(cmsg), sizeof overflow);
        }
        n++;
        n_twice += seen[datagram.number];
        n_late += datagram.number < next;
        seen[datagram.number] = 1;
        sent_ns[datagram.number] = datagram.sent_ns;
        next = datagram.number >= next ? datagram.number + 1 : next;
    }
    printf("received %u, late %u, twice %u, overflow %u\n", n, n_late, n_twice, overflow);
    for (uint32_t i = 0; i < next; i++) {
        if (!seen[i]) {
            gap++;
        } else if (gap) {
            printf("gap %u %u %"PRIu64"\n", i - gap, gap, sent_ns[i] / 1000000);
            gap = 0;
        }
    }
    return 0;
}

int main(int argc, char *argv[])
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    const struct sigaction action = { .sa_handler = on_term };
    bool sends = argc == 5 && !strcmp(argv[1], "send");
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int room = ROOM, one = 1;

    if ((!sends && (argc != 4 || strcmp(argv[1], "receive"))) || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1
        || fd < 0) {
        return 2;
    }
    address.sin_port = htons(atoi(argv[3]));
    sigaction(SIGTERM, &action, NULL);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &one, sizeof one);
    if (sends ? connect(fd, (struct sockaddr *) &address, sizeof address)
        : bind(fd, (struct sockaddr *) &address, sizeof address)) {
        perror(argv[2]);
        return 1;
    }
    return sends ? send_all(fd, atof(argv[4])) : receive_all(fd);
}
