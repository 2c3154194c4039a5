/* SPDX-License-Identifier: Apache-2.0 */
/* ovs-vswitchd-xdp: Open vSwitch's ovs-vswitchd with the datapath type "xdp".
 *
 * vswitchd/ovs-vswitchd.c has main(), which the linker wraps; all options are
 * its own. */
#include <config.h>

#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ovs/provider/dpif_xdp.h"
#include "ovs/netdev/netdev_internal.h"
#include "ovs/netdev/netdev_xdp.h"

/* Bytes.  malloc() maps larger blocks, and unmaps them when they are freed.
 * Left alone it begins at half of it, and raises it by each such block that is
 * freed, to 32 MiB: libbpf's are megabytes, and those that follow would leave
 * holes of this size in the heap. */
#define LARGE_BLOCK (256 * 1024)

int __real_main(int argc, char *argv[]);
int __wrap_main(int argc, char *argv[]);

/* Whether 'argv' asks for the version: "-V" or "--version", before any "--".
 * (Abbreviations of "--version" print Open vSwitch's only.) */
static bool
wants_version(int argc, char *argv[])
{
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
        if (!strcmp(argv[i], "-V") || !strcmp(argv[i], "--version")) {
            return true;
        }
    }
    return false;
}

int
__wrap_main(int argc, char *argv[])
{
    /* The name decides that of the control socket, the pidfile and the log,
     * by which ovs-appctl and the init scripts find the daemon. */
    static char name[] = "ovs-vswitchd";

    if (wants_version(argc, argv)) {
        printf("ovs-vswitchd-xdp (OVS-XDP) %s\n", OXDP_VERSION);
        fflush(stdout);
    }
    argv[0] = name;
    mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK);
    dpif_xdp_netdev_register();
    dpif_xdp_internal_register();
    dpif_xdp_register();
    return __real_main(argc, argv);
}
