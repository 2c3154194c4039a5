/* SPDX-License-Identifier: Apache-2.0 */
/* bench-traffic ping, echo and serve: request and response over UDP or TCP, as applications see a network. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "traffic.h"

#define ECHO_PORT 7                 /* RFC 862. */
#define ANSWER_LIMIT 1000           /* Milliseconds until a request counts as lost. */
#define MAX_SAMPLES 1000000

static int open_socket(const struct bench_options *, int type,
                       int (*attach)(int, const struct sockaddr *, socklen_t));
static void answer_connection(int listener);
static int64_t ask(int sock, uint32_t number);
static void print_percentiles(uint32_t *samples, size_t n, unsigned int lost);

int bench_run_echo(const struct bench_options *options)
{
    int sock = bench_move_to_cpu(options->cpu) ? -1 : open_socket(options, SOCK_DGRAM, bind);
    struct pollfd wait[] = { { .fd = sock, .events = POLLIN }, { .fd = STDIN_FILENO, .events = POLLIN } };
    char data[2048];

    if (sock < 0)
        return 1;
    puts("{}");
    fflush(stdout);
    while (poll(wait, 2, -1) > 0 && !wait[1].revents) {
        struct sockaddr_in from;
        socklen_t from_len = sizeof(from);
        ssize_t n = recvfrom(sock, data, sizeof(data), 0, (struct sockaddr *)&from, &from_len);

        if (n >= 0)
            sendto(sock, data, n, 0, (struct sockaddr *)&from, from_len);
    }
    close(sock);
    return 0;
}

int bench_run_serve(const struct bench_options *options)
{
    int sock = bench_move_to_cpu(options->cpu) ? -1 : open_socket(options, SOCK_STREAM, bind);
    struct pollfd wait[] = { { .fd = sock, .events = POLLIN }, { .fd = STDIN_FILENO, .events = POLLIN } };

    if (sock < 0)
        return 1;
    if (listen(sock, 128)) {
        fprintf(stderr, "bench-traffic: cannot listen: %s\n", strerror(errno));
        close(sock);
        return 1;
    }
    puts("{}");
    fflush(stdout);
    while (poll(wait, 2, -1) > 0 && !wait[1].revents)
        answer_connection(sock);
    close(sock);
    return 0;
}

/* Sends back what the next connection sends, until the client closes it. */
static void answer_connection(int listener)
{
    int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC), one = 1;
    char data[2048];
    ssize_t n;

    if (sock < 0)
        return;
    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    while ((n = recv(sock, data, sizeof(data), 0)) > 0) {
        if (send(sock, data, n, MSG_NOSIGNAL) != n)
            break;
    }
    close(sock);
}

int bench_run_ping(const struct bench_options *options)
{
    uint32_t *samples = malloc(MAX_SAMPLES * sizeof(*samples)), number = 0;
    uint64_t end = bench_now() + options->seconds * 1e9;
    unsigned int lost = 0;
    size_t n = 0;
    int sock = -1;

    if (!samples || bench_move_to_cpu(options->cpu)) {
        free(samples);
        return 1;
    }
    while (bench_now() < end && n < MAX_SAMPLES) {
        uint64_t start = bench_now();
        int64_t took;

        if (sock < 0) {
            sock = open_socket(options, options->tcp ? SOCK_STREAM : SOCK_DGRAM, connect);
            if (sock < 0)
                break;
        }
        took = ask(sock, number++);
        if (took >= 0 && options->tcp && options->new_flows)
            took = bench_now() - start;         /* With the time that connecting takes. */
        if (took < 0)
            lost++;
        else
            samples[n++] = took;
        if (options->new_flows) {
            close(sock);
            sock = -1;
        }
    }
    print_percentiles(samples, n, lost);
    free(samples);
    if (sock >= 0)
        close(sock);
    return 0;
}

/* Returns a socket bound or connected to --address, or -1 after having said why not. */
static int open_socket(const struct bench_options *options, int type,
                       int (*attach)(int, const struct sockaddr *, socklen_t))
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr = options->address, .sin_port = htons(ECHO_PORT)
    };
    int sock = socket(AF_INET, type | SOCK_CLOEXEC, 0), one = 1;

    if (sock >= 0 && type == SOCK_STREAM)
        setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (sock < 0 || attach(sock, (struct sockaddr *)&address, sizeof(address))) {
        fprintf(stderr, "bench-traffic: socket: %s\n", strerror(errno));
        if (sock >= 0)
            close(sock);
        return -1;
    }
    return sock;
}

/* Returns the nanoseconds until request 'number' was answered, or -1 if it was not. */
static int64_t ask(int sock, uint32_t number)
{
    struct pollfd wait = { .fd = sock, .events = POLLIN };
    uint64_t start = bench_now();
    uint32_t answer;

    if (send(sock, &number, sizeof(number), MSG_NOSIGNAL) != sizeof(number))
        return -1;
    while (poll(&wait, 1, ANSWER_LIMIT) > 0) {
        if (recv(sock, &answer, sizeof(answer), 0) == sizeof(answer) && answer == number)
            return bench_now() - start;
    }
    return -1;
}

static int compare(const void *a_, const void *b_)
{
    uint32_t a = *(const uint32_t *)a_, b = *(const uint32_t *)b_;

    return (a > b) - (a < b);
}

static void print_percentiles(uint32_t *samples, size_t n, unsigned int lost)
{
    qsort(samples, n, sizeof(*samples), compare);
    printf("{\"answers\": %zu, \"lost\": %u", n, lost);
    if (n) {
        printf(", \"min\": %u, \"p50\": %u, \"p99\": %u, \"p999\": %u, \"max\": %u", samples[0],
               samples[n / 2], samples[n * 99 / 100], samples[n * 999 / 1000], samples[n - 1]);
    }
    puts("}");
}
