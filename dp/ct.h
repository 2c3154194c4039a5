/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Connection tracking: what all its parts share.
 *
 * A hook, or the engine, tracks a packet for one ct() action:
 *
 *     struct dp_ct_run run;            what the stages hand over to each other; 'run.md' is kept from one ct() of
 *                                      a packet to the next, all zeros at first
 *     struct dp_ct_action action;      what ct() says
 *
 *     switch (dp_ct(ctx, &frame, now, &action, &run)) {       dp/ct_run.h
 *     case DP_CT_DONE: run.md has state, zone, mark, label and original tuple; the frame is translated;
 *                      run.ref is the connection, 0 if there is none;
 *                      if run.remark, the connection is to have md's mark and label: dp_ct_remark()
 *     case DP_CT_BUSY: another CPU makes a connection in the same bucket: nothing was done, call again
 *     }
 *
 * Its stages are called one after the other, not nested, because the chain of calls has little stack:
 *
 *     dp_ct_packet()       dp/ct_packet.h  the packet's tuple and what TCP says; refuses what is damaged
 *     dp_ct_error()        dp/ct_error.h   the tuple that an ICMP error is about
 *     dp_ct_find()         dp/ct.h         the connection that has the tuple
 *     dp_ct_update_*()     dp/ct_tcp.h, dp/ct_other.h      what the packet does to it
 *     dp_ct_make()         dp/ct_new.h     a new connection, after dp_ct_choose() of dp/ct_nat.h found its addresses
 *     dp_ct_translate()    dp/ct_nat.h     new addresses and ports
 *     dp_ct_write()        dp/ct.h         metadata
 *
 * They reach packets through the seam (dp_at()), the tables of dp/ct_table.h through dp_ct_NAME_at(), and take the time
 * in ticks, of which only differences matter.
 *
 * Programs do that for the operation CT of a flow, in dp/ct_op.h, which leaves some packets to the engine; most packets
 * are done in one stage, dp/ct_fast.h.
 *
 * What userspace needs besides (core/): dp_ct_tuple_of(), dp_ct_find(), dp_ct_hash(), dp_ct_expired(), dp_ct_kill()
 * here; dp_ct_unpublish(), dp_ct_discount() and, after a grace period, dp_ct_free() of dp/ct_new.h.
 *
 * Semantics are those of Open vSwitch's lib/conntrack, which is the oracle of tests/parity/oracle_ct.c.
 */
#ifndef DP_CT_H
#define DP_CT_H 1

#include "dp/ct_table.h"
#include "dp/frame.h"
#include "dp/hash.h"

/* The bits of ct_state: Open vSwitch's CS_*. */
#define DP_CS_NEW 0x01
#define DP_CS_EST 0x02
#define DP_CS_REL 0x04
#define DP_CS_RPL 0x08
#define DP_CS_INV 0x10
#define DP_CS_TRK 0x20
#define DP_CS_SNAT 0x40
#define DP_CS_DNAT 0x80
#define DP_CS_NAT (DP_CS_SNAT | DP_CS_DNAT)

enum dp_ct_result { DP_CT_DONE, DP_CT_BUSY };

/* What a packet did to its connection. */
enum dp_ct_verdict {
    DP_CT_VALID,                /* +est */
    DP_CT_VALID_NEW,            /* +new */
    DP_CT_INVALID,              /* +inv */
    DP_CT_ANEW,                 /* The connection is dead: the packet begins another. */
    DP_CT_NONE,                 /* There is none. */
};

/* A range of addresses and ports that nat() gives.  Addresses as in struct dp_ct_tuple; ports in host byte order. */
struct dp_ct_range {
    __u64 min[2], max[2];       /* 'min' of zeros: the packet's own. */
    __u16 min_port, max_port;
};

struct dp_ct_action {
    __u16 zone;
    __u16 policy;               /* Of a connection that it makes. */
    __u32 flags;                /* DP_CT_*. */
    __u32 mark, mark_mask;
    __u64 label[2], label_mask[2];
    struct dp_ct_range nat;
};

