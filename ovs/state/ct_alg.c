/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of connection tracking: FTP and TFTP announce connections in their
 * control packets, FTP with addresses that NAT has to rewrite.  A rewritten
 * packet has another length, so that all sequence numbers behind it are moved.
 *
 * What is read, and what is refused, is what Open vSwitch reads. */
#include <config.h>

#include "ovs/state/ct_private.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "csum.h"
#include "dp-packet.h"
#include "dp/seam_native.h"
#include "dp/ct.h"
#include "openvswitch/vlog.h"
#include "ovs/base/compat.h"
#include "packets.h"
#include "unaligned.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_ct_alg);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 5);

#define FTP_PORT 21
#define TFTP_PORT 69
#define MESSAGE_MAX 128                 /* Bytes of a control packet that are
                                         * looked at, the last one not. */

/* What FTP says in a control packet. */
struct ftp_message {
    char text[MESSAGE_MAX];
    bool active;                        /* The client listens. */
    uint64_t address[2];                /* As in struct dp_ct_tuple. */
    bool has_address;
    size_t address_ofs, address_len;    /* In the text. */
    char separator;                     /* Between the bytes of one of IPv4. */
    uint16_t port;
};

enum ct_control
dpif_xdp_ct_control(const struct dp_packet *packet, ovs_be16 tp_src,
                    ovs_be16 tp_dst, const char *helper)
{
    const struct eth_header *eth = dp_packet_eth(packet);
    const struct ip_header *ip = dp_packet_l3(packet);
    const struct tcp_header *tcp = dp_packet_l4(packet);
    bool ftp = helper && !strncmp(helper, "ftp", 3);
    bool tftp = helper && !strncmp(helper, "tftp", 4);
    uint8_t proto;

    if (!eth || !ip || !tcp || dp_packet_l4_size(packet) < UDP_HEADER_LEN) {
        return CT_CONTROL_NONE;
    }
    proto = (IP_VER(ip->ip_ihl_ver) == 6
             ? ((const struct ovs_16aligned_ip6_hdr *) ip)
               ->ip6_ctlun.ip6_un1.ip6_un1_nxt
             : ip->ip_proto);
    if (DPIF_XDP_HELPER_OF_CONNECTION
        && ((ftp && proto == IPPROTO_TCP) || (tftp && proto == IPPROTO_UDP))) {
        return ftp ? CT_CONTROL_FTP : CT_CONTROL_TFTP;
    }
    if (proto == IPPROTO_UDP) {
        return (tcp->tcp_dst == (tftp && tp_dst ? tp_dst : htons(TFTP_PORT))
                ? CT_CONTROL_TFTP : CT_CONTROL_NONE);
    }
    return (proto == IPPROTO_TCP
            && (tcp->tcp_dst == (ftp && tp_dst ? tp_dst : htons(FTP_PORT))
                || tcp->tcp_src == (ftp && !tp_dst && tp_src ? tp_src
                                    : htons(FTP_PORT)))
            ? CT_CONTROL_FTP : CT_CONTROL_NONE);
}

static void
read_message(const struct dp_packet *packet, struct ftp_message *m)
{
    const char *payload = dp_packet_get_tcp_payload(packet);
    size_t n = (payload ? (const char *) dp_packet_tail(packet)
                          - dp_packet_l2_pad_size(packet) - payload : 0);

    memset(m, 0, sizeof *m);
    if (n) {
        ovs_strlcpy(m->text, payload, MIN(n, sizeof m->text));
    }
}

static bool
begins_with(const char *text, const char *word)
{
    return !strncasecmp(text, word, strlen(word));
}

static bool
is_extended_ip4(const struct ftp_message *m)
{
    return (DPIF_XDP_FTP_EXTENDED_IP4
            && (begins_with(m->text, "EPRT") || begins_with(m->text, "229")));
}

static bool
has_address(const struct ftp_message *m, bool v6)
{
    return (v6 ? begins_with(m->text, "EPRT")
                 || strcasestr(m->text, "EXTENDED PASSIVE")
            : begins_with(m->text, "PORT") || begins_with(m->text, "227")
              || is_extended_ip4(m));
}

bool
dpif_xdp_ct_ftp_has_address(const struct dp_packet *packet, bool v6)
{
    struct ftp_message m;

    read_message(packet, &m);
    return has_address(&m, v6);
}

/* Reads a number up to 'max' at '*s', and passes over it. */
static bool
read_number(char **s, unsigned int max, unsigned int *n)
{
    char *end;

    if (!isdigit((unsigned char) **s)) {
        return false;
    }
    errno = 0;
    unsigned long int value = strtoul(*s, &end, 10);

    *s = end;
    *n = value;
    return !errno && value <= max;
}

