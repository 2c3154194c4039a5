/* SPDX-License-Identifier: Apache-2.0 */
/* bench-traffic: traffic for the benchmark, generated, forwarded and counted in the kernel. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "traffic.h"

static int parse_options(int argc, char *argv[], struct bench_options *);

static const struct {
    const char *name;
    int (*run)(const struct bench_options *);
} commands[] = {
    { "generate", bench_run_generate },
    { "turns", bench_run_turns },
    { "sink", bench_run_sink },
    { "forward", bench_run_forward },
    { "l2", bench_run_l2 },
    { "return", bench_run_return },
    { "socket", bench_run_socket },
    { "vm", bench_run_vm },
    { "busy", bench_run_busy },
    { "echo", bench_run_echo },
    { "serve", bench_run_serve },
    { "ping", bench_run_ping },
    { "flood", bench_run_flood },
    { "drain", bench_run_drain },
};

static const char usage[] =
    "usage: bench-traffic COMMAND [OPTIONS]\n"
    "  generate  send UDP frames out of --dev DEVICE: --flows N, --rate PPS (0: maximum), --seconds S, --cpu N,\n"
    "            --size BYTES, --batch N, --src MAC, --dst MAC, --vlan VID, --ip6,\n"
    "            --receivers N (spread over N destination addresses), --call FRAMES (per test run),\n"
    "            --tcp (connections of --flows clients, from the handshake to the end; servers send --to DEVICE;\n"
    "            with --new-flows only SYNs),\n"
    "            --tunnel vxlan|geneve|gre (--size is that of the whole), --endpoints N (tunnels from N addresses),\n"
    "            --hold DEVICE (where its program is attached; the loopback device),\n"
    "            --plain (without an attached program, so that each test run waits for RCU)\n"
    "  turns     send as generate does, a test run into --dev and one into --to by turns; prints the nanoseconds\n"
    "            that a frame takes in each\n"
    "  sink      drop and count what --dev receives; a line on standard input asks for the counts\n"
    "  forward   redirect what --dev receives to --to DEVICE, until standard input ends\n"
    "  l2        forward between devices by VLAN and destination MAC: --entry VLAN,MAC,DEVICE ...\n"
    "  return    send what --dev receives back out of it\n"
    "  socket    drop, or with --back return, what --dev receives, by an AF_XDP socket\n"
    "  vm        make taps --dev and --to and copy frames from each to the other\n"
    "  busy      use CPU --cpu, and count in the first 8 bytes of --file; runs until it is killed\n"
    "  echo      answer UDP requests to --address until standard input ends\n"
    "  ping      send UDP requests to --address one after the other for --seconds, print percentiles of the\n"
    "            time until the answer; --new-flows: each from another port; --tcp: to what serve answers\n"
    "  serve     answer TCP requests to --address, one connection after the other\n"
    "  flood     send UDP datagrams to --address from a socket for --seconds, frames of --size BYTES\n"
    "  drain     receive and count them; a line on standard input asks for the count\n"
    "sink, forward and return take --generic: generic XDP.\n"
    "Those that run until standard input ends print {} when they are ready; generate, sink, ping, flood, drain print "
    "JSON.\n";

int main(int argc, char *argv[])
{
    struct bench_options options;
    int error;

    error = parse_options(argc, argv, &options);
    if (error)
        return error;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (!strcmp(options.command, commands[i].name))
            return commands[i].run(&options);
    }
    fprintf(stderr, "bench-traffic: unknown command '%s'\n%s", options.command, usage);
    return 2;
}

uint64_t bench_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

int bench_move_to_cpu(int cpu)
{
    cpu_set_t set;

    if (cpu < 0)
        return 0;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set)) {
        int error = -errno;

        fprintf(stderr, "bench-traffic: cannot run on CPU %d: %s\n", cpu, strerror(-error));
        return error;
    }
    return 0;
}

bool bench_parse_mac(const char *s, uint8_t mac[6])
{
    char end;

    return s && sscanf(s, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx%c", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
                  &mac[5], &end) == 6;
}

/* Stores a number between 'min' and 'max' in '*ret'; false if 's' is none. */
static bool parse_number(const char *s, double min, double max, double *ret)
{
    char *end;
    double value;

    errno = 0;
    value = strtod(s, &end);
    if (errno || end == s || *end || !(value >= min && value <= max))
        return false;
    *ret = value;
    return true;
}

/* Stores the number of the device 'name', if there is a name; false after having said that it does not exist. */
static bool find_device(const char *name, unsigned int *ret_ifindex)
{
    unsigned int ifindex = name ? if_nametoindex(name) : 0;

    if (name && !ifindex) {
        fprintf(stderr, "bench-traffic: there is no device '%s'\n", name);
        return false;
    }
    *ret_ifindex = ifindex;
    return true;
}

