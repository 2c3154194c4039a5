/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Tunnels by the routes of the host: their packets come and go through a device of the kernel that takes the tunnel's
 * metadata from the packet, not from its configuration ("external", core/kernel/tunnel_device.h).
 *
 *     any device of the host -> the kernel's IP, UDP, VXLAN ... -> device: oxdp_tcx() -> other port, or the engine
 *     engine, packet socket  -> device's egress: oxdp_tunnel_out() -> VXLAN, UDP, routes, neighbours -> any device
 *
 * What comes in has metadata that a helper reads into the key.  What the engine sends has it behind the frame (struct
 * dp_tunnel_out), from where the program hands it to the kernel. */
#ifndef BPF_HOST_TUNNEL_H
#define BPF_HOST_TUNNEL_H 1

#include <asm-generic/errno.h>

#include "dp/key.h"
#include "dp/record.h"
#include "dp/tunnel_out.h"

_Static_assert(BPF_MARK_KIND(DP_TUNNEL_OUT_MAGIC) != BPF_MARK_OMITS(0, 0), "no mark in an instruction");

/* Flags of a packet's tunnel: TUNNEL_CSUM, TUNNEL_KEY, TUNNEL_OAM of linux/if_tunnel.h, which includes what BPF has
 * not. */
#define FROM_CSUM DP_SWAP16(0x0001)
#define FROM_KEY DP_SWAP16(0x0004)
#define FROM_OAM DP_SWAP16(0x0200)

static __always_inline __u8 host_tunnel_flags(__u16 flags)
{
    return (flags & FROM_KEY ? DP_TUN_KEY : 0) | (flags & FROM_CSUM ? DP_TUN_CSUM : 0)
        | (flags & FROM_OAM ? DP_TUN_OAM : 0);
}

/* What host_tunnel_take() has found. */
enum host_tunnel {
    HOST_TUNNEL_TAKEN,
    HOST_TUNNEL_NONE,           /* No metadata. */
    HOST_TUNNEL_LONG,           /* More options than a key holds: the engine's (host_tunnel_put_options()). */
};

/* Puts the packet's metadata into run->key: the tunnel's words, and 'port_no' as in_port.  Returns an enum
 * host_tunnel; HOST_TUNNEL_LONG: all but the options, with a tun_options_len that says so. */
DP_STAGE int host_tunnel_take(struct __sk_buff *ctx, struct dp_run *run, __u32 port_no)
{
    struct bpf_tunnel_key from = { 0 };
    int ip6 = 0, options;
    union dp_key *key;

    if (!run) {
        return HOST_TUNNEL_NONE;
    }
    if (bpf_skb_get_tunnel_key(ctx, &from, sizeof from, BPF_F_TUNINFO_FLAGS)) {
        ip6 = 1;
        if (bpf_skb_get_tunnel_key(ctx, &from, sizeof from, BPF_F_TUNINFO_FLAGS | BPF_F_TUNINFO_IPV6)) {
            return HOST_TUNNEL_NONE;
        }
    }
    key = &run->key;
    key->w[0] = DP_BYTES(0, 4, port_no);
    options = bpf_skb_get_tunnel_opt(ctx, key->tun_options, sizeof key->tun_options);
    if (options == -ENOMEM) {
        options = DP_TUNNEL_MAX_OPTIONS;
    }
    dp_store32(&key->tun_id, 0);
    dp_store32((__u8 *) &key->tun_id + 4, dp_htonl(from.tunnel_id).raw);
    key->tun_flags = host_tunnel_flags(from.tunnel_flags) | (options >= 0 ? DP_TUN_OPTIONS : 0);
    key->tun_options_len = options >= 0 ? options : 0;
    key->tun_tos = from.tunnel_tos;
    key->tun_ttl = from.tunnel_ttl;
    key->tun_tp_src.raw = 0;
    key->tun_tp_dst.raw = 0;
    if (ip6) {
        __builtin_memcpy(key->tun_ip6_src, from.remote_ipv6, sizeof key->tun_ip6_src);
        __builtin_memcpy(key->tun_ip6_dst, from.local_ipv6, sizeof key->tun_ip6_dst);
        key->tun_ip4_src.raw = key->tun_ip4_dst.raw = 0;
    } else {
        key->tun_ip4_src = dp_htonl(from.remote_ipv4);
        key->tun_ip4_dst = dp_htonl(from.local_ipv4);
        key->tun_ip6_src[0] = key->tun_ip6_src[1] = 0;
        key->tun_ip6_dst[0] = key->tun_ip6_dst[1] = 0;
    }
    return options > (int) sizeof key->tun_options ? HOST_TUNNEL_LONG : HOST_TUNNEL_TAKEN;
}

/* Writes the part DP_RECORD_OPTIONS of a record at 'ofs' from the packet's start.  0, or not if that failed. */
DP_STAGE int host_tunnel_put_options(struct __sk_buff *ctx, __u32 ofs)
{
    __u8 options[DP_RECORD_OPTIONS_LEN];
    int len = bpf_skb_get_tunnel_opt(ctx, options, sizeof options);

    options[sizeof options - 1] = len;
    return len < 0 || bpf_skb_store_bytes(ctx, ofs, options, sizeof options, 0);
}

/* For what leaves by the device.  0, or not: what comes from the host itself has no tunnel.  What a program has sent
 * there has the metadata already. */
DP_STAGE int host_tunnel_out(struct __sk_buff *ctx)
{
    struct bpf_tunnel_key key;
    struct dp_tunnel_out to;
    __u8 options[DP_TUNNEL_MAX_OPTIONS];
    __u32 len = ctx->len, n;
    long err = bpf_skb_get_tunnel_key(ctx, &key, sizeof key, 0);

    if (!err || err == -EPROTO) {       /* The latter: it is of IPv6. */
        return 0;
    }
    if (len < DP_ETH_LEN + sizeof to || bpf_skb_load_bytes(ctx, len - sizeof to, &to, sizeof to)
        || to.magic != DP_TUNNEL_OUT_MAGIC) {
        return 1;
    }
    len -= sizeof to;
    n = to.options_len;
    if (n >= MIN_OPTION) {
        if (n > sizeof options || len < DP_ETH_LEN + n || bpf_skb_load_bytes(ctx, len - n, options, n)) {
            return 1;
        }
        len -= n;
    }
    if (dp_tunnel_set(ctx, &to, options, n) || bpf_skb_change_tail(ctx, len, 0)) {
        return 1;
    }
    ctx->mark = to.mark;
    ctx->priority = to.priority;
    return 0;
}

#endif /* bpf/host_tunnel.h */
