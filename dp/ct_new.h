/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Connection tracking: making connections, and what a sweeper does to dead ones.
 *
 * Two packets that begin the same connection at the same time, perhaps one from each end, meet at the locks of its
 * tuples' buckets.  Nobody waits for a lock: the packet that does not get both is tried again by its caller. */
#ifndef DP_CT_NEW_H
#define DP_CT_NEW_H 1

#include "dp/ct_nat.h"
#include "dp/ct_other.h"

/* A program that lost against others this often leaves the entry to the next process, which finds all that are free. */
#ifdef __bpf__
#define DP_CT_FREE_TRIES 64
#else
#define DP_CT_FREE_TRIES 0xffffffff
#endif

enum dp_ct_made {
    DP_CT_MADE,                 /* run->ref is the new connection. */
    DP_CT_REFUSED,              /* A limit, a full table, an exhausted range of NAT. */
    DP_CT_LOCKED,               /* Again: another CPU was there. */
};

/* What userspace adds to connection INDEX before anybody sees it.  Returns DP_CT_KEY_* that it has besides. */
#ifndef DP_CT_FILL_MORE
#define DP_CT_FILL_MORE(CTX, RUN, ACTION, INDEX) 0
#endif

/* What was written before is seen before what is written after. */
#define DP_CT_RELEASE()                                     \
    do {                                                    \
        __asm__ volatile("" ::: "memory");                  \
        DP_ORDER();                                         \
    } while (0)

/* Whether the packet in 'run' may begin a connection; if not it is +inv. */
DP_INLINE int dp_ct_may_begin(const struct dp_ct_run *run)
{
    return run->tuple.proto == DP_IP_TCP ? dp_ct_tcp_may_begin(run->tcp_flags)
        : dp_ct_like_icmp(run->tuple.proto) ? dp_ct_icmp_may_begin(run) : 1;
}

/* The bucket where tuple 't' is looked for first, and its hash. */
DP_INLINE struct dp_ct_bucket *dp_ct_bucket_of(struct dp_ctx *ctx, const struct dp_ct_head *head,
                                               const struct dp_ct_tuple *t, __u64 *hash)
{
    *hash = dp_ct_hash(head, t);
    return dp_ct_buckets_at(ctx, dp_hash_bucket(*hash, head->bucket_last));
}

DP_INLINE int dp_ct_lock(struct dp_ct_bucket *bucket, __u32 owner)
{
    for (int i = 0; i < DP_CT_LOCK_TRIES; i++) {
        if (!DP_CT_LOSES() && !__sync_val_compare_and_swap(&bucket->lock, 0, owner)) {
            return 1;
        }
    }
    return 0;
}

DP_INLINE void dp_ct_unlock(struct dp_ct_bucket *bucket) { DP_EXCHANGE(&bucket->lock, 0); }

/* What follows entry 'first' - 1 in the free list, whose key is 'key'.  Entries that were never used follow each other
 * without having been written; behind the last there is none. */
DP_INLINE __u32 dp_ct_next_free(const struct dp_ct_key *key, __u32 first)
{
    __u32 next = DP_READ_ONCE(key->next_free);

    return next ? next : first + 1;
}

/* Takes an index from the free list.  Returns it + 1, or 0. */
DP_INLINE __u32 dp_ct_allocate(struct dp_ctx *ctx, struct dp_ct_head *head)
{
    __u64 free = DP_READ_ONCE(head->free);

    for (int i = 0; i < DP_CT_LOCK_TRIES; i++) {
        const struct dp_ct_key *key = dp_ct_keys_at(ctx, DP_CT_FREE_FIRST(free) - 1);

        if (!DP_CT_FREE_FIRST(free) || !key) {
            return 0;
        }

        __u32 first = DP_CT_FREE_FIRST(free);

        if (dp_ct_swap(&head->free, &free, DP_CT_FREE(dp_ct_next_free(key, first), DP_CT_FREE_TAG(free) + 1))) {
            return first;
        }
    }
    return 0;
}

