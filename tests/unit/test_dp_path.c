/* SPDX-License-Identifier: Apache-2.0 */
/* dp/path.h: a microflow is written again at once when it is out of date, while others read it; the room that there is
 * for microflows; on which ports they are looked for.
 *
 * Packets of one microflow pass a zone with NAT.  Their connection comes again and again as another, by turns with one
 * mark and source address or the other; a flow for each mark sets the destination's Ethernet address and sends to a
 * port of its own.  Mark, address and port of a packet that leaves are those of one connection. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "core/tables/table.h"
#include "dp/seam_native.h"

/* A packet asks for the time when it has found its microflow and its path. */
static uint32_t time_of_test(struct dp_ctx *ctx);
#define DP_CT_NOW(CTX) time_of_test(CTX)
#include "dp/pipeline.h"

#include "tests/parity/ct_world.h"

#define NOW 1000000
#define IN_PORT 7
#define FIRST_OUT 20
#define SOURCE_PORT 1000
#define N_CONNS 1024
#define N_MICROS 4096
#define N_READERS 2
#define SECONDS 3
#define LEAST_CHANGES 200
#define MOST_CHANGES 20000

struct world {
    struct ct_world ct;
    struct dp_path_tables paths;
    struct oxdp_table *table;
    uint32_t flow[3];
    uint32_t n_made;            /* Connections since they were freed. */
    uint32_t kind;              /* 0 or 1: of the last. */
    uint32_t ref;
};

/* One CPU. */
struct reader {
    struct dp_ctx ctx;
    struct dp_run run;
    uint8_t room[128], *frame;
    uint32_t n_done, n_hits, n_out, n_wrong;    /* Others read them. */
};

static struct {
    void (*at_path)(struct dp_ctx *ctx);        /* Called when a packet has found its path; NULL: nothing. */
    struct world *world;
    struct reader *other;
} scene;

static uint32_t time_of_test(struct dp_ctx *ctx)
{
    if (scene.at_path) {
        scene.at_path(ctx);
    }
    return NOW;
}

static void no_grace(void *aux)
{
}

static uint32_t source_of(uint32_t kind) { return dp_htonl(0xc0000201 + kind).raw; }

static void insert(struct world *w, int i, const union dp_key *key, const union dp_key *mask, const struct dp_op *op,
                   enum dp_fate fate, uint32_t arg)
{
    const struct oxdp_flow flow = { .key = key, .mask = mask, .ops = op, .n_ops = 1, .fate = fate, .arg = arg };
    enum oxdp_table_full full;

    assert_int_equal(oxdp_table_insert(w->table, &flow, &w->flow[i], &full), 0);
}

static void insert_flows(struct world *w)
{
    union dp_key key = { .in_port = IN_PORT, .eth_type = dp_htons(DP_ETH_IP4) };
    union dp_key mask = { .in_port = UINT32_MAX, .recirc_id = UINT32_MAX, .eth_type = { 0xffff } };
    struct dp_op op = { .code = DP_OP_CT, .codes = 1ull << DP_OP_CT, .u.ct = { .zone = 1, .flags = DP_CT_NAT } };

    insert(w, 0, &key, &mask, &op, DP_FATE_RECIRC, 1);
    mask.ct_mark = UINT32_MAX;
    key.recirc_id = 1;
    for (uint32_t kind = 0; kind < 2; kind++) {
        key.ct_mark = kind + 1;
        op = (struct dp_op) { .code = DP_OP_SET_ETH, .codes = 1ull << DP_OP_SET_ETH,
                              .u.eth = { .value = { kind + 1 }, .mask = { UINT32_MAX } } };
        insert(w, 1 + kind, &key, &mask, &op, DP_FATE_OUTPUT, FIRST_OUT + kind);
    }
}

