/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/grace.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bpf/grace.skel.h"
#include "core/cpu.h"

/* As many CPUs as Linux can be built for. */
#define MAX_CPUS 8192
#define SET_SIZE CPU_ALLOC_SIZE(MAX_CPUS)
#define CPUS_AT_ONCE 32     /* As in bpf/grace.bpf.c. */

struct cpus {
    int n;                  /* CPUs from here on are not in the set. */
    unsigned char set[CPU_ALLOC_SIZE(MAX_CPUS)] __attribute__((aligned(sizeof(unsigned long))));
};

static bool threads_exclude_programs(void);
static int keep(const struct bpf_program *);
static long tracking_distance(void);
static int interrupt_cpus(struct cpus *);
static uint32_t idle_cpus(int first);
static bool interrupts_no_program(int cpu);
static int visit_cpus(const struct cpus *);
static int read_online(struct cpus *);

void oxdp_grace(void *aux)
{
    struct cpus unsure;

    if (!threads_exclude_programs() || interrupt_cpus(&unsure) || visit_cpus(&unsure)) {
        oxdp_grace_rcu(aux);
    }
}

void oxdp_grace_rcu(void *aux)
{
    /* The kernel refuses where CPUs run without a timer tick.  No program runs as long as that. */
    if (syscall(__NR_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0)) {
        usleep(200000);
    }
}

/* With PREEMPT_RT, threads preempt bottom halves. */
static bool threads_exclude_programs(void)
{
    static int known;       /* 0: not yet; 1: yes; 2: no. */
    int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);

    if (!answer) {
        struct utsname name;

        answer = uname(&name) || strstr(name.version, "PREEMPT_RT") || strstr(name.version, "PREEMPT RT") ? 2 : 1;
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer == 1;
}

/* File descriptors of bpf/grace.bpf.c, open until the process ends; or negative errno. */
static int asker, interrupter;

static void load_programs(void)
{
    struct grace_bpf *skel = grace_bpf__open();
    int err = -ENOENT;

    if (skel) {
        skel->rodata->tracking_distance = tracking_distance();
        skel->rodata->n_cpus = oxdp_n_cpu_ids();
        err = grace_bpf__load(skel);
    }
    asker = err ? err : keep(skel->progs.idle_cpus);
    interrupter = err ? err : keep(skel->progs.interrupts_no_program);
    grace_bpf__destroy(skel);
}

static int keep(const struct bpf_program *program)
{
    int fd = fcntl(bpf_program__fd(program), F_DUPFD_CLOEXEC, 0);

    return fd < 0 ? -errno : fd;
}

/* From 'runqueues' of a CPU, to which pointers lead, to its 'context_tracking'; 0 if the kernel does not say. */
static long tracking_distance(void)
{
    struct btf *btf = btf__load_vmlinux_btf();
    long from = -1, to = -1;
    int id = btf ? btf__find_by_name_kind(btf, ".data..percpu", BTF_KIND_DATASEC) : -ENOENT;

    if (id >= 0) {
        const struct btf_type *section = btf__type_by_id(btf, id);
        const struct btf_var_secinfo *var = btf_var_secinfos(section);

        for (const struct btf_var_secinfo *end = var + btf_vlen(section); var < end; var++) {
            const char *name = btf__name_by_offset(btf, btf__type_by_id(btf, var->type)->name_off);

            if (!strcmp(name, "runqueues")) {
                from = var->offset;
            } else if (!strcmp(name, "context_tracking")) {
                to = var->offset;
            }
        }
    }
    btf__free(btf);
    return from >= 0 && to >= 0 ? to - from : 0;
}

/* Interrupts each CPU that is online and not idle.  Stores those that may have run a program then in '*ret_unsure'.  0,
 * or negative errno.  A CPU that comes online meanwhile has not run a program that began before. */
