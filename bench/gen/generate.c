/* SPDX-License-Identifier: Apache-2.0 */
/* bench-traffic generate: frames made by an XDP program under BPF_PROG_TEST_RUN with live frames
 * (Documentation/bpf/bpf_prog_run.rst in the kernel's sources). */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "traffic.h"
#include "traffic.skel.h"

/* A limited rate is kept by bursts this far apart: short enough that a burst fits an AF_XDP ring of
 * 2,048 frames at 4 Mpps. */
#define BURST_INTERVAL 250000ull            /* Nanoseconds. */

static struct traffic_bpf *load(const struct bench_options *);
static int send_to(const struct traffic_bpf *, uint32_t place, uint32_t ifindex);
static struct bpf_link *hold_dispatcher_slot(const struct traffic_bpf *, const char *hold);
static int send_frames(const struct traffic_bpf *, const struct bench_options *, uint8_t *frame, uint32_t n);
static void sleep_until(uint64_t when);
static uint64_t thread_cpu(void);

int bench_run_generate(const struct bench_options *options)
{
    uint8_t frame[BENCH_FRAME_MAX] = { 0 };
    struct traffic_bpf *skel;
    uint64_t start, end, now, cpu, sent = 0;
    int error = 0;

    skel = load(options);
    if (!skel)
        return 1;
    prctl(PR_SET_TIMERSLACK, 1);

    cpu = thread_cpu();
    start = now = bench_now();
    end = start + options->seconds * 1e9;
    for (uint64_t burst = start; now < end && !error; now = bench_now()) {
        uint64_t due = options->call;

        if (options->rate) {
            burst += BURST_INTERVAL;
            sleep_until(burst);
            due = (double)(burst - start) * options->rate / 1e9 - sent;
        }
        if (due) {
            error = send_frames(skel, options, frame, due);
            sent += due;
        }
    }
    cpu = thread_cpu() - cpu;
    if (!error) {
        printf("{\"sent\": %llu, \"seconds\": %.6f, \"cpu_seconds\": %.6f}\n", (unsigned long long)sent,
               (now - start) / 1e9, cpu / 1e9);
    }
    traffic_bpf__destroy(skel);
    return error ? 1 : 0;
}

int bench_run_turns(const struct bench_options *options)
{
    uint8_t frame[BENCH_FRAME_MAX] = { 0 };
    const char *separator = "";
    struct traffic_bpf *skel;
    uint64_t end;
    int error = 0;

    skel = load(options);
    if (!skel)
        return 1;

    printf("{\"frames\": %u, \"ns\": [", options->call);
    end = bench_now() + options->seconds * 1e9;
    for (bool other = false; bench_now() < end && !error; other = !other) {
        uint64_t ns[2] = { 0 };

        for (int i = 0; i < 2 && !error; i++) {
            bool to = other != i;
            uint64_t start;

            error = send_to(skel, 0, to ? options->to_ifindex : options->ifindex);
            start = bench_now();
            error = error ? error : send_frames(skel, options, frame, options->call);
            ns[to] = bench_now() - start;
        }
        printf("%s[%.3f, %.3f]", separator, (double)ns[0] / options->call, (double)ns[1] / options->call);
        separator = ", ";
    }
    puts("]}");
    traffic_bpf__destroy(skel);
    return error ? 1 : 0;
}

