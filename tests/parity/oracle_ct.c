/* SPDX-License-Identifier: Apache-2.0 */
/* dp/ct*.h beside lib/conntrack.
 *
 * lib/conntrack is compiled here, with its own sources, so that time stands still, sweeping happens when it is asked
 * for, and what it knows of a connection can be compared.  Where a range of addresses or ports is to be chosen from,
 * ours begins with Open vSwitch's hash: so the choice is the same.
 *
 * Not compared, because Open vSwitch 3.1 is wrong there and later versions, or the kernel, do what we do:
 *
 *   corpses   a connection with NAT that a packet ended (force, a SYN after the end) keeps its second tuple until it is
 *             swept: a connection that takes its place gets another port, or none.  3.3 ends both at once.
 *   quotes    an ICMPv6 error about a TCP or UDP connection with NAT: the checksum of the quoted header is written over
 *             bytes of the error's own.  We compare that ours has right checksums and addresses.
 *             Nor does force end a connection with NAT, which it does since 3.3; for a packet that
 *             the same zone has translated it does not even find one.
 *   twins     two connections may have the same tuple in one direction if one of them has no NAT: either may be found.
 *   full      if both buckets of a tuple are full, ours makes no connection; also if they are full of those that have
 *             expired and are not swept, as none is here.
 *   asserted  of a packet that a zone has translated and tracks once more, it may take the second tuple of a
 *             connection with NAT for the connection: an assertion fails, which ends ovs-vswitchd
 *             (conn_update_state()).  The corpus has such a conversation.
 *   nat       ct(commit,nat) without a direction gives a connection the reply address 0.  Ours has no NAT.
 */
#include <config.h>

#include <netinet/in.h>
#include <setjmp.h>
#include <stdio.h>

#include "conntrack.h"
#include "conntrack-private.h"
#include "conntrack-tp.h"
#include "dp-packet.h"
#include "flow.h"
#include "openvswitch/vlog.h"
#include "ovs-rcu.h"
#include "ovs-thread.h"
#include "packets.h"
#include "tests/parity/oracle_ct.h"
#include "timeval.h"

static long long int oracle_now = 1000000000;

static jmp_buf asserted;

#undef ovs_assert
#define ovs_assert(CONDITION) ((CONDITION) ? (void) 0 : longjmp(asserted, 1))
#define time_msec() oracle_now
#define ovs_thread_create(NAME, START, ARG) ((void) (START), pthread_self())
#include "conntrack.c"
#undef ovs_thread_create
#undef time_msec
#include "conntrack-icmp.c"
#include "conntrack-other.c"
#undef VLOG_MODULE
#include "conntrack-tcp.c"

/* Ours, with three things replaced. */
struct dp_ct_run;
struct dp_ct_action;
static uint32_t oracle_hash(const struct dp_ct_run *, const struct dp_ct_action *);
static bool oracle_loses(void);
#define DP_CT_NAT_HASH(CTX, RUN, ACTION) oracle_hash(RUN, ACTION)
#define DP_CT_LOSES() oracle_loses()
#include "tests/parity/ct_world.h"

#define N_CONNS 512
#define TAILROOM 128            /* Behind the frame: Open vSwitch writes there. */

struct ct_oracle_left ct_oracle_left;

static struct conntrack *theirs;
static struct ct_world ours;
static struct dp_packet packet;
static struct dp_packet_batch batch;
static uint8_t *frame;          /* Ours; Open vSwitch has its own copy. */
static size_t frame_len;
static struct flow flow;
static struct dp_ct_run run;
static const struct ct_step *current;
static bool may_lose;
static unsigned int lost, random_losses;

static bool oracle_loses(void)
{
    random_losses = random_losses * 1103515245 + 12345;
    if (!may_lose || lost >= 3 || random_losses >> 16 & 1) {
        lost = 0;
        return false;
    }
    lost++;
    return true;
}

