/* SPDX-License-Identifier: Apache-2.0 */
/* Open vSwitch as it is on this machine: files, processes, the kernel's module, the database. */
#include "tools/check/check.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/check/fact.h"

static void check_installed(void);
static void check_module(void);
static void check_processes(void);
static void check_user(void);
static void check_bridges(void);

void oxdp_check_switch(void)
{
    check_installed();
    check_module();
    check_processes();
    check_user();
    check_bridges();
}

/* The first line that 'command' prints, which may take 5 seconds. */
static bool ask(const char *command, char *line, size_t size)
{
    FILE *pipe = popen(command, "re");
    bool said = pipe && fgets(line, size, pipe);

    if (pipe) {
        pclose(pipe);
    }
    if (said) {
        line[strcspn(line, "\n")] = '\0';
    }
    return said;
}

static void check_installed(void)
{
    static const char *const daemons[] = {
        "/usr/sbin/ovs-vswitchd", "/usr/local/sbin/ovs-vswitchd", "/usr/lib/openvswitch-switch/ovs-vswitchd",
        "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk", "/usr/lib/openvswitch-switch-xdp/ovs-vswitchd-xdp",
        "/usr/sbin/ovs-vswitchd-xdp", "/usr/local/sbin/ovs-vswitchd-xdp",
    };
    char command[128], line[160], real[PATH_MAX];
    bool any = false;

    for (size_t i = 0; i < sizeof daemons / sizeof daemons[0]; i++) {
        snprintf(command, sizeof command, "timeout 5 %s --version 2> /dev/null", daemons[i]);
        if (!access(daemons[i], X_OK) && realpath(daemons[i], real) && ask(command, line, sizeof line)) {
            any = true;
            oxdp_fact(OXDP_OK, OXDP_HOST, "installed", NULL, "%s%s%s: %s", daemons[i],
                      strcmp(real, daemons[i]) ? " is " : "", strcmp(real, daemons[i]) ? real : "", line);
        }
    }
    if (!any) {
        oxdp_fact(OXDP_WARNING, OXDP_HOST, "installed", "apt-get install openvswitch-switch",
                  "no Open vSwitch is installed: its database and tools are needed besides OVS-XDP's daemon");
    }
}

static void check_module(void)
{
    if (access("/sys/module/openvswitch", F_OK)) {
        oxdp_fact(OXDP_OK, OXDP_HOST, "module", NULL, "openvswitch.ko is not loaded, and not needed");
    } else {
        oxdp_fact(OXDP_OK, OXDP_HOST, "module", NULL,
                  "openvswitch.ko is loaded: bridges with datapath_type=system use it, those with datapath_type=xdp do "
                  "not");
    }
}

/* Whether the process is in this network namespace, too. */
static bool is_here(const char *pid)
{
    struct stat ours, theirs;
    char path[64];

    snprintf(path, sizeof path, "/proc/%.16s/ns/net", pid);
    return !stat(path, &theirs) && !stat("/proc/self/ns/net", &ours) && ours.st_ino == theirs.st_ino;
}

static void check_processes(void)
{
    char path[64], exe[PATH_MAX];
    DIR *proc = opendir("/proc");

    for (const struct dirent *entry; proc && (entry = readdir(proc)); ) {
        const char *name;
        ssize_t n;

        snprintf(path, sizeof path, "/proc/%.16s/exe", entry->d_name);
        n = isdigit((unsigned char) entry->d_name[0]) ? readlink(path, exe, sizeof exe - 1) : -1;
        if (n < 0) {
            continue;
        }
        exe[n] = '\0';
        name = strrchr(exe, '/');
        if (name && !strncmp(name + 1, "ovs-vswitchd", strlen("ovs-vswitchd")) && is_here(entry->d_name)) {
            bool xdp = !strncmp(name + 1, "ovs-vswitchd-xdp", strlen("ovs-vswitchd-xdp"));

            oxdp_fact(OXDP_OK, OXDP_HOST, "daemon", NULL, "%s runs in this network namespace (pid %s)%s", exe,
                      entry->d_name,
                      xdp ? ": it is OVS-XDP, and a second one is refused" : ", without datapath type xdp");
        }
    }
    if (proc) {
        closedir(proc);
    }
}

/* Open vSwitch's --user leaves the daemon without CAP_BPF. */
static void check_user(void)
{
    static const char *const files[] = {
        "/etc/default/openvswitch-switch", "/etc/sysconfig/openvswitch", "/etc/openvswitch/default.conf",
    };
    char line[512];

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        FILE *file = fopen(files[i], "re");

        while (file && fgets(line, sizeof line, file)) {
            const char *word = strstr(line, "--ovs-user=") ? strstr(line, "--ovs-user=") : strstr(line, "OVS_USER_ID=");

            if (word && line[strspn(line, " \t")] != '#' && !strstr(word, "=root") && !strstr(word, "=\"root")
                && !strstr(word, "=\"\"")) {
                oxdp_fact(OXDP_REFUSED, OXDP_HOST, "user",
                          "remove it there, and run the daemon as root or with the capabilities above from its unit",
                          "%s sets the user of the daemon (%.*s): Open vSwitch then drops CAP_BPF, and no program "
                          "loads",
                          files[i], (int) strcspn(word, " \t\n"), word);
            }
        }
        if (file) {
            fclose(file);
        }
    }
}

static void check_bridges(void)
{
    static const char command[] = "timeout 5 ovs-vsctl --timeout=4 --verbose=off --format=csv --no-headings "
        "--columns=name,datapath_type list bridge 2> /dev/null";
    FILE *bridges = popen(command, "re");
    char line[256], todo[sizeof line + 64];
    unsigned int n = 0;

    while (bridges && fgets(line, sizeof line, bridges)) {
        char *type = strchr(line, ',');

        line[strcspn(line, "\n")] = '\0';
        if (!type) {
            continue;
        }
        *type++ = '\0';
        type = strspn(type, "\"") == strlen(type) ? "system" : type;
        todo[0] = '\0';
        if (strcmp(type, "xdp") && oxdp_check_is_plain(line)) {
            snprintf(todo, sizeof todo, "ovs-vsctl set bridge %s datapath_type=xdp moves it to OVS-XDP", line);
        }
        oxdp_fact(OXDP_OK, OXDP_HOST, "bridge", todo, "%s has datapath_type=%s", line, type);
        n++;
    }
    if (bridges && pclose(bridges)) {
        oxdp_fact(OXDP_OK, OXDP_HOST, "bridge", NULL, "no database of Open vSwitch answers");
    } else if (!n) {
        oxdp_fact(OXDP_OK, OXDP_HOST, "bridge", NULL, "the database has no bridge");
    }
}
