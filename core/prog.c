/* SPDX-License-Identifier: Apache-2.0 */
#include "core/prog.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bpf/maps.h"
#include "dp/table.h"
#include "dp/capability.h"
#include "bpf/xdp.skel.h"
#include "core/capability.h"
#include "core/device.h"
#include "core/pin.h"
#include "core/table.h"

struct attachment {
    int ifindex;                /* 0: free. */
    int link_fd;
    bool overflow;              /* The port is in 'ports_overflow', not in 'ports'. */
    struct bpf_port port;
};

struct oxdp_progs {
    struct xdp_bpf *skel;
    struct dp_capability capability;    /* As the object declares it. */
    struct oxdp_pins *pins;             /* NULL: not pinned. */
    char *unpinned;                     /* Why. */
    uint32_t n_direct;                  /* Entries of the map 'ports'. */
    uint32_t *direct;                   /* The ifindex in each of them, 0 if none. */
    uint32_t max_ports;
    struct attachment *attachments;     /* 'max_ports'; the counter slot is the index + 1. */
    uint32_t max_sockets;
    bool *socket_used;                  /* 'max_sockets'. */
    bool *can_output;                   /* 'max_ports'. */
    int n_cpus;
    uint32_t n_slots;                   /* Counter slots that were ever in use. */
    uint64_t retired[DP_N_COUNTERS];    /* Counted by ports before those that have their slots now. */
    struct dp_tables memory;            /* The maps of the flow tables. */
    struct oxdp_table *table;           /* NULL: no flow tables. */
};

static void set_sizes(struct oxdp_progs *progs, const struct oxdp_progs_config *config,
                      struct oxdp_table_config *ret_tables);
