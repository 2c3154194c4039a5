/* SPDX-License-Identifier: Apache-2.0 */
#include "core/privilege.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The capabilities that loading programs needs. */
static const struct {
    int capability;
    const char *name;
} needed[] = {
    { CAP_BPF, "CAP_BPF" },
    { CAP_NET_ADMIN, "CAP_NET_ADMIN" },
    { CAP_PERFMON, "CAP_PERFMON" },
};
#define N_NEEDED (sizeof needed / sizeof needed[0])

bool oxdp_privilege_has(int capability)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    uint64_t effective;

    if (syscall(SYS_capget, &header, data)) {
        return false;
    }
    effective = data[0].effective | (uint64_t) data[1].effective << 32;
    if ((capability == CAP_BPF || capability == CAP_PERFMON) && effective >> CAP_SYS_ADMIN & 1) {
        return true;
    }
    return effective >> capability & 1;
}

bool oxdp_privilege_lacks(int err)
{
    return err == -EPERM || ((err == -EACCES || err == -E2BIG || err == -EFAULT) && !oxdp_privilege_has(CAP_PERFMON));
}

/* Whether a seccomp filter judges this thread's system calls: prctl(2), PR_GET_SECCOMP. */
static bool is_filtered(void)
{
    return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) > 0;
}

const char *oxdp_privilege_advice(char text[OXDP_PRIVILEGE_ADVICE])
{
    char missing[64];
    size_t len = 0;

    for (size_t i = 0; i < N_NEEDED; i++) {
        if (!oxdp_privilege_has(needed[i].capability)) {
            len += snprintf(missing + len, sizeof missing - len, "%s%s", len ? ", " : "", needed[i].name);
        }
    }
    if (len) {
        snprintf(text, OXDP_PRIVILEGE_ADVICE,
                 "run as root, or with CAP_BPF and CAP_NET_ADMIN and CAP_PERFMON (this process lacks %s)",
                 missing);
    } else {
        snprintf(text, OXDP_PRIVILEGE_ADVICE,
                 "this process has the capabilities for it, so something else forbids it: %sa user namespace, lockdown "
                 "(\"cat /sys/kernel/security/lockdown\") or a security module",
                 is_filtered() ? "its seccomp filter (in a container: use a profile that allows bpf, or none), " : "");
    }
    return text;
}
