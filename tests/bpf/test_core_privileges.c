/* SPDX-License-Identifier: Apache-2.0 */
/* A process without the privileges that programs need hears why, and keeps nothing of what it began: the build with
 * sanitizers sees memory that is used after it is freed, and memory that is not freed. */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <net/if.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <setjmp.h>
#include <cmocka.h>

#include "core/programs/progs.h"
#include "core/programs/tcx.h"
#include "tests/bpf/sandbox.h"

#define ATTACH_TCX_INGRESS 46   /* linux/bpf.h of Linux 6.6 and newer. */

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

/* Whether the verifier looks at each global function, called or not: before Linux 6.8 (kernel/bpf/verifier.c,
 * do_check_subprogs()).  Without CAP_PERFMON it goes on behind conditions that are never true, so it then refuses the
 * program without flow tables, too. */
static bool verifies_all_functions(void)
{
    unsigned int major, minor;
    struct utsname name;

    assert_int_equal(uname(&name), 0);
    assert_int_equal(sscanf(name.release, "%u.%u", &major, &minor), 2);
    return major < 6 || (major == 6 && minor < 8);
}

/* The verifier refuses what only CAP_PERFMON permits: the program without flow tables is loaded. */
static void test_refused_by_the_verifier(void **state)
{
    struct oxdp_progs *progs = NULL;
    int before = n_descriptors();
    char *error = NULL;
    int err;

    if (verifies_all_functions()) {
        load_without(BIT(CAP_PERFMON) | BIT(CAP_SYS_ADMIN), -EACCES, "(this process lacks CAP_PERFMON)");
        skip();
    }
    change(BIT(CAP_PERFMON) | BIT(CAP_SYS_ADMIN), false);
    err = oxdp_progs_load(&config, &progs, &error);
    change(BIT(CAP_PERFMON) | BIT(CAP_SYS_ADMIN), true);
    if (err) {
        fail_msg("%s", error);
    }
    assert_non_null(oxdp_progs_bare(progs));
    if (!strstr(oxdp_progs_bare(progs), "(this process lacks CAP_PERFMON)")) {
        fail_msg("%s", oxdp_progs_bare(progs));
    }
    assert_int_equal(oxdp_progs_complete(progs, &error), 0);
    assert_null(oxdp_progs_bare(progs));
    oxdp_progs_unload(progs);
    assert_int_equal(n_descriptors(), before);
}

static struct oxdp_progs *load(void)
{
    struct oxdp_progs *progs;
    char *error = NULL;

    if (oxdp_progs_load(&config, &progs, &error)) {
        fail_msg("%s", error);
    }
    return progs;
}

/* Programs that load, and a veth pair that may not be made. */
static void test_no_net_admin(void **state)
{
    struct oxdp_progs *progs = load();
    char *error = NULL;
    int err;

    change(BIT(CAP_NET_ADMIN), false);
    err = oxdp_tcx_open(progs, "dp", 1, &error);
    change(BIT(CAP_NET_ADMIN), true);
    assert_int_equal(err, -EPERM);
    assert_non_null(error);
    free(error);
    assert_int_equal(if_nametoindex("dp-up"), 0);
    if (oxdp_tcx_open(progs, "dp", 1, &error)) {
        fail_msg("%s", error);
    }
    oxdp_progs_unload(progs);
    assert_int_equal(if_nametoindex("dp-up"), 0);
}

/* The names of programs, also of its own, only a process with CAP_SYS_ADMIN can read. */
static void test_own_program_is_no_other(void **state)
{
    LIBBPF_OPTS(bpf_link_create_opts, opts);
    struct bpf_insn ok[] = { { .code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = -1 }, { .code = BPF_JMP | BPF_EXIT } };
    struct oxdp_progs *progs = load();
    int ifindex, other_prog, other;
    char *error = NULL;

    if (!oxdp_tcx_is_native()) {
        oxdp_progs_unload(progs);
        skip();
    }
    sandbox_run("ip link add p0 type veth peer name q0");
    ifindex = if_nametoindex("p0");
    other_prog = bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "other", "GPL", ok, 2, NULL);
    assert_true(other_prog >= 0);
    if (oxdp_tcx_open(progs, "dp", 1, &error) || oxdp_tcx_attach(progs, ifindex, 1, false, &error)) {
        fail_msg("%s", error);
    }
    change(BIT(CAP_SYS_ADMIN), false);
    assert_int_equal(oxdp_tcx_others_first(progs, ifindex), 0);
    change(BIT(CAP_SYS_ADMIN), true);
    assert_int_equal(oxdp_tcx_others_first(NULL, ifindex), 0);
    oxdp_progs_detach(progs, ifindex);

    /* One that was there before stands before ours. */
    other = bpf_link_create(other_prog, ifindex, ATTACH_TCX_INGRESS, &opts);
    assert_true(other >= 0);
    if (oxdp_tcx_attach(progs, ifindex, 1, false, &error)) {
        fail_msg("%s", error);
    }
    change(BIT(CAP_SYS_ADMIN), false);
    assert_int_equal(oxdp_tcx_others_first(progs, ifindex), 1);
    change(BIT(CAP_SYS_ADMIN), true);
    assert_int_equal(oxdp_tcx_others_first(NULL, ifindex), 1);
    close(other);
    close(other_prog);
    oxdp_progs_unload(progs);
    sandbox_run("ip link del p0");
}

/* Whatever cannot be had, what was begun is taken back: each step fails once, for want of a descriptor. */
static void test_every_step_fails(void **state)
{
    int used = n_descriptors();
    struct rlimit full, limit;
    int n_failed = 0;
    int err = -1;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &full), 0);
    sandbox_run("ip link add p0 type veth peer name q0");
    for (rlim_t room = 0; err; room++) {
        struct oxdp_progs *progs = NULL;
        char *error = NULL;

        limit = (struct rlimit) { .rlim_cur = used + room, .rlim_max = full.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        err = oxdp_progs_load(&config, &progs, &error);
        err = err ? err : oxdp_tcx_open(progs, "dp", 1, &error);
        err = err ? err : oxdp_tcx_attach(progs, if_nametoindex("p0"), 1, true, &error);
        oxdp_progs_unload(progs);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &full), 0);
        assert_true(!err == !error);
        n_failed += err != 0;
        free(error);
        assert_int_equal(n_descriptors(), used);
        assert_int_equal(if_nametoindex("dp-up"), 0);
        assert_true(room < 200);
    }
    assert_true(n_failed > 10);
    sandbox_run("ip link del p0");
}

/* Nothing stays behind that would keep the next attempt, with all privileges, from working. */
static void test_again(void **state)
{
    oxdp_progs_unload(load());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_bpf),
        cmocka_unit_test(test_refused_by_the_verifier),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_no_net_admin),
        cmocka_unit_test(test_own_program_is_no_other),
        cmocka_unit_test(test_every_step_fails),
    };

    sandbox_enter();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