#define DP_CT_COMMIT 1
#define DP_CT_FORCE 2           /* With DP_CT_COMMIT. */
#define DP_CT_NAT 4             /* nat without a direction: what the connection has is applied. */
#define DP_CT_TO_SRC 8          /* With DP_CT_NAT: a connection that it makes has its source rewritten, */
#define DP_CT_TO_DST 16         /* or its destination, */
#define DP_CT_TO_PORTS 32       /* to ports of the range. */
#define DP_CT_MARK 64
#define DP_CT_LABEL 128
#define DP_CT_ANEW_EACH 256     /* A second ct() in the same zone judges the packet again: a helper's control packet. */
#define DP_CT_GOOD_L3 512       /* Somebody verified the IPv4 header's checksum, */
#define DP_CT_GOOD_L4 1024      /* and the transport's. */
#define DP_CT_FRESH 2048        /* The packet's metadata is forgotten first: ct_clear.  Of an operation (dp/ct_op.h). */
#define DP_CT_SCTP 4096         /* SCTP has ports, and is verified (Open vSwitch 3.2): the engine's. */
#define DP_CT_ICMP_ID 8192      /* NAT of IPv4 changes ICMP's id if need be (4.0): likewise. */
#define DP_CT_FIRST_FRAGMENT 16384      /* An ICMPv4 error may quote a first fragment (3.6): likewise. */

/* What matches on the packet see, and the packet's next ct().  All but 'cached' is as it was while 'state' is 0. */
struct dp_ct_md {
    __u8 state;                 /* DP_CS_*. */
    __u8 v6;                    /* The original tuple has IPv6 addresses. */
    __u16 zone;
    __u32 mark;
    __u64 label[2];
    __u64 addr[2][2];           /* The original tuple, as in struct dp_ct_tuple. */
    __u16 tp[2];                /* Memory order; of ICMP type and code. */
    __u8 proto;
    __u8 related;               /* 'cached' came of an ICMP error. */
    __u16 pad;
    __u32 cached;               /* DP_CT_REF() of a connection that this packet has been judged by, */
    __u32 generation;           /* and which of all that had this index. */
};
_Static_assert(sizeof(struct dp_ct_md) == 72, "metadata layout");

/* A TCP connection's words. */
struct dp_ct_words {
    __u64 state;
    __u64 window[2];
};

/* What a stage hands over. */
struct dp_ct_run {
    struct dp_ct_md md;
    struct dp_ct_tuple tuple;   /* Of the packet; after NAT in the same zone, what it was before. */
    struct dp_ct_tuple reply;   /* Of the connection to be made. */
    __u16 l3, l4;               /* Offsets. */
    __u16 l4_len;               /* Bytes from there to the end of the IP packet. */
    __u8 proto;                 /* Of the packet: of an ICMP error, not of the tuple that it is about. */
    __u8 v6;
    __u8 icmp_type;
    __u8 related;               /* The packet is an ICMP error and 'tuple' what it is about. */
    __u16 inner_l3, inner_l4;   /* Of an ICMP error: offsets of the headers that it quotes. */
    __u8 tcp_flags;
    __u8 tcp_wscale;            /* Of a SYN: DP_CT_WSCALE_*. */
    __u16 tcp_window;
    __u32 tcp_seq, tcp_ack;
    __u32 tcp_len;              /* Payload. */
    __u32 ref;                  /* Of the connection, 0: none. */
    __u32 remark;               /* The connection is to have the mark and label of 'md'. */
    __u32 refused;              /* No connection was made: 1 + enum dp_ct_refusal.  Nobody sets it to 0. */
    __u32 refresh;              /* Its time begins anew. */
    __u32 version;              /* Of the connection, before anything was read of it: of dp_ct_fast(). */
    __u32 verified;             /* The packet's transport checksum is right: of programs. */
    __u32 is_young;             /* Nothing is to be learned of it yet: likewise. */
    struct dp_ct_words found, judged;   /* Of TCP: what the segment found, and what it made of it. */
};

/* Whether compare-and-swap is to fail although nobody else wrote: a test's. */
#ifndef DP_CT_LOSES
#define DP_CT_LOSES() 0
#endif

