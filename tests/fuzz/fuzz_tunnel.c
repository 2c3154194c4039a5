/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer: a frame that Open vSwitch has put into a tunnel, whose headers then lie, is popped as Open vSwitch does it.
 *
 * Input: a byte that says which tunnel's port pops it; how many lies; how much of the frame's end is missing; the lies,
 * of two bytes each: where, and which bits; HEADER bytes of the header (tests/parity/make_actions.c, make_push()); the
 * rest is the frame inside. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "netlink.h"
#include "odp-netlink.h"
#include "openvswitch/ofpbuf.h"
#include "tests/fuzz/fuzz.h"
#include "tests/parity/oracle.h"

#define MAX_LIES 8
#define HEADER 128

/* The frame 'inner' in a tunnel that 'header' describes.  Returns its length. */
static size_t push(const uint8_t header[HEADER], const uint8_t *inner, size_t len, uint8_t frame[4096])
{
    uint8_t input[2 + HEADER] = { 0, 0x31 };    /* No other actions; push, output. */
    struct ofpbuf actions;

    memcpy(input + 2, header, HEADER);
    ofpbuf_init(&actions, 0);
    parity_make_actions(input, sizeof input, &actions);
    len = parity_theirs(inner, len, &actions, frame);
    ofpbuf_uninit(&actions);
    return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ofpbuf actions;
    uint8_t frame[4096];
    size_t n_lies = size > 1 ? data[1] % MAX_LIES : 0;
    size_t used = 3 + 2 * n_lies + HEADER;
    size_t len;

    if (size <= used + 1 || size > 2048) {
        return 0;
    }
    len = push(data + 3 + 2 * n_lies, data + used, size - used, frame);
    for (size_t i = 0; i < n_lies; i++) {
        frame[data[3 + 2 * i] % len] ^= data[4 + 2 * i];
    }
    len -= data[2] % len;
    ofpbuf_init(&actions, 0);
    nl_msg_put_u32(&actions, OVS_ACTION_ATTR_TUNNEL_POP, PARITY_TUNNEL_PORT + data[0] % PARITY_N_TUNNELS);
    if (parity_actions(frame, len, &actions) == PARITY_DIFFERENT) {
        abort();
    }
    ofpbuf_uninit(&actions);
    return 0;
}