static void fill_range(const struct ct_step *step, struct nat_action_info_t *info)
{
    memset(info, 0, sizeof *info);
    info->nat_action = step->nat_action;
    info->min_port = step->min_port;
    info->max_port = step->max_port;
    memcpy(&info->min_addr, step->min_addr, flow.dl_type == htons(ETH_TYPE_IP) ? 4 : 16);
    memcpy(&info->max_addr, step->max_addr, flow.dl_type == htons(ETH_TYPE_IP) ? 4 : 16);
}

static void to_key(const struct dp_ct_tuple *t, struct conn_key *key)
{
    memset(key, 0, sizeof *key);
    memcpy(&key->src.addr, t->addr[0], t->v6 ? 16 : 4);
    memcpy(&key->dst.addr, t->addr[1], t->v6 ? 16 : 4);
    memcpy(&key->src.port, &t->l4[0], 4);
    memcpy(&key->dst.port, &t->l4[1], 4);
    key->dl_type = htons(t->v6 ? ETH_TYPE_IPV6 : ETH_TYPE_IP);
    key->zone = t->zone;
    key->nw_proto = t->proto;
}

static void from_key(const struct conn_key *key, struct dp_ct_tuple *t)
{
    memset(t, 0, sizeof *t);
    t->v6 = key->dl_type == htons(ETH_TYPE_IPV6);
    memcpy(t->addr[0], &key->src.addr, t->v6 ? 16 : 4);
    memcpy(t->addr[1], &key->dst.addr, t->v6 ? 16 : 4);
    memcpy(&t->l4[0], &key->src.port, 4);
    memcpy(&t->l4[1], &key->dst.port, 4);
    t->zone = key->zone;
    t->proto = key->nw_proto;
}

static uint32_t oracle_hash(const struct dp_ct_run *r, const struct dp_ct_action *action)
{
    struct nat_action_info_t info;
    struct conn conn;

    fill_range(current, &info);
    to_key(&r->tuple, &conn.key);
    return nat_range_hash(&conn, theirs->hash_basis, &info);
}

static uint32_t now_ticks(void) { return oracle_now; }

static void init(void)
{
    static const uint32_t seconds[2][DP_CT_N_TIMEOUTS] = {
        { 31, 32, 3600, 33, 34, 35, 36, 37, 38, 39, 40 },
        { 100, 5, 50, 60, 1, 3, 20, 7, 90, 2, 200 },
    };
    static const int attrs[DP_CT_N_TIMEOUTS] = {
        CT_DPIF_TP_ATTR_TCP_SYN_SENT, CT_DPIF_TP_ATTR_TCP_SYN_RECV, CT_DPIF_TP_ATTR_TCP_ESTABLISHED,
        CT_DPIF_TP_ATTR_TCP_FIN_WAIT, CT_DPIF_TP_ATTR_TCP_TIME_WAIT, CT_DPIF_TP_ATTR_TCP_CLOSE,
        CT_DPIF_TP_ATTR_UDP_FIRST, CT_DPIF_TP_ATTR_UDP_SINGLE, CT_DPIF_TP_ATTR_UDP_MULTIPLE,
        CT_DPIF_TP_ATTR_ICMP_FIRST, CT_DPIF_TP_ATTR_ICMP_REPLY,
    };

    vlog_set_levels(NULL, VLF_ANY_DESTINATION, VLL_OFF);
    flow_limit_vlans(2);
    theirs = conntrack_init();
    theirs->hash_basis = 0x12345678;
    ipf_set_enabled(theirs->ipf, false, false);
    ipf_set_enabled(theirs->ipf, true, false);
    ct_world_init(&ours, N_CONNS, 256);
    for (int i = 0; i < 2; i++) {
        struct timeout_policy tp = { .policy = { .id = i + 1 } };

        for (int class = 0; class < DP_CT_N_TIMEOUTS; class++) {
            tp.policy.attrs[attrs[class]] = seconds[i][class];
            tp.policy.present |= 1 << attrs[class];
            ours.tables.policies[i + 1].ticks[class] = seconds[i][class] * CT_WORLD_HZ;
        }
        timeout_policy_update(theirs, &tp);
    }
}

