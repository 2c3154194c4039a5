/* SPDX-License-Identifier: Apache-2.0 */
/* The objects of programs: the one in this library, or a user's file (options:xdp-obj).
 *
 * A file is read once.  The copy in memory is loaded, specialised and compared: later changes of the file do
 * nothing. */
#include "core/programs/object.h"

#include <bpf/libbpf.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/programs/capability.h"
#include "core/programs/skeleton.h"

#define MAX_OBJECT_SIZE (16 << 20)

static int read_file(const char *file, void **ret_image, size_t *ret_size, char **ret_error);
static int check_elf(const void *image, size_t size, char **ret_error);
static int check_maps(const struct bpf_object *object, char **ret_error);

int oxdp_object_read(const char *file, const void **ret_image, size_t *ret_size, char **ret_error)
{
    void *image;
    int err;

    if (!file) {
        *ret_image = xdp_bpf__elf_bytes(ret_size);
        return 0;
    }
    err = read_file(file, &image, ret_size, ret_error);
    if (!err) {
        err = check_elf(image, *ret_size, ret_error);
        if (err) {
            free(image);
        }
        *ret_image = image;
    }
    return err;
}

int oxdp_object_check(const struct bpf_object *object, struct dp_capability *ret_capability,
                      struct bpf_program **ret_program, char **ret_error)
{
    struct bpf_program *program = bpf_object__find_program_by_name(object, "oxdp_xdp");
    int err;

    if (!program) {
        return oxdp_fail(-ENOENT, ret_error, "it has no program 'oxdp_xdp'");
    }
    if (bpf_program__type(program) != BPF_PROG_TYPE_XDP) {
        return oxdp_fail(-EINVAL, ret_error, "its program 'oxdp_xdp' is not an XDP program: SEC(\"xdp\") makes it one");
    }
    err = oxdp_capability_read(object, ret_capability, ret_error);
    err = err ? err : check_maps(object, ret_error);
    *ret_program = program;
    return err;
}

static int read_file(const char *file, void **ret_image, size_t *ret_size, char **ret_error)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st = { 0 };
    char *image = NULL;
    size_t size = 0;
    int err = fd < 0 || fstat(fd, &st) ? -errno : 0;

    if (err) {
        err = oxdp_fail(err, ret_error, "cannot open it (%s)", strerror(-err));
    } else if (!S_ISREG(st.st_mode)) {
        err = oxdp_fail(-EINVAL, ret_error, "it is not a regular file");
    } else if (st.st_size > MAX_OBJECT_SIZE) {
        err = oxdp_fail(-EFBIG, ret_error, "it is larger than %d MB", MAX_OBJECT_SIZE >> 20);
    } else if (!(image = malloc(st.st_size + 1))) {
        err = oxdp_fail(-ENOMEM, ret_error, "not enough memory to read it");
    }
    while (!err && size < (size_t) st.st_size) {
        ssize_t n = read(fd, image + size, st.st_size - size);

        if (n < 0 && errno != EINTR) {
            err = oxdp_fail(-errno, ret_error, "cannot read it (%s)", strerror(errno));
        } else if (!n) {
            break;
        }
        size += n > 0 ? n : 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    if (err) {
        free(image);
        return err;
    }
    *ret_image = image;
    *ret_size = size;
    return 0;
}

static int check_elf(const void *image, size_t size, char **ret_error)
{
    Elf64_Ehdr header;

    if (size < sizeof header || memcmp(image, ELFMAG, SELFMAG)) {
        return oxdp_fail(-ENOEXEC, ret_error, "it is not an ELF object");
    }
    memcpy(&header, image, sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_BPF) {
        return oxdp_fail(-ENOEXEC, ret_error, "it is not a BPF object: ovs-xdp-obj makes one (clang -target bpf)");
    }
    return 0;
}

/* Without these a program could not serve a port as struct bpf_port describes it. */
static int check_maps(const struct bpf_object *object, char **ret_error)
{
    static const char *const names[] = { "ports_overflow", "sockets", "outputs" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!bpf_object__find_map_by_name(object, names[i])) {
            return oxdp_fail(-ENOENT, ret_error, "it has no map '%s'", names[i]);
        }
    }
    return 0;
}
