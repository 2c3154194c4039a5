/* SPDX-License-Identifier: Apache-2.0 */
/* Connection tracking: the action. */
#ifndef DPIF_XDP_CT_H
#define DPIF_XDP_CT_H 1

struct conntrack;
struct dp_packet_batch;
struct flow;
struct nlattr;

/* Passes 'batch', IP packets of 'flow', through connection tracking as the
 * OVS_ACTION_ATTR_CT attribute 'ct' says.  'now_ms' is monotonic. */
void dpif_xdp_ct_execute(struct conntrack *, struct dp_packet_batch *,
                         const struct nlattr *ct, const struct flow *,
                         long long int now_ms);

#endif /* ovs/state/ct.h */
