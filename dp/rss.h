/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The value of the hash action, dp_hash.  Both tiers must choose the same bucket of a select group for the
 * same connection, so this computes what odp_execute_actions() does (lib/odp-execute.c, lib/flow.c, lib/hash.h) in a
 * build for baseline x86-64: MurmurHash3 over addresses, protocol and ports, of a packet whose hash is known: a lookup
 * gives each packet one. */
#ifndef DP_RSS_H
#define DP_RSS_H 1

#include "dp/frame.h"
#include "dp/key.h"

#define DP_HASH_L4 0            /* enum ovs_hash_alg */
#define DP_HASH_SYM_L4 1

DP_INLINE __u32 dp_rss_add(__u32 hash, __u32 data)
{
    data *= 0xcc9e2d51u;
    data = data << 15 | data >> 17;
    hash ^= data * 0x1b873593u;
    hash = hash << 13 | hash >> 19;
    return hash * 5 + 0xe6546b64u;
}

DP_INLINE __u32 dp_rss_add64(__u32 hash, __u64 data)
{
    return dp_rss_add(dp_rss_add(hash, data), data >> 32);
}

DP_INLINE __u32 dp_rss_finish(__u32 hash, __u32 last)
{
    hash ^= last;
    hash ^= hash >> 16;
    hash *= 0x85ebca6bu;
    hash ^= hash >> 13;
    hash *= 0xc2b2ae35u;
    return hash ^ hash >> 16;
}

DP_INLINE __u32 dp_rss_addresses(__u32 hash, const union dp_key *key)
{
    if (DP_BE16_IS(key->eth_type, DP_ETH_IP4)) {
        return dp_rss_add64(hash, key->w[2]);
    }
    hash = dp_rss_add64(hash, key->ip6_src_hi);
    hash = dp_rss_add64(hash, key->ip6_src_lo);
    hash = dp_rss_add64(hash, key->ip6_dst[0]);
    return dp_rss_add64(hash, key->ip6_dst[1]);
}

/* miniflow_hash_5tuple(): what Open vSwitch has as a packet's hash, by which it also chooses the source ports of
 * tunnels. */
DP_INLINE __u32 dp_rss_5tuple(const union dp_key *key)
{
    __u8 proto = key->ip_proto;
    __u32 hash = 0;

    if (DP_BE16_IS(key->eth_type, DP_ETH_IP4) || DP_BE16_IS(key->eth_type, DP_ETH_ARP)) {
        hash = dp_rss_add64(hash, key->w[2]);
    } else if (DP_BE16_IS(key->eth_type, DP_ETH_IP6)) {
        hash = dp_rss_addresses(hash, key);
    } else {
        return dp_rss_finish(hash, 42);
    }
    hash = dp_rss_add(hash, proto);
    if (proto == DP_IP_TCP || proto == DP_IP_UDP || proto == DP_IP_SCTP || proto == DP_IP_ICMP
        || proto == DP_IP_ICMP6) {
        hash = dp_rss_add(hash, key->w[3]);
    }
    return dp_rss_finish(hash, 42);
}

/* Source to destination. */
DP_INLINE __u32 dp_rss_l4(const union dp_key *key, __u32 basis)
{
    return dp_rss_finish(dp_rss_add(dp_rss_add(dp_rss_5tuple(key), 0), basis), 8);
}

/* The same in both directions.  Ports of UDP are left out, as in Open vSwitch. */
DP_INLINE __u32 dp_rss_symmetric(const union dp_key *key, __u32 basis)
{
    __u32 hash = basis;

    if (DP_BE16_IS(key->eth_type, DP_ETH_IP4)) {
        hash = dp_rss_add(hash, key->ip4_src.raw ^ key->ip4_dst.raw);
    } else {
        hash = dp_rss_add64(hash, key->ip6_src_hi ^ key->ip6_dst[0]);
        hash = dp_rss_add64(hash, key->ip6_src_lo ^ key->ip6_dst[1]);
    }
    hash = dp_rss_add(hash, key->ip_proto);
    if (!key->ip_frag && (key->ip_proto == DP_IP_TCP || key->ip_proto == DP_IP_SCTP)) {
        hash = dp_rss_add(hash, key->tp_src.raw ^ key->tp_dst.raw);
    }
    return dp_rss_finish(hash, basis);
}

#endif /* dp/rss.h */
