/* SPDX-License-Identifier: Apache-2.0 */
/* Where releases of Open vSwitch differ in what we use of them: 3.1 to 4.0.
 *
 * OXDP_OVS is the release that we are built with, MAJOR * 100 + MINOR
 * (ovs/meson.build, which refuses others).  OXDP_OVS_IPF_PORT says whether
 * lib/ipf.h has what maintenance releases of 3.2 to 3.4 got, too.  The rest of
 * ovs/ is written for the newest and asks for neither. */
#ifndef DPIF_XDP_COMPAT_H
#define DPIF_XDP_COMPAT_H 1

#include "dp-packet.h"
#include "dpif.h"
#include "dpif-provider.h"
#include "flow.h"
#include "ipf.h"
#include "netdev-native-tnl.h"
#include "odp-util.h"
#include "packets.h"
#include "openvswitch/json.h"
#include "unixctl.h"

/* json_array_size() and json_array_at(): lib/json.c has them since 3.6, in
 * which short arrays lie elsewhere. */
#if OXDP_OVS < 306
static inline size_t
json_array_size(const struct json *json)
{
    return json_array(json)->n;
}

static inline const struct json *
json_array_at(const struct json *json, size_t i)
{
    return i < json_array(json)->n ? json_array(json)->elems[i] : NULL;
}
#endif

/* Since 3.4 ovs-appctl has an option --format: with "json" the reply is to be
 * a JSON value, not text.  The second function takes 'json'. */
static inline bool
dpif_xdp_unixctl_wants_json(struct unixctl_conn *conn OVS_UNUSED)
{
#if OXDP_OVS >= 304
    return unixctl_command_get_output_format(conn) == UNIXCTL_OUTPUT_FMT_JSON;
#else
    return false;
#endif
}

static inline void
dpif_xdp_unixctl_reply_json(struct unixctl_conn *conn, struct json *json)
{
#if OXDP_OVS >= 304
    unixctl_command_reply_json(conn, json);
#else
    char *text = json_to_string(json, 0);

    unixctl_command_reply(conn, text);
    free(text);
    json_destroy(json);
#endif
}

/* An argument of odp_flow_format() since 3.5: leaves out fields that are not
 * in the mask, also where there is no mask. */
#if OXDP_OVS >= 305
#define odp_flow_format(KEY, KEY_LEN, MASK, MASK_LEN, NAMES, DS, VERBOSE) \
    odp_flow_format(KEY, KEY_LEN, MASK, MASK_LEN, NAMES, DS, VERBOSE, false)
#endif

/* Until 3.6 operations have an argument that says whether they are for
 * hardware or for the datapath. */
#if OXDP_OVS < 307
#define DPIF_XDP_OFFLOAD_TYPE(...) __VA_ARGS__
#else
#define DPIF_XDP_OFFLOAD_TYPE(...)
#endif

/* For results that nobody needs; in lib/util.h until 3.5. */
#if OXDP_OVS >= 306
static inline void
ignore(bool x OVS_UNUSED)
{
}
#endif

/* The function that says whether a datapath may have the action "drop". */
#if OXDP_OVS < 304
#define DPIF_XDP_DROP_QUESTION dpif_supports_explicit_drop_action
#else
#define DPIF_XDP_DROP_QUESTION dpif_may_support_explicit_drop_action
#endif

/* Drops of ofproto because there is no tunnel header, since 3.6.  X(counter,
 * reason of the action). */
#if OXDP_OVS >= 306
#define DPIF_XDP_TUNNEL_DROPS(X)                                             \
    X(drop_action_tunnel_routing_failed, XLATE_TUNNEL_ROUTING_FAILED)        \
    X(drop_action_tunnel_output_no_ethernet, XLATE_TUNNEL_OUTPUT_NO_ETHERNET) \
    X(drop_action_tunnel_neigh_cache_miss, XLATE_TUNNEL_NEIGH_CACHE_MISS)    \
    X(drop_action_tunnel_header_build_failed, XLATE_TUNNEL_HEADER_BUILD_FAILED)
#else
#define DPIF_XDP_TUNNEL_DROPS(X)
#endif