/* "PORT h1,h2,h3,h4,p1,p2" or "227 ... (h1,h2,h3,h4,p1,p2)". */
static bool
parse_v4(struct ftp_message *m)
{
    char *s = strchr(m->text, ' ');
    uint8_t address[4];
    unsigned int n[6];

    m->active = begins_with(m->text, "PORT");
    m->separator = ',';
    if (!s) {
        return false;
    }
    s += strcspn(s, "0123456789");
    m->address_ofs = s - m->text;
    for (int i = 0; i < 6; i++) {
        if (!read_number(&s, UINT8_MAX, &n[i])) {
            return false;
        }
        if (i < 4) {
            address[i] = n[i];
            m->address_len = s - m->text - m->address_ofs;
        }
        if (i < 5 && *s++ != ',') {
            return false;
        }
    }
    memcpy(m->address, address, sizeof address);
    m->has_address = true;
    m->port = n[4] << 8 | n[5];
    return true;
}

/* The address at 's' of "EPRT |family|address|port|".  Returns the port's
 * place, or NULL. */
static char *
parse_extended_address(struct ftp_message *m, char *s, bool v6)
{
    size_t len = strspn(s, v6 ? "0123456789abcdefABCDEF:." : "0123456789.");
    char address[INET6_ADDRSTRLEN];

    if (len >= sizeof address) {
        return NULL;
    }
    ovs_strlcpy(address, s, len + 1);
    if (inet_pton(v6 ? AF_INET6 : AF_INET, address, m->address) != 1) {
        return NULL;
    }
    m->has_address = true;
    m->address_ofs = s - m->text;
    m->address_len = len;
    s += len;
    return *s ? s + 1 : s;
}

/* "EPRT |family|address|port|" or "229 Entering Extended Passive Mode
 * (|||port|)", with any delimiter. */
static bool
parse_extended(struct ftp_message *m, bool v6)
{
    unsigned int port;
    char *s;

    m->active = begins_with(m->text, "EPRT");
    m->separator = '.';
    if (m->active) {
        s = m->text + strcspn(m->text, "0123456789");
        if (s[0] != (v6 ? '2' : '1') || !s[1]
            || isdigit((unsigned char) s[1])) {
            return false;
        }
        s = parse_extended_address(m, s + (v6 ? 2 : 1
                                           + strcspn(s + 1, "0123456789")),
                                   v6);
        if (!s) {
            return false;
        }
    } else {
        s = m->text + (v6 ? strcspn(m->text, "(") : strcspn(m->text, " "));
        s += strcspn(s, "0123456789");
    }
    if (!read_number(&s, UINT16_MAX, &port)) {
        return false;
    }
    m->port = port;
    return true;
}

static void
sum_tcp(struct dp_packet *packet, bool v6)
{
    struct tcp_header *tcp = dp_packet_l4(packet);
    size_t len = dp_packet_l4_size(packet);

    tcp->tcp_csum = 0;
    if (v6) {
        tcp->tcp_csum = packet_csum_upperlayer6(dp_packet_l3(packet), tcp,
                                                IPPROTO_TCP, len);
    } else {
        uint32_t sum = packet_csum_pseudoheader(dp_packet_l3(packet));

        tcp->tcp_csum = csum_finish(csum_continue(sum, tcp, len));
    }
}

static void
add(ovs_16aligned_be32 *number, int32_t n)
{
    put_16aligned_be32(number, htonl(ntohl(get_16aligned_be32(number)) + n));
}

/* A packet of the direction that was rewritten, or one that answers it. */
static bool
shift(const struct dp_ct_cold *cold, struct dp_packet *packet, uint32_t ref)
{
    struct tcp_header *tcp = dp_packet_l4(packet);
    bool of_replies = cold->helper & CT_HELPER_SKEWED_REPLY;

    if (!cold->seq_skew) {
        return false;
    }
    if (DP_CT_REF_REPLY(ref) == of_replies) {
        add(&tcp->tcp_seq, cold->seq_skew);
    } else {
        add(&tcp->tcp_ack, -cold->seq_skew);
    }
    return true;
}

void
dpif_xdp_ct_ftp_shift(struct oxdp_ct *tables, struct dp_packet *packet,
                      bool v6, uint32_t ref)
{
    if (shift(&oxdp_ct_tables(tables)->cold[DP_CT_REF_INDEX(ref)], packet,
              ref)) {
        sum_tcp(packet, v6);
    }
}

/* Writes 'address' into the packet in the place of what 'm' has.  Returns by
 * how much the packet grew. */
