/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the provider's class. */
#ifndef DPIF_XDP_PROVIDER_PRIVATE_H
#define DPIF_XDP_PROVIDER_PRIVATE_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dpif-provider.h"
#include "ovs/base/compat.h"
#include "ovs/base/locks.h"
#include "unixctl.h"

struct dpif_op;
struct dpif_xdp_dp;
struct json;
struct ovsrec_open_vswitch;
struct smap;

/* operate.c, as the member of struct dpif_class. */
void dpif_xdp_operate(struct dpif *, struct dpif_op **, size_t n_ops
                      DPIF_XDP_OFFLOAD_TYPE(, enum dpif_offload_type));

/* config.c, as the members of struct dpif_class. */
int dpif_xdp_set_config(struct dpif *, const struct smap *other_config);
int dpif_xdp_cache_get_supported_levels(struct dpif *, uint32_t *levels);
int dpif_xdp_cache_get_name(struct dpif *, uint32_t level, const char **name);
int dpif_xdp_cache_get_size(struct dpif *, uint32_t level, uint32_t *size);
int dpif_xdp_cache_set_size(struct dpif *, uint32_t level, uint32_t size);

/* config.c: prepare and free what it has in 'dp'. */
void dpif_xdp_config_init(struct dpif_xdp_dp *);
void dpif_xdp_config_destroy(struct dpif_xdp_dp *);

/* config.c: puts "warnings" into 'report': what is wrong with the settings. */
void dpif_xdp_config_report(const struct dpif_xdp_dp *, struct json *report)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* leave.c: whether the daemon ends and its flows stay.  Then
 * dpif_xdp_leaving_operate() does what the operation asks for as far as it
 * leaves the flow as it is, and returns whether that was all. */
bool dpif_xdp_is_leaving(void);
bool dpif_xdp_leaving_operate(struct dpif *, struct dpif_op *);

/* leave.c: takes the command 'name', if that ends the daemon, in the place of
 * '*cb'. */
void dpif_xdp_leave_take(const char *name, unixctl_cb_func **cb);

/* detrace.c: takes the command 'name', if that is "ofproto/detrace", in the
 * place of '*cb'. */
void dpif_xdp_detrace_take(const char *name, unixctl_cb_func **cb);

/* version.c: writes OVS-XDP's version into 'row', in the transaction that is
 * open; takes it away again, in one of its own. */
void dpif_xdp_version_tell(const struct ovsrec_open_vswitch *row);
void dpif_xdp_version_forget(void);

/* appctl.c: registers the commands xdp/... */
void dpif_xdp_appctl_init(void);

#endif /* ovs/provider/provider_private.h */