/* A connection of datagrams from 'port' that has been answered. */
static uint32_t connect_from(struct world *w, uint16_t port, uint32_t kind)
{
    struct dp_ct_run run = {
        .tuple = { .addr = { { dp_htonl(0x0a000001).raw }, { dp_htonl(0x0a000002).raw } },
                   .l4 = { dp_htons(port).raw, dp_htons(53).raw }, .zone = 1, .proto = DP_IP_UDP },
    };
    struct dp_ct_action action = { .zone = 1, .flags = DP_CT_COMMIT | DP_CT_NAT | DP_CT_TO_SRC,
                                   .nat = { .min = { source_of(kind) }, .max = { source_of(kind) } } };
    const uint64_t no_label[2] = { 0 };
    struct dp_ct_life *life;

    assert_int_equal(dp_ct_make(&w->ct.ctx, &run, &action, NOW), DP_CT_MADE);
    dp_ct_first_marks(&w->ct.ctx, run.ref, ct_world_intern(&w->ct, kind + 1, no_label));
    life = &w->ct.tables.lives[DP_CT_REF_INDEX(run.ref)];
    DP_WRITE_ONCE(life->state, DP_CT_PUT(DP_READ_ONCE(life->state), DP_CT_STATE_CLASS, 4, DP_CT_TM_OTHER_BIDIR));
    return run.ref;
}

/* The connection goes, and comes again as one of the other kind.  Its entry is not free yet. */
static void change(struct world *w)
{
    if (w->ref) {
        dp_ct_kill(&w->ct.ctx, DP_CT_REF_INDEX(w->ref));
        ct_world_leave(&w->ct, DP_CT_REF_INDEX(w->ref));
    }
    w->kind ^= 1;
    w->ref = connect_from(w, SOURCE_PORT, w->kind);
    w->n_made++;
}

static int world_create(void **state)
{
    static const struct oxdp_table_callbacks callbacks = { .grace = no_grace };
    struct oxdp_table_config config = oxdp_table_config(16, N_READERS);
    struct world *w = calloc(1, sizeof *w);
    struct dp_path_head *head;

    assert_int_equal(oxdp_table_create(&config, NULL, &callbacks, &w->table), 0);
    ct_world_init(&w->ct, N_CONNS, N_CONNS);
    w->paths.n_path_head = 1;
    w->paths.n_micros = w->paths.n_micros6 = N_MICROS;
    w->paths.n_paths = DP_PATH_MAX;
#define X(NAME, TYPE) w->paths.NAME = calloc(w->paths.n_##NAME, sizeof(TYPE));
    DP_PATH_TABLES(X)
#undef X
    head = w->paths.path_head;
    for (int i = 0; i < DP_PATH_HASH_WORDS; i++) {
        head->hash_key[i] = 0x9fb21c651e98df25ull * (2 * i + 1) | 1;
    }
    head->micro_last = DP_MICRO_LEAST - 1;
    head->micro_most = N_MICROS - 1;
    head->fresh = 30 * CT_WORLD_HZ;
    w->ct.ctx.tables = oxdp_table_memory(w->table);
    w->ct.ctx.paths = &w->paths;
    insert_flows(w);
    scene.world = w;
    scene.at_path = NULL;
    *state = w;
    return 0;
}

static int world_destroy(void **state)
{
    struct world *w = *state;

    oxdp_table_destroy(w->table);
    ct_world_destroy(&w->ct);
#define X(NAME, TYPE) free(w->paths.NAME);
    DP_PATH_TABLES(X)
#undef X
    free(w);
    return 0;
}

static uint16_t sum_of(const uint8_t *p, uint32_t len, uint64_t sum)
{
    for (uint32_t i = 0; i < len; i += 2) {
        sum += dp_load16(p + i);
    }
    return dp_csum_fold(sum);
}

/* Of UDP, with its pseudo header. */
static uint16_t udp_sum_of(const uint8_t *ip)
{
    return sum_of(ip + DP_IP4_LEN, 26, (uint64_t) dp_load32(ip + 12) + dp_load32(ip + 16)
                  + dp_htons(DP_IP_UDP + 26).raw);
}

/* A datagram of 18 bytes. */
static void make_frame(struct reader *r, uint16_t port)
{
    static const uint8_t begin[] = {
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00,
        0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        0, 0, 0, 53, 0, 26, 0, 0,
    };
    uint8_t *ip;

    r->frame = r->room + 32;
    memset(r->frame, 0, 60);
    memcpy(r->frame, begin, sizeof begin);
    ip = r->frame + DP_ETH_LEN;
    dp_store16(ip + DP_IP4_LEN, dp_htons(port).raw);
    dp_store16(ip + 10, ~sum_of(ip, DP_IP4_LEN, 0));
    dp_store16(ip + DP_IP4_LEN + 6, ~udp_sum_of(ip));
    r->ctx.start = r->room;
    r->ctx.data = r->frame;
    r->ctx.end = r->frame + 60;
}