/* The entry of a connection of 'zone' is taken ('change': 1), or free again (-1). */
DP_INLINE void dp_ct_hold(struct dp_ctx *ctx, __u16 zone, int change)
{
    struct dp_ct_head *head = dp_ct_head_at(ctx, 0);
    struct dp_ct_zone *z = dp_ct_zones_at(ctx, zone);

    if (head && z) {
        __sync_fetch_and_add(&z->n_held, change);
        __sync_fetch_and_add(&head->n_held, change);
    }
}

/* Puts the connection 'index', which dp_ct_fill() wrote, on the free list.  What held it has gone: a grace period has
 * passed since it left its buckets and counts, or nobody ever saw it. */
DP_INLINE void dp_ct_free(struct dp_ctx *ctx, __u32 index)
{
    struct dp_ct_head *head = dp_ct_head_at(ctx, 0);
    struct dp_ct_key *key = dp_ct_keys_at(ctx, index);

    if (!head || !key) {
        return;
    }
    dp_ct_hold(ctx, key->zone, -1);
    DP_WRITE_ONCE(key->flags, 0);
    DP_WRITE_ONCE(key->generation, key->generation + 1);

    __u64 free = DP_READ_ONCE(head->free);

    for (__u32 i = 0; i < DP_CT_FREE_TRIES; i++) {
        DP_WRITE_ONCE(key->next_free, DP_CT_FREE_FIRST(free));
        if (dp_ct_swap(&head->free, &free, DP_CT_FREE(index + 1, DP_CT_FREE_TAG(free) + 1))) {
            break;
        }
    }
}

/* Empties slot 'i' of bucket number 'no' if it is 'slot', whose connection is dead or was never published, or gives it
 * to 'new'.  Returns whether it did. */
DP_INLINE int dp_ct_take_slot(struct dp_ctx *ctx, const struct dp_ct_head *head, __u32 no, int i, __u64 slot, __u64 new)
{
    struct dp_ct_bucket *bucket = dp_ct_buckets_at(ctx, no);
    struct dp_ct_tuple t;

    if (!bucket || !dp_ct_swap(&bucket->slot[i], &slot, new)) {
        return 0;
    }
    if (slot) {
        dp_ct_tuple_of(ctx, DP_CT_REF_INDEX(DP_CT_SLOT_REF(slot)), DP_CT_REF_REPLY(DP_CT_SLOT_REF(slot)), &t);

        __u64 hash;
        struct dp_ct_bucket *home = dp_ct_bucket_of(ctx, head, &t, &hash);

        if (home && home != bucket) {
            __sync_fetch_and_add(&home->n_elsewhere, -1);
        }
    }
    return 1;
}

/* Where a tuple stands: bucket number and slot. */
#define DP_CT_PLACE(NO, I) ((__u64) (NO) << 4 | (I) | 8)

/* Whether the connection of 'slot' is dead. */
DP_INLINE int dp_ct_slot_is_dead(struct dp_ctx *ctx, __u64 slot)
{
    const struct dp_ct_life *life = dp_ct_lives_at(ctx, DP_CT_REF_INDEX(DP_CT_SLOT_REF(slot)));

    return life && DP_READ_ONCE(life->state) & DP_CT_DEAD;
}

/* Publishes 'slot' in bucket number 'no': in a slot that is free, or that of a connection with the same tag that is
 * dead; if there is none, in that of any that is dead.  The lives of other connections are mostly in no cache.  Returns
 * DP_CT_PLACE(), or 0 if there is no room. */
DP_INLINE __u64 dp_ct_publish_in(struct dp_ctx *ctx, const struct dp_ct_head *head, __u32 no, __u64 slot)
{
    const struct dp_ct_bucket *bucket = dp_ct_buckets_at(ctx, no);

    DP_NO_UNROLL
    for (int i = 0; bucket && i < 2 * DP_CT_SLOTS; i++) {
        int n = i % DP_CT_SLOTS, any = i >= DP_CT_SLOTS;
        __u64 old = DP_READ_ONCE(bucket->slot[n]);

        if ((!old || ((any || DP_CT_SLOT_TAG(old) == DP_CT_SLOT_TAG(slot)) && dp_ct_slot_is_dead(ctx, old)))
            && dp_ct_take_slot(ctx, head, no, n, old, slot)) {
            return DP_CT_PLACE(no, n);
        }
    }
    return 0;
}

