/* SPDX-License-Identifier: Apache-2.0 */
/* Watches what the kernel drops (drops.bpf.c) and answers each line of input with what there was since the last one:
 * lines of count, kind, network namespace, reason, location and device, and an empty line.  Exit status 2: not possible
 * here, and the reason in words. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/system/drops.h"
#include "tests/system/drops.skel.h"

static void show(int fd)
{
    struct drop drop;
    unsigned long long n;

    while (!bpf_map_get_next_key(fd, NULL, &drop)) {
        if (!bpf_map_lookup_and_delete_elem(fd, &drop, &n)) {
            printf("%llu %u %u %u %llx %s\n", n, drop.kind, drop.netns, drop.reason, (unsigned long long) drop.location,
                   drop.device[0] ? drop.device : "-");
        }
    }
    printf("\n");
    fflush(stdout);
}

int main(void)
{
    struct drops_bpf *skel = drops_bpf__open_and_load();
    char line[16];

    if (!skel || drops_bpf__attach(skel)) {
        printf("the kernel does not let a program watch its tracepoints: %s\n", strerror(errno));
        return 2;
    }
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        show(bpf_map__fd(skel->maps.drops));
    }
    drops_bpf__destroy(skel);
    return 0;
}
