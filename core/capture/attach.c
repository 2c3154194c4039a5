/* SPDX-License-Identifier: Apache-2.0 */
#include "core/capture/attach.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bpf/capture.h"
#include "bpf/capture.skel.h"
#include "core/capture/filter.h"
#include "core/error.h"
#include "core/kernel/libbpf_log.h"

#define MAX_MAPS 64             /* Of a program. */

/* Each program that looks up ports has this map: its own name in the kernel is its user's choice. */
#define PORTS_MAP "ports_overflow"

static int put_filter(struct oxdp_capture_objects *objects, char **ret_error);
static uint32_t find_peer_flag(void);
static struct bpf_object *open_object(struct oxdp_capture_objects *objects);
static int load(struct oxdp_capture_objects *objects, struct bpf_object *object, char **ret_error);
static bool serves_ports(int fd, struct bpf_prog_info *ret_info);
static int name_of_entry(int fd, char name[128]);

int oxdp_capture_objects_init(struct oxdp_capture_objects *objects, const struct oxdp_capture_config *config,
                              char **ret_error)
{
    const void *image = capture_bpf__elf_bytes(&objects->size);
    struct stat netns;
    int err;

    objects->config = *config;
    objects->image = malloc(objects->size);
    if (!objects->image) {
        return oxdp_fail(-ENOMEM, ret_error, "not enough memory");
    }
    memcpy(objects->image, image, objects->size);
    if (stat("/proc/self/ns/net", &netns)) {
        return oxdp_fail(-errno, ret_error, "/proc/self/ns/net: %s", strerror(errno));
    }
    objects->netns = netns.st_ino;
    objects->peer_flag = find_peer_flag();
    err = config->n_filter ? put_filter(objects, ret_error) : 0;
    if (err) {
        return err;
    }
    objects->first = open_object(objects);
    if (!objects->first) {
        return oxdp_fail(-errno, ret_error, "%s", oxdp_libbpf_heard());
    }
    /* Maps alone: with no program to attach to, none of it loads. */
    return load(objects, objects->first, ret_error);
}

void oxdp_capture_objects_free(struct oxdp_capture_objects *objects)
{
    bpf_object__close(objects->first);
    free(objects->image);
}

/* Writes the filter to the end of the room for it, where what follows is the exit. */
static int put_filter(struct oxdp_capture_objects *objects, char **ret_error)
{
    static const struct bpf_insn nothing = { .code = BPF_JMP | BPF_JA };
    const size_t room = BPF_CAPTURE_FILTER_ROOM;
    struct bpf_insn *insns;
    int n;

    for (char *at = objects->image; at + room * sizeof nothing <= (char *) objects->image + objects->size;
         at += sizeof nothing) {
        size_t i = 0;

        while (i < room && !memcmp(at + i * sizeof nothing, &nothing, sizeof nothing)) {
            i++;
        }
        if (i < room) {
            at += i * sizeof nothing;
            continue;
        }
        insns = calloc(room, sizeof *insns);
        n = insns ? oxdp_capture_filter(objects->config.filter, objects->config.n_filter, insns, room, ret_error)
                  : -ENOMEM;
        if (n > 0) {
            memcpy(at + (room - n) * sizeof nothing, insns, n * sizeof nothing);
        }
        free(insns);
        return n < 0 ? n : 0;
    }
    return oxdp_fail(-ENOEXEC, ret_error, "the program has no room for a filter");
}

/* It is one of the kernel's enums without a name, and was another number before Linux 6.10. */
static uint32_t find_peer_flag(void)
{
    struct btf *btf = btf__load_vmlinux_btf();
    uint32_t flag = 0;

    for (uint32_t id = 1; btf && !flag && id < btf__type_cnt(btf); id++) {
        const struct btf_type *type = btf__type_by_id(btf, id);

        if (!btf_is_enum(type)) {
            continue;
        }
        for (uint16_t i = 0; i < btf_vlen(type); i++) {
            if (!strcmp(btf__name_by_offset(btf, btf_enum(type)[i].name_off), "BPF_F_PEER")) {
                flag = btf_enum(type)[i].val;
            }
        }
    }
    btf__free(btf);
    return flag;
}

