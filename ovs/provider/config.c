/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a datapath: Open_vSwitch:other_config, and the sizes of caches
 * that dpctl sets. */
#include <config.h>

#include "ovs/provider/provider_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/ct/ct.h"
#include "core/xsk/umem.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/json.h"
#include "openvswitch/vlog.h"
#include "ovs-numa.h"
#include "ovs/base/report.h"
#include "ovs/datapath/datapath.h"
#include "ovs/engine/engine.h"
#include "ovs/netdev/netdev_xdp.h"
#include "ovs/netdev/spelling.h"
#include "ovs/ports/ports.h"
#include "ovs/state/ct.h"
#include "smap.h"
#include "sset.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_config);

#define MIN_FRAMES 256
#define MAX_FRAMES (1u << 20)

/* Of 192 bytes, in 512 MB: core/tables/memory.h. */
#define MAX_FAST_FLOWS (1u << 21)

/* The keys of Open_vSwitch:other_config that are for this datapath alone. */
static const char *const keys[] = {
    "xdp-ct-max", "xdp-datapath-types", "xdp-flows", "xdp-hook", "xdp-obj",
    "xdp-offload", "xdp-umem-frames",
};

/* A configuration while it is read. */
struct reading {
    const struct smap *config;
    struct sset warnings;               /* What is wrong with it. */
    struct sset later;                  /* What takes effect later. */
};

static void OVS_PRINTF_FORMAT(2, 3)
complain(struct reading *reading, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    sset_add_and_free(&reading->warnings, xvasprintf(format, args));
    va_end(args);
}

/* The number that is set as 'key', within limits: 'max' for a larger number,
 * 'min' for a smaller one, the default for a negative one or for other text.
 * 'fixed' is used instead until the daemon starts anew, unless it is 0. */
static uint32_t
get_number(struct reading *reading, const char *key, uint32_t min,
           uint32_t max, uint32_t default_value, uint32_t fixed)
{
    const char *text = smap_get(reading->config, key);
    uint32_t used = default_value;
    char *end;

    if (text) {
        long long int n;

        errno = 0;
        n = strtoll(text, &end, 10);
        if (end != text && !*end && n >= 0) {
            used = MAX(MIN(n, max), min);
        }
        if (end == text || *end || errno || used != n) {
            char *then = (!fixed || fixed == used ? xstrdup("")
                          : xasprintf(" until the daemon starts anew, then "
                                      "%"PRIu32, used));

            complain(reading, "other_config:%s=%s: allowed are numbers from "
                     "%"PRIu32" to %"PRIu32", %"PRIu32" is used%s", key, text,
                     min, max, fixed ? fixed : used, then);
            free(then);
        }
    }
    return used;
}

static void
set_sizes(struct dpif_xdp_dp *dp, struct reading *reading)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const char *offload = smap_get(reading->config, "xdp-offload");
    uint32_t n_frames = get_number(reading, "xdp-umem-frames", MIN_FRAMES,
                                   MAX_FRAMES, DPIF_XDP_DEFAULT_FRAMES, 0);
    uint32_t n_flows = get_number(reading, "xdp-flows", 0, MAX_FAST_FLOWS,
                                  DPIF_XDP_DEFAULT_FAST_FLOWS, 0);

    if (offload && strcasecmp(offload, "true")
        && strcasecmp(offload, "false")) {
        complain(reading, "other_config:xdp-offload=%s: allowed are true and "
                 "false, true is used", offload);
    }
    if (!smap_get_bool(reading->config, "xdp-offload", true)) {
        n_flows = 0;
    }
    if (!dpif_xdp_ports_set_sizes(dp, n_frames, n_flows)) {
        sset_add(&reading->later, "xdp-umem-frames, xdp-flows and xdp-offload "
                 "take effect when the datapath is created anew");
    }
}

static void
set_ct_max(struct dpif_xdp_dp *dp, struct reading *reading)
{
    struct oxdp_ct *tables = dpif_xdp_ct_tables(dp->ct);
    uint32_t room = tables ? oxdp_ct_tables(tables)->head->n : 0;
    uint32_t max = get_number(reading, "xdp-ct-max", OXDP_CT_LEAST_MAX,
                              OXDP_CT_MOST_MAX, OXDP_CT_DEFAULT_MAX, room);
    uint32_t used = dpif_xdp_ct_set_max(dp->ct, max);

    if (used != max) {
        sset_add_and_free(&reading->later,
                          xasprintf("xdp-ct-max is %"PRIu32" until the daemon "
                                    "starts anew, then %"PRIu32, used, max));
    }
}

static void
set_hook(struct dpif_xdp_dp *dp, struct reading *reading)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const char *name = smap_get_def(reading->config, "xdp-hook", "auto");
    enum dpif_xdp_hook hook = DPIF_XDP_HOOK_AUTO;

    if (!dpif_xdp_hook_from_string(name, &hook)) {
        complain(reading, "other_config:xdp-hook=%s: unsupported value, "
                 "expected auto, xdp, tcx or both; auto is used", name);
    }
    dpif_xdp_ports_set_hook(dp, hook);
}