/* Makes '*word' 'value' if it is '*expected'.  Returns whether it was; if not, '*expected' is what it is. */
DP_INLINE int dp_ct_swap(__u64 *word, __u64 *expected, __u64 value)
{
    if (DP_CT_LOSES()) {
        *expected = DP_READ_ONCE(*word);
        return 0;
    }

    __u64 found = __sync_val_compare_and_swap(word, *expected, value);
    int swapped = found == *expected;

    *expected = found;
    return swapped;
}

DP_INLINE __u64 dp_ct_hash(const struct dp_ct_head *head, const struct dp_ct_tuple *t)
{
    __u64 hash = dp_hash_word((__u64) t->l4[1] << 32 | t->l4[0], head->hash_key[0])
        + dp_hash_word((__u64) t->v6 << 24 | (__u64) t->proto << 16 | t->zone, head->hash_key[1]);

    if (t->v6) {
        hash += dp_hash_word(t->addr[0][0], head->hash_key[2]) + dp_hash_word(t->addr[0][1], head->hash_key[3])
            + dp_hash_word(t->addr[1][0], head->hash_key[4]) + dp_hash_word(t->addr[1][1], head->hash_key[5]);
    } else {
        hash += dp_hash_word(t->addr[1][0] << 32 | t->addr[0][0], head->hash_key[2]);
    }
    hash ^= hash >> 32;
    hash *= 0x9fb21c651e98df25ull;
    return hash ^ hash >> 28;
}

DP_INLINE void dp_ct_reverse(struct dp_ct_tuple *to, const struct dp_ct_tuple *from)
{
    for (int i = 0; i < 2; i++) {
        to->addr[i][0] = from->addr[!i][0];
        to->addr[i][1] = from->addr[!i][1];
        to->l4[i] = from->l4[!i];
    }
    to->zone = from->zone;
    to->proto = from->proto;
    to->v6 = from->v6;
    to->pad = 0;
}

/* Whether packets of direction 'd' of connection 'index', whose key is 'key', have tuple 't'.  The protocol is read by
 * itself: with the zone, as one word, the compiler would read the flags, too. */
DP_INLINE int dp_ct_has(struct dp_ctx *ctx, const struct dp_ct_key *key, __u32 index, __u32 d,
                        const struct dp_ct_tuple *t)
{
    if (key->zone != t->zone || DP_READ_ONCE(key->proto) != t->proto
        || !(DP_READ_ONCE(key->flags) & DP_CT_KEY_V6) != !t->v6 || key->l4[d][0] != t->l4[0]
        || key->l4[d][1] != t->l4[1]) {
        return 0;
    }
    if (!t->v6) {
        return key->ip4[d][0] == t->addr[0][0] && key->ip4[d][1] == t->addr[1][0];
    }

    const struct dp_ct_addr6 *a = dp_ct_addr6_at(ctx, index);

    return a && a->addr[d][0][0] == t->addr[0][0] && a->addr[d][0][1] == t->addr[0][1]
        && a->addr[d][1][0] == t->addr[1][0] && a->addr[d][1][1] == t->addr[1][1];
}

/* The tuple of direction 'd' of connection 'index'. */
DP_INLINE void dp_ct_tuple_of(struct dp_ctx *ctx, __u32 index, __u32 d, struct dp_ct_tuple *t)
{
    const struct dp_ct_key *key = dp_ct_keys_at(ctx, index);
    const struct dp_ct_addr6 *a = dp_ct_addr6_at(ctx, index);

    d &= 1;
    if (!key || !a) {
        __builtin_memset(t, 0, sizeof *t);
        return;
    }
    t->zone = key->zone;
    t->proto = key->proto;
    t->v6 = !!(DP_READ_ONCE(key->flags) & DP_CT_KEY_V6);
    t->pad = 0;
    for (int i = 0; i < 2; i++) {
        t->l4[i] = key->l4[d][i];
        t->addr[i][0] = t->v6 ? a->addr[d][i][0] : key->ip4[d][i];
        t->addr[i][1] = t->v6 ? a->addr[d][i][1] : 0;
    }
}

/* Whether lookups pass over a connection: it is dead, or its time is up.  The clocks of two CPUs are not in step:
 * 'now' may lie before 'used'. */
