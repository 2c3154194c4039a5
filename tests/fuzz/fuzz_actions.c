/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer: a flow's program must do to every frame what Open vSwitch's odp_execute_actions() does.
 *
 * Input: bytes that make actions (tests/parity/make_actions.c); the rest is the frame. */
#include <config.h>

#include <stdlib.h>

#include "openvswitch/ofpbuf.h"
#include "tests/fuzz/fuzz.h"
#include "tests/parity/oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ofpbuf actions;
    size_t used;

    ofpbuf_init(&actions, 0);
    used = parity_make_actions(data, size, &actions);
    if (size > used && parity_actions(data + used, size - used, &actions) == PARITY_DIFFERENT) {
        abort();
    }
    ofpbuf_uninit(&actions);
    return 0;
}