/* Makes lookups of 't' find 'ref'; DP_CT_RESERVED: takes a place, to which dp_ct_settle() gives what it is to find.
 * Returns DP_CT_PLACE(), or 0 if there is no room. */
DP_STAGE __u64 dp_ct_publish(struct dp_ctx *ctx, const struct dp_ct_tuple *t, __u32 ref)
{
    const struct dp_ct_head *head = dp_ct_head_at(ctx, 0);
    struct dp_ct_bucket *bucket;
    __u64 hash;

    if (!head || !t) {
        return 0;
    }
    bucket = dp_ct_bucket_of(ctx, head, t, &hash);
    if (!bucket) {
        return 0;
    }

    __u64 slot = DP_CT_SLOT(dp_hash_tag(hash), ref);
    __u32 elsewhere = dp_hash_alternative(hash, head->bucket_last);
    __u64 place = dp_ct_publish_in(ctx, head, dp_hash_bucket(hash, head->bucket_last), slot);

    if (place) {
        return place;
    }
    if (elsewhere == dp_hash_bucket(hash, head->bucket_last)) {
        return 0;
    }
    __sync_fetch_and_add(&bucket->n_elsewhere, 1);
    place = dp_ct_publish_in(ctx, head, elsewhere, slot);
    if (!place) {
        __sync_fetch_and_add(&bucket->n_elsewhere, -1);
    }
    return place;
}

/* Lookups of 't', which has 'place' reserved, find 'ref'; 0: nothing, and the place is free. */
DP_INLINE void dp_ct_settle(struct dp_ctx *ctx, const struct dp_ct_tuple *t, __u64 place, __u32 ref)
{
    const struct dp_ct_head *head = dp_ct_head_at(ctx, 0);
    struct dp_ct_bucket *bucket = dp_ct_buckets_at(ctx, place >> 4), *home;
    __u32 i = place & 7;
    __u64 hash;

    if (!head || !bucket || i >= DP_CT_SLOTS) {
        return;
    }
    if (ref) {
        DP_CT_RELEASE();
        DP_WRITE_ONCE(bucket->slot[i], DP_READ_ONCE(bucket->slot[i]) - DP_CT_RESERVED + ref);
        return;
    }
    home = dp_ct_bucket_of(ctx, head, t, &hash);
    DP_WRITE_ONCE(bucket->slot[i], 0);
    if (home && home != bucket) {
        __sync_fetch_and_add(&home->n_elsewhere, -1);
    }
}

/* Lookups of direction 'd' of connection 'index' do not find it any more. */
DP_STAGE void dp_ct_unpublish(struct dp_ctx *ctx, __u32 index, __u32 d)
{
    const struct dp_ct_head *head = dp_ct_head_at(ctx, 0);
    struct dp_ct_tuple t;

    if (!head || !dp_ct_keys_at(ctx, index)) {
        return;
    }
    dp_ct_tuple_of(ctx, index, d, &t);

    __u64 hash = dp_ct_hash(head, &t);
    __u64 slot = DP_CT_SLOT(dp_hash_tag(hash), DP_CT_REF(index, d));

    for (int k = 0; k < 2; k++) {
        __u32 no = k ? dp_hash_alternative(hash, head->bucket_last) : dp_hash_bucket(hash, head->bucket_last);
        const struct dp_ct_bucket *bucket = dp_ct_buckets_at(ctx, no);

        for (int i = 0; bucket && i < DP_CT_SLOTS; i++) {
            while (DP_READ_ONCE(bucket->slot[i]) == slot) {
                if (dp_ct_take_slot(ctx, head, no, i, slot, 0)) {
                    return;
                }
            }
        }
    }
}

/* The zone whose limit counts connections of 'zone', or NULL. */
DP_INLINE struct dp_ct_zone *dp_ct_limit_of(struct dp_ctx *ctx, __u16 zone, __u8 *flag)
{
    struct dp_ct_zone *z = dp_ct_zones_at(ctx, zone);

    *flag = DP_CT_KEY_OWN_LIMIT;
    if (z && !(DP_READ_FIRST(z->flags) & DP_CT_ZONE_LIMITED)) {
        *flag = DP_CT_KEY_DEFAULT_LIMIT;
        z = dp_ct_zones_at(ctx, DP_CT_ZONE_DEFAULT);
        if (z && !(DP_READ_FIRST(z->flags) & DP_CT_ZONE_LIMITED)) {
            *flag = 0;
            return 0;
        }
    }
    return z;
}

