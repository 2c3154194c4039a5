/* SPDX-License-Identifier: Apache-2.0 */
/* bench-traffic sink, forward: an XDP program on a device for as long as standard input is open.
 * The kernel detaches it when the process ends, however it ends. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "traffic.h"
#include "traffic.skel.h"

static struct traffic_bpf *load(void);
static int hold(struct traffic_bpf *, struct bpf_program *, unsigned int ifindex);
static void print_counts(const struct traffic_bpf *);

int bench_run_sink(const struct bench_options *options)
{
    struct traffic_bpf *skel = load();

    return skel ? hold(skel, skel->progs.bench_sink, options->ifindex) : 1;
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
    return hold(skel, skel->progs.bench_forward, options->ifindex);
}

static struct traffic_bpf *load(void)
{
    struct traffic_bpf *skel = traffic_bpf__open_and_load();

    if (!skel)
        fprintf(stderr, "bench-traffic: cannot load the BPF object: %s\n", strerror(errno));
    return skel;
}

/* Attaches 'prog' to 'ifindex', says so with an empty object, and answers each line of standard input with
 * the counts until it ends.  Consumes 'skel'. */
static int hold(struct traffic_bpf *skel, struct bpf_program *prog, unsigned int ifindex)
{
    struct bpf_link *link = bpf_program__attach_xdp(prog, ifindex);
    char line[16];

    if (!link) {
        fprintf(stderr, "bench-traffic: cannot attach XDP: %s\n", strerror(errno));
        traffic_bpf__destroy(skel);
        return 1;
    }
    puts("{}");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin))
        print_counts(skel);
    bpf_link__destroy(link);
    traffic_bpf__destroy(skel);
    return 0;
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
