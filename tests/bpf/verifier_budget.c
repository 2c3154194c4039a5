/* SPDX-License-Identifier: Apache-2.0 */
/* Compares what the verifier spends on each program, the program's size and its stack with a recorded budget.
 *
 * verifier_budget BUDGET OBJECT...            as root: fails if a program grew past its line
 * verifier_budget --print BUDGET OBJECT...    prints the lines for the running kernel instead
 *
 * A program that grew by more than a twentieth and by more than SLACK_INSTRUCTIONS instructions, or whose stack grew by
 * more than a twentieth, fails: print the lines and put them into the file, with the reason in the commit.
 *
 * The budget has only numbers that do not depend on the CPU:
 *
 *   - The size of the machine code depends on it (returns are longer where the kernel mitigates return stack
 *     overflows, for example): it is shown, and never compared.
 *   - The verifier inlines helpers as the kernel's configuration allows: SLACK_INSTRUCTIONS is for those.
 *   - The sysctls net.core.bpf_jit_enable (0: helpers are not inlined) and net.core.bpf_jit_harden (2: constants are
 *     blinded, also in what the kernel reports as the program) change the size of BPF programs: with other values than
 *     1 and 0 or 1 sizes are shown and not compared.
 *
 * Exit status 77: there is no line for this kernel, or the machine is not x86-64, where the lines were printed. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "core/multi_buffer.h"
#include "core/programs/object.h"
#include "core/tables/memory.h"

#define N_FLOWS 200000
#define N_PORTS 8192
#define N_CPUS 64
#define N_CONNS 65536

#define SLACK_INSTRUCTIONS 16
#define INSTRUCTION_LEN 8
#define MACHINE "x86_64"

struct cost {
    unsigned long processed;    /* Instructions that the verifier looked at. */
    unsigned long xlated;       /* Bytes of BPF, as the kernel runs it. */
    unsigned long jited;        /* Bytes of machine code: of this CPU, not recorded. */
    unsigned long stack;        /* Bytes, of the deepest chain of functions at most. */
};

static char verifier_log[1 << 20];

static int check_object(const char *budget, const char *kernel, const char *file, bool print, int *n_lines,
                        int *n_unlisted);
static struct bpf_object *open_object(const char *file, void **ret_image);
static int measure(const struct bpf_program *, struct cost *);
static bool find_line(const char *budget, const char *kernel, const char *object, const char *program,
                      struct cost *);
static bool sizes_are_comparable(void);
static long read_sysctl(const char *file);
static int compare(const char *program, const char *what, unsigned long now, unsigned long recorded,
                   unsigned long slack);

int main(int argc, char **argv)
{
    bool print = argc > 1 && !strcmp(argv[1], "--print");
    struct utsname name;
    unsigned int major, minor;
    char kernel[32];
    int n_lines = 0, n_unlisted = 0, failed = 0;

    argv += print;
    argc -= print;
    if (argc < 3 || uname(&name) || sscanf(name.release, "%u.%u", &major, &minor) != 2) {
        fprintf(stderr, "usage: verifier_budget [--print] BUDGET OBJECT...\n");
        return 2;
    }
    if (strcmp(name.machine, MACHINE)) {
        printf("skipped: the budget has lines of %s, this machine is %s\n", MACHINE, name.machine);
        return 77;
    }
    snprintf(kernel, sizeof kernel, "%u.%u", major, minor);
    if (!sizes_are_comparable()) {
        printf("bytes of BPF are not compared: net.core.bpf_jit_enable is not 1 or net.core.bpf_jit_harden is 2\n");
    }
    for (int i = 2; i < argc; i++) {
        failed |= check_object(argv[1], kernel, argv[i], print, &n_lines, &n_unlisted);
    }
    if (!failed && !print && !n_lines) {
        printf("skipped: no line for Linux %s: see verifier_budget --print\n", kernel);
        return 77;
    }
    if (!print && n_lines && n_unlisted) {
        printf("failed: %d programs have no line for Linux %s, others have: put the lines above into the budget\n",
               n_unlisted, kernel);
        return 1;
    }
    return failed;
}

static int check_object(const char *budget, const char *kernel, const char *file, bool print, int *n_lines,
                        int *n_unlisted)
{
    void *image, *image_of_one;
    struct bpf_object *object = open_object(file, &image);
    char path[4096];
    struct bpf_program *program;
    int failed = 0;

    if (!object) {
        fprintf(stderr, "%s: cannot be opened\n", file);
        return 1;
    }
    bpf_object__for_each_program(program, object) {
        struct cost now, allowed;

        snprintf(path, sizeof path, "%s", file);

        const char *name = bpf_program__name(program);
        const char *object_name = basename(path);

        /* Each program alone: the log is its own. */
        struct bpf_object *one = open_object(file, &image_of_one);
        struct bpf_program *other;

        bpf_object__for_each_program(other, one) {
            bpf_program__set_autoload(other, !strcmp(bpf_program__name(other), name));
        }
        other = bpf_object__find_program_by_name(one, name);
        verifier_log[0] = '\0';
        bpf_program__set_log_level(other, 4);
        bpf_program__set_log_buf(other, verifier_log, sizeof verifier_log);
        if (bpf_object__load(one) || measure(other, &now)) {
            fprintf(stderr, "%s: %s does not load\n%s\n", object_name, name, verifier_log);
            failed = 1;
        } else if (print) {
            printf("%s %s %s %lu %lu %lu\n", kernel, object_name, name, now.processed, now.xlated, now.stack);
        } else if (find_line(budget, kernel, object_name, name, &allowed)) {
            ++*n_lines;
            failed |= compare(name, "instructions processed", now.processed, allowed.processed, SLACK_INSTRUCTIONS);
            if (sizes_are_comparable()) {
                failed |= compare(name, "bytes of BPF", now.xlated, allowed.xlated,
                                  SLACK_INSTRUCTIONS * INSTRUCTION_LEN);
            }
            failed |= compare(name, "bytes of stack", now.stack, allowed.stack, 0);
            printf("%s: %lu bytes of machine code on this CPU, not compared\n", name, now.jited);
        } else {
            ++*n_unlisted;
            printf("no line: %s %s %s %lu %lu %lu\n", kernel, object_name, name, now.processed, now.xlated, now.stack);
        }
        bpf_object__close(one);
        free(image_of_one);
    }
    bpf_object__close(object);
    free(image);
    return failed;
}