void ct_oracle_begin(bool loses)
{
    if (!theirs) {
        init();
    }
    may_lose = loses;
    lost = 0;
    random_losses = 1;
    conntrack_flush(theirs, NULL);
    for (int zone = DEFAULT_ZONE; zone < 4; zone++) {
        ovs_mutex_lock(&theirs->ct_lock);
        struct zone_limit *zl = zone_limit_lookup_protected(theirs, zone);

        if (zl) {
            zone_limit_clean(theirs, zl);
        }
        ovs_mutex_unlock(&theirs->ct_lock);
    }
    conntrack_set_maxconns(theirs, 3000000);
    conntrack_set_tcp_seq_chk(theirs, true);
    ovsrcu_quiesce();
    ct_world_clear(&ours);
    dp_packet_uninit(&packet);
    memset(&packet, 0, sizeof packet);
    free(frame);
    frame = NULL;
}

void ct_oracle_limit_zone(int zone, uint32_t limit)
{
    zone_limit_update(theirs, zone, limit);
    ct_world_limit_zone(&ours, zone, limit);
}

void ct_oracle_limit(uint32_t maxconns)
{
    conntrack_set_maxconns(theirs, maxconns);
    ours.tables.head->maxconns = maxconns;
}

void ct_oracle_check_sequence(bool check)
{
    conntrack_set_tcp_seq_chk(theirs, check);
    ours.tables.head->no_seq_check = !check;
}

static void sweep(void)
{
    for (int i = 0; i < N_EXP_LISTS; i++) {
        ct_sweep(theirs, &theirs->exp_lists[i], oracle_now);
    }
    may_lose ? (may_lose = false, ct_world_sweep(&ours, now_ticks()), may_lose = true)
        : ct_world_sweep(&ours, now_ticks());
}

/* Whether Open vSwitch has a connection with NAT that lookups pass over and that is not swept. */
static bool has_corpse(void)
{
    struct conn *conn;

    CMAP_FOR_EACH (conn, cm_node, &theirs->conns) {
        if (conn->conn_type == CT_CONN_TYPE_DEFAULT && conn->nat_conn && conn_expired(conn, oracle_now)) {
            return true;
        }
    }
    return false;
}

/* Whether Open vSwitch has two connections whose packets look the same in one direction: which one it finds then
 * depends on the order in its hash table. */
static bool has_twins(void)
{
    struct conn *conn, *other;

    CMAP_FOR_EACH (conn, cm_node, &theirs->conns) {
        if (conn->conn_type != CT_CONN_TYPE_DEFAULT || conn_expired(conn, oracle_now)) {
            continue;
        }
        CMAP_FOR_EACH (other, cm_node, &theirs->conns) {
            if (other != conn && other->conn_type == CT_CONN_TYPE_DEFAULT && !conn_expired(other, oracle_now)
                && (!conn_key_cmp(&conn->rev_key, &other->rev_key) || !conn_key_cmp(&conn->rev_key, &other->key))) {
                return true;
            }
        }
    }
    return false;
}

/* Whether the buckets of 't' have no free slot, or but one, which the other tuple may have needed. */
static bool is_full(const struct dp_ct_tuple *t)
{
    uint64_t hash = dp_ct_hash(ours.tables.head, t);
    uint32_t last = ours.tables.head->bucket_last;
    int n_free = 0;

    for (int i = 0; i < DP_CT_SLOTS; i++) {
        n_free += !ours.tables.buckets[dp_hash_bucket(hash, last)].slot[i];
        n_free += !ours.tables.buckets[dp_hash_alternative(hash, last)].slot[i];
    }
    return n_free <= 1;
}

/* Whether ours ended a connection with NAT that Open vSwitch goes on with. */
static bool has_survivor(void)
{
    for (uint32_t i = 0; i < ours.tables.n_keys; i++) {
        const struct dp_ct_key *key = &ours.tables.keys[i];
        struct dp_ct_tuple t;
        struct conn_key theirs_key;

        if (key->flags & DP_CT_KEY_USED && key->nat && ours.tables.lives[i].state & DP_CT_DEAD) {
            dp_ct_tuple_of(&ours.ctx, i, 0, &t);
            to_key(&t, &theirs_key);
            if (conn_lookup(theirs, &theirs_key, oracle_now, NULL, NULL)) {
                return true;
            }
        }
    }
    return false;
}

