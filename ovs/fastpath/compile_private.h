/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of ovs/fastpath/compile.h share. */
#ifndef DPIF_XDP_COMPILE_PRIVATE_H
#define DPIF_XDP_COMPILE_PRIVATE_H 1

#include "ovs/fastpath/compile.h"

/* Translates a match; see dpif_xdp_compile().  On failure '*key' and '*mask'
 * are undefined. */
enum dpif_xdp_compile_reason dpif_xdp_compile_match(
    const struct flow *, const struct flow_wildcards *,
    struct dpif_xdp_compiled_mask *last, const struct dp_capability *,
    union dp_key *key, union dp_key *mask);

/* Translates actions into fate and operations; on failure the fate is
 * DP_FATE_ENGINE with no operations. */
enum dpif_xdp_compile_reason dpif_xdp_compile_actions(
    const struct nlattr *actions, size_t actions_len,
    const struct dp_capability *, struct dpif_xdp_compiled *);

#endif /* ovs/fastpath/compile_private.h */
