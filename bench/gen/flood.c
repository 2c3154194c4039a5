/* SPDX-License-Identifier: Apache-2.0 */
/* bench-traffic flood and drain: small datagrams from socket to socket, as many as an application can send. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "traffic.h"

#define DISCARD_PORT 9              /* RFC 863. */
#define HEADERS 42                  /* Ethernet, IPv4, UDP. */
#define BATCH 64                    /* Datagrams per system call. */
#define MAX_PAYLOAD 2048
#define PAUSE 100000                /* Nanoseconds between looks at the receiving socket: waking it up for each
                                     * datagram would cost more than what is measured. */
#define RECEIVE_BUFFER (8 << 20)    /* What comes meanwhile fits. */

static int udp_socket(const struct bench_options *, int (*attach)(int, const struct sockaddr *, socklen_t));
static void prepare(struct mmsghdr messages[BATCH], struct iovec parts[BATCH], char *data, size_t size, size_t step);

int bench_run_flood(const struct bench_options *options)
{
    uint64_t start, now, end, sent = 0;
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    char data[MAX_PAYLOAD] = { 0 };
    int sock;

    if (options->size > MAX_PAYLOAD || bench_move_to_cpu(options->cpu)
        || (sock = udp_socket(options, connect)) < 0)
        return 1;
    prepare(messages, parts, data, options->size - HEADERS, 0);
    start = now = bench_now();
    end = start + options->seconds * 1e9;
    for (; now < end; now = bench_now()) {
        int n = sendmmsg(sock, messages, BATCH, 0);

        if (n > 0)
            sent += n;
        else if (errno != ENOBUFS && errno != ECONNREFUSED) {
            fprintf(stderr, "bench-traffic: cannot send: %s\n", strerror(errno));
            close(sock);
            return 1;
        }
    }
    printf("{\"sent\": %llu, \"seconds\": %.6f}\n", (unsigned long long)sent, (now - start) / 1e9);
    close(sock);
    return 0;
}

int bench_run_drain(const struct bench_options *options)
{
    static char data[BATCH * MAX_PAYLOAD];
    int sock = bench_move_to_cpu(options->cpu) ? -1 : udp_socket(options, bind);
    const struct timespec pause = { .tv_nsec = PAUSE };
    struct pollfd asked = { .fd = STDIN_FILENO, .events = POLLIN };
    int buffer = RECEIVE_BUFFER;
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    uint64_t packets = 0;
    char line[16];

    if (sock < 0)
        return 1;
    if (setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer)))
        fprintf(stderr, "bench-traffic: small receive buffer: %s\n", strerror(errno));
    prctl(PR_SET_TIMERSLACK, 1);
    prepare(messages, parts, data, MAX_PAYLOAD, MAX_PAYLOAD);
    puts("{}");
    fflush(stdout);
    for (;;) {
        int n = recvmmsg(sock, messages, BATCH, MSG_DONTWAIT, NULL);

        packets += n > 0 ? n : 0;
        if (n < BATCH)
            nanosleep(&pause, NULL);
        if (poll(&asked, 1, 0) <= 0)
            continue;
        if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
            break;
        printf("{\"ns\": %llu, \"packets\": %llu}\n", (unsigned long long)bench_now(), (unsigned long long)packets);
        fflush(stdout);
    }
    close(sock);
    return 0;
}

/* Returns a UDP socket bound or connected to --address, or -1 after having said why not. */
static int udp_socket(const struct bench_options *options, int (*attach)(int, const struct sockaddr *, socklen_t))
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr = options->address, .sin_port = htons(DISCARD_PORT)
    };
    int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (sock < 0 || attach(sock, (struct sockaddr *)&address, sizeof(address))) {
        fprintf(stderr, "bench-traffic: UDP socket: %s\n", strerror(errno));
        if (sock >= 0)
            close(sock);
        return -1;
    }
    return sock;
}

/* One part per message, of 'size' bytes; the next one's bytes are 'step' further. */
static void prepare(struct mmsghdr messages[BATCH], struct iovec parts[BATCH], char *data, size_t size, size_t step)
{
    memset(messages, 0, BATCH * sizeof(*messages));
    for (size_t i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec) { .iov_base = data + i * step, .iov_len = size };
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
}
