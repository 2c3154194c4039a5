/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of a datapath: the one of this library, first, and those of users (options:xdp-obj), each for the ports
 * that name its file.  special.mutex guards the list's elements; only the control thread changes the list. */
#include "core/programs/program.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/multi_buffer.h"
#include "core/programs/attachment.h"
#include "core/programs/load.h"
#include "core/programs/maps.h"
#include "core/programs/object.h"
#include "core/programs/pin.h"
#include "core/programs/progs.h"
#include "core/programs/progs_struct.h"

static int get(struct oxdp_progs *progs, const char *file, const struct dp_omit *omit,
               struct oxdp_program **ret_program, char **ret_error);
static struct oxdp_program *find(const struct oxdp_progs *progs, const char *file, const void *image, size_t size);
static int exchange(struct oxdp_progs *progs, uint32_t port_no, char **ret_error) OXDP_REQUIRES(oxdp_special_mutex);
static void destroy(struct oxdp_program *program);

static const struct dp_omit nothing;

/* All that flows need.  Packets that have to be segmented are dropped by name all the same. */
static const struct dp_omit tables = {
    .parts = (DP_ALL_PARTS & ~(DP_PART_CHECKSUM | DP_PART_FRAGS)) | DP_PART_TABLES,
    .words = DP_ALL_WORDS & ~DP_CORE_WORDS,
    .ops = DP_CAPABILITY_ALL_OPS,
};

int oxdp_programs_init(struct oxdp_progs *progs, char **ret_error)
{
    char *refusal = NULL;
    int err = get(progs, NULL, &nothing, &progs->programs, &refusal);

    if (err && oxdp_maps_have_ct(progs)) {
        oxdp_maps_omit_ct(progs);
        free(refusal);
        refusal = NULL;
        err = get(progs, NULL, &nothing, &progs->programs, &refusal);
    }
    if (err && progs->table && !get(progs, NULL, &tables, &progs->programs, NULL)) {
        progs->programs->bare = true;
        progs->bare = refusal;
        return 0;
    }
    if (err) {
        *ret_error = refusal;
    }
    return err;
}

int oxdp_progs_complete(struct oxdp_progs *progs, char **ret_error)
{
    struct oxdp_program *program = progs->programs;
    struct dp_capability capability;
    bool multi_buffer;
    int err, fd;

    if (!progs->bare) {
        return 0;
    }
    err = oxdp_program_load(progs, program, &progs->memory.constants, &nothing, &fd, &capability, &multi_buffer,
                            ret_error);
    if (err) {
        return err;
    }
    oxdp_special_lock(progs);
    close(program->fd);                 /* Links that it runs on hold it. */
    program->fd = fd;
    program->multi_buffer = multi_buffer;
    program->bare = false;
    oxdp_special_renew(progs);
    oxdp_special_unlock(progs);
    oxdp_pins_remove(progs->pins, "xdp");
    oxdp_pins_add(progs->pins, "xdp", fd);
    free(progs->bare);
    progs->bare = NULL;
    return 0;
}

const char *oxdp_progs_bare(const struct oxdp_progs *progs)
{
    return progs->bare;
}

bool oxdp_progs_has_flows(struct oxdp_progs *progs, uint32_t port_no)
{
    bool has_flows;

    oxdp_special_lock(progs);
    has_flows = progs->table && !oxdp_program_of(progs, port_no)->bare;
    oxdp_special_unlock(progs);
    return has_flows;
}

void oxdp_programs_free(struct oxdp_progs *progs)
{
    while (progs->programs) {
        struct oxdp_program *program = progs->programs;

        progs->programs = program->next;
        destroy(program);
    }
}

int oxdp_progs_use(struct oxdp_progs *progs, uint32_t port_no, const char *file, char **ret_error)
{
    struct oxdp_program *program, *before;
    int err;

    if (port_no >= progs->max_ports) {
        return file ? oxdp_fail(-ERANGE, ret_error, "only the first %u ports can have programs of their own",
                                progs->max_ports) : 0;
    }
    err = get(progs, file, &nothing, &program, ret_error);
    if (err) {
        return err;
    }
    oxdp_special_lock(progs);
    before = progs->used[port_no];
    progs->used[port_no] = program;
    err = exchange(progs, port_no, ret_error);
    if (err) {
        progs->used[port_no] = before;
        before = program;
    }
    oxdp_program_put(progs, before);
    oxdp_special_unlock(progs);
    return err;
}

struct dp_capability oxdp_progs_capability(struct oxdp_progs *progs, uint32_t port_no)
{
    struct dp_capability capability;

    oxdp_special_lock(progs);
    capability = oxdp_program_of(progs, port_no)->capability;
    oxdp_special_unlock(progs);
    return capability;
}

uint32_t oxdp_progs_max_mtu(struct oxdp_progs *progs, uint32_t port_no)
{
    bool multi_buffer;

    oxdp_special_lock(progs);
    multi_buffer = oxdp_program_of(progs, port_no)->multi_buffer;
    oxdp_special_unlock(progs);
    return multi_buffer ? oxdp_max_mtu() : OXDP_FRAME_MTU;
}