static bool same_conns(void);

bool ct_oracle_wait(uint64_t ms, bool do_sweep)
{
    oracle_now += ms;
    if (do_sweep || has_corpse()) {
        sweep();
    }
    return same_conns();
}

void ct_oracle_flush(int zone)
{
    uint16_t z = zone;

    conntrack_flush(theirs, zone < 0 ? NULL : &z);
    ct_world_flush(&ours, zone);
}

bool ct_oracle_packet(const uint8_t *data, size_t len)
{
    dp_packet_uninit(&packet);
    dp_packet_init(&packet, len + TAILROOM);
    memset(dp_packet_base(&packet), 0, len + TAILROOM);
    dp_packet_put(&packet, data, len);
    pkt_metadata_init(&packet.md, u32_to_odp(PARITY_IN_PORT));
    flow_extract(&packet, &flow);

    free(frame);
    frame = xmalloc(len);
    frame_len = len;
    memcpy(frame, data, len);
    ours.ctx.start = ours.ctx.data = frame;
    ours.ctx.end = frame + len;
    memset(&run, 0xa5, sizeof run);
    memset(&run.md, 0, sizeof run.md);
    return flow.dl_type == htons(ETH_TYPE_IP) || flow.dl_type == htons(ETH_TYPE_IPV6);
}

const uint8_t *ct_oracle_frame(size_t *len)
{
    *len = frame_len;
    return frame;
}

void ct_oracle_clear(void)
{
    conntrack_clear(&packet);
    run.md.state = 0;
    run.md.cached = 0;
}

void ct_oracle_set_address(bool dst, const uint8_t addr[16])
{
    if (packet.l4_ofs == UINT16_MAX) {
        return;
    }
    if (flow.dl_type == htons(ETH_TYPE_IP)) {
        struct ip_header *ip = dp_packet_l3(&packet);

        packet_set_ipv4_addr(&packet, dst ? &ip->ip_dst : &ip->ip_src, get_unaligned_be32((const ovs_be32 *) addr));
    } else {
        struct ovs_16aligned_ip6_hdr *ip = dp_packet_l3(&packet);
        struct in6_addr in6;

        memcpy(&in6, addr, sizeof in6);
        packet_set_ipv6_addr(&packet, flow.nw_proto, dst ? ip->ip6_dst.be32 : ip->ip6_src.be32, &in6, true);
    }
    memcpy(frame, dp_packet_data(&packet), frame_len);
    run.md.cached = 0;
}

static void describe(const struct ct_step *step, uint8_t before)
{
    fprintf(stderr, "ct(zone=%d%s%s%s, nat action %#x, ports %d-%d%s%s, policy %d) of a packet with ct_state %#x\n",
            step->zone, step->commit ? ",commit" : "", step->force ? ",force" : "", step->nat ? ",nat" : "",
            step->nat_action, step->min_port, step->max_port, step->set_mark ? ",mark" : "",
            step->set_label ? ",label" : "", step->policy, before);
    parity_dump("range", step->min_addr, 16);
    parity_dump("to", step->max_addr, 16);
    parity_dump("frame, ours", frame, MIN(frame_len, 128));
}

/* Returns false if an assertion failed. */
static bool run_theirs(const struct ct_step *step)
{
    struct nat_action_info_t info;

    if (setjmp(asserted)) {
        return false;
    }

    fill_range(step, &info);
    dp_packet_batch_init_packet(&batch, &packet);
    conntrack_execute(theirs, &batch, flow.dl_type, step->force, step->commit, step->zone,
                      step->set_mark ? step->mark : NULL,
                      step->set_label ? (const struct ovs_key_ct_labels *) step->label : NULL, 0, 0, NULL,
                      step->nat ? &info : NULL, oracle_now, step->policy);
    return true;
}