static int interrupt_cpus(struct cpus *ret_unsure)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int n = oxdp_n_cpu_ids();
    int here = sched_getcpu();      /* Where this thread runs, no program does. */

    pthread_once(&once, load_programs);
    if (interrupter < 0) {
        return read_online(ret_unsure);
    }
    memset(ret_unsure, 0, sizeof *ret_unsure);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (int first = 0; first < n && first < MAX_CPUS; first += CPUS_AT_ONCE) {
        uint32_t idle = n > 1 ? idle_cpus(first) : 0;

        for (int cpu = first; cpu < n && cpu < first + CPUS_AT_ONCE; cpu++) {
            if (cpu != here && !(idle >> (cpu - first) & 1) && !interrupts_no_program(cpu)) {
                CPU_SET_S(cpu, SET_SIZE, (cpu_set_t *) ret_unsure->set);
                ret_unsure->n = cpu + 1;
            }
        }
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return 0;
}

/* Those of CPUS_AT_ONCE CPUs that are certainly idle, as bits. */
static uint32_t idle_cpus(int first)
{
    uint64_t args[] = { first };
    LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = args, .ctx_size_in = sizeof args);

    return asker < 0 || bpf_prog_test_run_opts(asker, &opts) ? 0 : opts.retval;
}

/* Whether 'cpu' certainly runs no program; it may not be online. */
static bool interrupts_no_program(int cpu)
{
    LIBBPF_OPTS(bpf_test_run_opts, opts, .flags = BPF_F_TEST_RUN_ON_CPU, .cpu = cpu);

    return bpf_prog_test_run_opts(interrupter, &opts) == -ENXIO || opts.retval;
}

/* Lets the calling thread run on each of 'cpus'.  0, or negative errno. */
static int visit_cpus(const struct cpus *cpus)
{
    struct sched_param urgent = { .sched_priority = 1 };
    struct sched_param before;
    struct cpus own, one;
    int policy = sched_getscheduler(0);
    bool raised;
    int error = 0;

    if (!cpus->n) {
        return 0;
    }
    if (policy < 0 || sched_getparam(0, &before) || sched_getaffinity(0, SET_SIZE, (cpu_set_t *) own.set)) {
        return -errno;
    }

    /* Real-time priority, so as not to wait for other threads.  Without the privilege it only takes longer. */
    raised = policy == SCHED_OTHER && !sched_setscheduler(0, SCHED_FIFO, &urgent);

    memset(&one, 0, sizeof one);
    for (int cpu = 0; cpu < cpus->n && !error; cpu++) {
        if (CPU_ISSET_S(cpu, SET_SIZE, (const cpu_set_t *) cpus->set)) {
            CPU_SET_S(cpu, SET_SIZE, (cpu_set_t *) one.set);
            error = sched_setaffinity(0, SET_SIZE, (cpu_set_t *) one.set) ? -errno : 0;
            CPU_CLR_S(cpu, SET_SIZE, (cpu_set_t *) one.set);
        }
    }
    sched_setaffinity(0, SET_SIZE, (cpu_set_t *) own.set);
    if (raised) {
        sched_setscheduler(0, policy, &before);
    }
    return error;
}

/* The CPUs that are online: parses lists like "0-3,8". */
static int read_online(struct cpus *ret_cpus)
{
    FILE *file = fopen("/sys/devices/system/cpu/online", "re");
    unsigned int first, last;

    if (!file) {
        return -errno;
    }
    memset(ret_cpus, 0, sizeof *ret_cpus);
    while (fscanf(file, "%u", &first) == 1) {
        if (fscanf(file, "-%u", &last) != 1) {
            last = first;
        }
        for (unsigned int cpu = first; cpu <= last && cpu < MAX_CPUS; cpu++) {
            CPU_SET_S(cpu, SET_SIZE, (cpu_set_t *) ret_cpus->set);
            ret_cpus->n = cpu + 1;
        }
        if (fgetc(file) != ',') {
            break;
        }
    }
    fclose(file);
    return ret_cpus->n ? 0 : -EINVAL;
}
