/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a datapath: Open_vSwitch:other_config, and the sizes of caches
 * that dpctl sets. */
#include <config.h>

#include "ovs/provider/provider_private.h"

#include <errno.h>

#include "core/xsk/umem.h"
#include "ovs/netdev/netdev_xdp.h"
#include "openvswitch/vlog.h"
#include "smap.h"
#include "ovs/datapath/datapath.h"
#include "ovs/engine/engine.h"
#include "ovs/ports/ports.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_config);

#define MIN_FRAMES 256
#define MAX_FRAMES (1u << 20)
#define MAX_FAST_FLOWS (1u << 21)   /* Of 192 bytes, in 512 MB: core/tables/memory.h. */

static void set_sizes(struct dpif_xdp_dp *, const struct smap *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
static void set_hook(struct dpif_xdp_dp *, const struct smap *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
static void set_obj(struct dpif_xdp_dp *, const struct smap *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* Open_vSwitch:other_config. */
int
dpif_xdp_set_config(struct dpif *dpif, const struct smap *other_config)
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);

    dpif_xdp_port_lock(dp);
    set_sizes(dp, other_config);
    set_hook(dp, other_config);
    set_obj(dp, other_config);
    dpif_xdp_threads_set_cpu_mask(dp, smap_get(other_config,
                                               "pmd-cpu-mask"));
    dpif_xdp_port_unlock(dp);
    return 0;
}

static void
set_sizes(struct dpif_xdp_dp *dp, const struct smap *other_config)
{
    unsigned int n_frames = smap_get_uint(other_config, "xdp-umem-frames",
                                          DPIF_XDP_DEFAULT_FRAMES);
    unsigned int n_flows = smap_get_uint(other_config, "xdp-flows",
                                         DPIF_XDP_DEFAULT_FAST_FLOWS);

    n_frames = MIN(MAX(n_frames, MIN_FRAMES), MAX_FRAMES);
    n_flows = MIN(n_flows, MAX_FAST_FLOWS);
    if (!smap_get_bool(other_config, "xdp-offload", true)) {
        n_flows = 0;
    }
    if (!dpif_xdp_ports_set_sizes(dp, n_frames, n_flows)) {
        VLOG_INFO("%s: xdp-umem-frames, xdp-flows and xdp-offload take effect "
                  "when the datapath is created anew", dp->name);
    }
}

static void
set_hook(struct dpif_xdp_dp *dp, const struct smap *other_config)
{
    const char *name = smap_get_def(other_config, "xdp-hook", "auto");
    enum dpif_xdp_hook hook = DPIF_XDP_HOOK_AUTO;

    if (!dpif_xdp_hook_from_string(name, &hook)) {
        VLOG_WARN("%s: other_config:xdp-hook=%s: unsupported value, expected "
                  "auto, xdp, tcx or both", dp->name, name);
    }
    dpif_xdp_ports_set_hook(dp, hook);
}

static void
set_obj(struct dpif_xdp_dp *dp, const struct smap *other_config)
{
    const char *obj = smap_get(other_config, "xdp-obj");

    if (obj && !dpif_xdp_obj_is_valid(obj)) {
        VLOG_WARN("%s: other_config:xdp-obj=%s: unsupported value, expected "
                  "the absolute path of a BPF object, or builtin", dp->name,
                  obj);
        obj = NULL;
    }
    dpif_xdp_ports_set_obj(dp, obj);
}

/* Caches: one, the signature cache of each engine thread. */
int
dpif_xdp_cache_get_supported_levels(struct dpif *dpif OVS_UNUSED,
                                    uint32_t *levels)
{
    *levels = 1;
    return 0;
}

int
dpif_xdp_cache_get_name(struct dpif *dpif OVS_UNUSED, uint32_t level,
                        const char **name)
{
    if (level) {
        return EINVAL;
    }
    *name = "signature-cache";
    return 0;
}

int
dpif_xdp_cache_get_size(struct dpif *dpif, uint32_t level, uint32_t *size)
{
    const struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);

    if (level) {
        return EINVAL;
    }
    dpif_xdp_port_lock(dp);
    *size = dpif_xdp_threads_cache_size(dp);
    dpif_xdp_port_unlock(dp);
    return 0;
}

int
dpif_xdp_cache_set_size(struct dpif *dpif, uint32_t level, uint32_t size)
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);

    if (level || !size || size > (1u << 24) || !is_pow2(size)) {
        return EINVAL;
    }
    dpif_xdp_port_lock(dp);
    dpif_xdp_threads_set_cache_size(dp, size);
    dpif_xdp_port_unlock(dp);
    return 0;
}