/* Open vSwitch judges packets from and to FTP's port and to TFTP's again, with or without a helper. */
static bool judged_again(void)
{
    return packet.l4_ofs != UINT16_MAX && get_alg_ctl_type(&packet, 0, 0, NULL) != CT_ALG_CTL_NONE;
}

static void run_ours(const struct ct_step *step, bool again)
{
    struct dp_ct_action action = {
        .zone = step->zone, .policy = step->policy,
        .flags = (step->commit ? DP_CT_COMMIT : 0) | (step->force ? DP_CT_FORCE : 0) | (step->nat ? DP_CT_NAT : 0)
            | (step->nat_action & NAT_ACTION_SRC ? DP_CT_TO_SRC : 0)
            | (step->nat_action & NAT_ACTION_DST ? DP_CT_TO_DST : 0)
            | (step->nat_action & (NAT_ACTION_SRC_PORT | NAT_ACTION_DST_PORT) ? DP_CT_TO_PORTS : 0)
            | (step->set_mark ? DP_CT_MARK : 0) | (step->set_label ? DP_CT_LABEL : 0)
            | (again ? DP_CT_ANEW_EACH : 0),
        .mark = step->mark[0], .mark_mask = step->mark[1],
        .nat = { .min_port = step->min_port, .max_port = step->max_port },
    };
    struct dp_frame layers = { .l3 = packet.l3_ofs, .l4 = packet.l4_ofs, .l4_len = dp_packet_l4_size(&packet) };
    bool v6 = flow.dl_type == htons(ETH_TYPE_IPV6);
    enum dp_ct_result result;

    memcpy(action.label, step->label[0], 16);
    memcpy(action.label_mask, step->label[1], 16);
    memcpy(action.nat.min, step->min_addr, v6 ? 16 : 4);
    memcpy(action.nat.max, step->max_addr, v6 ? 16 : 4);
    for (int i = 0; (result = dp_ct(&ours.ctx, &layers, v6, &action, now_ticks(), &run)) == DP_CT_BUSY; i++) {
        if (!may_lose || i == 1000) {
            fprintf(stderr, "a bucket is locked by nobody\n");
            describe(step, packet.md.ct_state);
            abort();
        }
    }
    ct_world_finish(&ours, &run);
}

#define DIFFERS(WHAT, OURS, THEIRS)                                                                         \
    ((unsigned long long) (OURS) != (unsigned long long) (THEIRS)                                           \
     && (fprintf(stderr, "%s: %#llx, Open vSwitch: %#llx\n", WHAT, (unsigned long long) (OURS),             \
                 (unsigned long long) (THEIRS)), true))

static bool same_tuples(const struct conn *conn, uint32_t index)
{
    bool same = true;

    for (int d = 0; d < 2; d++) {
        struct dp_ct_tuple a, b;

        from_key(d ? &conn->rev_key : &conn->key, &b);
        dp_ct_tuple_of(&ours.ctx, index, d, &a);
        if (memcmp(&a, &b, sizeof a)) {
            fprintf(stderr, "tuples of direction %d differ\n", d);
            parity_dump("ours", (uint8_t *) &a, sizeof a);
            parity_dump("Open vSwitch's", (uint8_t *) &b, sizeof b);
            same = false;
        }
    }
    return same;
}

