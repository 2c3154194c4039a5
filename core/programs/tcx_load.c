/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the tcx programs; one of them again for connections (track.c), and for a trace (tcx_trace.c). */
#include "core/programs/tcx_private.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/kernel/libbpf_log.h"
#include "core/multi_buffer.h"
#include "core/privilege.h"
#include "core/programs/capability.h"
#include "core/programs/maps.h"
#include "core/programs/progs_struct.h"

/* After core/tables/memory.h, which has the types of the maps. */
#include "bpf/tcx.skel.h"

/* Frames have the record in them, too. */
uint32_t oxdp_tcx_upcall_mtu(void)
{
    return oxdp_has_multi_buffer() ? OXDP_VETH_MTU : OXDP_FRAME_TCX_MTU + sizeof(struct bpf_upcall_header);
}

/* The longest packet, with Ethernet header and one tag. */
static uint32_t upcall_max_len(void)
{
    return oxdp_tcx_upcall_mtu() - sizeof(struct bpf_upcall_header) + 18;
}

/* A copy of the object with these constants.  Only a program that is 'traced' has DP_PART_TRACE. */
static void *put_constants(const struct oxdp_constants *given, bool traced, const void *image, size_t size)
{
    struct oxdp_constants constants = *given;

    constants.omit.parts |= traced ? 0 : DP_PART_TRACE;
    return oxdp_constants_put(&constants, image, size);
}

/* The skeleton, over a copy of its object with the constants, which the caller frees after loading. */
static int open_object(const struct oxdp_progs *progs, struct oxdp_tcx *tcx, void **ret_image)
{
    size_t size;
    const void *image = tcx_bpf__elf_bytes(&size);

    *ret_image = put_constants(&progs->memory.constants, false, image, size);
    tcx->skel = *ret_image ? calloc(1, sizeof *tcx->skel) : NULL;
    if (!tcx->skel) {
        return -ENOMEM;
    }
    if (tcx_bpf__create_skeleton(tcx->skel)) {
        return -errno;
    }
    tcx->skel->skeleton->data = *ret_image;
    tcx->skel->skeleton->data_sz = size;
    return bpf_object__open_skeleton(tcx->skel->skeleton, NULL);
}

int oxdp_tcx_load(struct oxdp_progs *progs, struct oxdp_tcx *tcx, char **ret_error)
{
    struct bpf_prog_info info = { 0 };
    uint32_t len = sizeof info;
    char advice[OXDP_PRIVILEGE_ADVICE];
    char *refusal = NULL;
    void *image = NULL;
    const char *heard;
    int err;

    oxdp_libbpf_listen();
    err = open_object(progs, tcx, &image);
    err = err ? err : oxdp_capability_read(tcx->skel->obj, &tcx->capability, &refusal);
    if (!err) {
        tcx->capability.ops &= ~progs->memory.constants.omit.ops;
        tcx->skel->rodata->upcall_ifindex = if_nametoindex(tcx->near);
        tcx->skel->rodata->upcall_max_len = upcall_max_len();
        bpf_map__set_max_entries(tcx->skel->maps.skb_outputs, progs->max_ports);
        if (oxdp_has_multi_buffer()) {
            bpf_program__set_flags(tcx->skel->progs.oxdp_pass, BPF_F_XDP_HAS_FRAGS);
            bpf_program__set_flags(tcx->skel->progs.oxdp_upcall, BPF_F_XDP_HAS_FRAGS);
        }
        err = oxdp_maps_share(progs, tcx->skel->obj, &refusal);
    }
    err = err ? err : tcx_bpf__load(tcx->skel);
    err = err ? err : bpf_obj_get_info_by_fd(bpf_program__fd(tcx->skel->progs.oxdp_tcx), &info, &len);
    tcx->prog_id = info.id;
    tcx->over_ct = oxdp_maps_have_ct(progs);
    free(image);
    malloc_trim(0);             /* libbpf had megabytes for a moment. */
    heard = oxdp_libbpf_heard();
    if (refusal) {
        *ret_error = refusal;
        return err;
    }
    if (oxdp_privilege_lacks(err)) {
        return oxdp_fail(err, ret_error, "the tcx program does not load (%s): %s", strerror(-err),
                         oxdp_privilege_advice(advice));
    }
    return err ? oxdp_fail(err, ret_error, "the tcx program does not load (%s)%s%s", strerror(-err),
                           heard[0] ? "; libbpf says: " : "", heard) : 0;
}

int oxdp_tcx_program(const struct oxdp_tcx *tcx)
{
    const struct bpf_object *object = tcx->traced ? tcx->traced : tcx->tracked;

    return object ? bpf_program__fd(bpf_object__find_program_by_name(object, "oxdp_tcx"))
        : bpf_program__fd(tcx->skel->progs.oxdp_tcx);
}

/* Opens the object once more, over the maps of the first. */
static int open_again(const struct oxdp_tcx *tcx, const void *image, size_t size, struct bpf_object **ret_object)
{
    LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = tcx->skel->skeleton->name);
    struct bpf_object *object = bpf_object__open_mem(image, size, &opts);
    struct bpf_program *program;
    struct bpf_map *map;
    int err = object ? 0 : -errno;

    if (err) {
        return err;
    }
    bpf_object__for_each_map(map, object) {
        const struct bpf_map *first = bpf_object__find_map_by_name(tcx->skel->obj, bpf_map__name(map));

        err = err ? err : !first ? -ENOENT : bpf_map__reuse_fd(map, bpf_map__fd(first));
    }
    bpf_object__for_each_program(program, object) {
        bpf_program__set_autoload(program, !strcmp(bpf_program__name(program), "oxdp_tcx"));
    }
    *ret_object = object;
    return err;
}

int oxdp_tcx_load_over(const struct oxdp_tcx *tcx, const struct oxdp_constants *constants, bool traced,
                       struct bpf_object **ret_object, char **ret_error)
{
    struct bpf_object *object = NULL;
    size_t size;
    const void *image = tcx_bpf__elf_bytes(&size);
    void *copy;
    int err;

    oxdp_libbpf_listen();
    copy = put_constants(constants, traced, image, size);
    err = copy ? open_again(tcx, copy, size, &object) : -ENOMEM;
    err = err ? err : bpf_object__load(object);
    free(copy);
    malloc_trim(0);             /* libbpf had megabytes for a moment. */

    const char *heard = oxdp_libbpf_heard();

    if (err) {
        bpf_object__close(object);
        return oxdp_fail(err, ret_error, "the tcx program that %s does not load (%s); libbpf says: %s",
                         traced ? "traces packets" : "tracks connections", strerror(-err), heard);
    }
    *ret_object = object;
    return 0;
}
