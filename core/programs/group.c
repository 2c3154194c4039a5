/* SPDX-License-Identifier: Apache-2.0 */
#include "core/programs/group.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/locks.h"
#include "core/programs/group_private.h"
#include "core/programs/progs_struct.h"
#include "core/programs/skeleton.h"
#include "dp/table.h"

#define MIN_SPARE 16            /* Groups without users to keep ready. */

struct group {
    int fd;                     /* Its map: port ports[i] is entry i. */
    uint32_t n_users;           /* 0: it may become another set. */
    uint32_t n;
    uint32_t ports[DP_MAX_GROUP];       /* Ascending. */
};

struct oxdp_groups {
    pthread_mutex_t mutex;      /* oxdp_groups_mutex. */
    pthread_cond_t wake;
    pthread_t thread;
    bool running;
    bool stop OXDP_GUARDED_BY(oxdp_groups_mutex);
    bool any_output OXDP_GUARDED_BY(oxdp_groups_mutex);         /* Programs have been able to send to some port. */
    bool failed OXDP_GUARDED_BY(oxdp_groups_mutex);             /* The kernel refused to make another map. */
    struct group groups[BPF_MAX_GROUPS] OXDP_GUARDED_BY(oxdp_groups_mutex);
    uint32_t n_groups OXDP_GUARDED_BY(oxdp_groups_mutex);       /* Those before have maps. */
    uint32_t n_used OXDP_GUARDED_BY(oxdp_groups_mutex);
    uint64_t changes OXDP_GUARDED_BY(oxdp_groups_mutex);
    uint32_t n_ports;
    uint32_t ifindexes[] OXDP_GUARDED_BY(oxdp_groups_mutex);    /* By port number, 0: programs cannot send there. */
};

static void *work(void *progs);
static bool more_wanted(const struct oxdp_groups *) OXDP_REQUIRES(oxdp_groups_mutex);
static struct group *find(struct oxdp_groups *, const uint32_t ports[], uint32_t n) OXDP_REQUIRES(oxdp_groups_mutex);
static int become(const struct oxdp_groups *, struct group *, const uint32_t ports[], uint32_t n)
    OXDP_REQUIRES(oxdp_groups_mutex);
static int write_member(const struct oxdp_groups *, const struct group *, uint32_t i) OXDP_REQUIRES(oxdp_groups_mutex);
static void write_limit(const struct oxdp_progs *, const struct group *);
static int compare_ports(const void *, const void *);

static void lock_groups(struct oxdp_groups *g)
    OXDP_ACQUIRES(oxdp_groups_mutex)
    OXDP_NO_LOCK_ANALYSIS
{
    pthread_mutex_lock(&g->mutex);
}

static void unlock_groups(struct oxdp_groups *g)
    OXDP_RELEASES(oxdp_groups_mutex)
    OXDP_NO_LOCK_ANALYSIS
{
    pthread_mutex_unlock(&g->mutex);
}

int oxdp_groups_start(struct oxdp_progs *progs)
{
    struct oxdp_groups *g = calloc(1, sizeof *g + progs->max_ports * sizeof *g->ifindexes);
    int err;

    if (!g) {
        return -ENOMEM;
    }
    g->n_ports = progs->max_ports;
    pthread_mutex_init(&g->mutex, NULL);
    pthread_cond_init(&g->wake, NULL);
    progs->groups = g;
    err = pthread_create(&g->thread, NULL, work, progs);
    g->running = !err;
    return -err;
}

void oxdp_groups_stop(struct oxdp_progs *progs)
    OXDP_NO_LOCK_ANALYSIS       /* The thread has ended. */
{
    struct oxdp_groups *g = progs->groups;

    if (!g) {
        return;
    }
    if (g->running) {
        lock_groups(g);
        g->stop = true;
        pthread_cond_signal(&g->wake);
        unlock_groups(g);
        pthread_join(g->thread, NULL);
    }
    for (uint32_t i = 0; i < g->n_groups; i++) {
        close(g->groups[i].fd);
    }
    pthread_cond_destroy(&g->wake);
    pthread_mutex_destroy(&g->mutex);
    free(g);
    progs->groups = NULL;
}

int oxdp_groups_get(struct oxdp_progs *progs, const uint32_t ports[], uint32_t n, uint32_t *ret_group)
{
    struct oxdp_groups *g = progs->groups;
    uint32_t sorted[DP_MAX_GROUP];
    struct group *group;
    int err = 0;

    memcpy(sorted, ports, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_ports);

    lock_groups(g);
    group = find(g, sorted, n);
    if (!group) {
        err = -EAGAIN;
    } else if (group->n != n || memcmp(group->ports, sorted, n * sizeof *sorted)) {
        err = become(g, group, sorted, n);
        write_limit(progs, group);
    }
    if (!err) {
        g->n_used += !group->n_users++;
        *ret_group = group - g->groups;
    }
    if (more_wanted(g)) {
        pthread_cond_signal(&g->wake);
    }
    unlock_groups(g);
    return err;
}

void oxdp_groups_put(struct oxdp_progs *progs, uint32_t group)
{
    struct oxdp_groups *g = progs->groups;

    lock_groups(g);
    if (!--g->groups[group].n_users) {
        g->n_used--;
        g->changes++;
    }
    unlock_groups(g);
}

bool oxdp_groups_has(struct oxdp_progs *progs, uint32_t group, uint32_t port_no)
{
    struct oxdp_groups *g = progs->groups;
    bool found;

    lock_groups(g);
    found = bsearch(&port_no, g->groups[group].ports, g->groups[group].n, sizeof port_no, compare_ports) != NULL;
    unlock_groups(g);
    return found;
}