DP_INLINE int dp_ct_expired(struct dp_ctx *ctx, const struct dp_ct_key *key, const struct dp_ct_life *life, __u32 now)
{
    __u64 state = DP_READ_ONCE(life->state);
    const struct dp_ct_policy *policy = dp_ct_policies_at(ctx, key->policy);
    __u32 class = DP_CT_CLASS(state);

    if (state & DP_CT_DEAD) {
        return 1;
    }
    return policy && class < DP_CT_N_TIMEOUTS
        && (__s32) (now - DP_READ_ONCE(life->used)) >= (__s32) policy->ticks[class];
}

/* Ends connection 'index' for all lookups.  Returns whether it was alive. */
DP_INLINE int dp_ct_kill(struct dp_ctx *ctx, __u32 index)
{
    struct dp_ct_life *life = dp_ct_lives_at(ctx, index);

    if (!life || __sync_fetch_and_or(&life->state, DP_CT_DEAD) & DP_CT_DEAD) {
        return 0;
    }
    __sync_fetch_and_add(&life->version, 1);
    return 1;
}

/* The reference in 'bucket' of a live connection's tuple 't'; 0 if there is none. */
DP_INLINE __u32 dp_ct_find_in(struct dp_ctx *ctx, const struct dp_ct_bucket *bucket, __u32 tag,
                              const struct dp_ct_tuple *t, __u32 now)
{
    DP_UNROLL
    for (int i = 0; i < DP_CT_SLOTS; i++) {
        __u64 slot = DP_READ_ONCE(bucket->slot[i]);
        __u32 ref = DP_CT_SLOT_REF(slot);

        if (!ref || DP_CT_SLOT_TAG(slot) != tag) {
            continue;
        }

        __u32 index = DP_CT_REF_INDEX(ref);
        const struct dp_ct_key *key = dp_ct_keys_at(ctx, index);
        const struct dp_ct_life *life = dp_ct_lives_at(ctx, index);

        if (key && life && dp_ct_has(ctx, key, index, DP_CT_REF_REPLY(ref), t) && !dp_ct_expired(ctx, key, life, now)) {
            return ref;
        }
    }
    return 0;
}

/* The live connection, and its direction, of packets with tuple 't'; 0 if there is none.  'now': ticks. */
DP_STAGE __u32 dp_ct_find(struct dp_ctx *ctx, const struct dp_ct_tuple *t, __u32 now)
{
    const struct dp_ct_head *head = dp_ct_head_at(ctx, 0);

    if (!head || !t) {
        return 0;
    }

    __u64 hash = dp_ct_hash(head, t);
    const struct dp_ct_bucket *bucket = dp_ct_buckets_at(ctx, dp_hash_bucket(hash, head->bucket_last));

    if (!bucket) {
        return 0;
    }

    __u32 ref = dp_ct_find_in(ctx, bucket, dp_hash_tag(hash), t, now);

    if (!ref && DP_READ_ONCE(bucket->n_elsewhere)) {
        bucket = dp_ct_buckets_at(ctx, dp_hash_alternative(hash, head->bucket_last));
        ref = bucket ? dp_ct_find_in(ctx, bucket, dp_hash_tag(hash), t, now) : 0;
    }
    return ref;
}

/* Whether a tuple has ICMP's id and types instead of ports. */
DP_INLINE int dp_ct_is_icmp(const struct dp_ct_tuple *t)
{
    return t->proto == (t->v6 ? DP_IP_ICMP6 : DP_IP_ICMP);
}

DP_INLINE void dp_ct_write_tuple(struct dp_ct_md *md, const struct dp_ct_tuple *original)
{
    __builtin_memcpy(md->addr, original->addr, sizeof md->addr);
    md->v6 = original->v6;
    md->proto = original->proto;
    md->tp[0] = dp_ct_is_icmp(original) ? dp_htons(DP_CT_L4_TYPE(original->l4[0])).raw : DP_CT_L4_PORT(original->l4[0]);
    md->tp[1] = dp_ct_is_icmp(original) ? 0 : DP_CT_L4_PORT(original->l4[1]);
}

