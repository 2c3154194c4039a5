/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/check/check.h"

#include <ctype.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/xsk/umem.h"
#include "tools/check/fact.h"

#define BPFFS "/sys/fs/bpf"
#define MB (1024 * 1024)

/* The tables, threads and packet memory of a datapath with its default settings, and something for the switch
 * itself. */
#define WANTED_MB 256

static void check_kernel(void);
static void check_capabilities(void);
static void check_lockdown(void);
static void check_jit(void);
static void check_bpffs(void);
static void check_memory(void);

void oxdp_check_host(void)
{
    check_kernel();
    check_capabilities();
    check_lockdown();
    check_jit();
    check_bpffs();
    check_memory();
    oxdp_fact(OXDP_OK, OXDP_HOST, "hugepages", NULL, "none are needed");
}

static void check_kernel(void)
{
    struct utsname name;

    if (!uname(&name)) {
        oxdp_fact(OXDP_OK, OXDP_HOST, "kernel", NULL, "%s %s, %s; what it can do is probed below", name.sysname,
                  name.release, name.machine);
    }
}

struct capability {
    int number;
    const char *name;
    bool admin_does;            /* CAP_SYS_ADMIN stands for it. */
    enum oxdp_verdict without;
    const char *what_for;
};

static const struct capability capabilities[] = {
    { CAP_NET_ADMIN, "CAP_NET_ADMIN", false, OXDP_REFUSED, "attaching programs and setting devices up" },
    { CAP_NET_RAW, "CAP_NET_RAW", false, OXDP_REFUSED, "AF_XDP and packet sockets" },
    { CAP_BPF, "CAP_BPF", true, OXDP_REFUSED, "loading programs" },
    { CAP_PERFMON, "CAP_PERFMON", true, OXDP_WARNING,
      "flow tables in programs: without it the verifier refuses their arithmetic with pointers, and the engine gets "
      "every packet" },
    { CAP_IPC_LOCK, "CAP_IPC_LOCK", false, OXDP_WARNING,
      "packet memory beyond the limit on locked memory (ulimit -l)" },
    { CAP_NET_BROADCAST, "CAP_NET_BROADCAST", false, OXDP_WARNING,
      "noticing changes of veths' peers in other network namespaces" },
    { CAP_SYS_ADMIN, "CAP_SYS_ADMIN", false, OXDP_WARNING,
      "setting up veths' peers in other network namespaces, mounting bpffs, naming foreign programs" },
};

static void check_capabilities(void)
{
    char todo[160];

    for (size_t i = 0; i < sizeof capabilities / sizeof capabilities[0]; i++) {
        const struct capability *cap = &capabilities[i];

        if (oxdp_check_has_capability(cap->number)) {
            oxdp_fact(OXDP_OK, OXDP_HOST, "privilege", NULL, "%s: present, for %s", cap->name, cap->what_for);
        } else if (cap->admin_does && oxdp_check_has_capability(CAP_SYS_ADMIN)) {
            oxdp_fact(OXDP_OK, OXDP_HOST, "privilege", NULL, "%s: CAP_SYS_ADMIN stands for it, for %s", cap->name,
                      cap->what_for);
        } else {
            snprintf(todo, sizeof todo,
                     "run as root, or add %s to AmbientCapabilities= and CapabilityBoundingSet= of the unit",
                     cap->name);
            oxdp_fact(cap->without, OXDP_HOST, "privilege", todo, "%s: missing (this process has uid %u), for %s",
                      cap->name, (unsigned int) geteuid(), cap->what_for);
        }
    }
}

bool oxdp_check_has_capability(int capability)
{
    static unsigned long long effective;
    static bool known;
    char line[128];
    FILE *status;

    if (!known) {
        status = fopen("/proc/self/status", "re");
        while (status && fgets(line, sizeof line, status)) {
            sscanf(line, "CapEff: %llx", &effective);
        }
        if (status) {
            fclose(status);
        }
        known = true;
    }
    return effective >> capability & 1;
}

/* The file says, for example, "none [integrity] confidentiality". */
static void check_lockdown(void)
{
    char line[128];
    const char *mode;

    if (!oxdp_check_read_line("/sys/kernel/security/lockdown", line, sizeof line)) {
        oxdp_fact(OXDP_OK, OXDP_HOST, "lockdown", NULL, "the kernel has none, or securityfs is not mounted");
        return;
    }
    mode = strchr(line, '[');
    mode = mode ? strtok((char *) mode, "[]") : line;
    if (!strcmp(mode, "confidentiality")) {
        oxdp_fact(OXDP_WARNING, OXDP_HOST, "lockdown",
                  "boot without lockdown=confidentiality if the program is refused below",
                  "%s: BPF programs may not read the kernel's memory", mode);
    } else {
        oxdp_fact(OXDP_OK, OXDP_HOST, "lockdown", NULL, "%s: does not concern the switch", mode);
    }
}