/* Counts one more of at most 'limit'.  Returns 0 if there are as many already. */
DP_INLINE int dp_ct_admit(__u32 *count, __u32 limit)
{
    if (DP_READ_ONCE(*count) >= limit) {
        return 0;
    }
    if (__sync_fetch_and_add(count, 1) >= limit) {
        __sync_fetch_and_add(count, -1);
        return 0;
    }
    return 1;
}

/* The packet in 'run' makes no connection.  Returns DP_CT_REFUSED. */
DP_INLINE int dp_ct_refuse(struct dp_ctx *ctx, struct dp_ct_run *run, enum dp_ct_refusal why)
{
    struct dp_ct_head *head = dp_ct_head_at(ctx, 0);
    struct dp_ct_zone *zone = dp_ct_zones_at(ctx, run->tuple.zone);

    if (head && zone) {
        __sync_fetch_and_add(&head->n_refused[why], 1);
        __sync_fetch_and_add(&zone->n_refused, 1);
    }
    run->refused = why + 1;
    return DP_CT_REFUSED;
}

/* Whether a zone holds its share of the table.  A table without a free entry is full for all. */
DP_INLINE int dp_ct_has_its_share(const struct dp_ct_head *head, const struct dp_ct_zone *zone)
{
    __u32 n_held = DP_READ_ONCE(head->n_held);
    __u64 n_free = n_held < head->n ? head->n - n_held : 0;

    return n_free && DP_READ_ONCE(zone->n_held) >= DP_CT_SHARE * n_free;
}

/* Refuses the packet in 'run' if a limit, or its zone's share of the table, allows no more connections.  Returns
 * DP_CT_REFUSED, or DP_CT_MADE: nothing speaks against one more. */
DP_STAGE int dp_ct_may_make(struct dp_ctx *ctx, struct dp_ct_run *run)
{
    const struct dp_ct_head *head = dp_ct_head_at(ctx, 0);
    const struct dp_ct_zone *zone = run ? dp_ct_zones_at(ctx, run->tuple.zone) : 0, *limit;
    __u8 flag;

    if (!head || !zone) {
        return DP_CT_REFUSED;
    }
    limit = dp_ct_limit_of(ctx, run->tuple.zone, &flag);
    if (limit && DP_READ_ONCE(limit->count) >= DP_READ_ONCE(limit->limit)) {
        return dp_ct_refuse(ctx, run, DP_CT_REFUSED_LIMIT);
    }
    if (DP_READ_ONCE(head->n_conns) >= DP_READ_ONCE(head->maxconns)) {
        return dp_ct_refuse(ctx, run, DP_CT_REFUSED_MAXCONNS);
    }
    return dp_ct_has_its_share(head, zone) ? dp_ct_refuse(ctx, run, DP_CT_REFUSED_SHARE) : DP_CT_MADE;
}

/* Takes the counts of a connection with these 'flags' back. */
DP_INLINE void dp_ct_discount(struct dp_ctx *ctx, struct dp_ct_head *head, __u16 zone, __u32 seq, __u8 flags)
{
    struct dp_ct_zone *z = flags & DP_CT_KEY_OWN_LIMIT ? dp_ct_zones_at(ctx, zone)
        : flags & DP_CT_KEY_DEFAULT_LIMIT ? dp_ct_zones_at(ctx, DP_CT_ZONE_DEFAULT) : 0;

    if (z && DP_READ_ONCE(z->seq) == seq) {
        __sync_fetch_and_add(&z->count, -1);
    }
    __sync_fetch_and_add(&head->n_conns, -1);
}

/* Where a connection is counted: DP_CT_KEY_*_LIMIT, and that limit's 'seq'. */
#define DP_CT_COUNTED(FLAGS, SEQ) ((__u64) (SEQ) << 32 | (FLAGS))