static void
set_obj(struct dpif_xdp_dp *dp, struct reading *reading)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const char *obj = smap_get(reading->config, "xdp-obj");

    if (obj && !dpif_xdp_obj_is_valid(obj)) {
        complain(reading, "other_config:xdp-obj=%s: unsupported value, "
                 "expected the absolute path of a BPF object, or builtin; "
                 "builtin is used", obj);
        obj = NULL;
    } else if (dpif_xdp_obj_is_file(obj) && access(obj, R_OK)) {
        complain(reading, "other_config:xdp-obj=%s: cannot read the file "
                 "(%s)", obj, ovs_strerror(errno));
    }
    dpif_xdp_ports_set_obj(dp, obj);
}

/* Appends the CPUs of 'mask', hexadecimal digits, that this machine does not
 * have to 'absent'.  Returns whether it has any of them. */
static bool
find_absent_cpus(const char *mask, struct ds *absent)
{
    size_t n = strlen(mask);
    bool any = false;

    for (size_t i = 0; i < 4 * n; i++) {
        if (hexit_value(mask[n - 1 - i / 4]) & 1 << i % 4) {
            if (ovs_numa_core_id_is_valid(i)) {
                any = true;
            } else {
                ds_put_format(absent, "%s%"PRIuSIZE,
                              absent->length ? ", " : "", i);
            }
        }
    }
    return any;
}

static void
set_cpu_mask(struct dpif_xdp_dp *dp, struct reading *reading)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const char *mask = smap_get(reading->config, "pmd-cpu-mask");

    if (mask) {
        const char *digits = mask + 2 * !strncasecmp(mask, "0x", 2);

        if (!*digits || strspn(digits, "0123456789abcdefABCDEF")
                        != strlen(digits)) {
            complain(reading, "other_config:pmd-cpu-mask=%s: expected "
                     "hexadecimal digits; engine threads are bound to no CPU",
                     mask);
            mask = NULL;
        } else {
            struct ds absent = DS_EMPTY_INITIALIZER;
            bool any = find_absent_cpus(digits, &absent);

            if (absent.length) {
                complain(reading, "other_config:pmd-cpu-mask=%s: there are no "
                         "CPUs %s; engine threads are bound to %s", mask,
                         ds_cstr(&absent), any ? "the others" : "no CPU");
            }
            ds_destroy(&absent);
        }
    }
    dpif_xdp_threads_set_cpu_mask(dp, mask);
}

static bool
is_known(const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        if (!strcmp(key, keys[i])) {
            return true;
        }
    }
    return false;
}

static void
find_unknown_keys(struct reading *reading)
{
    struct smap_node *node;

    SMAP_FOR_EACH (node, reading->config) {
        const char *meant;

        if ((strncasecmp(node->key, "xdp-", 4)
             && strncasecmp(node->key, "xdp_", 4)) || is_known(node->key)) {
            continue;
        }
        meant = dpif_xdp_spelling_closest(node->key, keys, ARRAY_SIZE(keys));
        complain(reading, "other_config:%s: there is no such setting, it is "
                 "not used%s%s%s", node->key, meant ? "; did you mean " : "",
                 meant ? meant : "", meant ? "?" : "");
    }
}

/* Logs what is 'now' and was not before, and keeps it. */
static void
say_new(const struct dpif_xdp_dp *dp, enum vlog_level level,
        struct sset *before, struct sset *now)
{
    const char *sentence;

    SSET_FOR_EACH (sentence, now) {
        if (!sset_contains(before, sentence)) {
            VLOG(level, "%s: %s", dp->name, sentence);
        }
    }
    sset_swap(before, now);
}

void
dpif_xdp_config_init(struct dpif_xdp_dp *dp)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    sset_init(&dp->provider.warnings);
    sset_init(&dp->provider.later);
}

void
dpif_xdp_config_destroy(struct dpif_xdp_dp *dp)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    sset_destroy(&dp->provider.warnings);
    sset_destroy(&dp->provider.later);
}

/* Open_vSwitch:other_config. */
int
dpif_xdp_set_config(struct dpif *dpif, const struct smap *other_config)
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);
    struct reading reading = {
        .config = other_config,
        .warnings = SSET_INITIALIZER(&reading.warnings),
        .later = SSET_INITIALIZER(&reading.later),
    };

    dpif_xdp_port_lock(dp);
    set_sizes(dp, &reading);
    set_ct_max(dp, &reading);
    set_hook(dp, &reading);
    set_obj(dp, &reading);
    set_cpu_mask(dp, &reading);
    find_unknown_keys(&reading);
    say_new(dp, VLL_WARN, &dp->provider.warnings, &reading.warnings);
    say_new(dp, VLL_INFO, &dp->provider.later, &reading.later);
    dpif_xdp_port_unlock(dp);
    sset_destroy(&reading.warnings);
    sset_destroy(&reading.later);
    return 0;
}

void
dpif_xdp_config_report(const struct dpif_xdp_dp *dp, struct json *report)
{
    struct json *array = dpif_xdp_report_array(report, "warnings");
    const char **warnings = sset_sort(&dp->provider.warnings);

    for (size_t i = 0; i < sset_count(&dp->provider.warnings); i++) {
        json_array_add(array, json_string_create(warnings[i]));
    }
    free(warnings);
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
