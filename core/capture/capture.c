/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of bpf/capture.bpf.c are loaded once for each program of the switch that they look at, because the
 * kernel checks them against it, and share their maps.  All programs of the switch are looked at: which will redirect
 * to the device is not known. */
#include "core/capture/capture.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bpf/capture.h"
#include "core/capture/attach.h"
#include "core/error.h"
#include "core/kernel/libbpf_log.h"

#define MAX_TARGETS 32          /* Programs that are looked at; more than a switch has. */
#define PAGES 256               /* Of each CPU's ring: a power of two. */
#define FEWER_PAGES 16
#define GROUP_NS 100000000      /* For how long it is remembered whether a group has the device. */

struct group {
    uint32_t id;
    bool has_device;
    uint64_t until;
};

struct oxdp_capture {
    struct oxdp_capture_config config;
    struct oxdp_capture_objects objects;
    struct perf_buffer *events;
    uint64_t unread;
    struct oxdp_capture_attached direct;
    struct oxdp_capture_attached targets[MAX_TARGETS];
    size_t n_targets;
    bool complained;            /* That a program cannot be looked at. */
    uint32_t *seen;             /* Ids of programs that existed at the last look, in ascending order. */
    size_t n_seen;
    struct group groups[64];
    oxdp_capture_fn *each;      /* Of the call of oxdp_capture_read(). */
    void *aux;
    uint64_t real_time;         /* Of CLOCK_MONOTONIC 0. */
};

static int open_events(struct oxdp_capture *capture, char **ret_error);
static enum bpf_perf_event_ret take(void *capture, int cpu, struct perf_event_header *event);
static bool group_has_device(struct oxdp_capture *capture, uint32_t id);
static void forget(struct oxdp_capture *capture);

static uint64_t now(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return time.tv_sec * UINT64_C(1000000000) + time.tv_nsec;
}

int oxdp_capture_open(const struct oxdp_capture_config *config, struct oxdp_capture **ret_capture, char **ret_error)
{
    struct oxdp_capture *capture = calloc(1, sizeof *capture);
    char *refusal = NULL;       /* Without what sockets send directly, the rest is still worth seeing. */
    int err;

    if (!capture) {
        return oxdp_fail(-ENOMEM, ret_error, "not enough memory");
    }
    capture->config = *config;
    oxdp_libbpf_listen();
    err = oxdp_capture_objects_init(&capture->objects, config, ret_error);
    err = err ? err : open_events(capture, ret_error);
    if (err) {
        oxdp_capture_close(capture);
        return err;
    }
    if (config->out) {
        oxdp_capture_attach_direct(&capture->objects, &capture->direct, &refusal);
        free(refusal);
    }
    *ret_capture = capture;
    return 0;
}

void oxdp_capture_close(struct oxdp_capture *capture)
{
    if (capture) {
        forget(capture);
        oxdp_capture_detach(&capture->direct);
        perf_buffer__free(capture->events);
        oxdp_capture_objects_free(&capture->objects);
        free(capture->seen);
        free(capture);
    }
}

/* Lets go of all programs: the kernel frees those that it alone had; the others are found again. */
static void forget(struct oxdp_capture *capture)
{
    for (size_t i = 0; i < capture->n_targets; i++) {
        oxdp_capture_detach(&capture->targets[i]);
    }
    capture->n_targets = 0;
    capture->n_seen = 0;
}