static bool same_conn(const struct conn *conn, uint32_t ref)
{
    uint32_t index = DP_CT_REF_INDEX(ref);
    const struct dp_ct_key *key = &ours.tables.keys[index];
    const struct dp_ct_life *life = &ours.tables.lives[index];
    const struct dp_ct_marks *marks = &ours.tables.marks[key->marks];
    uint32_t ticks = ours.tables.policies[key->policy].ticks[DP_CT_CLASS(life->state)];
    bool differs = !same_tuples(conn, index);

    differs |= DIFFERS("expires in", (int32_t) (life->used + ticks - now_ticks()), conn->expiration - oracle_now);
    differs |= DIFFERS("mark", marks->mark, conn->mark);
    differs |= DIFFERS("label", marks->label[0], conn->label.u64.lo);
    differs |= DIFFERS("label's end", marks->label[1], conn->label.u64.hi);
    differs |= DIFFERS("nat", key->nat, conn->nat_action & (NAT_ACTION_SRC | NAT_ACTION_DST));
    if (conn->key.nw_proto == IPPROTO_TCP) {
        const struct conn_tcp *tcp = conn_tcp_cast(conn);
        struct dp_ct_words w = { .state = life->state, .window = { life->window[0], life->window[1] } };

        for (int d = 0; d < 2; d++) {
            struct dp_ct_peer peer;

            dp_ct_tcp_load(&peer, &w, d);
            differs |= DIFFERS("seqlo", peer.seqlo, tcp->peer[d].seqlo);
            differs |= DIFFERS("seqhi", peer.seqhi, tcp->peer[d].seqhi);
            differs |= DIFFERS("max_win", peer.win, tcp->peer[d].max_win);
            differs |= DIFFERS("wscale", peer.wscale, tcp->peer[d].wscale);
            differs |= DIFFERS("state", peer.state, tcp->peer[d].state);
        }
    }
    return !differs;
}

/* Whether both have the same connections. */
static bool same_conns(void)
{
    unsigned int n = 0, n_ours = 0;
    struct conn *conn;
    bool same = true;

    CMAP_FOR_EACH (conn, cm_node, &theirs->conns) {
        struct dp_ct_tuple t;
        uint32_t ref;

        if (conn->conn_type != CT_CONN_TYPE_DEFAULT || conn_expired(conn, oracle_now)) {
            continue;
        }
        n++;
        from_key(&conn->key, &t);
        ref = dp_ct_find(&ours.ctx, &t, now_ticks());
        if (!ref || DP_CT_REF_REPLY(ref)) {
            fprintf(stderr, "only Open vSwitch has a connection of zone %d, protocol %d\n", t.zone, t.proto);
            same = false;
        } else {
            same &= same_conn(conn, ref);
        }
    }
    for (uint32_t i = 0; i < ours.tables.n_keys; i++) {
        n_ours += ours.tables.keys[i].flags & DP_CT_KEY_USED
            && !dp_ct_expired(&ours.ctx, &ours.tables.keys[i], &ours.tables.lives[i], now_ticks());
    }
    same &= !DIFFERS("connections", n_ours, n);
    same &= !DIFFERS("counted", ours.tables.head->n_conns, atomic_count_get(&theirs->n_conn));
    for (int zone = DEFAULT_ZONE; zone < 4; zone++) {
        struct zone_limit *zl = zone_limit_lookup(theirs, zone);

        if (zl) {
            same &= !DIFFERS("counted in a zone", ours.tables.zones[zone < 0 ? DP_CT_ZONE_DEFAULT : zone].count,
                             atomic_count_get(&zl->czl.count));
        }
    }
    return same;
}