/* All programs of it are off. */
static struct bpf_object *open_object(struct oxdp_capture_objects *objects)
{
    LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "capture");
    struct bpf_object *object = bpf_object__open_mem(objects->image, objects->size, &opts);
    struct bpf_program *program;

    if (object) {
        struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata");
        const struct capture_bpf__rodata constants = {
            .captured_ifindex = objects->config.ifindex,
            .captured_netns = objects->netns,
            .captured_bytes = objects->config.snaplen,
            .captured_rate = objects->config.rate,
            .peer_flag = objects->peer_flag,
        };

        if (bpf_map__set_initial_value(map, &constants, sizeof constants)) {
            bpf_object__close(object);
            return NULL;
        }
        bpf_object__for_each_program(program, object) {
            bpf_program__set_autoload(program, false);
        }
    }
    return object;
}

static int load(struct oxdp_capture_objects *objects, struct bpf_object *object, char **ret_error)
{
    struct bpf_map *map;
    int err = 0;

    if (object != objects->first) {
        bpf_object__for_each_map(map, object) {
            const struct bpf_map *first = bpf_object__find_map_by_name(objects->first, bpf_map__name(map));

            err = err || !first || strstr(bpf_map__name(map), ".rodata") ? err
                : bpf_map__reuse_fd(map, bpf_map__fd(first));
        }
    }
    err = err ? err : bpf_object__load(object);
    return err ? oxdp_fail(err, ret_error,
                           "the kernel lets nobody look at programs (%s; libbpf says: %s): what they redirect is "
                           "missing, what packet sockets see is here",
                           strerror(-err), oxdp_libbpf_heard())
               : 0;
}

/* Loads 'attached->object' and attaches what was turned on in it.  If that fails, nothing stays. */
static int load_and_attach(struct oxdp_capture_objects *objects, struct oxdp_capture_attached *attached,
                           char **ret_error)
{
    int err = load(objects, attached->object, ret_error);
    struct bpf_program *program;
    size_t n = 0;

    bpf_object__for_each_program(program, attached->object) {
        if (!err && bpf_program__autoload(program)) {
            attached->links[n] = bpf_program__attach_trace(program);
            if (!attached->links[n++]) {
                err = oxdp_fail(-errno, ret_error, "%s is not attached (%s)", bpf_program__name(program),
                                strerror(errno));
            }
        }
    }
    if (err) {
        oxdp_capture_detach(attached);
    }
    return err;
}

void oxdp_capture_detach(struct oxdp_capture_attached *attached)
{
    for (size_t i = 0; i < sizeof attached->links / sizeof attached->links[0]; i++) {
        bpf_link__destroy(attached->links[i]);
    }
    bpf_object__close(attached->object);
    *attached = (struct oxdp_capture_attached) { .id = 0 };
}

/* Turns 'name' on, to look at the program 'fd', whose entry is 'entry'. */
static int aim(struct bpf_object *object, const char *name, bool on, int fd, const char *entry)
{
    struct bpf_program *program = bpf_object__find_program_by_name(object, name);

    bpf_program__set_autoload(program, on);
    return on && fd >= 0 ? bpf_program__set_attach_target(program, fd, entry) : 0;
}

