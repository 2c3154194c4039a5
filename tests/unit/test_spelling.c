/* SPDX-License-Identifier: Apache-2.0 */
/* ovs/netdev/spelling.h */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ovs/netdev/spelling.h"
#include "util.h"

static const char *const words[] = {
    "xdp-mode", "xdp-hook", "xdp-obj", "xdp-peer", "n_rxq",
};

static const char *
closest(const char *word)
{
    return dpif_xdp_spelling_closest(word, words, ARRAY_SIZE(words));
}

static void
test_finds_what_was_meant(void **state OVS_UNUSED)
{
    assert_string_equal(closest("xdp-mode"), "xdp-mode");
    assert_string_equal(closest("xdp_hook"), "xdp-hook");
    assert_string_equal(closest("xdp-hok"), "xdp-hook");
    assert_string_equal(closest("XDP-hook"), "xdp-hook");
    assert_string_equal(closest("xdp-hoook"), "xdp-hook");
    assert_string_equal(closest("xdpmode"), "xdp-mode");
    assert_string_equal(closest("n-rxq"), "n_rxq");
}

static void
test_finds_nothing_in_other_words(void **state OVS_UNUSED)
{
    assert_null(closest("bogus"));
    assert_null(closest(""));
    assert_null(closest("xdp-a-word-that-is-longer-than-any-known"));
    assert_null(dpif_xdp_spelling_closest("xdp-mode", NULL, 0));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_what_was_meant),
        cmocka_unit_test(test_finds_nothing_in_other_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
