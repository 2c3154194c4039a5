/* SPDX-License-Identifier: Apache-2.0 */
/* The callbacks of struct dpif_class for connection tracking and fragments. */
#ifndef DPIF_XDP_CT_DPIF_H
#define DPIF_XDP_CT_DPIF_H 1

#include "ct-dpif.h"
#include "dpif-provider.h"
#include "ovs/base/compat.h"

/* Each as the member of struct dpif_class with the same name. */
int dpif_xdp_ct_dump_start(struct dpif *, struct ct_dpif_dump_state **,
                           const uint16_t *zone, int *n_buckets);
int dpif_xdp_ct_dump_next(struct dpif *, struct ct_dpif_dump_state *,
                          struct ct_dpif_entry *);
int dpif_xdp_ct_dump_done(struct dpif *, struct ct_dpif_dump_state *);
#if OXDP_OVS >= 302
int dpif_xdp_ct_exp_dump_start(struct dpif *, struct ct_dpif_dump_state **,
                               const uint16_t *zone);
int dpif_xdp_ct_exp_dump_next(struct dpif *, struct ct_dpif_dump_state *,
                              struct ct_dpif_exp *);
int dpif_xdp_ct_exp_dump_done(struct dpif *, struct ct_dpif_dump_state *);
#endif
int dpif_xdp_ct_flush(struct dpif *, const uint16_t *zone,
                      const struct ct_dpif_tuple *);
int dpif_xdp_ct_set_maxconns(struct dpif *, uint32_t);
int dpif_xdp_ct_get_maxconns(struct dpif *, uint32_t *);
int dpif_xdp_ct_get_nconns(struct dpif *, uint32_t *);
#if OXDP_OVS >= 302
int dpif_xdp_ct_set_sweep_interval(struct dpif *, uint32_t ms);
int dpif_xdp_ct_get_sweep_interval(struct dpif *, uint32_t *ms);
#endif
int dpif_xdp_ct_set_tcp_seq_chk(struct dpif *, bool);
int dpif_xdp_ct_get_tcp_seq_chk(struct dpif *, bool *);
int dpif_xdp_ct_set_limits(struct dpif *
                           DPIF_XDP_DEFAULT_LIMIT(, const uint32_t *),
                           const struct ovs_list *zone_limits);
int dpif_xdp_ct_get_limits(struct dpif *DPIF_XDP_DEFAULT_LIMIT(, uint32_t *),
                           const struct ovs_list *request,
                           struct ovs_list *reply);
int dpif_xdp_ct_del_limits(struct dpif *, const struct ovs_list *);
int dpif_xdp_ct_set_timeout_policy(struct dpif *,
                                   const struct ct_dpif_timeout_policy *);
int dpif_xdp_ct_get_timeout_policy(struct dpif *, uint32_t id,
                                   struct ct_dpif_timeout_policy *);
int dpif_xdp_ct_del_timeout_policy(struct dpif *, uint32_t id);
int dpif_xdp_ct_get_timeout_policy_name(struct dpif *, uint32_t id,
                                        uint16_t dl_type, uint8_t nw_proto,
                                        char **name, bool *is_generic);
int dpif_xdp_ct_get_features(struct dpif *, enum ct_features *);
int dpif_xdp_ipf_set_enabled(struct dpif *, bool v6, bool enabled);
int dpif_xdp_ipf_set_min_frag(struct dpif *, bool v6, uint32_t bytes);
int dpif_xdp_ipf_set_max_nfrags(struct dpif *, uint32_t);
int dpif_xdp_ipf_get_status(struct dpif *, struct dpif_ipf_status *);
int dpif_xdp_ipf_dump_start(struct dpif *, struct ipf_dump_ctx **);
int dpif_xdp_ipf_dump_next(struct dpif *, void *, char **);
int dpif_xdp_ipf_dump_done(struct dpif *, void *);

#endif /* ovs/provider/ct_dpif.h */
