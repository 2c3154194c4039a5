/* SPDX-License-Identifier: Apache-2.0 */
/* bench-traffic busy: what is left for a user process, counted by the process itself.  (CPU time is no good
 * measure: the kernel books interrupts on the process that they interrupt.) */
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "traffic.h"

/* One round is about a microsecond: nothing but arithmetic in registers. */
static uint32_t work(uint32_t x)
{
    for (int i = 0; i < 1000; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    return x;
}

int bench_run_busy(const struct bench_options *options)
{
    struct pollfd wait = { .fd = STDIN_FILENO, .events = POLLIN };
    uint64_t rounds = 0;
    volatile uint32_t x = 1;
    struct timespec used;
    char line[16];

    if (bench_move_to_cpu(options->cpu))
        return 1;
    setpriority(PRIO_PROCESS, 0, 19);       /* It takes what others leave. */
    puts("{}");
    fflush(stdout);
    for (;;) {
        x = work(x);
        rounds++;
        if (rounds % 64 == 0 && poll(&wait, 1, 0) > 0) {
            if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
                return 0;
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
            printf("{\"ns\": %llu, \"cpu_ns\": %llu, \"rounds\": %llu}\n", (unsigned long long)bench_now(),
                   used.tv_sec * 1000000000ull + used.tv_nsec, (unsigned long long)rounds);
            fflush(stdout);
        }
    }
}
