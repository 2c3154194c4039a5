/* SPDX-License-Identifier: Apache-2.0 */
/* tcpdump as a child: it translates filters, captures what packet sockets see, and prints. */
#ifndef OXDP_TOOLS_TCPDUMP_H
#define OXDP_TOOLS_TCPDUMP_H 1

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Packets that are read from a child in part, at most. */
#define OXDP_PCAP_ROOM (1 << 20)

/* As pcap has it, each with a time in ns. */
struct oxdp_pcap_packet {
    uint32_t seconds, nanoseconds;
    uint32_t captured, length;          /* Bytes that are here, and that the packet has. */
};

struct oxdp_child {
    pid_t pid;                          /* 0: none runs. */
    int fd;                             /* Of its standard input or output. */
    bool begun;                         /* The file header was read. */
    size_t n;
    uint8_t *room;                      /* OXDP_PCAP_ROOM bytes. */
};

/* Translates 'expression' for Ethernet frames; '*ret_filter' is malloc'd.  Returns the number of its instructions; or
 * -1, and tcpdump or this has said why on standard error. */
int oxdp_tcpdump_compile(const char *expression, struct sock_filter **ret_filter);

/* Starts one that captures what packet sockets of 'device' see in 'direction' ("in" ...).  0 or a negative errno. */
int oxdp_tcpdump_capture(const char *device, const char *direction, uint32_t snaplen, const char *expression,
                         struct oxdp_child *ret_child);

/* Starts one that prints what is written to it, with the options of 'flags', up to a NULL. */
int oxdp_tcpdump_print(char *const flags[], struct oxdp_child *ret_child);

/* Reads what 'child' captured, without waiting, and calls 'each'.  False if it has ended. */
bool oxdp_child_read(struct oxdp_child *child,
                     void (*each)(const struct oxdp_pcap_packet *, const void *data, void *aux), void *aux);

/* Closes the pipe, sends 'signal' if that is not 0, and waits for the end. */
void oxdp_child_end(struct oxdp_child *child, int signal);

/* The header of a file, and a packet.  False if writing fails. */
bool oxdp_pcap_begin(FILE *file, uint32_t snaplen);
bool oxdp_pcap_write(FILE *file, const struct oxdp_pcap_packet *, const void *data);

#endif /* tools/capture/tcpdump.h */