static void check_jit(void)
{
    char line[32];

    if (oxdp_check_read_line("/proc/sys/net/core/bpf_jit_enable", line, sizeof line) && !strcmp(line, "0")) {
        oxdp_fact(OXDP_WARNING, OXDP_HOST, "jit", "sysctl -w net.core.bpf_jit_enable=1",
                  "the kernel interprets BPF programs, which makes the switch several times slower");
    } else if (oxdp_check_read_line("/proc/sys/net/core/bpf_jit_harden", line, sizeof line) && !strcmp(line, "2")) {
        oxdp_fact(OXDP_WARNING, OXDP_HOST, "jit", "sysctl -w net.core.bpf_jit_harden=1",
                  "bpf_jit_harden is 2: programs of root are blinded, too, which makes the switch slower");
    } else if (access("/proc/sys/net/core/bpf_jit_enable", F_OK)) {
        oxdp_fact(OXDP_OK, OXDP_HOST, "jit", NULL,
                  "only the host's first network namespace says whether the kernel compiles BPF programs "
                  "(net.core.bpf_jit_enable)");
    } else {
        oxdp_fact(OXDP_OK, OXDP_HOST, "jit", NULL, "the kernel compiles BPF programs");
    }
    if (oxdp_check_read_line("/proc/sys/kernel/unprivileged_bpf_disabled", line, sizeof line)) {
        oxdp_fact(OXDP_OK, OXDP_HOST, "unprivileged", NULL,
                  "unprivileged_bpf_disabled is %s; the switch's programs are loaded with privileges",
                  line);
    }
}

static void check_bpffs(void)
{
    static const char effect[] = "without it known flows stop when the daemon ends";
    struct statfs fs;

    if (statfs(BPFFS, &fs)) {
        oxdp_fact(OXDP_WARNING, OXDP_HOST, "bpffs", "mount sysfs at /sys, then bpffs: mount -t bpf bpf " BPFFS,
                  BPFFS " cannot be used (%s): %s", strerror(errno), effect);
    } else if ((unsigned long) fs.f_type != BPF_FS_MAGIC && oxdp_check_has_capability(CAP_SYS_ADMIN)) {
        oxdp_fact(OXDP_OK, OXDP_HOST, "bpffs", NULL, "not mounted; the daemon mounts it at " BPFFS);
    } else if ((unsigned long) fs.f_type != BPF_FS_MAGIC) {
        oxdp_fact(OXDP_WARNING, OXDP_HOST, "bpffs", "mount -t bpf bpf " BPFFS, "not mounted, and mounting it takes "
                  "CAP_SYS_ADMIN: %s", effect);
    } else if (fs.f_flags & ST_RDONLY) {
        oxdp_fact(OXDP_WARNING, OXDP_HOST, "bpffs", "mount -o remount,rw " BPFFS,
                  "mounted at " BPFFS ", but read-only: %s", effect);
    } else if (access(BPFFS, W_OK)) {
        oxdp_fact(OXDP_WARNING, OXDP_HOST, "bpffs", "let the user of the daemon write to " BPFFS ", or run it as root",
                  "mounted at " BPFFS ", but uid %u may not write there: %s", (unsigned int) geteuid(), effect);
    } else {
        oxdp_fact(OXDP_OK, OXDP_HOST, "bpffs", NULL, "mounted at " BPFFS ": known flows go on without the daemon");
    }
}

static void check_memory(void)
{
    char line[128];
    unsigned long long kb = 0;
    FILE *file = fopen("/proc/meminfo", "re");

    while (file && !kb && fgets(line, sizeof line, file)) {
        sscanf(line, "MemAvailable: %llu kB", &kb);
    }
    if (file) {
        fclose(file);
    }
    if (kb && kb / 1024 < WANTED_MB) {
        oxdp_fact(OXDP_WARNING, OXDP_HOST, "memory",
                  "free some, or make tables smaller: other_config:xdp-flows and xdp-umem-frames",
                  "%llu MB are available; the switch with its default settings wants %u MB", kb / 1024, WANTED_MB);
    } else if (kb) {
        oxdp_fact(OXDP_OK, OXDP_HOST, "memory", NULL,
                  "%llu MB are available; the switch with its default settings wants %u MB", kb / 1024, WANTED_MB);
    }
}

bool oxdp_check_read_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "re");
    bool read = file && fgets(line, size, file);

    if (file) {
        fclose(file);
    }
    if (read) {
        line[strcspn(line, "\n")] = '\0';
    }
    return read;
}

bool oxdp_check_is_plain(const char *name)
{
    for (; *name; name++) {
        if (!isalnum((unsigned char) *name) && !strchr("._-@", *name)) {
            return false;
        }
    }
    return true;
}