uint64_t oxdp_groups_changes(struct oxdp_progs *progs)
{
    struct oxdp_groups *g = progs->groups;
    uint64_t changes;

    lock_groups(g);
    changes = g->changes;
    unlock_groups(g);
    return changes;
}

void oxdp_groups_usage(struct oxdp_progs *progs, uint32_t *ret_used, uint32_t *ret_max)
{
    struct oxdp_groups *g = progs->groups;

    lock_groups(g);
    *ret_used = g->n_used;
    *ret_max = BPF_MAX_GROUPS;
    unlock_groups(g);
}

int oxdp_groups_set_output(struct oxdp_progs *progs, uint32_t port_no, int ifindex)
{
    struct oxdp_groups *g = progs->groups;
    int ret = 0;

    lock_groups(g);
    g->ifindexes[port_no] = ifindex;
    g->any_output = g->any_output || ifindex;
    for (struct group *group = g->groups; group < g->groups + g->n_groups; group++) {
        const uint32_t *member = bsearch(&port_no, group->ports, group->n, sizeof port_no, compare_ports);

        if (member) {
            int err = write_member(g, group, member - group->ports);

            ret = ret ? ret : err;
        }
    }
    if (more_wanted(g)) {
        pthread_cond_signal(&g->wake);
    }
    unlock_groups(g);
    return ret;
}

void oxdp_groups_limit_changed(struct oxdp_progs *progs, uint32_t port_no)
{
    struct oxdp_groups *g = progs->groups;

    lock_groups(g);
    for (struct group *group = g->groups; group < g->groups + g->n_groups; group++) {
        if (bsearch(&port_no, group->ports, group->n, sizeof port_no, compare_ports)) {
            write_limit(progs, group);
        }
    }
    unlock_groups(g);
}

/* Makes maps in advance. */
static void *work(void *progs_)
{
    struct oxdp_progs *progs = progs_;
    struct oxdp_groups *g = progs->groups;

    lock_groups(g);
    while (!g->stop) {
        if (!more_wanted(g)) {
            pthread_cond_wait(&g->wake, &g->mutex);
            continue;
        }

        uint32_t index = g->n_groups;

        unlock_groups(g);

        int fd = bpf_map_create(BPF_MAP_TYPE_DEVMAP_HASH, "group", sizeof(uint32_t), sizeof(uint32_t), DP_MAX_GROUP,
                                NULL);
        int err = fd < 0 ? fd : bpf_map_update_elem(bpf_map__fd(progs->maps->maps.groups), &index, &fd, BPF_ANY);

        lock_groups(g);
        if (!err) {
            g->groups[index].fd = fd;
            g->n_groups++;
            g->changes++;
        } else {
            if (fd >= 0) {
                close(fd);
            }
            g->failed = true;
        }
    }
    unlock_groups(g);
    return NULL;
}

/* As many groups without users as with, and MIN_SPARE.  None if all ports are at tcx. */
static bool more_wanted(const struct oxdp_groups *g)
    OXDP_REQUIRES(oxdp_groups_mutex)
{
    uint32_t spare = g->n_used > MIN_SPARE ? g->n_used : MIN_SPARE;

    return g->any_output && !g->failed && g->n_groups < BPF_MAX_GROUPS && g->n_groups < g->n_used + spare;
}

/* The group of the ports 'ports', or one without users to become that, or NULL. */
static struct group *find(struct oxdp_groups *g, const uint32_t ports[], uint32_t n)
    OXDP_REQUIRES(oxdp_groups_mutex)
{
    struct group *unused = NULL;

    for (struct group *group = g->groups; group < g->groups + g->n_groups; group++) {
        if (group->n == n && !memcmp(group->ports, ports, n * sizeof *ports)) {
            return group;
        }
        if (!group->n_users && (!unused || (unused->n && !group->n))) {
            unused = group;
        }
    }
    return unused;
}

/* Makes 'group', which has no users, that of 'ports'.  0 or a negative errno. */
static int become(const struct oxdp_groups *g, struct group *group, const uint32_t ports[], uint32_t n)
    OXDP_REQUIRES(oxdp_groups_mutex)
{
    int ret = 0;

    for (uint32_t i = n; i < group->n; i++) {
        bpf_map_delete_elem(group->fd, &i);
    }
    group->n = n;
    memcpy(group->ports, ports, n * sizeof *ports);
    for (uint32_t i = 0; i < n; i++) {
        int err = write_member(g, group, i);

        ret = ret ? ret : err;
    }
    return ret;
}

/* Writes the device of member 'i' of 'group' into its map.  0 or a negative errno. */
static int write_member(const struct oxdp_groups *g, const struct group *group, uint32_t i)
    OXDP_REQUIRES(oxdp_groups_mutex)
{
    uint32_t ifindex = g->ifindexes[group->ports[i]];
    int err;

    if (ifindex) {
        return bpf_map_update_elem(group->fd, &i, &ifindex, BPF_ANY);
    }
    err = bpf_map_delete_elem(group->fd, &i);
    return err == -ENOENT ? 0 : err;
}

/* Writes which frames all ports of 'group' take. */
static void write_limit(const struct oxdp_progs *progs, const struct group *group)
{
    struct bpf_limit *limits = oxdp_memory_limits(&progs->memory);

    limits[BPF_LIMIT_OF_GROUP(group - progs->groups->groups)]
        = oxdp_memory_limit_of(&progs->memory, group->ports, group->n);
}

static int compare_ports(const void *a_, const void *b_)
{
    const uint32_t *a = a_, *b = b_;

    return *a < *b ? -1 : *a > *b;
}