int oxdp_progs_get_info(struct oxdp_progs *progs, uint32_t index, struct oxdp_prog_info *ret_info)
{
    struct bpf_prog_info info = { 0 };
    const struct oxdp_program *program;
    uint32_t len = sizeof info;
    int err = -ENOENT;

    oxdp_special_lock(progs);
    for (program = progs->programs; program && index; program = program->next) {
        index--;
    }
    if (program) {
        err = bpf_obj_get_info_by_fd(oxdp_program_fd(progs, program), &info, &len);
        memcpy(ret_info->name, info.name, sizeof ret_info->name);
        ret_info->id = info.id;
        ret_info->xlated_bytes = info.xlated_prog_len;
        ret_info->jited_bytes = info.jited_prog_len;
        ret_info->file = program->file;
        ret_info->capability = program->capability;
    }
    oxdp_special_unlock(progs);
    return err;
}

struct oxdp_program *oxdp_program_of(const struct oxdp_progs *progs, uint32_t port_no)
{
    struct oxdp_program *used = port_no < progs->max_ports ? progs->used[port_no] : NULL;

    return used ? used : progs->programs;
}

int oxdp_program_fd(const struct oxdp_progs *progs, const struct oxdp_program *program)
{
    return progs->special.omitting && program->special_fd >= 0 ? program->special_fd : program->fd;
}

void oxdp_program_put(struct oxdp_progs *progs, struct oxdp_program *program)
{
    if (program && !--program->n_users) {
        struct oxdp_program **at = &progs->programs;

        while (*at != program) {
            at = &(*at)->next;
        }
        *at = program->next;
        destroy(program);
    }
}

/* The program of 'file', loaded without 'omit' if it was not, with one user more.  A file is the same if its content
 * is, too: a port that is added after the file was built again gets the new program. */
static int get(struct oxdp_progs *progs, const char *file, const struct dp_omit *omit,
               struct oxdp_program **ret_program, char **ret_error)
{
    struct oxdp_program new = { .fd = -1, .special_fd = -1, .new_fd = -1, .n_users = 1 };
    struct oxdp_program *program, **last;
    char *refusal = NULL;
    int err = oxdp_object_read(file, &new.image, &new.size, &refusal);

    if (err) {
        err = oxdp_fail(err, ret_error, "%s: %s", file, refusal ? refusal : strerror(-err));
        free(refusal);
        return err;
    }
    new.file = file ? strdup(file) : NULL;

    oxdp_special_lock(progs);
    program = find(progs, file, new.image, new.size);
    if (program) {
        program->n_users++;
    }
    oxdp_special_unlock(progs);
    if (!program) {
        program = malloc(sizeof *program);
        err = program && (new.file || !file)
            ? oxdp_program_load(progs, &new, &progs->memory.constants, omit, &new.fd, &new.capability,
                                &new.multi_buffer, ret_error)
            : oxdp_fail(-ENOMEM, ret_error, "not enough memory to load a program");
        if (!err) {
            *program = new;
            program->over_ct = oxdp_maps_have_ct(progs);
            oxdp_special_lock(progs);
            for (last = &progs->programs; *last; last = &(*last)->next) {
                continue;
            }
            *last = program;
            progs->special.quiet = 0;
            oxdp_special_unlock(progs);
            *ret_program = program;
            return 0;
        }
        free(program);
    }
    if (file) {
        free((void *) new.image);
    }
    free(new.file);
    if (!err) {
        *ret_program = program;         /* Else it is freed, and '*ret_program' may be the head of the list. */
    }
    return err;
}

static struct oxdp_program *find(const struct oxdp_progs *progs, const char *file, const void *image, size_t size)
{
    for (struct oxdp_program *program = progs->programs; program; program = program->next) {
        if (file && program->file ? !strcmp(file, program->file) && size == program->size
                                    && !memcmp(image, program->image, size)
            : !file && !program->file) {
            return program;
        }
    }
    return NULL;
}

/* Gives the device of 'port_no', if one is attached, the program that the port uses now, from one frame to the next. */
static int exchange(struct oxdp_progs *progs, uint32_t port_no, char **ret_error)
    OXDP_REQUIRES(oxdp_special_mutex)
{
    for (uint32_t i = 0; i < progs->max_ports; i++) {
        const struct oxdp_attachment *at = &progs->attachments[i];

        if (at->ifindex && at->port.port_no == port_no && at->link_fd >= 0 && at->pass_fd < 0
            && !at->old_program) {
            const struct oxdp_program *program = oxdp_program_of(progs, port_no);
            int err = bpf_link_update(at->link_fd, oxdp_program_fd(progs, program), NULL);

            return err ? oxdp_fail(err, ret_error,
                                   "%s: the device does not take it in place of the program that it has (%s)",
                                   program->file ? program->file : "the XDP program", strerror(-err))
                       : 0;
        }
    }
    return 0;
}

static void destroy(struct oxdp_program *program)
    OXDP_NO_LOCK_ANALYSIS       /* Not shared any more. */
{
    if (program->fd >= 0) {
        close(program->fd);
    }
    if (program->special_fd >= 0) {
        close(program->special_fd);
    }
    if (program->new_fd >= 0) {
        close(program->new_fd);
    }
    if (program->file) {
        free((void *) program->image);
        free(program->file);
    }
    free(program);
}
