/* SPDX-License-Identifier: Apache-2.0 */
/* A network namespace of the test's own, gone with its process, and the few things that tests do in it. */
#ifndef TESTS_BPF_SANDBOX_H
#define TESTS_BPF_SANDBOX_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Moves the process into a new network namespace; exits with 77 (skipped) and says why if that is not
 * allowed. */
void sandbox_enter(void);

/* Runs a shell command made like printf; fails the test if the command fails. */
void sandbox_run(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* An AF_PACKET socket on 'ifname' that sees and sends whole frames. */
int sandbox_packet_socket(const char *ifname);

/* Waits until 'fd' is readable, at most 'ms'; false if it is not. */
bool sandbox_wait(int fd, int ms);

/* Milliseconds of CLOCK_MONOTONIC. */
int64_t sandbox_now(void);

/* Fills 'frame' with a broadcast frame of experimental Ethernet type 0x88b5 whose payload follows from
 * 'tag'. */
void sandbox_make_frame(uint8_t *frame, size_t len, uint32_t tag);

#endif /* tests/bpf/sandbox.h */