static int
rewrite(struct dp_packet *packet, bool v6, const struct ftp_message *m,
        const uint64_t address[2])
{
    char *payload = CONST_CAST(char *, dp_packet_get_tcp_payload(packet));
    char text[INET6_ADDRSTRLEN];
    char *place = payload + m->address_ofs;
    char *rest = place + m->address_len;
    size_t n_rest = (char *) dp_packet_tail(packet) - rest;
    int growth;

    inet_ntop(v6 ? AF_INET6 : AF_INET, address, text, sizeof text);
    for (char *s = text; !v6 && *s; s++) {
        *s = *s == '.' ? m->separator : *s;
    }
    growth = (int) strlen(text) - (int) m->address_len;
    if (growth > 0 && dp_packet_tailroom(packet) < growth) {
        VLOG_WARN_RL(&rl, "an FTP message of %"PRIu32" bytes has no room for "
                     "the translated address: it is sent as it is",
                     dp_packet_size(packet));
        return 0;
    }
    memmove(place + strlen(text), rest, n_rest);
    memcpy(place, text, strlen(text));
    dp_packet_set_size(packet, dp_packet_size(packet) + growth);
    if (v6) {
        struct ovs_16aligned_ip6_hdr *ip = dp_packet_l3(packet);
        ovs_be16 *len = &ip->ip6_ctlun.ip6_un1.ip6_un1_plen;

        *len = htons(ntohs(*len) + growth);
    } else {
        struct ip_header *ip = dp_packet_l3(packet);
        ovs_be16 len = htons(ntohs(ip->ip_tot_len) + growth);

        ip->ip_csum = recalc_csum16(ip->ip_csum, ip->ip_tot_len, len);
        ip->ip_tot_len = len;
    }
    return growth;
}

/* Whose address the message may have, and what NAT makes of it. */
static bool
may_announce(const struct ftp_message *m, bool v6,
             const struct dp_ct_tuple t[2], uint64_t translated[2])
{
    const __u64 *own = m->active ? t[0].addr[0] : t[1].addr[0];

    memcpy(translated, m->active ? t[1].addr[1] : t[0].addr[1],
           2 * sizeof translated[0]);
    return (!m->has_address || !memcmp(m->address, translated, v6 ? 16 : 4)
            || !memcmp(m->address, own, v6 ? 16 : 4));
}

static void
help_ftp(struct dpif_xdp_ct *ct, struct dp_packet *packet, bool v6, bool nat,
         uint32_t ref)
{
    struct dp_ct_tables *tables = oxdp_ct_tables(dpif_xdp_ct_tables_(ct));
    struct dp_ct_cold *cold = &tables->cold[DP_CT_REF_INDEX(ref)];
    struct dp_ctx ctx = { .ct = tables };
    struct dp_ct_tuple t[2];
    uint64_t translated[2];
    struct ftp_message m;
    int growth = 0;

    read_message(packet, &m);
    if (!has_address(&m, v6)) {
        return;
    }
    dp_ct_tuple_of(&ctx, DP_CT_REF_INDEX(ref), 0, &t[0]);
    dp_ct_tuple_of(&ctx, DP_CT_REF_INDEX(ref), 1, &t[1]);
    if (!(v6 || is_extended_ip4(&m) ? parse_extended(&m, v6) : parse_v4(&m))
        || !may_announce(&m, v6, t, translated)) {
        VLOG_WARN_RL(&rl, "Invalid FTP control packet format");
        packet->md.ct_state |= CS_TRACKED | CS_INVALID;
        return;
    }
    dpif_xdp_ct_expect(ct, DP_CT_REF_INDEX(ref),
                       packet->md.ct_state & CS_REPLY_DIR, htons(m.port));
    if (!nat) {
        return;
    }
    if (m.has_address) {
        growth = rewrite(packet, v6, &m, translated);
    }
    shift(cold, packet, ref);
    sum_tcp(packet, v6);
    if (growth) {
        cold->seq_skew += growth;
        cold->helper = (cold->helper & CT_HELPER_MASK)
                       | (DP_CT_REF_REPLY(ref) ? CT_HELPER_SKEWED_REPLY : 0);
    }
}

void
dpif_xdp_ct_help(struct dpif_xdp_ct *ct, struct dp_packet *packet,
                 enum ct_control control, bool v6, bool nat, uint32_t ref)
{
    const struct dp_ct_tables *t = oxdp_ct_tables(dpif_xdp_ct_tables_(ct));
    const struct dp_ct_key *key = &t->keys[DP_CT_REF_INDEX(ref)];

    switch (control) {
    case CT_CONTROL_FTP:
        help_ftp(ct, packet, v6, nat, ref);
        break;
    case CT_CONTROL_TFTP:
        /* The answer comes to the port that asked. */
        dpif_xdp_ct_expect(ct, DP_CT_REF_INDEX(ref),
                           packet->md.ct_state & CS_REPLY_DIR,
                           (OVS_FORCE ovs_be16)
                           DP_CT_L4_PORT(key->l4[0][0]));
        break;
    case CT_CONTROL_NONE:
        break;
    }
}

const char *
dpif_xdp_ct_helper(struct oxdp_ct *tables, uint32_t index)
{
    switch (oxdp_ct_tables(tables)->cold[index].helper & CT_HELPER_MASK) {
    case CT_HELPER_FTP:
        return "ftp";
    case CT_HELPER_TFTP:
        return "tftp";
    default:
        return NULL;
    }
}
