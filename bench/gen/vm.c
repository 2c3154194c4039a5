/* SPDX-License-Identifier: Apache-2.0 */
/* bench-traffic vm: two taps and a process that copies frames from each to the other, in place of a virtual
 * machine with two interfaces that forwards between them. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "traffic.h"

#define BURST 64                    /* Frames from one tap before the other's turn. */

/* Returns a file descriptor of the new tap 'name', or -1 after having said why not. */
static int make_tap(const char *name)
{
    struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (fd >= 0 && !ioctl(fd, TUNSETIFF, &request))
        return fd;
    fprintf(stderr, "bench-traffic: cannot make the tap %s: %s\n", name, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Copies up to BURST frames; frames that the receiver does not take are lost, as on a wire. */
static void copy(int from, int to)
{
    char frame[BENCH_FRAME_MAX + 4];

    for (int i = 0; i < BURST; i++) {
        ssize_t n = read(from, frame, sizeof(frame));

        if (n <= 0 || (write(to, frame, n) < 0 && errno != EAGAIN))
            return;
    }
}

int bench_run_vm(const struct bench_options *options)
{
    struct pollfd wait[3] = { { .fd = STDIN_FILENO, .events = POLLIN } };

    if (!options->dev || !options->to) {
        fprintf(stderr, "bench-traffic: vm needs --dev and --to\n");
        return 2;
    }
    for (int i = 1; i <= 2; i++) {
        wait[i].events = POLLIN;
        wait[i].fd = make_tap(i == 1 ? options->dev : options->to);
        if (wait[i].fd < 0)
            return 1;
    }
    puts("{}");
    fflush(stdout);
    while (poll(wait, 3, -1) > 0 && !wait[0].revents) {
        if (wait[1].revents)
            copy(wait[1].fd, wait[2].fd);
        if (wait[2].revents)
            copy(wait[2].fd, wait[1].fd);
    }
    return 0;
}