static const struct option longopts[] = {
    { "dev", required_argument, NULL, 'd' },   { "to", required_argument, NULL, 't' },
    { "flows", required_argument, NULL, 'f' }, { "rate", required_argument, NULL, 'r' },
    { "seconds", required_argument, NULL, 's' }, { "cpu", required_argument, NULL, 'c' },
    { "size", required_argument, NULL, 'z' },  { "batch", required_argument, NULL, 'b' },
    { "src", required_argument, NULL, 'S' },   { "dst", required_argument, NULL, 'D' },
    { "address", required_argument, NULL, 'a' }, { "new-flows", no_argument, NULL, 'n' },
    { "vlan", required_argument, NULL, 'v' },  { "ip6", no_argument, NULL, '6' },
    { "receivers", required_argument, NULL, 'R' }, { "call", required_argument, NULL, 'C' },
    { "entry", required_argument, NULL, 'e' }, { "plain", no_argument, NULL, 'p' },
    { "file", required_argument, NULL, 'F' },  { "hold", required_argument, NULL, 'H' },
    { "generic", no_argument, NULL, 'g' },     { "back", no_argument, NULL, 'B' },
    { "tcp", no_argument, NULL, 'T' },         { "help", no_argument, NULL, 'h' },
    { "tunnel", required_argument, NULL, 'u' }, { "endpoints", required_argument, NULL, 'E' },
    { 0 },
};

/* Stores the value 'arg' of the option 'c' of 'longopts'; false if it is no good value for that. */
static bool set_option(struct bench_options *options, int c, char *arg)
{
    double number = 0;
    bool ok = true;

    switch (c) {
    case 'd':
        options->dev = arg;
        break;
    case 't':
        options->to = arg;
        break;
    case 'R':
        ok = parse_number(arg, 1, UINT8_MAX, &number);
        options->receivers = number;
        break;
    case 'u':
        options->tunnel = arg;
        ok = !strcmp(arg, "vxlan") || !strcmp(arg, "geneve") || !strcmp(arg, "gre");
        break;
    case 'E':
        ok = parse_number(arg, 1, 200, &number);
        options->endpoints = number;
        break;
    case 'C':
        ok = parse_number(arg, 1, 1 << 24, &number);
        options->call = number;
        break;
    case 'e':
        ok = options->n_entries < BENCH_MAX_PORTS;
        if (ok)
            options->entries[options->n_entries++] = arg;
        break;
    case 'H':
        options->hold = arg;
        break;
    case 'F':
        options->file = arg;
        break;
    case 'p':
        options->plain = true;
        break;
    case 'g':
        options->generic = true;
        break;
    case 'B':
        options->back = true;
        break;
    case 'f':
        ok = parse_number(arg, 1, UINT32_MAX, &number);
        options->flows = number;
        break;
    case 'r':
        ok = parse_number(arg, 0, 1e9, &number);
        options->rate = number;
        break;
    case 's':
        ok = parse_number(arg, 0, 86400, &options->seconds);
        break;
    case 'c':
        ok = parse_number(arg, 0, 1023, &number);
        options->cpu = number;
        break;
    case 'z':
        ok = parse_number(arg, BENCH_FRAME_MIN, BENCH_FRAME_MAX, &number);
        options->size = number;
        break;
    case 'b':
        ok = parse_number(arg, 1, 256, &number);
        options->batch = number;
        break;
    case 'S':
        ok = bench_parse_mac(arg, options->eth_src);
        break;
    case 'D':
        ok = bench_parse_mac(arg, options->eth_dst);
        break;
    case 'a':
        ok = inet_pton(AF_INET, arg, &options->address) == 1;
        break;
    case 'v':
        ok = parse_number(arg, 1, 4094, &number);
        options->vlan = number;
        break;
    case '6':
        options->ip6 = true;
        break;
    case 'T':
        options->tcp = true;
        break;
    case 'n':
        options->new_flows = true;
        break;
    }
    return ok;
}

/* Returns 0, or the exit status after having said what is wrong. */
static int parse_options(int argc, char *argv[], struct bench_options *options)
{
    int c, index;

    *options = (struct bench_options) {
        .flows = 1, .seconds = 1, .cpu = -1, .size = BENCH_FRAME_MIN, .batch = 64, .call = 16384, .receivers = 1,
        .endpoints = 1,
        .eth_src = { 2, 0, 0, 0, 0, 1 }, .eth_dst = { 2, 0, 0, 0, 0, 2 },
    };
    while ((c = getopt_long(argc, argv, "h", longopts, &index)) != -1) {
        if (c == 'h') {
            fputs(usage, stdout);
            exit(0);
        }
        if (c == '?') {
            fputs(usage, stderr);
            return 2;
        }
        if (!set_option(options, c, optarg)) {
            fprintf(stderr, "bench-traffic: '%s' is no good value for --%s\n", optarg, longopts[index].name);
            return 2;
        }
    }
    if (optind + 1 != argc) {
        fputs(usage, stderr);
        return 2;
    }
    options->command = argv[optind];
    if (strcmp(options->command, "vm")
        && (!find_device(options->dev, &options->ifindex) || !find_device(options->to, &options->to_ifindex)))
        return 2;
    return 0;
}
