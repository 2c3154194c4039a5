/* SPDX-License-Identifier: Apache-2.0 */
/* Objects say what they can do, and those that do not are refused with a reason.
 *
 *   test_capability WHOLE TRIMMED MUTE         objects */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/programs/capability.h"

static const char *files[3];

static int read_object(const char *file, struct dp_capability *capability, char **error)
{
    struct bpf_object *object = bpf_object__open_file(file, NULL);
    int result;

    assert_non_null(object);
    result = oxdp_capability_read(object, capability, error);
    bpf_object__close(object);
    return result;
}

static void test_whole(void **state)
{
    struct dp_capability capability;
    char *error;

    assert_int_equal(read_object(files[0], &capability, &error), 0);
    assert_null(error);
    assert_int_equal(capability.key_groups, DP_CAPABILITY_ALL_KEYS);
    assert_int_equal(capability.ops, DP_CAPABILITY_ALL_OPS);
}

static void test_trimmed(void **state)
{
    struct dp_capability capability;
    char *error;

    assert_int_equal(read_object(files[1], &capability, &error), 0);
    assert_int_equal(capability.key_groups, 1 << DP_KEY_GROUP_ETHERNET);
    assert_int_equal(capability.ops, 1 << DP_OP_SET_ETH);
}

static void test_mute(void **state)
{
    struct dp_capability capability;
    char *error;

    assert_int_equal(read_object(files[2], &capability, &error), -ENOENT);
    assert_non_null(strstr(error, "does not say what it can do"));
    free(error);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_trimmed),
        cmocka_unit_test(test_mute),
    };

    if (argc < 4) {
        return 2;
    }
    memcpy(files, argv + 1, sizeof files);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
