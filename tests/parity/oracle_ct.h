/* SPDX-License-Identifier: Apache-2.0 */
/* Two trackers, ours and Open vSwitch's lib/conntrack, to which the same happens; each step compares them. */
#ifndef TESTS_PARITY_ORACLE_CT_H
#define TESTS_PARITY_ORACLE_CT_H 1

#include "tests/parity/oracle.h"

/* Where the choices of a conversation come from: bytes, or if 'data' is NULL a number that is not 0. */
struct ct_choices {
    const uint8_t *data;
    size_t left;
    uint64_t random;
    unsigned long packets;      /* That were sent. */
};

/* A conversation.  PARITY_BEYOND: it was left early, see oracle_ct.c.  'loses': our compare-and-swaps fail now and
 * then. */
enum parity parity_ct(struct ct_choices *, bool loses);

/* A ct() action, in Open vSwitch's words. */
struct ct_step {
    uint16_t zone;
    bool commit, force, nat;
    uint16_t nat_action;        /* NAT_ACTION_* of lib/conntrack.h. */
    uint8_t min_addr[16], max_addr[16];
    uint16_t min_port, max_port;
    bool set_mark, set_label;
    uint32_t mark[2];           /* Value and mask. */
    uint8_t label[2][16];
    uint32_t policy;            /* 0 to 2. */
};

/* Both forget everything. */
void ct_oracle_begin(bool loses);

/* The limit of a zone (-1: of the others together), of all connections, and whether sequence numbers are checked. */
void ct_oracle_limit_zone(int zone, uint32_t limit);
void ct_oracle_limit(uint32_t maxconns);
void ct_oracle_check_sequence(bool);

/* Time passes; perhaps both take away what has expired.  Returns false if they differ then. */
bool ct_oracle_wait(uint64_t ms, bool sweep);

/* Both flush one zone (-1: all). */
void ct_oracle_flush(int zone);

/* A packet, to which steps happen then.  Returns whether Open vSwitch found an IP packet in it. */
bool ct_oracle_packet(const uint8_t *frame, size_t len);

/* PARITY_BEYOND: the two are known to differ from here on: begin anew. */
enum parity ct_oracle_step(const struct ct_step *);

/* ct_clear; and another action that changes an address, the destination if 'dst'. */
void ct_oracle_clear(void);
void ct_oracle_set_address(bool dst, const uint8_t addr[16]);

/* The packet as it is now.  Valid until the next one. */
const uint8_t *ct_oracle_frame(size_t *len);

/* How many comparisons were not made because of what Open vSwitch 3.1 does: see oracle_ct.c. */
struct ct_oracle_left {
    unsigned long corpses, quotes, twins, full, asserted;
    unsigned long states[256];  /* Steps that ended in each ct_state. */
};
extern struct ct_oracle_left ct_oracle_left;

#endif /* tests/parity/oracle_ct.h */