/* Sends one packet from 'port'.  Returns whether it left, by the path cache if run.path.found says so. */
static bool send_from(struct reader *r, uint16_t port)
{
    struct dp_outcome outcome;
    const uint8_t *ip;
    uint32_t kind;

    make_frame(r, port);
    r->run.frame.local_stack = 0;
    r->run.path.found = DP_PATH_NONE;
    outcome = dp_pipeline(&r->ctx, IN_PORT, &r->run);
    if (outcome.fate == DP_FATE_ENGINE) {
        return false;                   /* Between two connections. */
    }
    ip = r->ctx.data + DP_ETH_LEN;
    kind = outcome.to - FIRST_OUT;
    if (outcome.fate != DP_FATE_OUTPUT || kind > 1 || dp_load32(r->ctx.data) != kind + 1
        || dp_load32(ip + 12) != source_of(kind) || sum_of(ip, DP_IP4_LEN, 0) != 0xffff || udp_sum_of(ip) != 0xffff) {
        DP_WRITE_ONCE(r->n_wrong, r->n_wrong + 1);
    }
    return true;
}

static bool hits_from(struct reader *r, uint16_t port)
{
    return send_from(r, port) && r->run.path.found == DP_PATH_HIT;
}

static struct reader *new_reader(struct world *w, uint32_t cpu)
{
    struct reader *r = calloc(1, sizeof *r);

    r->ctx = w->ct.ctx;
    r->ctx.cpu = cpu;
    r->ctx.now = NOW;
    return r;
}

static uint32_t in_use(const struct world *w)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < N_MICROS; i++) {
        n += w->paths.micros[i].word != DP_PATH_FREE;
    }
    return n;
}

/* A packet that finds its microflow out of date teaches the new one at once, in its place. */
static void test_learned_again(void **state)
{
    struct world *w = *state;
    struct reader *r = new_reader(w, 0);

    for (int i = 0; i < 100; i++) {
        change(w);
        assert_true(send_from(r, SOURCE_PORT));
        assert_int_equal(r->run.path.found, i ? DP_PATH_MISS : DP_PATH_NONE);
        assert_true(hits_from(r, SOURCE_PORT));
        assert_int_equal(w->paths.path_head->n_micros, 1);
        assert_int_equal(in_use(w), 1);
    }
    assert_int_equal(w->paths.path_head->n_full, 0);
    assert_int_equal(w->paths.path_head->n_paths, 2);
    assert_int_equal(r->n_wrong, 0);
    free(r);
}

/* Another CPU learns the microflow again, of another connection, while a packet is in the middle of it. */
static void write_meanwhile(struct dp_ctx *ctx)
{
    scene.at_path = NULL;
    change(scene.world);
    assert_true(send_from(scene.other, SOURCE_PORT));
    assert_true(hits_from(scene.other, SOURCE_PORT));
}

static void test_written_meanwhile(void **state)
{
    struct world *w = *state;
    struct reader *r = new_reader(w, 0);

    scene.other = new_reader(w, 1);
    change(w);
    assert_true(send_from(r, SOURCE_PORT));
    for (int i = 0; i < 100; i++) {
        assert_true(hits_from(r, SOURCE_PORT));
        scene.at_path = write_meanwhile;
        assert_true(send_from(r, SOURCE_PORT));
        assert_null(scene.at_path);
        assert_int_equal(r->run.path.found, DP_PATH_MISS);
        assert_int_equal(r->n_wrong + scene.other->n_wrong, 0);
    }
    free(scene.other);
    free(r);
}

/* Half of the microflows are learned again when there is more room; none is in the way of others for long. */
static void test_room_grows(void **state)
{
    struct world *w = *state;
    struct reader *r = new_reader(w, 0);
    const uint32_t n = 600;
    uint32_t n_hits = 0;

    for (uint32_t i = 0; i < n; i++) {
        connect_from(w, SOURCE_PORT + i, i % 2);
    }
    for (int round = 0; round < DP_PATH_PAUSE; round++) {
        for (uint32_t i = 0; i < n; i++) {
            assert_true(send_from(r, SOURCE_PORT + i));
        }
    }
    assert_int_equal(w->paths.path_head->micro_last, N_MICROS - 1);
    assert_int_equal(w->paths.path_head->n_micros, in_use(w));
    for (uint32_t i = 0; i < n; i++) {
        n_hits += hits_from(r, SOURCE_PORT + i);
    }
    assert_true(n_hits >= n - n / 50);
    assert_int_equal(r->n_wrong, 0);
    free(r);
}

