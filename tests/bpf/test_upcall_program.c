/* SPDX-License-Identifier: Apache-2.0 */
/* oxdp_upcall, on the peer of the upcall pair, by BPF_PROG_TEST_RUN: what it loses is counted for the port whose packet
 * it was, and what is not ours it leaves alone. */
#include <linux/bpf.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <setjmp.h>
#include <cmocka.h>

#include "core/tables/memory.h"

/* After the types of the maps. */
#include "bpf/tcx.skel.h"

#define SLOT 1u
#define ADDRESSES_LEN 12
#define UPCALL_ETH_TYPE 0x88b5
#define PAYLOAD 60

struct program {
    struct oxdp_memory memory;
    struct bpf_object *object;
    void *image;
};

static int start(void **state)
{
    const struct oxdp_table_config config = oxdp_table_config(1, libbpf_num_possible_cpus());
    struct program *p = calloc(1, sizeof *p);
    struct bpf_program *program;
    const void *image;
    size_t size;

    assert_non_null(p);
    assert_int_equal(oxdp_memory_create(&config, 1, 2, libbpf_num_possible_cpus(), NULL, &p->memory), 0);
    image = tcx_bpf__elf_bytes(&size);
    p->image = oxdp_constants_put(&p->memory.constants, image, size);
    p->object = bpf_object__open_mem(p->image, size, NULL);
    assert_non_null(p->object);
    bpf_object__for_each_program(program, p->object) {
        bpf_program__set_autoload(program, !strcmp(bpf_program__name(program), "oxdp_upcall"));
    }
    assert_int_equal(bpf_object__load(p->object), 0);
    *state = p;
    return 0;
}

static int stop(void **state)
{
    struct program *p = *state;

    bpf_object__close(p->object);
    oxdp_memory_destroy(&p->memory);
    free(p->image);
    free(p);
    return 0;
}

/* Runs the program over a frame of that type behind its addresses; returns its verdict. */
static int run(const struct program *p, uint16_t eth_type)
{
    uint8_t in[ADDRESSES_LEN + sizeof(struct bpf_upcall_header) + DP_RECORD_TUNNEL_LEN + DP_RECORD_OPTIONS_LEN
               + PAYLOAD] = { 0 };
    struct bpf_upcall_header header = { .eth_type = dp_htons(eth_type), .counter_slot = SLOT };
    LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = in, .data_size_in = sizeof in, .repeat = 1);

    memcpy(in + ADDRESSES_LEN, &header, sizeof header);
    assert_int_equal(bpf_prog_test_run_opts(
        bpf_program__fd(bpf_object__find_program_by_name(p->object, "oxdp_upcall")), &opts), 0);
    return opts.retval;
}

static uint64_t lost(const struct program *p, uint32_t slot)
{
    const struct bpf_counters *per_cpu = oxdp_memory_counters(&p->memory, slot);
    uint64_t sum = 0;

    for (int cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++) {
        sum += per_cpu[cpu].n[DP_COUNTER_LOST_UPCALLS];
    }
    return sum;
}

static void test_no_socket(void **state)
{
    assert_int_equal(run(*state, UPCALL_ETH_TYPE), XDP_DROP);
    assert_int_equal(lost(*state, SLOT), 1);
    assert_int_equal(lost(*state, BPF_COUNTER_SLOT_NO_PORT), 0);
}

/* The type says which parts the record has: DP_RECORD_* / 2, of which some do not come together. */
static void test_parts(void **state)
{
    const uint16_t parts[] = { DP_RECORD_TUNNEL, DP_RECORD_CT, DP_RECORD_TUNNEL | DP_RECORD_CT,
                               DP_RECORD_TUNNEL | DP_RECORD_OPTIONS };

    for (unsigned int i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        assert_int_equal(run(*state, UPCALL_ETH_TYPE + parts[i] / 2), XDP_DROP);
        assert_int_equal(lost(*state, SLOT), i + 1);
    }
    assert_int_equal(run(*state, UPCALL_ETH_TYPE + DP_RECORD_OPTIONS / 2), XDP_PASS);
}

static void test_not_ours(void **state)
{
    assert_int_equal(run(*state, 0x0800), XDP_PASS);
    assert_int_equal(lost(*state, SLOT), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_socket, start, stop),
        cmocka_unit_test_setup_teardown(test_parts, start, stop),
        cmocka_unit_test_setup_teardown(test_not_ours, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
