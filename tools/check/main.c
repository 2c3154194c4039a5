/* SPDX-License-Identifier: Apache-2.0 */
/* ovs-xdp-check: tells what OVS-XDP can do on this host, and what it would refuse and why, before anything is installed
 * or changed. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/check/check.h"
#include "tools/check/fact.h"

enum { EXIT_REFUSED = 1, EXIT_USAGE = 2 };

static void usage(FILE *stream)
{
    fputs("usage: ovs-xdp-check [--json] [--all | DEVICE...]\n"
          "Tells what OVS-XDP can do on this host, and with DEVICE as a port of a switch.  Changes nothing.\n"
          "  --all      check all devices of this network namespace\n"
          "  --json     print the facts as JSON\n"
          "  --version  print the version\n"
          "Exit status: 0 nothing would be refused, 1 something would be, 2 usage.\n", stream);
}

int main(int argc, char *argv[])
{
    static const struct option options[] = {
        { "all", no_argument, NULL, 'a' },
        { "json", no_argument, NULL, 'j' },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { NULL, 0, NULL, 0 },
    };
    bool json = false, all = false;
    int option;

    while ((option = getopt_long(argc, argv, "ajhV", options, NULL)) != -1) {
        switch (option) {
        case 'a':
            all = true;
            break;
        case 'j':
            json = true;
            break;
        case 'h':
            usage(stdout);
            return EXIT_SUCCESS;
        case 'V':
            puts("ovs-xdp-check (OVS-XDP) " OXDP_VERSION);
            return EXIT_SUCCESS;
        default:
            usage(stderr);
            return EXIT_USAGE;
        }
    }
    if (all && optind < argc) {
        fputs("ovs-xdp-check: --all and names of devices exclude each other\n", stderr);
        return EXIT_USAGE;
    }

    oxdp_check_host();
    oxdp_check_probe();
    oxdp_check_switch();
    if (all) {
        oxdp_check_all_devices();
    }
    for (int i = optind; i < argc; i++) {
        oxdp_check_device(argv[i]);
    }
    if (!all && optind == argc) {
        oxdp_fact(OXDP_OK, OXDP_HOST, "devices", NULL,
                  "no device was named: \"ovs-xdp-check DEVICE...\" tells what it would be as a port, --all tells it "
                  "of all");
    }
    return oxdp_facts_print(json) ? EXIT_REFUSED : EXIT_SUCCESS;
}
