/* SPDX-License-Identifier: Apache-2.0 */
/* A process without the privileges that programs need hears why, and keeps nothing of what it began: the build with
 * sanitizers sees memory that is used after it is freed, and memory that is not freed. */
#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <setjmp.h>
#include <cmocka.h>

#include "core/programs/progs.h"
#include "tests/bpf/sandbox.h"

#define BIT(CAPABILITY) (UINT64_C(1) << (CAPABILITY))

static const struct oxdp_progs_config config = { .max_ports = 8, .max_sockets = 8, .n_flows = 64 };

/* Takes the capabilities of 'set' out of this thread's effective ones, or gives them back. */
static void change(uint64_t set, bool give_back)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];

    assert_int_equal(syscall(SYS_capget, &header, data), 0);
    for (int i = 0; i < 2; i++) {
        uint32_t part = set >> (32 * i);

        data[i].effective = give_back ? data[i].effective | (part & data[i].permitted) : data[i].effective & ~part;
    }
    assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

static int n_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(dir);
    while (readdir(dir)) {
        n++;
    }
    closedir(dir);
    return n;
}

/* Loads without the capabilities of 'set'; the sentence must have 'expected' in it. */
static void load_without(uint64_t set, int expected_err, const char *expected)
{
    struct oxdp_progs *progs = NULL;
    int before = n_descriptors();
    char *error = NULL;
    int err;

    change(set, false);
    err = oxdp_progs_load(&config, &progs, &error);
    change(set, true);
    assert_int_equal(err, expected_err);
    assert_non_null(error);
    if (!strstr(error, expected)) {
        fail_msg("%s", error);
    }
    free(error);
    assert_null(progs);
    assert_int_equal(n_descriptors(), before);
}

static void test_no_bpf(void **state)
{
    load_without(BIT(CAP_BPF) | BIT(CAP_SYS_ADMIN), -EPERM, "run as root, or with CAP_BPF");
}

/* The verifier refuses what only CAP_PERFMON permits. */
static void test_refused_by_the_verifier(void **state)
{
    load_without(BIT(CAP_PERFMON) | BIT(CAP_SYS_ADMIN), -EACCES, "the kernel's verifier refuses it");
}

/* Nothing stays behind that would keep the next attempt, with all privileges, from working. */
static void test_again(void **state)
{
    struct oxdp_progs *progs;
    char *error = NULL;

    if (oxdp_progs_load(&config, &progs, &error)) {
        fail_msg("%s", error);
    }
    oxdp_progs_unload(progs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_bpf),
        cmocka_unit_test(test_refused_by_the_verifier),
        cmocka_unit_test(test_again),
    };

    sandbox_enter();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
