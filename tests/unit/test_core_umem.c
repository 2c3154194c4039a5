/* SPDX-License-Identifier: Apache-2.0 */
/* The frame stack of a UMEM and who owns what, without the kernel's part. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>

#include "core/xsk/sock_private.h"
#include "core/xsk/umem_private.h"

#define N 1024u

static int register_result;

/* In the place of core/xsk/umem_register.c. */
int oxdp_umem_register(const struct oxdp_umem *umem)
{
    return register_result ? register_result : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int start(void **state)
{
    struct oxdp_umem *umem;

    register_result = 0;
    assert_int_equal(oxdp_umem_create(N, &umem), 0);
    *state = umem;
    return 0;
}

static int stop(void **state)
{
    assert_int_equal(oxdp_umem_n_free(*state), N);
    oxdp_umem_destroy(*state);
    return 0;
}

/* Each frame is handed out once, all of it is memory, and no more than there is. */
static void test_get_all(void **state)
{
    struct oxdp_umem *umem = *state;
    bool seen[N] = { false };
    uint64_t addrs[N + 1];

    assert_int_equal(oxdp_umem_n_frames(umem), N);
    assert_int_equal(oxdp_umem_get(umem, addrs, N + 1), N);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(addrs[i] % OXDP_FRAME_SIZE, 0);
        assert_true(addrs[i] / OXDP_FRAME_SIZE < N);
        assert_false(seen[addrs[i] / OXDP_FRAME_SIZE]);
        seen[addrs[i] / OXDP_FRAME_SIZE] = true;
        memset((uint8_t *) oxdp_umem_base(umem) + addrs[i], 0xa5, OXDP_FRAME_SIZE);
    }
    assert_int_equal(oxdp_umem_n_free(umem), 0);
    assert_int_equal(oxdp_umem_get(umem, addrs + N, 1), 0);
    oxdp_umem_put(umem, addrs, N);
}

/* Last in, first out, and an address inside the frame stands for the frame. */
static void test_lifo(void **state)
{
    struct oxdp_umem *umem = *state;
    uint64_t addrs[3], again[3];

    assert_int_equal(oxdp_umem_get(umem, addrs, 3), 3);
    for (int i = 0; i < 3; i++) {
        uint64_t inside = addrs[i] + 272 + i;

        oxdp_umem_put(umem, &inside, 1);
    }
    assert_int_equal(oxdp_umem_get(umem, again, 3), 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(again[i], addrs[2 - i]);
    }
    oxdp_umem_put(umem, again, 3);
}

/* A closed socket's frames come back, and only those. */
static void test_recover(void **state)
{
    struct oxdp_umem *umem = *state;
    uint64_t mine[10], sevens[20], eights[30];

    assert_int_equal(oxdp_umem_get(umem, mine, 10), 10);
    assert_int_equal(oxdp_umem_take(umem, 7, sevens, 20), 20);
    assert_int_equal(oxdp_umem_take(umem, 8, eights, 30), 30);
    oxdp_umem_set_owner(umem, sevens[0] + 300, OXDP_OWNER_CALLER);      /* Received from socket 7. */
    oxdp_umem_set_owner(umem, mine[0] + 300, 7);                        /* Sent through socket 7. */
    assert_int_equal(oxdp_umem_recover(umem, 7), 20);
    assert_int_equal(oxdp_umem_recover(umem, 7), 0);
    assert_int_equal(oxdp_umem_n_free(umem), N - 10 - 30);
    oxdp_umem_put(umem, mine + 1, 9);
    oxdp_umem_put(umem, sevens, 1);
    assert_int_equal(oxdp_umem_recover(umem, 8), 30);
}

static void *worker(void *umem_)
{
    struct oxdp_umem *umem = umem_;

    for (uint32_t round = 0; round < 20000; round++) {
        uint64_t addrs[32];
        uint32_t n = oxdp_umem_get(umem, addrs, 1 + round % 32);

        for (uint32_t i = 0; i < n; i++) {
            uint32_t *word = (uint32_t *) ((uint8_t *) oxdp_umem_base(umem) + addrs[i]);

            if (*word) {
                return umem;
            }
            *word = round + 1;
        }
        for (uint32_t i = 0; i < n; i++) {
            *(uint32_t *) ((uint8_t *) oxdp_umem_base(umem) + addrs[i]) = 0;
        }
        oxdp_umem_put(umem, addrs, n);
    }
    return NULL;
}

/* Two owners never have the same frame. */
static void test_threads(void **state)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, worker, *state), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *shared_frame;

        pthread_join(threads[i], &shared_frame);
        assert_null(shared_frame);
    }
}

static void test_errors(void **state)
{
    struct oxdp_umem *umem = (void *) 1;

    assert_int_equal(oxdp_umem_create(0, &umem), -EINVAL);
    register_result = -ENOBUFS;
    assert_int_equal(oxdp_umem_create(8, &umem), -ENOBUFS);
    assert_ptr_equal(umem, (void *) 1);
    oxdp_umem_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_get_all, start, stop),
        cmocka_unit_test_setup_teardown(test_lifo, start, stop),
        cmocka_unit_test_setup_teardown(test_recover, start, stop),
        cmocka_unit_test_setup_teardown(test_threads, start, stop),
        cmocka_unit_test(test_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
