/* SPDX-License-Identifier: Apache-2.0 */
/* The datapath's code beside Open vSwitch's own: each function compares one frame and describes a difference. */
#ifndef TESTS_PARITY_ORACLE_H
#define TESTS_PARITY_ORACLE_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What came of a comparison. */
enum parity {
    PARITY_EQUAL,
    PARITY_BEYOND,              /* The datapath hands such frames over: nothing to compare. */
    PARITY_DIFFERENT,           /* Described on stderr. */
};

/* dp_parse() against flow_extract(): key, layer offsets and what the frame has. */
enum parity parity_parse(const uint8_t *frame, size_t len, unsigned int vlan_limit);

/* A flow made from one frame and a mask, compiled: does it match another frame when, and only when, Open vSwitch's
 * does?  'mask' gives the bytes of a struct flow's mask wherever either frame has something. */
enum parity parity_match(const uint8_t *frame, size_t len, const uint8_t *other, size_t other_len,
                         const uint8_t *mask, size_t mask_len);

/* For each byte of a struct flow that the frame fills, the flow that matches it: programs that have what the flow needs
 * parse that byte, and so do those without a group of keys that are given the flow. */
enum parity parity_parts(const uint8_t *frame, size_t len);

/* A flow with these datapath actions against odp_execute_actions(): the frame's bytes, its port, mark, priority and
 * dp_hash.  The frame goes through the whole pipeline. */
struct ofpbuf;
#define PARITY_IN_PORT 7
#define PARITY_TUNNEL_PORT 20   /* Of VXLAN; then Geneve, GRE. */
#define PARITY_N_TUNNELS 3
enum parity parity_actions(const uint8_t *frame, size_t len, const struct ofpbuf *actions);

/* What Open vSwitch makes of the frame by these actions, to 'made', 4,096 bytes.  Returns its length. */
size_t parity_theirs(const uint8_t *frame, size_t len, const struct ofpbuf *actions, uint8_t *made);

/* The flow that has these actions and matches the frame's Ethernet type, compiled for a program that can do everything.
 * Returns false if the engine would run it. */
struct dpif_xdp_compiled;
bool parity_compile(const uint8_t *frame, size_t len, const struct ofpbuf *actions, struct dpif_xdp_compiled *);

/* Turns any bytes into well-formed actions (netlink attributes appended to 'actions'); returns how many it used. */
size_t parity_make_actions(const uint8_t *data, size_t size, struct ofpbuf *actions);

/* Hex on stderr. */
void parity_dump(const char *what, const uint8_t *data, size_t len);

#endif /* tests/parity/oracle.h */
