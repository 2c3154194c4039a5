/* SPDX-License-Identifier: Apache-2.0 */
/* ovs/flows/ahead.c: the addresses that are prefetched are those where the
 * Open vSwitch that we are built with has what it reads. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cmap.h"
#include "hash.h"
#include "ovs/flows/flows.h"
#include "util.h"

#define N 400

static struct ukey {
    struct cmap_node node;
    char lock, xcache, entries;
} ukeys[N];
static struct dpif_xdp_flow flows[N];

/* A revalidator meets the flows from 'first' on. */
static void
meet(const struct cmap *cmap, int first, int n)
{
    struct dpif_xdp_flow *batch[DPIF_XDP_DUMP_BATCH];

    for (int i = 0; i < n; i++) {
        batch[i] = &flows[first + i];
    }
    dpif_xdp_ahead_give(batch, n);
    for (int i = first; i < first + n; i++) {
        dpif_xdp_ahead_note_find(cmap, hash_int(i, 0));
        dpif_xdp_ahead_note_lock(&ukeys[i].lock);
        dpif_xdp_ahead_note_push(&ukeys[i].xcache, &ukeys[i].entries);
    }
}

/* Whether one of the words of the cache line at 'line' is 'pointer'. */
static bool
has_pointer(const void *line, const void *pointer)
{
    for (size_t i = 0; i < CACHE_LINE_SIZE; i += 4) {
        if (!memcmp((const char *) line + i, &pointer, sizeof pointer)) {
            return true;
        }
    }
    return false;
}

static void
test_addresses(void **state OVS_UNUSED)
{
    struct cmap cmap;

    cmap_init(&cmap);
    for (int i = 0; i < N; i++) {
        cmap_insert(&cmap, &ukeys[i].node, hash_int(i, 0));
    }
    for (int i = 0; i < N; i += DPIF_XDP_DUMP_BATCH) {
        meet(&cmap, i, DPIF_XDP_DUMP_BATCH);
    }
    for (int i = 0; i < N; i++) {
        const struct dpif_xdp_flow_ahead *ahead = &flows[i].ahead;

        assert_ptr_equal(ahead->cmap, &cmap);
        assert_true((uintptr_t) ahead->bucket % CACHE_LINE_SIZE == 0);
        assert_true(has_pointer(ahead->bucket, &ukeys[i].node));
        assert_ptr_equal(ahead->lock, &ukeys[i].lock);
        assert_ptr_equal(ahead->xcache, &ukeys[i].xcache);
        assert_ptr_equal(ahead->entries, &ukeys[i].entries);
    }
    cmap_destroy(&cmap);
}

/* What is met beyond a batch, or pushed to behind its last lock, is no flow's:
 * then ofproto deletes flows. */
static void
test_other_calls(void **state OVS_UNUSED)
{
    struct dpif_xdp_flow_ahead before;
    struct cmap cmap;

    cmap_init(&cmap);
    meet(&cmap, 0, 2);
    before = flows[1].ahead;
    dpif_xdp_ahead_note_push(&ukeys[5].xcache, &ukeys[5].entries);
    dpif_xdp_ahead_note_find(&cmap, 5);
    dpif_xdp_ahead_note_lock(&ukeys[5].lock);
    dpif_xdp_ahead_note_push(&ukeys[5].xcache, &ukeys[5].entries);
    assert_memory_equal(&before, &flows[1].ahead, sizeof before);
    cmap_destroy(&cmap);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_other_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
