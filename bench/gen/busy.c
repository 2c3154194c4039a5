/* SPDX-License-Identifier: Apache-2.0 */
/* bench-traffic busy: what is left for a user process, counted by the process itself.  (CPU time is no good
 * measure: the kernel books interrupts on the process that they interrupt.)  The count is in a shared file, so that
 * it can be read also when the process does not run. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "traffic.h"

#define LESS_IMPORTANT 15           /* Nice value more than the others': it takes what they leave. */

/* One round is some microseconds: nothing but arithmetic in registers. */
static uint32_t work(uint32_t x)
{
    for (int i = 0; i < 1000; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    return x;
}

/* Returns the count that others can see in the new file 'name', or NULL. */
static volatile uint64_t *make_count(const char *name)
{
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    void *count = MAP_FAILED;

    if (fd >= 0 && !ftruncate(fd, sizeof(uint64_t)))
        count = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return count == MAP_FAILED ? NULL : count;
}

int bench_run_busy(const struct bench_options *options)
{
    volatile uint64_t *count = options->file ? make_count(options->file) : NULL;
    volatile uint32_t x = 1;

    if (!count) {
        fprintf(stderr, "bench-traffic: busy needs --file, which can be written: %s\n", strerror(errno));
        return 1;
    }
    if (bench_move_to_cpu(options->cpu))
        return 1;
    errno = 0;
    if (nice(LESS_IMPORTANT) == -1 && errno)
        return 1;
    puts("{}");
    fflush(stdout);
    for (;;) {
        x = work(x);
        ++*count;
    }
}
