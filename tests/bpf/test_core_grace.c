/* SPDX-License-Identifier: Apache-2.0 */
/* oxdp_grace() waits for programs that run on hooks, and for nothing else for long: live frames run one, in the way
 * in which drivers do, on another CPU if there is one. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <unistd.h>

#include "core/kernel/grace.h"
#include "tests/bpf/slow.skel.h"

#define MIN_RUNS 5000           /* As long as it takes for both. */
#define MIN_CHANGES 500

struct traffic {
    int prog_fd;
    atomic_bool stop;
    int error;
};

/* In bursts, so that CPUs are found in programs, out of them, and idle. */
static void *run_traffic(void *traffic_)
{
    struct traffic *t = traffic_;
    uint8_t frame[60] = { 2 };
    unsigned int n = 0;

    while (!t->stop && !t->error) {
        LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame, .data_size_in = sizeof frame, .repeat = 64,
                    .flags = BPF_F_TEST_XDP_LIVE_FRAMES, .batch_size = 16);

        t->error = bpf_prog_test_run_opts(t->prog_fd, &opts);
        if (++n % 4 == 0) {
            usleep(n % 64);
        }
    }
    return NULL;
}

/* What was changed before a wait, no run misses that counts after it. */
static void test_no_run_is_left(void **state)
{
    struct slow_bpf *skel = slow_bpf__open_and_load();
    struct traffic traffic = { .prog_fd = -1 };
    pthread_t thread;
    uint64_t n = 0;

    (void) state;
    assert_non_null(skel);
    traffic.prog_fd = bpf_program__fd(skel->progs.slow);
    assert_int_equal(pthread_create(&thread, NULL, run_traffic, &traffic), 0);
    while (n < MIN_CHANGES || (__atomic_load_n(&skel->bss->runs, __ATOMIC_RELAXED) < MIN_RUNS && !traffic.error)) {
        __atomic_store_n(&skel->bss->changes, ++n, __ATOMIC_RELEASE);
        oxdp_grace(NULL);
        __atomic_store_n(&skel->bss->settled, n, __ATOMIC_RELEASE);
    }
    traffic.stop = true;
    pthread_join(thread, NULL);
    assert_int_equal(traffic.error, 0);
    assert_int_equal(skel->bss->late, 0);
    slow_bpf__destroy(skel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_run_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
