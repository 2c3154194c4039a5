/* SPDX-License-Identifier: Apache-2.0 */
/* bench-traffic sink, forward, l2, return: an XDP program on devices for as long as standard input is open.
 * The kernel detaches it when the process ends, however it ends. */
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "traffic.h"
#include "traffic.skel.h"

static struct traffic_bpf *load(void);
static int hold(struct traffic_bpf *, struct bpf_program *, const struct bench_options *);
static int attach(struct bpf_program *, unsigned int ifindex, bool generic);
static int add_l2_entry(const struct traffic_bpf *, uint32_t port, char *entry);
static void print_counts(const struct traffic_bpf *);

int bench_run_sink(const struct bench_options *options)
{
    struct traffic_bpf *skel = load();

    return skel ? hold(skel, skel->progs.bench_sink, options) : 1;
}

int bench_run_forward(const struct bench_options *options)
{
    struct traffic_bpf *skel = load();
    uint32_t zero = 0, ifindex = options->to_ifindex;

    if (!skel)
        return 1;
    if (bpf_map_update_elem(bpf_map__fd(skel->maps.out), &zero, &ifindex, BPF_ANY)) {
        fprintf(stderr, "bench-traffic: cannot redirect to --to: %s\n", strerror(errno));
        traffic_bpf__destroy(skel);
        return 1;
    }
    return hold(skel, skel->progs.bench_forward, options);
}

int bench_run_return(const struct bench_options *options)
{
    struct traffic_bpf *skel = load();

    return skel ? hold(skel, skel->progs.bench_return, options) : 1;
}

int bench_run_l2(const struct bench_options *options)
{
    struct traffic_bpf *skel = load();

    if (!skel)
        return 1;
    for (uint32_t i = 0; i < options->n_entries; i++) {
        if (add_l2_entry(skel, i, options->entries[i])) {
            traffic_bpf__destroy(skel);
            return 1;
        }
    }
    return hold(skel, skel->progs.bench_l2, options);
}

/* Adds "VLAN,MAC,DEVICE" to the L2 forwarder's table, and attaches the forwarder to DEVICE.  Returns 0, or 1
 * after having said what is wrong. */
static int add_l2_entry(const struct traffic_bpf *skel, uint32_t port, char *entry)
{
    char *vlan = strtok(entry, ","), *mac = strtok(NULL, ","), *device = strtok(NULL, ",");
    uint32_t ifindex = device ? if_nametoindex(device) : 0;
    struct bench_l2_key key = { 0 };

    if (!ifindex || !bench_parse_mac(mac, key.mac)) {
        fprintf(stderr, "bench-traffic: an --entry is VLAN,MAC,DEVICE, and the device exists\n");
        return 1;
    }
    key.vlan = atoi(vlan);
    if (bpf_map_update_elem(bpf_map__fd(skel->maps.l2_table), &key, &port, BPF_ANY)
        || bpf_map_update_elem(bpf_map__fd(skel->maps.l2_out), &port, &ifindex, BPF_ANY)) {
        fprintf(stderr, "bench-traffic: cannot forward to %s: %s\n", device, strerror(errno));
        return 1;
    }
    return attach(skel->progs.bench_l2, ifindex, false);
}

static struct traffic_bpf *load(void)
{
    struct traffic_bpf *skel = traffic_bpf__open_and_load();

    if (!skel)
        fprintf(stderr, "bench-traffic: cannot load the BPF object: %s\n", strerror(errno));
    return skel;
}

/* Attaches 'prog' to --dev, if there is one, says so with an empty object, and answers each line of standard
 * input with the counts until it ends.  Consumes 'skel'. */
static int hold(struct traffic_bpf *skel, struct bpf_program *prog, const struct bench_options *options)
{
    char line[16];
    int error = options->ifindex ? attach(prog, options->ifindex, options->generic) : 0;

    if (!error) {
        puts("{}");
        fflush(stdout);
        while (fgets(line, sizeof(line), stdin))
            print_counts(skel);
    }
    traffic_bpf__destroy(skel);
    return error;
}

/* Attaches 'prog' by a link that is never closed: it ends with this process.  Returns 0, or 1 after having
 * said why not. */
static int attach(struct bpf_program *prog, unsigned int ifindex, bool generic)
{
    LIBBPF_OPTS(bpf_link_create_opts, options, .flags = generic ? XDP_FLAGS_SKB_MODE : 0);

    if (bpf_link_create(bpf_program__fd(prog), ifindex, BPF_XDP, &options) >= 0)
        return 0;
    fprintf(stderr, "bench-traffic: cannot attach XDP: %s\n", strerror(errno));
    return 1;
}

static void print_counts(const struct traffic_bpf *skel)
{
    int n_cpus = libbpf_num_possible_cpus();
    struct bench_count *counts = calloc(n_cpus, sizeof(*counts)), sum = { 0 };
    uint32_t zero = 0;

    if (counts && !bpf_map_lookup_elem(bpf_map__fd(skel->maps.counts), &zero, counts)) {
        for (int i = 0; i < n_cpus; i++) {
            sum.packets += counts[i].packets;
            sum.bytes += counts[i].bytes;
            sum.others += counts[i].others;
        }
    }
    printf("{\"ns\": %llu, \"packets\": %llu, \"bytes\": %llu, \"others\": %llu}\n",
           (unsigned long long)bench_now(), (unsigned long long)sum.packets, (unsigned long long)sum.bytes,
           (unsigned long long)sum.others);
    fflush(stdout);
    free(counts);
}