int oxdp_capture_attach(struct oxdp_capture_objects *objects, uint32_t id, struct oxdp_capture_attached *attached,
                        char **ret_error)
{
    int fd = bpf_prog_get_fd_by_id(id);
    struct bpf_prog_info info;
    char entry[128];
    int err;

    if (fd < 0 || !serves_ports(fd, &info)
        || (info.type != BPF_PROG_TYPE_XDP && (info.type != BPF_PROG_TYPE_SCHED_CLS || !objects->config.out))) {
        if (fd >= 0) {
            close(fd);
        }
        return 0;
    }
    *attached = (struct oxdp_capture_attached) { .id = id };
    oxdp_libbpf_listen();
    err = name_of_entry(fd, entry);
    if (!err) {
        attached->object = open_object(objects);
        err = attached->object ? 0 : -errno;
    }
    if (err) {
        close(fd);
        return oxdp_fail(err, ret_error, "program %u does not say what its function is (%s)", id, strerror(-err));
    }
    if (info.type == BPF_PROG_TYPE_XDP) {
        err = aim(attached->object, "capture_xdp_in", objects->config.in, fd, entry);
        err = err ? err : aim(attached->object, "capture_xdp_out", objects->config.out, fd, entry);
    } else {
        err = aim(attached->object, "capture_tcx_out", true, fd, entry);
    }
    if (err) {
        oxdp_fail(err, ret_error, "program %u cannot be looked at (%s)", id, strerror(-err));
        oxdp_capture_detach(attached);
    } else {
        err = load_and_attach(objects, attached, ret_error);
    }
    close(fd);
    return err ? err : 1;
}

int oxdp_capture_attach_direct(struct oxdp_capture_objects *objects, struct oxdp_capture_attached *attached,
                               char **ret_error)
{
    oxdp_libbpf_listen();
    attached->object = open_object(objects);
    if (!attached->object) {
        return oxdp_fail(-errno, ret_error, "%s", oxdp_libbpf_heard());
    }
    aim(attached->object, "capture_direct", true, -1, NULL);
    return load_and_attach(objects, attached, ret_error);
}

static bool is_ports_map(uint32_t id)
{
    struct bpf_map_info info = { .name = "" };
    uint32_t len = sizeof info;
    int fd = bpf_map_get_fd_by_id(id);
    bool is;

    if (fd < 0) {
        return false;
    }
    is = !bpf_obj_get_info_by_fd(fd, &info, &len) && !strcmp(info.name, PORTS_MAP);
    close(fd);
    return is;
}

static bool serves_ports(int fd, struct bpf_prog_info *ret_info)
{
    uint32_t maps[MAX_MAPS], len = sizeof *ret_info;

    *ret_info = (struct bpf_prog_info) { .nr_map_ids = MAX_MAPS, .map_ids = (uintptr_t) maps };
    if (bpf_obj_get_info_by_fd(fd, ret_info, &len)) {
        return false;
    }
    for (uint32_t i = 0; i < ret_info->nr_map_ids && i < MAX_MAPS; i++) {
        if (is_ports_map(maps[i])) {
            return true;
        }
    }
    return false;
}

/* Of the program's first function, whole: info.name has its beginning only. */
static int name_of_entry(int fd, char name[128])
{
    struct bpf_func_info first = { 0 };
    struct bpf_prog_info info = {
        .nr_func_info = 1, .func_info_rec_size = sizeof first, .func_info = (uintptr_t) &first,
    };
    uint32_t len = sizeof info;
    const struct btf_type *type;
    struct btf *btf;

    if (bpf_obj_get_info_by_fd(fd, &info, &len)) {
        return -errno;
    }
    btf = btf__load_from_kernel_by_id(info.btf_id);
    type = btf ? btf__type_by_id(btf, first.type_id) : NULL;
    snprintf(name, 128, "%s", type ? btf__name_by_offset(btf, type->name_off) : "");
    btf__free(btf);
    return name[0] ? 0 : -ENOENT;
}

int oxdp_capture_events_fd(const struct oxdp_capture_objects *objects)
{
    return bpf_object__find_map_fd_by_name(objects->first, "events");
}

uint64_t oxdp_capture_beyond_rate(const struct oxdp_capture_objects *objects)
{
    int n_cpus = libbpf_num_possible_cpus();
    struct bpf_capture_room *rooms = n_cpus > 0 ? calloc(n_cpus, sizeof *rooms) : NULL;
    uint32_t zero = 0;
    uint64_t sum = 0;

    if (rooms && !bpf_map_lookup_elem(bpf_object__find_map_fd_by_name(objects->first, "rooms"), &zero, rooms)) {
        for (int i = 0; i < n_cpus; i++) {
            sum += rooms[i].beyond;
        }
    }
    free(rooms);
    return sum;
}
