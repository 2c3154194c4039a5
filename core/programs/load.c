/* SPDX-License-Identifier: Apache-2.0 */
/* Programs over the maps of a datapath. */
#include "core/programs/load.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/error.h"
#include "core/kernel/libbpf_log.h"
#include "core/multi_buffer.h"
#include "core/privilege.h"
#include "core/programs/layout.h"
#include "core/programs/maps.h"
#include "core/programs/object.h"
#include "core/programs/program.h"
#include "core/programs/progs_struct.h"
#include "core/programs/skeleton.h"

#define LOG_SIZE (UINT32_MAX >> 8)      /* As much as the kernel takes; only what it writes becomes memory. */
#define LAST_WORDS 400                  /* Of the verifier, at most. */
#define INTERRUPT_NS (5 * 1000 * 1000)  /* Between two signals to a thread that shall give up. */

static int load(const struct oxdp_progs *progs, struct bpf_object *object, int *ret_fd,
                struct dp_capability *ret_capability, bool *ret_multi_buffer, char **ret_error);
static const char *last_words(char *verifier_log);
static int explain(int err, const struct oxdp_program *program, const char *refusal, const char *heard,
                   char *verifier_log, char **ret_error);

int oxdp_program_load(const struct oxdp_progs *progs, const struct oxdp_program *program,
                      const struct oxdp_constants *given, const struct dp_omit *omit, int *ret_fd,
                      struct dp_capability *ret_capability, bool *ret_multi_buffer, char **ret_error)
{
    char *verifier_log = malloc(LOG_SIZE);
    LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "oxdp", .kernel_log_buf = verifier_log,
                .kernel_log_size = verifier_log ? LOG_SIZE : 0);
    struct oxdp_constants constants = *given;
    struct bpf_object *object;
    char *refusal = NULL;
    void *image;
    int err;

    if (verifier_log) {
        verifier_log[0] = '\0';
    }
    oxdp_libbpf_listen();
    constants.omit.parts |= omit->parts;
    constants.omit.words |= omit->words;
    constants.omit.ops |= omit->ops;
    image = oxdp_constants_put(&constants, program->image, program->size);
    object = image ? bpf_object__open_mem(image, program->size, &opts) : NULL;
    err = object ? load(progs, object, ret_fd, ret_capability, ret_multi_buffer, &refusal) : -errno;
    if (!err) {
        ret_capability->ops &= ~given->omit.ops;
    }
    bpf_object__close(object);
    free(image);

    const char *heard = oxdp_libbpf_heard();

    if (err) {
        err = explain(err, program, refusal, heard, verifier_log, ret_error);
    }
    free(refusal);
    free(verifier_log);
    malloc_trim(0);             /* libbpf had megabytes for a moment. */
    return err;
}

static int load(const struct oxdp_progs *progs, struct bpf_object *object, int *ret_fd,
                struct dp_capability *ret_capability, bool *ret_multi_buffer, char **ret_error)
{
    struct bpf_program *program, *other;
    int err = oxdp_object_check(object, ret_capability, &program, ret_error);

    err = err ? err : oxdp_layout_check(bpf_object__btf(progs->maps->obj), bpf_object__btf(object), ret_error);
    err = err ? err : oxdp_maps_share(progs, object, ret_error);
    if (err) {
        return err;
    }
    bpf_object__for_each_program(other, object) {
        bpf_program__set_autoload(other, other == program);
    }
    if (oxdp_has_multi_buffer()) {
        bpf_program__set_flags(program, BPF_F_XDP_HAS_FRAGS);
    }
    *ret_multi_buffer = oxdp_has_multi_buffer();
    err = bpf_object__load(object);
    if (!err) {
        *ret_fd = fcntl(bpf_program__fd(program), F_DUPFD_CLOEXEC, 3);
        err = *ret_fd < 0 ? -errno : 0;
    }
    return err;
}

/* Says what is wrong with 'program': what was found here, what the verifier said, or what libbpf said. */
static int explain(int err, const struct oxdp_program *program, const char *refusal, const char *heard,
                   char *verifier_log, char **ret_error)
{
    const char *name = program->file ? program->file : "the XDP program";
    char advice[OXDP_PRIVILEGE_ADVICE];

    if (refusal) {
        return oxdp_fail(err, ret_error, "%s: %s", name, refusal);
    }
    if (err <= -__LIBBPF_ERRNO__START) {
        return oxdp_fail(-ENOEXEC, ret_error, "%s: it is not a whole BPF object; libbpf says: %s", name, heard);
    }
    if (oxdp_privilege_lacks(err)) {
        return oxdp_fail(err, ret_error, "%s does not load (%s): %s", name, strerror(-err),
                         oxdp_privilege_advice(advice));
    }
    if (verifier_log && verifier_log[0]) {
        return oxdp_fail(err, ret_error, "%s: the kernel's verifier refuses it (%s): %s", name, strerror(-err),
                         last_words(verifier_log));
    }
    return oxdp_fail(err, ret_error, "%s does not load (%s)%s%s", name, strerror(-err),
                     heard[0] ? "; libbpf says: " : "", heard);
}

/* The last two lines of the verifier's log before its statistics, in one. */
static const char *last_words(char *verifier_log)
{
    char *end = strstr(verifier_log, "\nprocessed ");
    char *start;
    int lines = 0;

    end = end ? end : verifier_log + strlen(verifier_log);
    while (end > verifier_log && end[-1] == '\n') {
        end--;
    }
    *end = '\0';
    for (start = end; start > verifier_log && end - start < LAST_WORDS; start--) {
        if (start[-1] == '\n') {
            if (++lines == 2) {
                break;
            }
            start[-1] = '/';
        }
    }
    return start;
}

static void heed(int number)
{
    (void) number;
}

/* The verifier looks for signals, and then says EAGAIN (kernel/bpf/verifier.c, do_check()); libbpf tries five times,
 * and five times more with a log.  Nobody else uses SIGURG here: a socket would have to ask for it. */
void oxdp_load_give_up(pthread_t thread)
{
    struct sigaction action = { .sa_handler = heed };
    struct sigaction before;
    struct timespec next;

    sigemptyset(&action.sa_mask);
    sigaction(SIGURG, &action, &before);
    do {
        pthread_kill(thread, SIGURG);
        clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_nsec += INTERRUPT_NS;
        if (next.tv_nsec >= 1000 * 1000 * 1000) {
            next.tv_nsec -= 1000 * 1000 * 1000;
            next.tv_sec++;
        }
    } while (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &next));
    sigaction(SIGURG, &before, NULL);
}