/* Without room nobody is in another's place. */
static void test_no_room(void **state)
{
    struct world *w = *state;
    struct reader *r = new_reader(w, 0);
    struct dp_path_head *head = w->paths.path_head;
    uint32_t n_hits = 0;

    head->micro_last = head->micro_most = DP_MICRO_PLACES - 1;
    for (uint32_t i = 0; i < 2 * DP_MICRO_PLACES; i++) {
        connect_from(w, SOURCE_PORT + i, i % 2);
        assert_true(send_from(r, SOURCE_PORT + i));
    }
    assert_int_equal(head->n_micros, DP_MICRO_PLACES);
    assert_int_equal(head->n_full, 1);
    assert_int_equal(r->run.path.pause, 37 - DP_MICRO_PLACES + 1);
    for (uint32_t i = 0; i < 2 * DP_MICRO_PLACES; i++) {
        n_hits += hits_from(r, SOURCE_PORT + i);
    }
    assert_int_equal(n_hits, DP_MICRO_PLACES);
    assert_int_equal(r->n_wrong, 0);
    free(r);
}

/* The sweeper may forget that there are microflows of a port, one of which was learned meanwhile. */
static void test_port_is_noted_again(void **state)
{
    struct world *w = *state;
    struct reader *r = new_reader(w, 0);

    change(w);
    assert_true(send_from(r, SOURCE_PORT));
    assert_true(hits_from(r, SOURCE_PORT));
    w->paths.path_head->port[IN_PORT] = 0;
    assert_true(send_from(r, SOURCE_PORT));
    assert_int_equal(r->run.path.found, DP_PATH_NONE);
    assert_true(hits_from(r, SOURCE_PORT));
    assert_int_equal(w->paths.path_head->n_micros, 1);
    free(r);
}

/* An established TCP connection from 'port'. */
static void connect_tcp(struct world *w, uint16_t port)
{
    struct dp_ct_run run = {
        .tuple = { .addr = { { dp_htonl(0x0a000001).raw }, { dp_htonl(0x0a000002).raw } },
                   .l4 = { dp_htons(port).raw, dp_htons(53).raw }, .zone = 1, .proto = DP_IP_TCP },
        .tcp_flags = DP_TCP_SYN,
    };
    struct dp_ct_action action = { .zone = 1, .flags = DP_CT_COMMIT };
    const uint64_t no_label[2] = { 0 };
    struct dp_ct_life *life;

    assert_int_equal(dp_ct_make(&w->ct.ctx, &run, &action, NOW), DP_CT_MADE);
    dp_ct_first_marks(&w->ct.ctx, run.ref, ct_world_intern(&w->ct, 1, no_label));
    life = &w->ct.tables.lives[DP_CT_REF_INDEX(run.ref)];
    life->state = DP_CT_PUT(life->state, DP_CT_STATE_TCP(0), 8, DP_CT_TCP_ESTABLISHED | DP_CT_TCP_ESTABLISHED << 4);
    life->state = DP_CT_PUT(life->state, DP_CT_STATE_WIN(0), 16, 0x4000);
    life->state = DP_CT_PUT(life->state, DP_CT_STATE_WIN(1), 16, 0x4000);
    life->state = DP_CT_PUT(life->state, DP_CT_STATE_CLASS, 4, DP_CT_TM_TCP_ESTABLISHED);
    life->window[0] = life->window[1] = DP_CT_WINDOW(1, 0x4001);
}

/* Sends a segment that acknowledges, without data.  Returns whether it met a path. */
static bool tcp_hits_from(struct reader *r, uint16_t port)
{
    struct dp_outcome outcome;
    uint8_t *ip, *tcp;

    make_frame(r, port);
    ip = r->frame + DP_ETH_LEN;
    tcp = ip + DP_IP4_LEN;
    ip[9] = DP_IP_TCP;
    dp_store16(ip + 10, 0);
    dp_store16(ip + 10, ~sum_of(ip, DP_IP4_LEN, 0));
    memset(tcp + 4, 0, DP_TCP_LEN - 4);
    tcp[7] = tcp[11] = 1;
    tcp[12] = 0x50;
    tcp[13] = DP_TCP_ACK;
    tcp[14] = 0x40;
    r->run.frame.local_stack = 0;
    r->run.path.found = DP_PATH_NONE;
    outcome = dp_pipeline(&r->ctx, IN_PORT, &r->run);
    assert_int_equal(outcome.fate, DP_FATE_OUTPUT);
    return r->run.path.found == DP_PATH_HIT;
}