static bool was_seen(const struct oxdp_capture *capture, uint32_t id)
{
    size_t low = 0, high = capture->n_seen;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (capture->seen[middle] < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < capture->n_seen && capture->seen[low] == id;
}

bool oxdp_capture_follow(struct oxdp_capture *capture, char **ret_error)
{
    uint32_t *seen = NULL;
    size_t n = 0, size = 0;
    LIBBPF_OPTS(bpf_xdp_query_opts, query);

    if (capture->n_targets == MAX_TARGETS) {
        forget(capture);
    }
    for (uint32_t id = 0; !bpf_prog_get_next_id(id, &id);) {
        if (n == size) {
            uint32_t *larger = realloc(seen, (size = 2 * size + 64) * sizeof *seen);

            if (!larger) {
                break;
            }
            seen = larger;
        }
        if (!was_seen(capture, id) && capture->n_targets < MAX_TARGETS) {
            char *error = NULL;

            if (oxdp_capture_attach(&capture->objects, id, &capture->targets[capture->n_targets], &error) > 0) {
                capture->n_targets++;
            }
            if (error && !capture->complained) {
                *ret_error = error;
                capture->complained = true;
            } else {
                free(error);
            }
        }
        seen[n++] = id;
    }
    free(capture->seen);
    capture->seen = seen;
    capture->n_seen = n;
    if (bpf_xdp_query(capture->config.ifindex, 0, &query)) {
        return false;
    }
    for (size_t i = 0; i < capture->n_targets; i++) {
        if (capture->targets[i].id == query.prog_id) {
            return query.prog_id;
        }
    }
    return false;
}

size_t oxdp_capture_n_programs(const struct oxdp_capture *capture)
{
    return capture->n_targets;
}

/* The reader is woken when much is there, and looks by itself now and then. */
static int open_events(struct oxdp_capture *capture, char **ret_error)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = PERF_COUNT_SW_BPF_OUTPUT,
        .sample_type = PERF_SAMPLE_RAW, .sample_period = 1, .watermark = 1, .wakeup_watermark = 65536,
    };
    int fd = oxdp_capture_events_fd(&capture->objects);

    capture->events = perf_buffer__new_raw(fd, PAGES, &attr, take, capture, NULL);
    if (!capture->events) {
        attr.wakeup_watermark = 16384;
        capture->events = perf_buffer__new_raw(fd, FEWER_PAGES, &attr, take, capture, NULL);
    }
    return capture->events
        ? 0
        : oxdp_fail(-errno, ret_error, "no memory for packets (%s): is locked memory limited (ulimit -l)?",
                    strerror(errno));
}

int oxdp_capture_fd(const struct oxdp_capture *capture)
{
    return perf_buffer__epoll_fd(capture->events);
}

void oxdp_capture_read(struct oxdp_capture *capture, oxdp_capture_fn *each, void *aux)
{
    capture->each = each;
    capture->aux = aux;
    capture->real_time = now(CLOCK_REALTIME) - now(CLOCK_MONOTONIC);
    perf_buffer__consume(capture->events);
}

static enum bpf_perf_event_ret take(void *capture_, int cpu, struct perf_event_header *event)
{
    struct oxdp_capture *capture = capture_;
    const struct {
        struct perf_event_header header;
        uint64_t id, lost;
    } *lost = (const void *) event;
    const struct {
        struct perf_event_header header;
        uint32_t size;
        struct bpf_captured captured;
        uint8_t data[];
    } __attribute__((packed)) *sample = (const void *) event;

    if (event->type == PERF_RECORD_LOST) {
        capture->unread += lost->lost;
    } else if (event->type == PERF_RECORD_SAMPLE
               && (!sample->captured.group || group_has_device(capture, sample->captured.group))) {
        const struct oxdp_captured captured = {
            capture->real_time + sample->captured.time,
            sample->captured.length,
            sample->captured.captured,
            sample->data,
        };

        capture->each(&captured, capture->aux);
    }
    return LIBBPF_PERF_EVENT_CONT;
}

static bool look_for_device(const struct oxdp_capture *capture, uint32_t id)
{
    int fd = bpf_map_get_fd_by_id(id);
    uint32_t key, *last = NULL, value[2];
    bool found = false;

    while (fd >= 0 && !found && !bpf_map_get_next_key(fd, last, &key)) {
        found = !bpf_map_lookup_elem(fd, &key, value) && value[0] == (uint32_t) capture->config.ifindex;
        last = &key;
    }
    if (fd >= 0) {
        close(fd);
    }
    return found;
}

static bool group_has_device(struct oxdp_capture *capture, uint32_t id)
{
    struct group *group = &capture->groups[id % (sizeof capture->groups / sizeof capture->groups[0])];
    uint64_t time = now(CLOCK_MONOTONIC);

    if (group->id != id || time > group->until) {
        *group = (struct group) { id, look_for_device(capture, id), time + GROUP_NS };
    }
    return group->has_device;
}

struct oxdp_capture_missed oxdp_capture_missed(const struct oxdp_capture *capture)
{
    return (struct oxdp_capture_missed) { oxdp_capture_beyond_rate(&capture->objects), capture->unread };
}