/* Writes connection 'index', which nobody sees yet.  'counted': DP_CT_COUNTED(); 'index_now': the index, and the ticks
 * in the high half.  Returns 0 if there is no such entry. */
DP_STAGE int dp_ct_fill(struct dp_ctx *ctx, const struct dp_ct_run *run, const struct dp_ct_action *action,
                        __u64 counted, __u64 index_now)
{
    __u32 index = (__u32) index_now, now = index_now >> 32;
    __u8 flags = (__u8) counted;
    __u32 limit_seq = counted >> 32;
    struct dp_ct_key *key = dp_ct_keys_at(ctx, index);
    struct dp_ct_life *life = dp_ct_lives_at(ctx, index);
    struct dp_ct_addr6 *a = dp_ct_addr6_at(ctx, index);
    struct dp_ct_words words = { 0 };

    if (!run || !action || !key || !life || !a) {
        return 0;
    }
    key->zone = run->tuple.zone;
    dp_ct_hold(ctx, key->zone, 1);
    key->proto = run->tuple.proto;
    key->marks = 0;
    key->policy = action->policy;
    key->nat = !(action->flags & DP_CT_NAT) ? 0
        : action->flags & DP_CT_TO_SRC ? DP_CT_NAT_SRC : action->flags & DP_CT_TO_DST ? DP_CT_NAT_DST : 0;
    key->limit_seq = limit_seq;
    for (int i = 0; i < 2; i++) {
        key->l4[0][i] = run->tuple.l4[i];
        key->l4[1][i] = run->reply.l4[i];
        key->ip4[0][i] = run->tuple.addr[i][0];
        key->ip4[1][i] = run->reply.addr[i][0];
    }
    if (run->tuple.v6) {
        __builtin_memcpy(a->addr[0], run->tuple.addr, sizeof a->addr[0]);
        __builtin_memcpy(a->addr[1], run->reply.addr, sizeof a->addr[1]);
    }
    if (run->tuple.proto == DP_IP_TCP) {
        dp_ct_tcp_begin(run, &words);
    } else {
        words.state = dp_ct_other_begin(run->tuple.proto);
    }
    life->window[0] = words.window[0];
    life->window[1] = words.window[1];
    life->used = now;
    life->version++;
    if (DP_CT_IN_ENGINE && run->tuple.proto == DP_IP_ICMP
        && DP_CT_L4_PORT(run->tuple.l4[0]) != DP_CT_L4_PORT(run->reply.l4[0])) {
        flags |= DP_CT_KEY_ENGINE;
    }
    flags |= DP_CT_FILL_MORE(ctx, run, action, index);
    DP_WRITE_ONCE(life->state, words.state);
    DP_WRITE_ONCE(key->flags, flags | (run->tuple.v6 ? DP_CT_KEY_V6 : 0));
    return 1;
}

/* Connection 'index' is in the buckets: from now on userspace may take it out.  A packet may have killed it meanwhile;
 * if userspace had seen it then, it would have left before its second slot. */
DP_INLINE void dp_ct_hand_over(struct dp_ctx *ctx, __u32 index)
{
    struct dp_ct_key *key = dp_ct_keys_at(ctx, index);

    if (key) {
        DP_CT_RELEASE();
        DP_WRITE_ONCE(key->flags, DP_READ_ONCE(key->flags) | DP_CT_KEY_USED);
    }
}

DP_INLINE int dp_ct_same(const struct dp_ct_tuple *a, const struct dp_ct_tuple *b)
{
    return a->addr[0][0] == b->addr[0][0] && a->addr[0][1] == b->addr[0][1] && a->addr[1][0] == b->addr[1][0]
        && a->addr[1][1] == b->addr[1][1] && a->l4[0] == b->l4[0] && a->l4[1] == b->l4[1];
}

/* Makes lookups of both tuples find connection run->ref.  Returns 0, and nobody has seen it, if one has no place. */
DP_INLINE int dp_ct_publish_both(struct dp_ctx *ctx, const struct dp_ct_run *run)
{
    __u64 second;

    if (dp_ct_same(&run->tuple, &run->reply)) {
        return dp_ct_publish(ctx, &run->tuple, run->ref) != 0;
    }
    second = dp_ct_publish(ctx, &run->reply, DP_CT_RESERVED);
    if (!second) {
        return 0;
    }

    int first = dp_ct_publish(ctx, &run->tuple, run->ref) != 0;

    dp_ct_settle(ctx, &run->reply, second, first ? run->ref | 1 : 0);
    return first;
}