static int map_tables(struct oxdp_progs *progs, const struct oxdp_table_config *tables);
static void unmap_tables(struct oxdp_progs *progs);
static void pin(struct oxdp_progs *progs, const char *name);
static void link_name(int ifindex, char name[32]);
static struct attachment *find(struct oxdp_progs *progs, int ifindex);
static int sum_counters(const struct oxdp_progs *progs, uint32_t slot, uint64_t sum[DP_N_COUNTERS]);
static int set_port(struct oxdp_progs *progs, struct attachment *at, const int sock_fds[]);
static void clear_port(struct oxdp_progs *progs, struct attachment *at);
static int attach_error(int ifindex, bool native, int err, char **ret_error);
static int fail(int err, char **ret_error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int remember_warning(enum libbpf_print_level level, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static const char *const mode_names[] = {
    [OXDP_MODE_BEST_EFFORT] = "best-effort",
    [OXDP_MODE_NATIVE_ZEROCOPY] = "native-with-zerocopy",
    [OXDP_MODE_NATIVE] = "native",
    [OXDP_MODE_GENERIC] = "generic",
};
#define N_MODES (sizeof mode_names / sizeof mode_names[0])

/* libbpf says why a program does not load only through a callback. */
static __thread char last_warning[512];

int oxdp_progs_load(const struct oxdp_progs_config *config, struct oxdp_progs **ret_progs, char **ret_error)
{
    struct oxdp_progs *progs = calloc(1, sizeof *progs);
    struct oxdp_table_config tables;
    char *refusal = NULL;
    int err = -ENOMEM;

    if (!progs) {
        return fail(err, ret_error, "not enough memory to load the XDP program");
    }
    progs->max_ports = config->max_ports;
    progs->max_sockets = config->max_sockets;
    progs->n_cpus = libbpf_num_possible_cpus();
    progs->n_slots = BPF_COUNTER_SLOT_NO_PORT + 1;
    progs->n_direct = 64;
    while (progs->n_direct < 2 * progs->max_ports) {
        progs->n_direct *= 2;
    }
    progs->direct = calloc(progs->n_direct, sizeof *progs->direct);
    progs->attachments = calloc(progs->max_ports, sizeof *progs->attachments);
    progs->socket_used = calloc(progs->max_sockets, sizeof *progs->socket_used);
    progs->can_output = calloc(progs->max_ports, sizeof *progs->can_output);

    last_warning[0] = '\0';
    libbpf_print_fn_t old_print = libbpf_set_print(remember_warning);

    if (progs->direct && progs->attachments && progs->socket_used && progs->can_output) {
        progs->skel = xdp_bpf__open();
        err = progs->skel ? 0 : -errno;
    }
    if (!err) {
        err = oxdp_capability_read(progs->skel->obj, &progs->capability, &refusal);
    }
    if (!err) {
        set_sizes(progs, config, &tables);
        err = xdp_bpf__load(progs->skel);
    }
    if (!err && config->n_flows) {
        err = map_tables(progs, &tables);
    }
    libbpf_set_print(old_print);

    if (err) {
        oxdp_progs_unload(progs);
        if (refusal) {
            *ret_error = refusal;
            return err;
        }
        return fail(err, ret_error, "the XDP program does not load (%s)%s%s%s", strerror(-err),
                    err == -EPERM ? ": run as root, or with CAP_BPF and CAP_NET_ADMIN" : "",
                    last_warning[0] ? "; libbpf says: " : "", last_warning);
    }
    if (config->name) {
        pin(progs, config->name);
    }
    *ret_progs = progs;
    return 0;
}

void oxdp_progs_unload(struct oxdp_progs *progs)
{
    if (!progs) {
        return;
    }
    for (uint32_t i = 0; progs->attachments && i < progs->max_ports; i++) {
        if (progs->attachments[i].ifindex) {
            oxdp_progs_detach(progs, progs->attachments[i].ifindex);
        }
    }
    oxdp_pins_close(progs->pins);
    free(progs->unpinned);
    unmap_tables(progs);
    xdp_bpf__destroy(progs->skel);
    free(progs->direct);
    free(progs->attachments);
    free(progs->socket_used);
    free(progs->can_output);
    free(progs);
}

const char *oxdp_progs_unpinned(const struct oxdp_progs *progs)
{
    return progs->unpinned;
}

struct oxdp_table *oxdp_progs_table(const struct oxdp_progs *progs)
{
    return progs->table;
}

const struct dp_capability *oxdp_progs_capability(const struct oxdp_progs *progs)
{
    return &progs->capability;
}

int oxdp_progs_set_output(struct oxdp_progs *progs, uint32_t port_no, int ifindex)
{
    int fd = bpf_map__fd(progs->skel->maps.outputs);
    int err;

    if (port_no >= progs->max_ports) {
        return -ERANGE;
    }
    if (ifindex) {
        err = bpf_map_update_elem(fd, &port_no, &ifindex, BPF_ANY);
    } else {
        err = bpf_map_delete_elem(fd, &port_no);
        err = err == -ENOENT ? 0 : err;
    }
    progs->can_output[port_no] = ifindex && !err;
    return err;
}

bool oxdp_progs_can_output(const struct oxdp_progs *progs, uint32_t port_no)
{
    return port_no < progs->max_ports && progs->can_output[port_no];
}

int oxdp_progs_attach(struct oxdp_progs *progs, int ifindex, bool native, bool local_stack, uint32_t port_no,
                      const int sock_fds[], uint32_t n_queues, char **ret_error)
{
    struct attachment *at;
    char name[32];
    int err;

    if (find(progs, ifindex)) {
        return fail(-EBUSY, ret_error, "the device is already a port of this datapath");
    }
    for (at = progs->attachments; at < progs->attachments + progs->max_ports && at->ifindex; at++) {
        continue;
    }
    if (at == progs->attachments + progs->max_ports) {
        return fail(-ENOSPC, ret_error, "the datapath has its maximum of %u ports", progs->max_ports);
    }

    *at = (struct attachment) {
        .ifindex = ifindex,
        .link_fd = -1,
        .port = {
            .ifindex = ifindex,
            .port_no = port_no,
            .n_queues = n_queues,
            .local_stack = local_stack,
            .counter_slot = at - progs->attachments + 1,
        },
    };
    err = set_port(progs, at, sock_fds);
    if (err) {
        memset(at, 0, sizeof *at);
        return fail(err, ret_error, "cannot write the port into the datapath's tables: %s", strerror(-err));
    }

    LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE);

    at->link_fd = bpf_link_create(bpf_program__fd(progs->skel->progs.oxdp_xdp), ifindex, BPF_XDP, &opts);
    if (at->link_fd < 0) {
        err = attach_error(ifindex, native, at->link_fd, ret_error);
        clear_port(progs, at);
        return err;
    }
    link_name(ifindex, name);
    oxdp_pins_add(progs->pins, name, at->link_fd);
    return 0;
}

void oxdp_progs_detach(struct oxdp_progs *progs, int ifindex)
{
    struct attachment *at = find(progs, ifindex);
    char name[32];

    if (at) {
        link_name(ifindex, name);
        oxdp_pins_remove(progs->pins, name);
        bpf_link_detach(at->link_fd);
        close(at->link_fd);
        clear_port(progs, at);
    }
}

int oxdp_progs_get_counters(const struct oxdp_progs *progs, int ifindex,
                            uint64_t ret_counters[DP_N_COUNTERS])
{
    const struct attachment *at = find((struct oxdp_progs *) progs, ifindex);

    if (ifindex && !at) {
        return -ENODEV;
    }
    memset(ret_counters, 0, DP_N_COUNTERS * sizeof *ret_counters);
    return sum_counters(progs, at ? at->port.counter_slot : BPF_COUNTER_SLOT_NO_PORT, ret_counters);
}

int oxdp_progs_get_totals(const struct oxdp_progs *progs, uint64_t ret_counters[DP_N_COUNTERS])
{
    uint32_t n = progs->n_slots;
    struct bpf_counters *per_cpu = calloc((size_t) n * progs->n_cpus, sizeof *per_cpu);
    uint32_t *slots = calloc(n, sizeof *slots);
    uint32_t next;
    int err = -ENOMEM;

    if (per_cpu && slots) {
        err = bpf_map_lookup_batch(bpf_map__fd(progs->skel->maps.counters), NULL, &next, slots, per_cpu, &n,
                                   NULL);
        err = err == -ENOENT ? 0 : err;
    }
    if (!err) {
        memcpy(ret_counters, progs->retired, sizeof progs->retired);
        for (size_t i = 0; i < (size_t) n * progs->n_cpus; i++) {
            for (int j = 0; j < DP_N_COUNTERS; j++) {
                ret_counters[j] += per_cpu[i].n[j];
            }
        }
    }
    free(slots);
    free(per_cpu);
    return err;
}

uint64_t oxdp_hits(const uint64_t counters[DP_N_COUNTERS])
{
    return counters[DP_COUNTER_FORWARDED] + counters[DP_COUNTER_DROPPED] + counters[DP_COUNTER_NO_OUTPUT]
        + counters[DP_COUNTER_UP_ENGINE] + counters[DP_COUNTER_RECIRCULATED];
}

uint64_t oxdp_received(const uint64_t counters[DP_N_COUNTERS])
{
    uint64_t sum = 0;

#define X(NAME, TEXT) sum += counters[DP_COUNTER_##NAME];
    DP_FATE_COUNTERS(X)
#undef X
    return sum;
}

int oxdp_progs_get_info(const struct oxdp_progs *progs, struct oxdp_prog_info *ret_info)
{
    struct bpf_prog_info info = { 0 };
    uint32_t len = sizeof info;
    int err = bpf_obj_get_info_by_fd(bpf_program__fd(progs->skel->progs.oxdp_xdp), &info, &len);

    if (!err) {
        memcpy(ret_info->name, info.name, sizeof ret_info->name);
        ret_info->id = info.id;
        ret_info->xlated_bytes = info.xlated_prog_len;
        ret_info->jited_bytes = info.jited_prog_len;
    }
    return err;
}

const char *oxdp_counter_text(enum dp_counter counter)
{
    static const char *const texts[] = {
#define X(NAME, TEXT) TEXT,
        DP_COUNTERS(X)
#undef X
    };

    return counter < DP_N_COUNTERS ? texts[counter] : NULL;
}

const char *oxdp_mode_to_string(enum oxdp_mode mode)
{
    return mode < N_MODES ? mode_names[mode] : NULL;
}

bool oxdp_mode_from_string(const char *s, enum oxdp_mode *ret_mode)
{
    for (size_t i = 0; i < N_MODES; i++) {
        if (!strcmp(s, mode_names[i])) {
            *ret_mode = i;
            return true;
        }
    }
    return false;
}

/* The flow tables with their maps; the first two are global variables of the program. */
#define TABLE_MAPS(X)           \
    X(head, data_dp_head)       \
    X(masks, data_dp_masks)     \
    X(flows, dp_flows)          \
    X(stats, dp_stats)          \
    X(buckets, dp_buckets)      \
    X(cache, dp_cache)          \
    X(ops, dp_ops)              \
    X(meters, dp_meters)

static void set_sizes(struct oxdp_progs *progs, const struct oxdp_progs_config *config,
                      struct oxdp_table_config *ret_tables)
{
    struct xdp_bpf *skel = progs->skel;

    skel->rodata->ports_mask = progs->n_direct - 1;
    skel->rodata->fast_path = config->n_flows != 0;
    bpf_map__set_max_entries(skel->maps.ports, progs->n_direct);
    bpf_map__set_max_entries(skel->maps.ports_overflow, progs->max_ports);
    bpf_map__set_max_entries(skel->maps.sockets, progs->max_sockets);
    bpf_map__set_max_entries(skel->maps.outputs, progs->max_ports);
    bpf_map__set_max_entries(skel->maps.counters, progs->max_ports + 1);
    if (config->n_flows) {
        *ret_tables = oxdp_table_config(config->n_flows, progs->n_cpus);
        oxdp_table_sizes(ret_tables, &progs->memory);
#define X(NAME, TYPE) bpf_map__set_max_entries(skel->maps.dp_##NAME, progs->memory.n_##NAME);
        DP_SIZED_TABLES(X)
#undef X
    }
}

/* Bytes of 'map' in mmap (kernel/bpf/arraymap.c). */
static size_t map_bytes(const struct bpf_map *map)
{
    size_t page = sysconf(_SC_PAGESIZE);
    size_t value_size = (bpf_map__value_size(map) + 7) & ~(size_t) 7;

    return (value_size * bpf_map__max_entries(map) + page - 1) & ~(page - 1);
}

static int map_tables(struct oxdp_progs *progs, const struct oxdp_table_config *tables)
{
    static const struct oxdp_table_callbacks callbacks = { .grace = oxdp_table_grace };
    struct dp_tables *memory = &progs->memory;

#define X(NAME, MAP)                                                                    \
    memory->NAME = mmap(NULL, map_bytes(progs->skel->maps.MAP), PROT_READ | PROT_WRITE, \
                        MAP_SHARED, bpf_map__fd(progs->skel->maps.MAP), 0);             \
    if (memory->NAME == MAP_FAILED) {                                                   \
        memory->NAME = NULL;                                                            \
        return -errno;                                                                  \
    }
    TABLE_MAPS(X)
#undef X
    return oxdp_table_create(tables, memory, &callbacks, &progs->table);
}

static void unmap_tables(struct oxdp_progs *progs)
{
    oxdp_table_destroy(progs->table);
#define X(NAME, MAP)                                                            \
    if (progs->memory.NAME) {                                                   \
        munmap(progs->memory.NAME, map_bytes(progs->skel->maps.MAP));           \
    }
    TABLE_MAPS(X)
#undef X
}

/* Pins the program and the maps, after removing what a process before left; links follow as they are made. */
static void pin(struct oxdp_progs *progs, const char *name)
{
    const struct bpf_map *map;
    int err;

    if (oxdp_pins_open(name, &progs->pins, &progs->unpinned)) {
        return;
    }
    err = oxdp_pins_add(progs->pins, "xdp", bpf_program__fd(progs->skel->progs.oxdp_xdp));
    bpf_object__for_each_map(map, progs->skel->obj) {
        err = err ? err : oxdp_pins_add(progs->pins, bpf_map__name(map), bpf_map__fd(map));
    }
    if (err) {
        oxdp_pins_close(progs->pins);
        progs->pins = NULL;
        fail(0, &progs->unpinned, "cannot pin programs and maps (%s)", strerror(-err));
    }
}

static void link_name(int ifindex, char name[32])
{
    snprintf(name, 32, "link-%d", ifindex);
}

static struct attachment *find(struct oxdp_progs *progs, int ifindex)
{
    for (uint32_t i = 0; ifindex && i < progs->max_ports; i++) {
        if (progs->attachments[i].ifindex == ifindex) {
            return &progs->attachments[i];
        }
    }
    return NULL;
}

static int reserve_sockets(struct oxdp_progs *progs, uint32_t n, uint32_t *ret_first)
{
    uint32_t run = 0;

    for (uint32_t i = 0; i < progs->max_sockets; i++) {
        run = progs->socket_used[i] ? 0 : run + 1;
        if (run == n) {
            *ret_first = i + 1 - n;
            memset(progs->socket_used + *ret_first, true, n * sizeof *progs->socket_used);
            return 0;
        }
    }
    return -ENOSPC;
}

/* Adds what slot 'slot' has counted on all processors to 'sum'. */
static int sum_counters(const struct oxdp_progs *progs, uint32_t slot, uint64_t sum[DP_N_COUNTERS])
{
    struct bpf_counters *per_cpu = calloc(progs->n_cpus, sizeof *per_cpu);
    int err = -ENOMEM;

    if (per_cpu) {
        err = bpf_map_lookup_elem(bpf_map__fd(progs->skel->maps.counters), &slot, per_cpu);
    }
    for (int cpu = 0; !err && cpu < progs->n_cpus; cpu++) {
        for (int i = 0; i < DP_N_COUNTERS; i++) {
            sum[i] += per_cpu[cpu].n[i];
        }
    }
    free(per_cpu);
    return err;
}

/* Prepares counter slot 'slot' for a new port: its predecessor's numbers stay in the totals. */
static int take_slot(struct oxdp_progs *progs, uint32_t slot)
{
    struct bpf_counters *zero = calloc(progs->n_cpus, sizeof *zero);
    int err = zero ? sum_counters(progs, slot, progs->retired) : -ENOMEM;

    if (!err) {
        err = bpf_map_update_elem(bpf_map__fd(progs->skel->maps.counters), &slot, zero, BPF_ANY);
    }
    if (slot >= progs->n_slots) {
        progs->n_slots = slot + 1;
    }
    free(zero);
    return err;
}

/* The port itself is written last: from then on the program uses the rest. */
static int set_port(struct oxdp_progs *progs, struct attachment *at, const int sock_fds[])
{
    const struct xdp_bpf *skel = progs->skel;
    struct bpf_port *port = &at->port;
    uint32_t direct = port->ifindex & (progs->n_direct - 1);
    int err = port->n_queues ? reserve_sockets(progs, port->n_queues, &port->first_socket) : -EINVAL;

    if (err) {
        return err;
    }
    err = take_slot(progs, port->counter_slot);
    for (uint32_t q = 0; !err && q < port->n_queues; q++) {
        uint32_t i = port->first_socket + q;

        err = bpf_map_update_elem(bpf_map__fd(skel->maps.sockets), &i, &sock_fds[q], BPF_ANY);
    }
    if (!err) {
        at->overflow = progs->direct[direct];
        if (at->overflow) {
            err = bpf_map_update_elem(bpf_map__fd(skel->maps.ports_overflow), &port->ifindex, port,
                                      BPF_NOEXIST);
        } else {
            err = bpf_map_update_elem(bpf_map__fd(skel->maps.ports), &direct, port, BPF_ANY);
            progs->direct[direct] = port->ifindex;
        }
    }
    if (err) {
        clear_port(progs, at);
    }
    return err;
}

static void clear_port(struct oxdp_progs *progs, struct attachment *at)
{
    const struct xdp_bpf *skel = progs->skel;
    const struct bpf_port *port = &at->port;
    uint32_t direct = port->ifindex & (progs->n_direct - 1);

    if (at->overflow) {
        bpf_map_delete_elem(bpf_map__fd(skel->maps.ports_overflow), &port->ifindex);
    } else if (progs->direct[direct] == port->ifindex) {
        const struct bpf_port none = { .ifindex = 0 };

        bpf_map_update_elem(bpf_map__fd(skel->maps.ports), &direct, &none, BPF_ANY);
        progs->direct[direct] = 0;
    }
    for (uint32_t i = port->first_socket; i < port->first_socket + port->n_queues; i++) {
        bpf_map_delete_elem(bpf_map__fd(skel->maps.sockets), &i);
        progs->socket_used[i] = false;
    }
    memset(at, 0, sizeof *at);
}

/* Who has the device's XDP hook, for people: "program 'name' (id 7, native mode)". */
static void describe_owner(int ifindex, char *text, size_t size)
{
    LIBBPF_OPTS(bpf_xdp_query_opts, query);
    struct bpf_prog_info info = { 0 };
    uint32_t len = sizeof info;

    snprintf(text, size, "another XDP program");
    if (bpf_xdp_query(ifindex, 0, &query)) {
        return;
    }

    uint32_t id = query.drv_prog_id ? query.drv_prog_id
        : query.skb_prog_id ? query.skb_prog_id : query.hw_prog_id;
    int fd = id ? bpf_prog_get_fd_by_id(id) : -1;

    if (fd >= 0) {
        if (!bpf_obj_get_info_by_fd(fd, &info, &len)) {
            snprintf(text, size, "XDP program '%s' (id %u, %s mode)", info.name, id,
                     query.drv_prog_id ? "native" : query.skb_prog_id ? "generic" : "offloaded");
        }
        close(fd);
    }
}

/* The kernel keeps its reason to itself when a link is created (the text goes only to netlink): ask the
 * device. */
static int attach_error(int ifindex, bool native, int err, char **ret_error)
{
    char name[IF_NAMESIZE] = "";
    char owner[128];
    struct oxdp_device dev;

    if (!if_indextoname(ifindex, name) || oxdp_device_get(name, &dev)) {
        return fail(-ENODEV, ret_error, "the device does not exist any more");
    }
    switch (-err) {
    case EBUSY:
    case EEXIST:
        describe_owner(ifindex, owner, sizeof owner);
        return fail(-EBUSY, ret_error, "%s is in use by %s: remove that first "
                    "(\"ip link set dev %s xdp off\", or stop the program that attached it)",
                    name, owner, name);
    case EOPNOTSUPP:
        return native
            ? fail(err, ret_error, "driver '%s' of %s has no native XDP as the device is set up now: "
                   "set options:xdp-mode to best-effort or generic", dev.driver, name)
            : fail(err, ret_error, "%s cannot run XDP at all", name);
    case ENOSPC:
        return fail(err, ret_error, "%s has %u receive queue(s), fewer than its peer has transmit queues: "
                    "raise them (\"ethtool -L %s rx N\")", name, dev.n_rx_queues, name);
    case ERANGE:
        return dev.mtu > OXDP_MAX_MTU
            ? fail(err, ret_error, "the MTU of %s (%u) is too large for XDP: set it to %u or less "
                   "(\"ip link set dev %s mtu %u\")", name, dev.mtu, OXDP_MAX_MTU, name, OXDP_MAX_MTU)
            : fail(err, ret_error, "the MTU of the other end of %s is too large for XDP: set it to %u or less, "
                   "there (\"ip link set dev NAME mtu %u\")", name, OXDP_MAX_MTU, OXDP_MAX_MTU);
    case EINVAL:
        return fail(err, ret_error, "driver '%s' of %s refuses %s XDP with the device's present settings "
                    "(MTU %u, %u receive queues): an MTU of at most %u, or fewer queues, or LRO off may help",
                    dev.driver, name, native ? "native" : "generic", dev.mtu, dev.n_rx_queues, OXDP_MAX_MTU);
    case EPERM:
        return fail(err, ret_error, "attaching XDP to %s is not permitted: "
                    "run as root, or with CAP_BPF and CAP_NET_ADMIN", name);
    default:
        return fail(err, ret_error, "attaching XDP to %s failed: %s", name, strerror(-err));
    }
}

static int fail(int err, char **ret_error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (ret_error && vasprintf(ret_error, format, args) < 0) {
        *ret_error = NULL;
    }
    va_end(args);
    return err;
}

static int remember_warning(enum libbpf_print_level level, const char *format, va_list args)
{
    if (level == LIBBPF_WARN && !last_warning[0]) {
        vsnprintf(last_warning, sizeof last_warning, format, args);
        last_warning[strcspn(last_warning, "\n")] = '\0';
    }
    return 0;
}
