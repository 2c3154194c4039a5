/* SPDX-License-Identifier: Apache-2.0 */
#include "core/segment.h"

#include <netinet/in.h>
#include <string.h>

#include "core/checksum.h"

#define TCP_HEADER 20
#define TCP_SEQ 4
#define TCP_OFFSET 12
#define TCP_FLAGS 13
#define TCP_CHECKSUM 16
#define TCP_FIN_PSH 0x09
#define TCP_CWR 0x80
#define UDP_LEN 4
#define UDP_CHECKSUM 6
#define UDP_HEADER 8

static uint16_t read16(const uint8_t *p)
{
    return p[0] << 8 | p[1];
}

static void write16(uint8_t *p, uint16_t value)
{
    p[0] = value >> 8;
    p[1] = value;
}

static void add32(uint8_t *p, uint32_t n)
{
    uint32_t sum = ((uint32_t) read16(p) << 16 | read16(p + 2)) + n;

    write16(p, sum >> 16);
    write16(p + 2, sum);
}

bool oxdp_segments_begin(struct oxdp_segments *s, void *frame, size_t len, size_t size)
{
    const struct oxdp_transport *t = &s->transport;
    size_t header;

    *s = (struct oxdp_segments) { .frame = frame, .size = size };
    if (!size || !oxdp_transport_find(frame, len, &s->transport)) {
        return false;
    }
    switch (t->protocol) {
    case IPPROTO_TCP:
        header = t->len >= TCP_HEADER ? (t->data[TCP_OFFSET] >> 4) * 4 : 0;
        if (header < TCP_HEADER) {
            return false;
        }
        break;
    case IPPROTO_UDP:
        header = UDP_HEADER;
        break;
    default:
        return false;
    }
    if (header >= t->len) {
        return false;
    }
    s->headers = t->data - s->frame + header;
    s->payload = t->len - header;
    return true;
}

static size_t payload_left(const struct oxdp_segments *s)
{
    size_t left = s->payload - s->at;

    return left < s->size ? left : s->size;
}

size_t oxdp_segments_next_len(const struct oxdp_segments *s)
{
    return s->at < s->payload ? s->headers + payload_left(s) : 0;
}

/* Lengths, and in IPv4 an identification of its own for each segment (RFC 6864 allows to count on) and the checksum. */
static void set_ip(uint8_t *ip, size_t len, uint16_t n)
{
    if (ip[0] >> 4 == 6) {
        write16(ip + 4, len - 40);
        return;
    }
    write16(ip + 2, len);
    write16(ip + 4, read16(ip + 4) + n);
    memset(ip + 10, 0, 2);

    uint16_t checksum = ~oxdp_sum_fold(oxdp_sum_add(0, ip, (ip[0] & 0xf) * 4));

    memcpy(ip + 10, &checksum, sizeof checksum);
}

void oxdp_segments_next(struct oxdp_segments *s, void *to_)
{
    const struct oxdp_transport *t = &s->transport;
    size_t len = oxdp_segments_next_len(s), payload = payload_left(s);
    size_t transport_len = len - (t->data - s->frame);
    uint16_t pseudo = oxdp_transport_pseudo(t, transport_len);
    uint8_t *to = to_, *transport = to + (t->data - s->frame);
    bool is_last = s->at + payload == s->payload;

    memcpy(to, s->frame, s->headers);
    memcpy(to + s->headers, s->frame + s->headers + s->at, payload);
    set_ip(to + (t->ip - s->frame), len - (t->ip - s->frame), s->n);
    if (t->protocol == IPPROTO_TCP) {
        add32(transport + TCP_SEQ, s->at);
        transport[TCP_FLAGS] &= ~((is_last ? 0 : TCP_FIN_PSH) | (s->n ? TCP_CWR : 0));
        memcpy(transport + TCP_CHECKSUM, &pseudo, sizeof pseudo);
    } else {
        write16(transport + UDP_LEN, transport_len);
        memcpy(transport + UDP_CHECKSUM, &pseudo, sizeof pseudo);
    }
    oxdp_checksum_complete(to, len);
    s->at += payload;
    s->n++;
}