/* Since 3.7 a dump of flows is initialised with what it is to dump. */
static inline void
dpif_xdp_flow_dump_init(struct dpif_flow_dump *dump, const struct dpif *dpif,
                        bool terse,
                        struct dpif_flow_dump_types *types OVS_UNUSED)
{
#if OXDP_OVS < 307
    dpif_flow_dump_init(dump, dpif);
    dump->terse = terse;
#else
    dpif_flow_dump_init(dump, dpif, terse, types);
#endif
}

/* Since 4.0 a batch may grow beyond NETDEV_MAX_BURST: it owns memory then, and
 * cannot be assigned. */
#if OXDP_OVS < 400
static inline void
dp_packet_batch_reset(struct dp_packet_batch *batch)
{
    dp_packet_batch_init(batch);
}

static inline void
dp_packet_batch_destroy(struct dp_packet_batch *batch OVS_UNUSED)
{
}

static inline void
dp_packet_batch_swap(struct dp_packet_batch *a, struct dp_packet_batch *b)
{
    struct dp_packet_batch old = *a;

    *a = *b;
    *b = old;
}
#endif

/* Since 3.7 the FTP helper knows EPRT and EPSV over IPv4, too. */
#define DPIF_XDP_FTP_EXTENDED_IP4 (OXDP_OVS >= 307)

/* Since 3.2 connection tracking knows the ports of SCTP, changes them for NAT,
 * and verifies chunks and checksum. */
#define DPIF_XDP_CT_SCTP (OXDP_OVS >= 302)

/* Since 4.0 nat() changes ICMP's id, too, where addresses alone would give two
 * connections one tuple. */
#define DPIF_XDP_CT_ICMP_ID (OXDP_OVS >= 400)

/* Since 3.6, and in later maintenance releases of 3.3 to 3.5, an ICMPv4 error
 * that quotes a packet's first fragment belongs to its connection, as one that
 * quotes a whole packet.  The macro came with that. */
#ifdef IP_IS_LATER_FRAG
#define DPIF_XDP_CT_FIRST_FRAGMENT true
#else
#define DPIF_XDP_CT_FIRST_FRAGMENT false
#endif

/* Since 3.3 a packet is for the helper that the action names, or else for that
 * of its connection, whatever its ports are. */
#define DPIF_XDP_HELPER_OF_CONNECTION (OXDP_OVS >= 303)

/* Until 3.7 actions have to be made ready for execution. */
#if OXDP_OVS >= 400
static inline void
odp_execute_init(void)
{
}
#endif

/* Since 4.0 an argument, for hardware, is where a packet came from; the first
 * function is for tests. */
#if OXDP_OVS >= 400
#define netdev_tnl_push_udp_header(NETDEV, PACKET, DATA) \
    netdev_tnl_push_udp_header(NETDEV, NULL, PACKET, DATA)
#endif
static inline int
dpif_xdp_push_header(const struct netdev *netdev,
                     struct dp_packet_batch *batch,
                     const struct ovs_action_push_tnl *data)
{
#if OXDP_OVS < 400
    return netdev_push_header(netdev, batch, data);
#else
    return netdev_push_header(netdev, NULL, batch, data);
#endif
}

/* Since 3.3 the limit of zones that have none of their own stands in the list
 * of limits, under the zone DPIF_XDP_DEFAULT_ZONE.  Before, it is an argument:
 * DPIF_XDP_DEFAULT_LIMIT() has that, and the statement for it. */
#define DPIF_XDP_DEFAULT_ZONE (-1)
#if OXDP_OVS < 303
#define DPIF_XDP_DEFAULT_LIMIT(...) __VA_ARGS__
#define DPIF_XDP_LISTS_DEFAULT_LIMIT false
#else
#define DPIF_XDP_DEFAULT_LIMIT(...)
#define DPIF_XDP_LISTS_DEFAULT_LIMIT true
#endif

/* Since 3.3 limits of zones can be set in the database, too. */
#define DPIF_XDP_LIMITS_IN_DATABASE (OXDP_OVS >= 303)

