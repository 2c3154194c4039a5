/* SPDX-License-Identifier: Apache-2.0 */
/* What the XDP program does with a frame that it cannot hand to the engine, by BPF_PROG_TEST_RUN: verdict and
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

#include "core/multi_buffer.h"
#include "core/tables/memory.h"

/* After the types of the maps. */
#include "bpf/xdp.skel.h"
#include "tests/bpf/sandbox.h"

#define LOOPBACK 1u         /* Index of the loopback device, which is the same in each namespace. */
#define SLOT 1u
#define N_PORTS 4

/* The program without flow tables, over its maps. */
struct program {
    struct oxdp_memory memory;
    struct xdp_bpf *skel;
    void *image;
};

static int start(void **state)
{
    const struct oxdp_table_config config = oxdp_table_config(1, libbpf_num_possible_cpus());
    struct program *p = calloc(1, sizeof *p);
    struct xdp_bpf *skel;

    assert_non_null(p);
    p->skel = skel = calloc(1, sizeof *p->skel);
    assert_int_equal(oxdp_memory_create(&config, N_PORTS, 2, libbpf_num_possible_cpus(), NULL, &p->memory), 0);
    p->memory.constants.omit.parts = DP_PART_TABLES | (oxdp_has_multi_buffer() ? 0 : DP_PART_FRAGS);
    assert_int_equal(xdp_bpf__create_skeleton(skel), 0);
    p->image = oxdp_constants_put(&p->memory.constants, skel->skeleton->data, skel->skeleton->data_sz);
    skel->skeleton->data = p->image;
    assert_int_equal(bpf_object__open_skeleton(skel->skeleton, NULL), 0);
    assert_int_equal(xdp_bpf__load(skel), 0);
    *state = p;
    return 0;
}

static int stop(void **state)
{
    struct program *p = *state;

    xdp_bpf__destroy(p->skel);
    oxdp_memory_destroy(&p->memory);
    free(p->image);
    free(p);
    return 0;
}

/* A port with one queue for the loopback device. */
static const struct bpf_port loopback = {
    .ifindex = LOOPBACK,
    .port_no = 7,
    .n_queues = 1,
    .counter_slot = SLOT,
    .max_len = 64,
};

/* The verdict for a frame with 'metadata' bytes before it; or -1 if the kernel does not make such a frame. */
static int run(const struct program *p, uint32_t metadata)
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

    return bpf_prog_test_run_opts(bpf_program__fd(p->skel->progs.oxdp_xdp), &opts) ? -1 : (int) opts.retval;
}

static uint64_t count(const struct program *p, uint32_t slot, enum dp_counter counter)
{
    const struct bpf_counters *per_cpu = oxdp_memory_counters(&p->memory, slot);
    uint64_t sum = 0;

    for (int cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++) {
        sum += per_cpu[cpu].n[counter];
    }
    return sum;
}

static void test_unknown_port(void **state)
{
    assert_int_equal(run(*state, 0), XDP_PASS);
    assert_int_equal(count(*state, BPF_COUNTER_SLOT_NO_PORT, DP_COUNTER_UNKNOWN_PORT), 1);
}

/* Found in the table, and in the hash map when another device has the entry there. */
static void test_no_socket(void **state)
{
    struct program *p = *state;
    uint32_t key = LOOPBACK;

    assert_int_equal(bpf_map_update_elem(bpf_map__fd(p->skel->maps.ports_overflow), &key, &loopback, BPF_ANY), 0);
    assert_int_equal(run(p, 0), XDP_DROP);
    assert_int_equal(count(p, SLOT, DP_COUNTER_NO_SOCKET), 1);
    oxdp_memory_ports(&p->memory)[LOOPBACK % N_PORTS] = loopback;
    assert_int_equal(run(p, 0), XDP_DROP);
    assert_int_equal(count(p, SLOT, DP_COUNTER_NO_SOCKET), 2);
    assert_int_equal(count(p, BPF_COUNTER_SLOT_NO_PORT, DP_COUNTER_UNKNOWN_PORT), 0);
}

/* Metadata that another program left takes the room that the record needs. */
static void test_no_headroom(void **state)
{
    struct program *p = *state;

    oxdp_memory_ports(&p->memory)[LOOPBACK % N_PORTS] = loopback;

    int verdict = run(p, 216);

    if (verdict < 0) {
        print_message("skipped: this kernel makes no frame with 216 bytes of metadata (%s)\n",
                      strerror(errno));
        skip();
    }
    assert_int_equal(verdict, XDP_DROP);
    assert_int_equal(count(p, SLOT, DP_COUNTER_NO_HEADROOM), 1);
}

/* Longer than the port's frames: nobody has made segments of it yet.  tcx takes it, if there is tcx. */
static void test_segments(void **state)
{
    struct program *p = *state;
    struct bpf_port port = loopback;

    port.max_len--;
    oxdp_memory_ports(&p->memory)[LOOPBACK % N_PORTS] = port;
    assert_int_equal(run(p, 0), XDP_DROP);
    assert_int_equal(count(p, SLOT, DP_COUNTER_SEGMENTS), 1);
    assert_int_equal(count(p, SLOT, DP_COUNTER_UNFINISHED), 1);
    port.continues = 1;
    oxdp_memory_ports(&p->memory)[LOOPBACK % N_PORTS] = port;
    assert_int_equal(run(p, 0), XDP_PASS);
    assert_int_equal(count(p, SLOT, DP_COUNTER_SEGMENTS), 1);
    assert_int_equal(count(p, SLOT, DP_COUNTER_UNFINISHED), 2);
    assert_int_equal(count(p, SLOT, DP_COUNTER_NO_SOCKET), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_unknown_port, start, stop),
        cmocka_unit_test_setup_teardown(test_no_socket, start, stop),
        cmocka_unit_test_setup_teardown(test_no_headroom, start, stop),
        cmocka_unit_test_setup_teardown(test_segments, start, stop),
    };

    sandbox_enter();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