/* The metadata of a packet with tuple 't' (NULL: it has none, it is damaged) and connection 'ref'.  Returns 0. */
DP_STAGE int dp_ct_write(struct dp_ctx *ctx, struct dp_ct_md *md, __u16 zone, __u32 ref, struct dp_ct_tuple *t)
{
    struct dp_ct_tuple *original = t;
    const struct dp_ct_marks *marks = 0;

    if (!md) {
        return 0;
    }
    if (ref) {
        const struct dp_ct_key *key = dp_ct_keys_at(ctx, DP_CT_REF_INDEX(ref));
        const struct dp_ct_cold *cold = dp_ct_cold_at(ctx, DP_CT_REF_INDEX(ref));

        if (!key || !cold || !t) {
            return 0;
        }
        marks = dp_ct_marks_at(ctx, DP_READ_ONCE(key->marks));
        if (DP_READ_ONCE(key->flags) & DP_CT_KEY_RELATED) {
            *original = cold->parent;
        } else {
            dp_ct_tuple_of(ctx, DP_CT_REF_INDEX(ref), 0, original);
        }
    }
    md->state |= DP_CS_TRK;
    md->zone = zone;
    md->mark = marks ? marks->mark : 0;
    md->label[0] = marks ? marks->label[0] : 0;
    md->label[1] = marks ? marks->label[1] : 0;
    if (original) {
        dp_ct_write_tuple(md, original);
    } else {
        __builtin_memset(md->addr, 0, sizeof md->addr);
        md->v6 = 0;
        md->proto = 0;
        md->tp[0] = md->tp[1] = 0;
    }
    return 0;
}

/* Mark and label of 'md' become what 'action' says, unless a helper expected the connection.  Returns whether the
 * connection is to have them. */
DP_INLINE int dp_ct_set_marks(struct dp_ctx *ctx, struct dp_ct_md *md, const struct dp_ct_action *action, __u32 ref)
{
    const struct dp_ct_key *key = dp_ct_keys_at(ctx, DP_CT_REF_INDEX(ref));

    if (!key || DP_READ_ONCE(key->flags) & DP_CT_KEY_RELATED || !(action->flags & (DP_CT_MARK | DP_CT_LABEL))) {
        return 0;
    }

    __u32 mark = md->mark;
    __u64 label[2] = { md->label[0], md->label[1] };

    if (action->flags & DP_CT_MARK) {
        md->mark = action->mark | (md->mark & ~action->mark_mask);
    }
    if (action->flags & DP_CT_LABEL) {
        md->label[0] = action->label[0] | (md->label[0] & ~action->label_mask[0]);
        md->label[1] = action->label[1] | (md->label[1] & ~action->label_mask[1]);
    }
    return md->mark != mark || md->label[0] != label[0] || md->label[1] != label[1];
}

/* Gives connection 'ref' marks[marks], which has what run.md has.  Returns which it had.  Userspace. */
DP_INLINE __u32 dp_ct_remark(struct dp_ctx *ctx, __u32 ref, __u32 marks)
{
    struct dp_ct_key *key = dp_ct_keys_at(ctx, DP_CT_REF_INDEX(ref));
    struct dp_ct_life *life = dp_ct_lives_at(ctx, DP_CT_REF_INDEX(ref));
    __u32 before;

    if (!key || !life) {
        return 0;
    }
    before = DP_EXCHANGE(&key->marks, marks);
    __sync_fetch_and_add(&life->version, 1);
    return before;
}

/* Likewise in a program, of a connection that this packet has made: its pair is that of zeros.  The caller's flow holds
 * marks[marks], so that it has not gone. */
DP_INLINE void dp_ct_first_marks(struct dp_ctx *ctx, __u32 ref, __u32 marks)
{
    struct dp_ct_key *key = dp_ct_keys_at(ctx, DP_CT_REF_INDEX(ref));
    struct dp_ct_life *life = dp_ct_lives_at(ctx, DP_CT_REF_INDEX(ref));
    struct dp_ct_marks *pair = dp_ct_marks_at(ctx, marks);

    if (!marks || !key || !life || !pair) {
        return;
    }
    __sync_fetch_and_add(&pair->refs, 1);
    if (__sync_val_compare_and_swap(&key->marks, 0, marks)) {
        __sync_fetch_and_add(&pair->refs, -1);  /* The engine was faster. */
        return;
    }
    __sync_fetch_and_add(&life->version, 1);
}

#endif /* dp/ct.h */