/* Newer releases complete only datagrams of the same zone and port. */
static inline void
dpif_xdp_ipf_postprocess(struct ipf *ipf, struct dp_packet_batch *batch,
                         long long int now, ovs_be16 dl_type,
                         uint16_t zone OVS_UNUSED,
                         odp_port_t in_port OVS_UNUSED)
{
#ifdef OXDP_OVS_IPF_PORT
    ipf_postprocess_conntrack(ipf, batch, now, dl_type, zone, in_port);
#else
    ipf_postprocess_conntrack(ipf, batch, now, dl_type);
#endif
}

/* Gives 'copy' what 'packet' has beside its bytes.  'copy' is a new packet. */
static inline void
dpif_xdp_packet_copy_metadata(struct dp_packet *copy,
                              const struct dp_packet *packet)
{
    memcpy(&copy->l2_pad_size, &packet->l2_pad_size,
           sizeof *copy - offsetof(struct dp_packet, l2_pad_size));
#if OXDP_OVS < 306
    *dp_packet_ol_flags_ptr(copy) = (*dp_packet_ol_flags_ptr(packet)
                                     & DP_PACKET_OL_SUPPORTED_MASK);
#endif
#if OXDP_OVS >= 303
    dp_packet_set_tso_segsz(copy, dp_packet_get_tso_segsz(packet));
#endif
    if (dp_packet_rss_valid(packet)) {
        dp_packet_set_rss_hash(copy, dp_packet_get_rss_hash(packet));
    }
}

/* Since 3.2 actions leave checksums to the sender of a packet: computes those
 * of 'packet', or of all of 'batch', that are left. */
static inline void
dpif_xdp_packet_complete(struct dp_packet *packet OVS_UNUSED)
{
#if OXDP_OVS >= 302
    dp_packet_ol_send_prepare(packet, 0);
#endif
}

static inline void
dpif_xdp_packets_complete(struct dp_packet_batch *batch OVS_UNUSED)
{
#if OXDP_OVS >= 302
    struct dp_packet *packet;

    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        dpif_xdp_packet_complete(packet);
    }
#endif
}

/* In 3.3 and 3.4 a packet that got a tunnel header may have checksums of two
 * packets to compute, and who extracts its key again would take the outer one
 * for the only one: computes them, and takes away the marks that say so.
 * Returns false if it cannot: the packet is yet to be segmented. */
#define DPIF_XDP_SETTLES_TUNNELS (OXDP_OVS >= 303 && OXDP_OVS < 305)
static inline bool
dpif_xdp_packet_settle_tunnel(struct dp_packet *packet OVS_UNUSED)
{
#if DPIF_XDP_SETTLES_TUNNELS
    if (dp_packet_hwol_is_tunnel_geneve(packet)
        || dp_packet_hwol_is_tunnel_vxlan(packet)) {
        if (dp_packet_hwol_is_tso(packet)) {
            return false;
        }
        dp_packet_ol_send_prepare(packet, 0);
        *dp_packet_ol_flags_ptr(packet) &= ~(DP_PACKET_OL_TX_TUNNEL_GENEVE
                                             | DP_PACKET_OL_TX_TUNNEL_VXLAN);
        dp_packet_reset_offsets(packet);
    }
#endif
    return true;
}

/* Arguments since 3.3, for tests: whether the checksum is to be wrong, and the
 * flow label of an outer IPv6 header. */
#if OXDP_OVS >= 303
#define flow_compose(PACKET, FLOW, L7, L7_LEN) \
    flow_compose(PACKET, FLOW, L7, L7_LEN, false)
#define netdev_tnl_push_ip_header(PACKET, HEADER, SIZE, TOTAL) \
    netdev_tnl_push_ip_header(PACKET, HEADER, SIZE, TOTAL, 0)
#endif

/* Names of 3.2 to 3.5. */
#if OXDP_OVS >= 302 && OXDP_OVS < 306
#define dp_packet_ip_checksum_valid dp_packet_ip_checksum_good
#define dp_packet_l4_checksum_valid dp_packet_l4_checksum_good
#endif

#endif /* ovs/base/compat.h */
