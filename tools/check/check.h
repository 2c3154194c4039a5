/* SPDX-License-Identifier: Apache-2.0 */
/* The questions of ovs-xdp-check.  Each function adds facts (tools/check/fact.h) and changes nothing on this
 * machine. */
#ifndef TOOLS_CHECK_H
#define TOOLS_CHECK_H 1

#include <stdbool.h>
#include <stddef.h>

/* The kernel's settings, privileges of this process, bpffs, memory. */
void oxdp_check_host(void);

/* What the kernel lets us do, by doing it: in a child process and a network namespace that end with it. */
void oxdp_check_probe(void);

/* Open vSwitch as it is installed and runs here. */
void oxdp_check_switch(void);

/* Device 'ifname' as a port. */
void oxdp_check_device(const char *ifname);

/* All devices of this network namespace but loopback. */
void oxdp_check_all_devices(void);

/* If device 'ifname' has addresses, the command that moves them, and routes with a gateway, to the internal port of a
 * bridge.  How many addresses; 'names' are those, with commas between them. */
unsigned int oxdp_check_addresses(const char *ifname, char *names, size_t names_size, char *command,
                                  size_t command_size);

/* Whether this process has the capability, one of CAP_*. */
bool oxdp_check_has_capability(int capability);

/* The first line of file 'path' without its end.  False if there is none. */
bool oxdp_check_read_line(const char *path, char *line, size_t size);

/* Whether 'name' can stand in a shell command as it is. */
bool oxdp_check_is_plain(const char *name);

#endif /* tools/check/check.h */