/* Makes the connection of run->tuple and run->reply, whose buckets are locked. */
DP_STAGE int dp_ct_insert(struct dp_ctx *ctx, struct dp_ct_run *run, const struct dp_ct_action *action, __u32 now)
{
    struct dp_ct_head *head = dp_ct_head_at(ctx, 0);
    struct dp_ct_zone *zone;
    __u32 seq = 0, index;
    __u8 flags;

    if (!head || !run || !action) {
        return DP_CT_REFUSED;
    }
    zone = dp_ct_limit_of(ctx, action->zone, &flags);
    if (zone) {
        seq = DP_READ_ONCE(zone->seq);
        if (!dp_ct_admit(&zone->count, DP_READ_ONCE(zone->limit))) {
            return dp_ct_refuse(ctx, run, DP_CT_REFUSED_LIMIT);
        }
    }
    if (!dp_ct_admit(&head->n_conns, DP_READ_ONCE(head->maxconns))) {
        if (zone) {
            __sync_fetch_and_add(&zone->count, -1);
        }
        return dp_ct_refuse(ctx, run, DP_CT_REFUSED_MAXCONNS);
    }
    index = dp_ct_allocate(ctx, head);
    if (index && dp_ct_fill(ctx, run, action, DP_CT_COUNTED(flags, seq), (__u64) now << 32 | (index - 1))) {
        run->ref = DP_CT_REF(index - 1, 0);
        if (dp_ct_publish_both(ctx, run)) {
            dp_ct_hand_over(ctx, index - 1);
            return DP_CT_MADE;
        }
        run->ref = 0;
        dp_ct_free(ctx, index - 1);
    }
    dp_ct_discount(ctx, head, action->zone, seq, flags);
    return dp_ct_refuse(ctx, run, DP_CT_REFUSED_FULL);
}

/* Makes a connection for the packet in 'run'.  Returns enum dp_ct_made. */
DP_INLINE int dp_ct_make(struct dp_ctx *ctx, struct dp_ct_run *run, const struct dp_ct_action *action, __u32 now)
{
    const struct dp_ct_head *head = dp_ct_head_at(ctx, 0);
    struct dp_ct_bucket *first, *second;
    int made = DP_CT_LOCKED;
    __u64 hash;

    if (!head || !run || !action) {
        return DP_CT_REFUSED;
    }
    if (DP_UNLIKELY(DP_READ_ONCE(head->frozen))) {
        return DP_CT_LOCKED;
    }
    if (dp_ct_may_make(ctx, run)) {
        return DP_CT_REFUSED;
    }
    if (!dp_ct_choose(ctx, run, action, now)) {
        return !DP_CT_IN_ENGINE && dp_ct_chooses_id(action, &run->tuple) ? DP_CT_LOCKED
            : dp_ct_refuse(ctx, run, DP_CT_REFUSED_NAT);
    }
    first = dp_ct_bucket_of(ctx, head, &run->tuple, &hash);
    second = dp_ct_bucket_of(ctx, head, &run->reply, &hash);
    if (!first || !second || !dp_ct_lock(first, dp_ct_owner(ctx))) {
        return DP_CT_LOCKED;
    }

    /* Only NAT's second tuple is looked for: without it, who has the second has the first, the same reversed. */
    int translated = action->flags & DP_CT_NAT && action->flags & (DP_CT_TO_SRC | DP_CT_TO_DST);

    if (second == first || dp_ct_lock(second, dp_ct_owner(ctx))) {
        if (!dp_ct_find(ctx, &run->tuple, now) && !(translated && dp_ct_is_taken(ctx, run, now))) {
            made = dp_ct_insert(ctx, run, action, now);
        }
        if (second != first) {
            dp_ct_unlock(second);
        }
    }
    dp_ct_unlock(first);
    return made;
}

#endif /* dp/ct_new.h */