/* Adds tables of connections, of which only the sizes count: programs are verified, not run. */
static int add_ct_tables(struct oxdp_memory *memory)
{
    struct dp_ct_tables tables = { .n_head = 1, .n_buckets = N_CONNS, .n_keys = N_CONNS, .n_lives = N_CONNS,
                                   .n_addr6 = N_CONNS, .n_cold = N_CONNS, .n_marks = N_CONNS, .n_policies = 256,
                                   .n_zones = DP_CT_ZONES + 1 };
    struct dp_path_tables paths = { .n_path_head = 1, .n_micros = N_CONNS, .n_micros6 = N_CONNS,
                                    .n_paths = DP_PATH_MAX };
    int fd[BPF_N_ALL_TABLES - BPF_N_TABLES];
    int i = 0, first;

#define MAKE(N, TYPE)                                                                                   \
    fd[i] = bpf_map_create(BPF_MAP_TYPE_ARRAY, "dp_ct", sizeof(uint32_t), (N) * sizeof(TYPE), 1, NULL); \
    if (fd[i++] < 0) {                                                                                  \
        return -1;                                                                                      \
    }
#define X(NAME, TYPE) MAKE(tables.n_##NAME, TYPE)
    DP_CT_TABLES(X)
#undef X
    first = i;
#define X(NAME, TYPE) MAKE(paths.n_##NAME, TYPE)
    DP_PATH_TABLES(X)
#undef X
#undef MAKE
    oxdp_constants_set_ct(&memory->constants, &tables, fd, &paths, fd + first);
    return 0;
}

/* Opens the object, complete, over tables of the default sizes; the copy of its image is to be freed after loading. */
static struct bpf_object *open_object(const char *file, void **ret_image)
{
    static struct oxdp_memory memory;
    const struct oxdp_table_config config = oxdp_table_config(N_FLOWS, N_CPUS);
    const void *image;
    char *error = NULL;
    size_t size;

    if (!memory.table[0]
        && (oxdp_memory_create(&config, N_PORTS, N_PORTS + 1, N_CPUS, NULL, &memory) || add_ct_tables(&memory))) {
        return NULL;
    }
    if (oxdp_object_read(file, &image, &size, &error)) {
        fprintf(stderr, "%s: %s\n", file, error);
        free(error);
        return NULL;
    }
    memory.constants.omit.parts = oxdp_has_multi_buffer() ? 0 : DP_PART_FRAGS;
    *ret_image = oxdp_constants_put(&memory.constants, image, size);
    free((void *) image);
    return *ret_image ? bpf_object__open_mem(*ret_image, size, NULL) : NULL;
}

/* Reads the verifier's last words: "stack depth 96+0+408" (one number for each function), "processed N
 * insns". */
static int measure(const struct bpf_program *program, struct cost *cost)
{
    struct bpf_prog_info info = { 0 };
    __u32 len = sizeof info;
    const char *processed = strstr(verifier_log, "processed ");
    const char *stack = strstr(verifier_log, "stack depth ");

    if (!processed || bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &len)) {
        return -1;
    }
    cost->processed = strtoul(processed + strlen("processed "), NULL, 10);
    cost->xlated = info.xlated_prog_len;
    cost->jited = info.jited_prog_len;
    cost->stack = 0;
    for (const char *at = stack ? stack + strlen("stack depth") : ""; *at == ' ' || *at == '+';) {
        char *end;

        cost->stack += strtoul(at + 1, &end, 10);
        at = end;
    }
    return 0;
}

static bool find_line(const char *budget, const char *kernel, const char *object, const char *program,
                      struct cost *cost)
{
    FILE *file = fopen(budget, "r");
    char line[512];
    bool found = false;

    while (file && !found && fgets(line, sizeof line, file)) {
        char words[3][128];

        found = sscanf(line, "%127s %127s %127s %lu %lu %lu", words[0], words[1], words[2], &cost->processed,
                       &cost->xlated, &cost->stack) == 6
            && !strcmp(words[0], kernel) && !strcmp(words[1], object) && !strcmp(words[2], program);
    }
    if (file) {
        fclose(file);
    }
    return found;
}

/* Whether the kernel reports the size of BPF programs as it did when the lines were printed. */
static bool sizes_are_comparable(void)
{
    return read_sysctl("/proc/sys/net/core/bpf_jit_enable") == 1
        && read_sysctl("/proc/sys/net/core/bpf_jit_harden") < 2;
}

/* Returns the number in 'file'; 0 if there is none. */
static long read_sysctl(const char *file)
{
    FILE *stream = fopen(file, "r");
    long value = 0;

    if (stream) {
        if (fscanf(stream, "%ld", &value) != 1) {
            value = 0;
        }
        fclose(stream);
    }
    return value;
}

static int compare(const char *program, const char *what, unsigned long now, unsigned long recorded,
                   unsigned long slack)
{
    unsigned long margin = recorded / 20 > slack ? recorded / 20 : slack;
    bool grown = now > recorded + margin;

    printf("%s: %lu %s, %lu recorded%s\n", program, now, what, recorded, grown ? ": TOO MANY" : "");
    return grown;
}
