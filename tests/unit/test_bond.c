/* SPDX-License-Identifier: Apache-2.0 */
/* Bonds that the datapath balances: which member, what was sent. */
#include <config.h>

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>

#include "dpif.h"
#include "openvswitch/json.h"
#include "ovs/state/bond.h"
#include "ovs-atomic.h"
#include "ovs-thread.h"
#include "util.h"

#define ID 3

/* Hash value i goes to port 'first' + i % 'n'. */
static void
add_bond(struct dpif_xdp_bonds *bonds, uint32_t id, uint32_t first, uint32_t n)
{
    odp_port_t members[BOND_BUCKETS];

    for (uint32_t i = 0; i < BOND_BUCKETS; i++) {
        members[i] = u32_to_odp(first + i % n);
    }
    assert_int_equal(dpif_xdp_bond_add(bonds, id, members), 0);
}

static uint32_t
select_member(const struct dpif_xdp_bonds *bonds, uint32_t id, uint32_t hash)
{
    odp_port_t port_no = ODP_PORT_C(0);

    assert_true(dpif_xdp_bond_select(bonds, id, hash, &port_no));
    return odp_to_u32(port_no);
}

static uint64_t
sum_bytes(const struct dpif_xdp_bonds *bonds, uint32_t id)
{
    uint64_t n_bytes[BOND_BUCKETS] = { 0 }, sum = 0;

    assert_int_equal(dpif_xdp_bond_stats_get(CONST_CAST(struct dpif_xdp_bonds *, bonds), id, n_bytes), 0);
    for (size_t i = 0; i < BOND_BUCKETS; i++) {
        sum += n_bytes[i];
    }
    return sum;
}

static void
test_life(void **state OVS_UNUSED)
{
    uint64_t n_bytes[BOND_BUCKETS];
    struct dpif_xdp_bonds bonds;
    odp_port_t port_no;

    dpif_xdp_bonds_init(&bonds);
    assert_false(dpif_xdp_bond_select(&bonds, ID, 0, &port_no));
    assert_int_equal(dpif_xdp_bond_del(&bonds, ID), ENOENT);
    assert_int_equal(dpif_xdp_bond_stats_get(&bonds, ID, n_bytes), ENOENT);
    dpif_xdp_bond_account(&bonds, ID, 0, 60);

    add_bond(&bonds, ID, 10, 3);
    add_bond(&bonds, ID + 1, 20, 1);
    for (uint32_t hash = 0; hash < 1000; hash++) {
        assert_int_equal(select_member(&bonds, ID, hash), 10 + hash % BOND_BUCKETS % 3);
        assert_int_equal(select_member(&bonds, ID + 1, hash), 20);
    }

    assert_int_equal(dpif_xdp_bond_del(&bonds, ID), 0);
    assert_false(dpif_xdp_bond_select(&bonds, ID, 0, &port_no));
    assert_int_equal(select_member(&bonds, ID + 1, 0), 20);
    dpif_xdp_bonds_destroy(&bonds);
}

static void
test_statistics(void **state OVS_UNUSED)
{
    uint64_t n_bytes[BOND_BUCKETS];
    struct dpif_xdp_bonds bonds;
    struct json *report;
    char *text;

    dpif_xdp_bonds_init(&bonds);
    add_bond(&bonds, ID, 10, 2);
    dpif_xdp_bond_account(&bonds, ID, 0x105, 60);
    dpif_xdp_bond_account(&bonds, ID, 5, 1500);
    dpif_xdp_bond_account(&bonds, ID, 6, 70);

    /* A replaced bond has been sending all the time. */
    add_bond(&bonds, ID, 20, 2);
    dpif_xdp_bond_account(&bonds, ID, 5, 100);
    memset(n_bytes, 0xff, sizeof n_bytes);
    assert_int_equal(dpif_xdp_bond_stats_get(&bonds, ID, n_bytes), 0);
    for (size_t i = 0; i < BOND_BUCKETS; i++) {
        assert_int_equal(n_bytes[i], i == 5 ? 1660 : i == 6 ? 70 : 0);
    }

    report = json_object_create();
    dpif_xdp_bonds_report(&bonds, report);
    text = json_to_string(report, JSSF_SORT);
    assert_non_null(strstr(text, "{\"bonds\":[{\"bond\":3,\"buckets\":["
                           "{\"bucket\":0,\"bytes\":0,\"packets\":0,\"port\":20}"));
    assert_non_null(strstr(text, "{\"bucket\":5,\"bytes\":1660,\"packets\":3,\"port\":21},"
                           "{\"bucket\":6,\"bytes\":70,\"packets\":1,\"port\":20}"));
    assert_non_null(strstr(text, "{\"bucket\":255,\"bytes\":0,\"packets\":0,\"port\":21}]}]}"));
    free(text);
    json_destroy(report);

    /* One that was deleted has not. */
    assert_int_equal(dpif_xdp_bond_del(&bonds, ID), 0);
    add_bond(&bonds, ID, 10, 2);
    assert_int_equal(sum_bytes(&bonds, ID), 0);
    dpif_xdp_bonds_destroy(&bonds);
}

/* Threads send while the bond is replaced: a packet goes to a member of
 * either bond and is counted. */
#define N_THREADS 3
#define N_PACKETS 100000

struct sender {
    struct dpif_xdp_bonds *bonds;
    atomic_count *n_running;
    bool astray;                    /* A packet went to no member. */
    pthread_t thread;
};

static void *
send_packets(void *sender_)
{
    struct sender *sender = sender_;

    for (uint32_t hash = 0; hash < N_PACKETS; hash++) {
        odp_port_t port_no = ODP_PORT_C(0);

        sender->astray |= (!dpif_xdp_bond_select(sender->bonds, ID, hash, &port_no)
                           || (odp_to_u32(port_no) / 10 != 1 && odp_to_u32(port_no) / 10 != 2));
        dpif_xdp_bond_account(sender->bonds, ID, hash, 2);
    }
    atomic_count_dec(sender->n_running);
    return NULL;
}

static void
test_replaced_while_sending(void **state OVS_UNUSED)
{
    const uint64_t expected = 2 * N_THREADS * N_PACKETS;
    atomic_count n_running = ATOMIC_COUNT_INIT(N_THREADS);
    struct sender senders[N_THREADS];
    struct dpif_xdp_bonds bonds;
    uint64_t sum = 0;

    dpif_xdp_bonds_init(&bonds);
    add_bond(&bonds, ID, 10, 4);
    for (size_t i = 0; i < N_THREADS; i++) {
        senders[i] = (struct sender) { .bonds = &bonds, .n_running = &n_running };
        senders[i].thread = ovs_thread_create("sender", send_packets, &senders[i]);
    }
    for (uint32_t turn = 0; atomic_count_get(&n_running); turn++) {
        uint64_t last = sum;

        add_bond(&bonds, ID, 10 + turn % 2 * 10, 4);
        sum = sum_bytes(&bonds, ID);
        assert_in_range(sum, last, expected);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        xpthread_join(senders[i].thread, NULL);
        assert_false(senders[i].astray);
    }
    assert_int_equal(sum_bytes(&bonds, ID), expected);
    dpif_xdp_bonds_destroy(&bonds);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_replaced_while_sending),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