static bool same_metadata(void)
{
    const struct pkt_metadata *md = &packet.md;
    bool differs = DIFFERS("ct_state", run.md.state, md->ct_state);

    differs |= DIFFERS("ct_zone", run.md.zone, md->ct_zone);
    differs |= DIFFERS("ct_mark", run.md.mark, md->ct_mark);
    differs |= DIFFERS("ct_label", run.md.label[0], md->ct_label.u64.lo);
    differs |= DIFFERS("ct_label's end", run.md.label[1], md->ct_label.u64.hi);
    differs |= DIFFERS("original tuple of IPv6", run.md.v6, md->ct_orig_tuple_ipv6);
    if (md->ct_orig_tuple_ipv6) {
        const struct ovs_key_ct_tuple_ipv6 *t = &md->ct_orig_tuple.ipv6;

        differs |= DIFFERS("ct_ipv6_src", memcmp(run.md.addr[0], &t->ipv6_src, 16), 0);
        differs |= DIFFERS("ct_ipv6_dst", memcmp(run.md.addr[1], &t->ipv6_dst, 16), 0);
        differs |= DIFFERS("ct_nw_proto", run.md.proto, t->ipv6_proto);
        differs |= DIFFERS("ct_tp_src", run.md.tp[0], t->src_port);
        differs |= DIFFERS("ct_tp_dst", run.md.tp[1], t->dst_port);
    } else {
        const struct ovs_key_ct_tuple_ipv4 *t = &md->ct_orig_tuple.ipv4;

        differs |= DIFFERS("ct_nw_src", run.md.addr[0][0], t->ipv4_src);
        differs |= DIFFERS("ct_nw_dst", run.md.addr[1][0], t->ipv4_dst);
        differs |= DIFFERS("ct_nw_proto", run.md.proto, t->ipv4_proto);
        differs |= DIFFERS("ct_tp_src", run.md.tp[0], t->src_port);
        differs |= DIFFERS("ct_tp_dst", run.md.tp[1], t->dst_port);
    }
    differs |= DIFFERS("known connection", run.md.cached != 0, md->conn != NULL);
    if (md->conn && run.md.cached && md->conn->nat_action) {       /* Else nobody asks. */
        differs |= DIFFERS("its direction", DP_CT_REF_REPLY(run.md.cached), md->reply);
        differs |= DIFFERS("related", run.md.related, md->icmp_related);
    }
    return !differs;
}

/* The frames, but for padding. */
static bool same_bytes(void)
{
    size_t n = frame_len - dp_packet_l2_pad_size(&packet);

    if (memcmp(frame, dp_packet_data(&packet), n)) {
        fprintf(stderr, "the frame differs\n");
        parity_dump("ours", frame, n);
        parity_dump("Open vSwitch's", dp_packet_data(&packet), n);
        return false;
    }
    return true;
}

/* An ICMPv6 error that ours translated: right checksum, and it quotes a packet from where it goes to. */
static bool good_quote(void)
{
    uint8_t *ip = frame + packet.l3_ofs;
    bool good = dp_ct_l4_is_good(&ours.ctx, &run) && !memcmp(ip + 24, frame + run.inner_l3 + 8, 16);

    if (!good) {
        fprintf(stderr, "an ICMPv6 error was not translated well\n");
        parity_dump("ours", frame, frame_len);
    }
    return good;
}

enum parity ct_oracle_step(const struct ct_step *wanted)
{
    uint8_t state = packet.md.ct_state;
    uint8_t before = packet.md.ct_zone == wanted->zone ? state & (CS_SRC_NAT | CS_DST_NAT) : 0;
    struct ct_step copy = *wanted, *step = &copy;
    bool quotes;

    copy.force &= !before;
    current = step;
    bool again = judged_again();        /* Of the packet as it comes. */

    if (!run_theirs(step)) {
        ct_oracle_left.asserted++;
        return PARITY_BEYOND;
    }
    run_ours(step, again);
    if (has_corpse() || (step->force && has_survivor())) {
        ct_oracle_left.corpses++;
        return PARITY_BEYOND;
    }
    if (has_twins()) {
        ct_oracle_left.twins++;
        return PARITY_BEYOND;
    }
    if (run.refused == DP_CT_REFUSED_FULL + 1 && (is_full(&run.tuple) || is_full(&run.reply))) {
        ct_oracle_left.full++;
        return PARITY_BEYOND;
    }
    quotes = run.md.v6 && run.related && !before && packet.md.ct_state & (CS_SRC_NAT | CS_DST_NAT)
        && (run.md.proto == IPPROTO_TCP || run.md.proto == IPPROTO_UDP);
    ct_oracle_left.quotes += quotes;
    ct_oracle_left.states[run.md.state]++;

    bool same = same_metadata();

    same &= same_conns();
    same &= quotes ? good_quote() : same_bytes();
    if (!same) {
        describe(step, state);
        return PARITY_DIFFERENT;
    }
    if (quotes) {
        memcpy(dp_packet_data(&packet), frame, frame_len);
    }
    return PARITY_EQUAL;
}