/* RFC 1071 over an IPv4 header without options, whose checksum field is 0. */
static uint16_t ip_checksum(const void *header)
{
    const uint8_t *p = header;
    uint32_t sum = 0;

    for (int i = 0; i < 20; i += 2)
        sum += p[i] << 8 | p[i + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    return ~((sum & 0xffff) + (sum >> 16));
}

static struct bench_frame first_frame(const struct bench_options *options)
{
    int link_len = options->vlan ? 18 : 14;
    struct bench_frame frame = {
        .eth_type = htons(0x0800),
        .ip_ihl_version = 0x45,
        .ip_len = htons(options->size - link_len),
        .ip_ttl = 64,
        .ip_proto = 17,
        .udp_src = htons(BENCH_SRC_PORT),
        .udp_dst = htons(BENCH_DST_PORT),
        .udp_len = htons(options->size - link_len - 20),
    };
    uint32_t src = htonl(BENCH_SRC_NET), dst = htonl(BENCH_DST_ADDR);

    memcpy(frame.eth_dst, options->eth_dst, 6);
    memcpy(frame.eth_src, options->eth_src, 6);
    memcpy(frame.ip_src, &src, 4);
    memcpy(frame.ip_dst, &dst, 4);
    frame.ip_check = htons(ip_checksum(&frame.ip_ihl_version));
    return frame;
}

static struct bench_frame6 first_frame6(const struct bench_options *options)
{
    struct bench_frame6 frame = {
        .eth_type = htons(0x86dd),
        .ip_version = { 0x60 },
        .ip_len = htons(options->size - 54),
        .ip_ttl = 64,
        .ip_proto = 17,
        .ip_src = { 0x20, 0x01, 0x0d, 0xb8 },       /* 2001:db8::/32 is for examples, RFC 3849. */
        .ip_dst = { 0x20, 0x01, 0x0d, 0xb8, 1, [15] = 1 },
        .udp_src = htons(BENCH_SRC_PORT),
        .udp_dst = htons(BENCH_DST_PORT),
        .udp_len = htons(options->size - 54),
    };

    memcpy(frame.eth_dst, options->eth_dst, 6);
    memcpy(frame.eth_src, options->eth_src, 6);
    return frame;
}

/* The headers of --tunnel, to '*header'; returns their length.  Geneve has one option of 4 bytes. */
static uint32_t tunnel_header(const struct bench_options *options, uint8_t header[BENCH_TUNNEL_MAX])
{
    static const uint8_t vxlan[] = { 8, 0, 0, 0, 0, 0, 0, 0 };
    static const uint8_t geneve[] = { 2, 0, 0x65, 0x58, 0, 0, 0, 0, 1, 2, 0x80, 1, 0, 0, 0, 1 };
    static const uint8_t gre[] = { 0, 0, 0x65, 0x58 };
    bool is_gre = !strcmp(options->tunnel, "gre"), is_vxlan = !strcmp(options->tunnel, "vxlan");
    const uint8_t *own = is_gre ? gre : is_vxlan ? vxlan : geneve;
    uint32_t own_len = is_gre ? sizeof(gre) : is_vxlan ? sizeof(vxlan) : sizeof(geneve);
    uint32_t ip_len = is_gre ? 34 : 42;         /* Up to what is the tunnel's own. */
    uint32_t src = htonl(BENCH_TUNNEL_SRC), dst = htonl(BENCH_TUNNEL_DST);
    struct bench_frame outer = {
        .eth_dst = BENCH_TUNNEL_MAC,
        .eth_type = htons(0x0800),
        .ip_ihl_version = 0x45,
        .ip_len = htons(options->size - 14),
        .ip_ttl = 64,
        .ip_proto = is_gre ? 47 : 17,
        .udp_src = htons(50000),
        .udp_dst = htons(is_vxlan ? BENCH_VXLAN_PORT : BENCH_GENEVE_PORT),
        .udp_len = htons(options->size - 34),
    };

    memcpy(outer.eth_src, options->eth_src, 6);
    memcpy(outer.ip_src, &src, 4);
    memcpy(outer.ip_dst, &dst, 4);
    outer.ip_check = htons(ip_checksum(&outer.ip_ihl_version));
    memcpy(header, &outer, ip_len);
    memcpy(header + ip_len, own, own_len);
    return ip_len + own_len;
}

/* Moves the thread to --cpu and loads the generator, which sends into --dev.  NULL after having said why not. */
static struct traffic_bpf *load(const struct bench_options *options)
{
    struct bench_options inside = *options;
    uint8_t header[BENCH_TUNNEL_MAX] = { 0 };
    struct traffic_bpf *skel;

    if (options->tcp && !options->new_flows && !options->to_ifindex) {
        fprintf(stderr, "bench-traffic: with --tcp the servers need a device, too: --to DEVICE\n");
        return NULL;
    }
    if (options->tunnel)
        inside.size -= tunnel_header(options, header);
    if (bench_move_to_cpu(options->cpu))
        return NULL;
    skel = traffic_bpf__open();
    if (!skel) {
        fprintf(stderr, "bench-traffic: cannot open the BPF object: %s\n", strerror(errno));
        return NULL;
    }
    skel->rodata->n_flows = options->flows;
    skel->rodata->vlan_tci = htons(options->vlan);
    skel->rodata->ip6 = options->ip6;
    skel->rodata->tcp = options->tcp;
    skel->rodata->syns = options->new_flows;
    skel->rodata->n_receivers = options->receivers;
    skel->rodata->tunnel_len = options->size - inside.size;
    skel->rodata->n_endpoints = options->endpoints;
    memcpy(skel->bss->tunnel_header, header, sizeof(header));
    skel->bss->first_frame = first_frame(&inside);
    skel->bss->first_frame6 = first_frame6(options);
    if (traffic_bpf__load(skel)) {
        fprintf(stderr, "bench-traffic: cannot load the generator: %s\n", strerror(errno));
        traffic_bpf__destroy(skel);
        return NULL;
    }
    if (send_to(skel, 0, options->ifindex)
        || (options->tcp && options->to_ifindex && send_to(skel, 1, options->to_ifindex))) {
        traffic_bpf__destroy(skel);
        return NULL;
    }
    if (!options->plain)
        skel->links.bench_generate = hold_dispatcher_slot(skel, options->hold);
    return skel;
}

/* Has the generator send into a device from now on what it sends to 'place' of its map.  Returns 0, or a negative
 * errno after having said so. */
static int send_to(const struct traffic_bpf *skel, uint32_t place, uint32_t ifindex)
{
    int error = bpf_map_update_elem(bpf_map__fd(skel->maps.out), &place, &ifindex, BPF_ANY);

    if (error)
        fprintf(stderr, "bench-traffic: cannot send to a device: %s\n", strerror(-error));
    return error;
}

/* Each test run puts its program into the kernel's XDP dispatcher and takes it out again, and waits for an
 * RCU grace period both times: 20 ms (bpf_prog_change_xdp() in net/bpf/test_run.c).  A program that is
 * attached to a device stays there.  The loopback device of the generator's namespace carries no traffic;
 * a second generator there needs another device, --hold.
 * Without the link only speed is lost, which the number of frames sent shows. */
static struct bpf_link *hold_dispatcher_slot(const struct traffic_bpf *skel, const char *hold)
{
    return bpf_program__attach_xdp(skel->progs.bench_generate, if_nametoindex(hold ? hold : "lo"));
}

static int send_frames(const struct traffic_bpf *skel, const struct bench_options *options, uint8_t *frame,
                       uint32_t n)
{
    LIBBPF_OPTS(bpf_test_run_opts, opts,
        .data_in = frame,
        .data_size_in = options->size,
        .repeat = n,
        .flags = BPF_F_TEST_XDP_LIVE_FRAMES,
        .batch_size = options->batch,
    );
    int error = bpf_prog_test_run_opts(bpf_program__fd(skel->progs.bench_generate), &opts);

    if (error)
        fprintf(stderr, "bench-traffic: BPF_PROG_TEST_RUN with live frames: %s\n", strerror(-error));
    return error;
}

static void sleep_until(uint64_t when)
{
    struct timespec ts = { .tv_sec = when / 1000000000, .tv_nsec = when % 1000000000 };

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static uint64_t thread_cpu(void)
{
    struct timespec used;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return used.tv_sec * 1000000000ull + used.tv_nsec;
}
