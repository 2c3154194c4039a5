/* SPDX-License-Identifier: Apache-2.0 */
/* The action ct() in the terms of dp/ct.h.  Include dp/seam_native.h first. */
#ifndef DPIF_XDP_CT_PARSE_H
#define DPIF_XDP_CT_PARSE_H 1

#include <stdbool.h>
#include <stdint.h>

#include "dp/ct.h"

struct nlattr;

/* An OVS_ACTION_ATTR_CT attribute, understood. */
struct dpif_xdp_ct_action {
    struct dp_ct_action dp;             /* Its flags but those of checksums,
                                         * and without its policy. */
    bool nat_configured;                /* NAT with a direction. */
    const char *helper;                 /* NULL: none. */
    uint32_t timeout_policy;            /* Open vSwitch's number. */
};

/* 'v6': of flows that match IPv6, else IPv4. */
void dpif_xdp_ct_parse(const struct nlattr *, bool v6,
                       struct dpif_xdp_ct_action *);

#endif /* ovs/state/ct_parse.h */
