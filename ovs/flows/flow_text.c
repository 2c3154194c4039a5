/* SPDX-License-Identifier: Apache-2.0 */
/* Flows as text, as dpctl/dump-flows prints them. */
#include <config.h>

#include "ovs/flows/flows.h"

#include "dpif.h"
#include "odp-util.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/ofpbuf.h"
#include "ovs/base/compat.h"

void
dpif_xdp_flow_to_text(const struct dpif_xdp_dp *dp,
                      const struct dpif_xdp_flow *flow, struct ds *match,
                      struct ds *actions)
{
    struct odputil_keybuf key_stub, mask_stub;
    struct ofpbuf key, mask;
    struct dpif_flow text;

    ofpbuf_use_stack(&key, &key_stub, sizeof key_stub);
    ofpbuf_use_stack(&mask, &mask_stub, sizeof mask_stub);
    dpif_xdp_flow_format(dp, flow, &key, &mask, &text, false);
    odp_flow_format(text.key, text.key_len, text.mask, text.mask_len, NULL,
                    match, false);
    format_odp_actions(actions, text.actions, text.actions_len, NULL);
}