/* Of a TCP connection that has only few segments nothing is learned. */
static void test_young_connection(void **state)
{
    struct world *w = *state;
    struct reader *r = new_reader(w, 0);

    connect_tcp(w, SOURCE_PORT);
    for (int i = 0; i < DP_CT_CALM; i++) {
        assert_false(tcp_hits_from(r, SOURCE_PORT));
        assert_int_equal(r->run.path.found, DP_PATH_NONE);
    }
    assert_int_equal(in_use(w), 0);
    assert_false(tcp_hits_from(r, SOURCE_PORT));
    assert_int_equal(in_use(w), 1);
    assert_true(tcp_hits_from(r, SOURCE_PORT));
    free(r);
}

static bool stop;

static void wait_sometimes(struct dp_ctx *ctx)
{
    static _Thread_local uint32_t n;

    if (++n % 8 == 0) {
        sched_yield();
    }
}

static void *read_on(void *r_)
{
    struct reader *r = r_;

    while (!DP_READ_ONCE(stop)) {
        if (send_from(r, SOURCE_PORT)) {
            DP_WRITE_ONCE(r->n_out, r->n_out + 1);
            DP_WRITE_ONCE(r->n_hits, r->n_hits + (r->run.path.found == DP_PATH_HIT));
        }
        DP_WRITE_ONCE(r->n_done, r->n_done + 1);
    }
    return NULL;
}

/* Waits until no reader has a packet that it had before, and frees all connections but the last. */
static void free_all(struct world *w, struct reader *readers[N_READERS])
{
    for (int i = 0; i < N_READERS; i++) {
        uint32_t before = DP_READ_ONCE(readers[i]->n_done);

        while (DP_READ_ONCE(readers[i]->n_done) - before < 2) {
            sched_yield();
        }
    }
    for (uint32_t i = 0; i < N_CONNS; i++) {
        if (w->ct.tables.keys[i].flags & DP_CT_KEY_USED && i != DP_CT_REF_INDEX(w->ref)) {
            dp_ct_free(&w->ct.ctx, i);
        }
    }
    w->n_made = 1;
}

static uint32_t hits_of(struct reader *readers[N_READERS])
{
    uint32_t n = 0;

    for (int i = 0; i < N_READERS; i++) {
        n += DP_READ_ONCE(readers[i]->n_hits);
    }
    return n;
}

static void test_two_processors(void **state)
{
    struct world *w = *state;
    struct reader *readers[N_READERS];
    time_t end = time(NULL) + SECONDS;
    pthread_t threads[N_READERS];
    uint32_t n_changes = 0;

    DP_WRITE_ONCE(stop, false);
    scene.at_path = wait_sometimes;
    change(w);
    for (int i = 0; i < N_READERS; i++) {
        readers[i] = new_reader(w, i);
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, readers[i]), 0);
    }
    for (int i = 0; i < N_READERS; i++) {
        while (!DP_READ_ONCE(readers[i]->n_hits)) {
            sched_yield();
        }
    }
    for (; n_changes < LEAST_CHANGES || (n_changes < MOST_CHANGES && time(NULL) < end); n_changes++) {
        uint32_t before = hits_of(readers);

        while (hits_of(readers) - before <= n_changes % 4 && time(NULL) < end) {
            sched_yield();
        }
        if (w->n_made > N_CONNS / 2) {
            free_all(w, readers);
        }
        change(w);
    }
    DP_WRITE_ONCE(stop, true);
    for (int i = 0; i < N_READERS; i++) {
        pthread_join(threads[i], NULL);
        print_message("CPU %d: %u packets left, %u of them by the cache, %u wrong\n", i, readers[i]->n_out,
                      readers[i]->n_hits, readers[i]->n_wrong);
        assert_int_equal(readers[i]->n_wrong, 0);
        free(readers[i]);
    }
    print_message("%u connections, one after the other\n", n_changes);
    assert_int_equal(w->paths.path_head->n_micros, in_use(w));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, world_create, world_destroy)
        TEST(test_learned_again),
        TEST(test_written_meanwhile),
        TEST(test_room_grows),
        TEST(test_no_room),
        TEST(test_port_is_noted_again), TEST(test_young_connection),
        TEST(test_two_processors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
