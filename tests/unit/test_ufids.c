/* SPDX-License-Identifier: Apache-2.0 */
/* ovs/lookup/ufids.h against an array. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ovs/lookup/flow_table.h"
#include "random.h"

#define N 3000

/* Half of the identifiers are those that a person would choose, some have the
 * same half. */
static ovs_u128
identifier(size_t i)
{
    ovs_u128 ufid = { .u64 = { .lo = i % 3 ? i / 4 : 0, .hi = i } };

    if (i % 2) {
        random_bytes(&ufid.u64.lo, sizeof ufid.u64.lo);
    }
    return ufid;
}

/* Looks for all of 'flows', of which those 'inside' are to be found. */
static void
check(const struct dpif_xdp_ufids *ufids, struct dpif_xdp_flow *flows,
      const bool inside[])
{
    size_t n = 0;

    for (size_t i = 0; i < N; i++) {
        struct dpif_xdp_flow *found = dpif_xdp_ufids_find(ufids,
                                                          &flows[i].ufid);

        assert_ptr_equal(found, inside[i] ? &flows[i] : NULL);
        n += inside[i];
    }
    assert_int_equal(ufids->n, n);
}

static void
test_changes(void **state)
{
    struct dpif_xdp_flow *flows = xcalloc(N, sizeof *flows);
    bool *inside = xcalloc(N, sizeof *inside);
    struct dpif_xdp_ufids ufids;

    random_set_seed(11);
    dpif_xdp_ufids_init(&ufids);
    for (size_t i = 0; i < N; i++) {
        flows[i].ufid = identifier(i);
    }

    /* First most changes insert, then most remove, until none is left. */
    for (uint32_t round = 0; round < 100; round++) {
        for (size_t i = 0; i < N; i++) {
            bool insert = random_uint32() % 100 >= round;

            if (random_uint32() % 8 || insert == inside[i]) {
                continue;
            }
            if (insert) {
                dpif_xdp_ufids_insert(&ufids, &flows[i]);
            } else {
                dpif_xdp_ufids_remove(&ufids, &flows[i]);
            }
            inside[i] = insert;
        }
        check(&ufids, flows, inside);
    }
    for (size_t i = 0; i < N; i++) {
        if (inside[i]) {
            dpif_xdp_ufids_remove(&ufids, &flows[i]);
            inside[i] = false;
        }
    }
    check(&ufids, flows, inside);
    assert_true(ufids.mask < 128);

    dpif_xdp_ufids_destroy(&ufids);
    free(inside);
    free(flows);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
