/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into the daemon: appends to the file that INTERVALS names, for each time that the main thread did not wait
 * in poll(), a line with the milliseconds that passed and those of them in which the thread ran, if 10 passed. */
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

static void note(int64_t passed, int64_t ran)
{
    int fd = open(getenv("INTERVALS"), O_WRONLY | O_CREAT | O_APPEND, 0644);

    if (fd >= 0) {
        dprintf(fd, "%lld %lld\n", (long long) passed, (long long) ran);
        close(fd);
    }
}

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
    const struct timespec most = { timeout / 1000, timeout % 1000 * 1000000L };
    static int64_t since, ran_since;
    int is_main = getpid() == gettid(), found;
    int64_t passed = is_main && since ? now_ms(CLOCK_MONOTONIC) - since : 0;

    if (passed >= 10 && getenv("INTERVALS")) {
        note(passed, now_ms(CLOCK_THREAD_CPUTIME_ID) - ran_since);
    }
    found = syscall(SYS_ppoll, fds, n, timeout < 0 ? NULL : &most, NULL, 0);     /* arm64 has no other. */
    if (is_main) {
        since = now_ms(CLOCK_MONOTONIC);
        ran_since = now_ms(CLOCK_THREAD_CPUTIME_ID);
    }
    return found;
}
