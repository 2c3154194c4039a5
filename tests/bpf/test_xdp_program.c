/* SPDX-License-Identifier: Apache-2.0 */
/* What the XDP program does with a frame that it cannot hand up, by BPF_PROG_TEST_RUN: verdict and
 * counter. */
#include <errno.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <setjmp.h>
#include <cmocka.h>

#include "bpf/maps.h"
#include "dp/table.h"
#include "dp/omit.h"
#include "bpf/xdp.skel.h"
#include "tests/bpf/sandbox.h"

#define LOOPBACK 1u         /* Index of the loopback device, which is the same in each namespace. */
#define SLOT 1u

static int start(void **state)
{
    struct xdp_bpf *skel = xdp_bpf__open();

    assert_non_null(skel);
    skel->rodata_settings->settings.ports_mask = 3;
    bpf_map__set_max_entries(skel->maps.ports, 4);
    bpf_map__set_max_entries(skel->maps.counters, 2);
    assert_int_equal(xdp_bpf__load(skel), 0);
    *state = skel;
    return 0;
}

static int stop(void **state)
{
    xdp_bpf__destroy(*state);
    return 0;
}

/* Writes a port with one queue for the loopback device into entry 'entry' of 'ports', or into
 * 'ports_overflow'. */
static void set_port(struct xdp_bpf *skel, const struct bpf_map *map, uint32_t key)
{
    struct bpf_port port = {
        .ifindex = LOOPBACK,
        .port_no = 7,
        .n_queues = 1,
        .counter_slot = SLOT,
    };

    assert_int_equal(bpf_map_update_elem(bpf_map__fd(map), &key, &port, BPF_ANY), 0);
}

/* The verdict for a frame with 'metadata' bytes before it; or -1 if the kernel does not make such a frame. */
static int run(struct xdp_bpf *skel, uint32_t metadata)
{
    uint8_t in[512] = { 0 };
    struct xdp_md ctx = {
        .data = metadata,
        .data_end = metadata + 64,
        .ingress_ifindex = LOOPBACK,
    };
    LIBBPF_OPTS(bpf_test_run_opts, opts,
                .data_in = in, .data_size_in = metadata + 64, .ctx_in = &ctx, .ctx_size_in = sizeof ctx,
                .repeat = 1);

    return bpf_prog_test_run_opts(bpf_program__fd(skel->progs.oxdp_xdp), &opts) ? -1 : (int) opts.retval;
}

static uint64_t count(struct xdp_bpf *skel, uint32_t slot, enum dp_counter counter)
{
    int n_cpus = libbpf_num_possible_cpus();
    struct bpf_counters *per_cpu = calloc(n_cpus, sizeof *per_cpu);
    uint64_t sum = 0;

    assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(skel->maps.counters), &slot, per_cpu), 0);
    for (int cpu = 0; cpu < n_cpus; cpu++) {
        sum += per_cpu[cpu].n[counter];
    }
    free(per_cpu);
    return sum;
}

static void test_unknown_port(void **state)
{
    assert_int_equal(run(*state, 0), XDP_PASS);
    assert_int_equal(count(*state, BPF_COUNTER_SLOT_NO_PORT, DP_COUNTER_UNKNOWN_PORT), 1);
}

/* Found in the array, and in the hash map when another device has the array's entry. */
static void test_no_socket(void **state)
{
    struct xdp_bpf *skel = *state;

    set_port(skel, skel->maps.ports_overflow, LOOPBACK);
    assert_int_equal(run(skel, 0), XDP_DROP);
    assert_int_equal(count(skel, SLOT, DP_COUNTER_NO_SOCKET), 1);
    set_port(skel, skel->maps.ports, LOOPBACK & 3);
    assert_int_equal(run(skel, 0), XDP_DROP);
    assert_int_equal(count(skel, SLOT, DP_COUNTER_NO_SOCKET), 2);
    assert_int_equal(count(skel, BPF_COUNTER_SLOT_NO_PORT, DP_COUNTER_UNKNOWN_PORT), 0);
}

/* Metadata that another program left takes the room that the record needs. */
static void test_no_headroom(void **state)
{
    struct xdp_bpf *skel = *state;

    set_port(skel, skel->maps.ports, LOOPBACK & 3);

    int verdict = run(skel, 216);

    if (verdict < 0) {
        print_message("skipped: this kernel makes no frame with 216 bytes of metadata (%s)\n",
                      strerror(errno));
        skip();
    }
    assert_int_equal(verdict, XDP_DROP);
    assert_int_equal(count(skel, SLOT, DP_COUNTER_NO_HEADROOM), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_unknown_port, start, stop),
        cmocka_unit_test_setup_teardown(test_no_socket, start, stop),
        cmocka_unit_test_setup_teardown(test_no_headroom, start, stop),
    };

    sandbox_enter();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
