/* SPDX-License-Identifier: Apache-2.0 */
/* Which of Open vSwitch's own datapath types this datapath serves.
 *
 * What configures Open vSwitch on a host may know "system" and "netdev" only.
 * other_config:xdp-datapath-types names those whose bridges become type
 * "xdp": vswitchd/bridge.c asks for the type of a bridge with
 * ofproto_normalize_type(), and from there on sees "xdp".  The database keeps
 * what was configured, so that a daemon without the setting, or a stock one,
 * serves the same bridges by its own datapaths. */
#include <config.h>

#include "ovs/provider/provider_private.h"

#include <stdlib.h>
#include <string.h>

#include "lib/vswitch-idl.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/vlog.h"
#include "ovs/base/compat.h"
#include "ovs/provider/dpif_xdp.h"
#include "simap.h"
#include "smap.h"
#include "sset.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_served);

#define SEPARATORS ", \t\n"

static const char *const types[] = { "netdev", "system" };

/* Of 'types'.  Only the main thread reads and writes this, as everything that
 * vswitchd/bridge.c calls. */
static bool served[ARRAY_SIZE(types)];
static char *setting;                   /* What 'served' was read from. */

/* The place of 'type' in 'types', else their number. */
static size_t
place_of(const char *type)
{
    size_t i;

    for (i = 0; i < ARRAY_SIZE(types); i++) {
        if (!strcmp(type, types[i])) {
            break;
        }
    }
    return i;
}

/* Whether bridges of 'type', "" being "system", are served by this
 * datapath. */
static bool
is_served(const char *type)
{
    size_t i = place_of(type && type[0] ? type : "system");

    return i < ARRAY_SIZE(types) && served[i];
}

/* The type of the datapath that serves bridges of 'type'. */
static const char *
server_of(const char *type)
{
    return is_served(type) ? dpif_xdp_class.type : type;
}

static void
say(void)
{
    struct ds names = DS_EMPTY_INITIALIZER;

    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        if (served[i]) {
            ds_put_format(&names, "%s%s", names.length ? ", " : "", types[i]);
        }
    }
    VLOG_INFO("bridges of type xdp%s%s are served by this datapath",
              names.length ? ", " : "", ds_cstr(&names));
    ds_destroy(&names);
}

/* Reads 'text', names of types.  What is none of ours to serve changes
 * nothing. */
static void
read_types(const char *text)
{
    char *names = xstrdup(text), *save = NULL;

    memset(served, 0, sizeof served);
    for (char *name = strtok_r(names, SEPARATORS, &save); name;
         name = strtok_r(NULL, SEPARATORS, &save)) {
        size_t i = place_of(name);

        if (i < ARRAY_SIZE(types)) {
            served[i] = true;
        } else if (strcmp(name, dpif_xdp_class.type)) {
            VLOG_WARN(
                "other_config:xdp-datapath-types=%s: allowed are netdev, "
                "system, or both; %s is not used",
                text, name);
        }
    }
    free(names);
}

void __real_dpdk_init(const struct smap *other_config);
void __wrap_dpdk_init(const struct smap *other_config);

/* bridge.c calls this with Open_vSwitch:other_config in each of its rounds,
 * before it looks at bridges. */
void
__wrap_dpdk_init(const struct smap *other_config)
{
    const char *text = smap_get_def(other_config, "xdp-datapath-types",
                                    OXDP_DATAPATH_TYPES);

    if (!setting || strcmp(setting, text)) {
        bool first = !setting;

        free(setting);
        setting = xstrdup(text);
        read_types(text);
        if (!first || text[0]) {
            say();
        }
    }
    __real_dpdk_init(other_config);
}

const char *__real_ofproto_normalize_type(const char *type);
const char *__wrap_ofproto_normalize_type(const char *type);

const char *
__wrap_ofproto_normalize_type(const char *type)
{
    return __real_ofproto_normalize_type(server_of(type));
}

/* Rows of the table Datapath have the names of types.  The row of a type that
 * is served has this datapath's capabilities, and timeouts of connections that
 * are set in it take effect here. */
void __real_ofproto_get_datapath_cap(const char *type, struct smap *caps);
void __wrap_ofproto_get_datapath_cap(const char *type, struct smap *caps);
void __real_ofproto_ct_set_zone_timeout_policy(const char *type,
                                               uint16_t zone,
                                               struct simap *timeouts);
void __wrap_ofproto_ct_set_zone_timeout_policy(const char *type,
                                               uint16_t zone,
                                               struct simap *timeouts);
void __real_ofproto_ct_del_zone_timeout_policy(const char *type,
                                               uint16_t zone);
void __wrap_ofproto_ct_del_zone_timeout_policy(const char *type,
                                               uint16_t zone);

void
__wrap_ofproto_get_datapath_cap(const char *type, struct smap *caps)
{
    __real_ofproto_get_datapath_cap(server_of(type), caps);
}

void
__wrap_ofproto_ct_set_zone_timeout_policy(const char *type, uint16_t zone,
                                          struct simap *timeouts)
{
    __real_ofproto_ct_set_zone_timeout_policy(server_of(type), zone, timeouts);
}

void
__wrap_ofproto_ct_del_zone_timeout_policy(const char *type, uint16_t zone)
{
    __real_ofproto_ct_del_zone_timeout_policy(server_of(type), zone);
}

#if DPIF_XDP_LIMITS_IN_DATABASE
/* So do limits of zones. */
void __real_ofproto_ct_zone_limit_update(const char *type, int32_t zone,
                                         int64_t *limit);
void __wrap_ofproto_ct_zone_limit_update(const char *type, int32_t zone,
                                         int64_t *limit);
void __real_ofproto_ct_zone_limit_protection_update(const char *type,
                                                    bool protected);
void __wrap_ofproto_ct_zone_limit_protection_update(const char *type,
                                                    bool protected);

void
__wrap_ofproto_ct_zone_limit_update(const char *type, int32_t zone,
                                    int64_t *limit)
{
    __real_ofproto_ct_zone_limit_update(server_of(type), zone, limit);
}

/* Where the database has limits, commands may not change those of the
 * datapath.  Several rows can have some for this one. */
void
__wrap_ofproto_ct_zone_limit_protection_update(const char *type,
                                               bool protected)
{
    static bool by_row[ARRAY_SIZE(types)], by_own_row;
    size_t row = place_of(type);
    bool any;

    if (!strcmp(type, dpif_xdp_class.type)) {
        by_own_row = protected;
    } else if (!is_served(type)) {
        __real_ofproto_ct_zone_limit_protection_update(type, protected);
    }
    if (row < ARRAY_SIZE(types)) {
        by_row[row] = protected;
    }
    any = by_own_row;
    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        any = any || (served[i] && by_row[i]);
    }
    __real_ofproto_ct_zone_limit_protection_update(dpif_xdp_class.type, any);
}
#endif

/* The column names each type of bridge that works here: also one that Open
 * vSwitch itself could not serve, for example "system" without its module. */
void __real_ovsrec_open_vswitch_set_datapath_types(
    const struct ovsrec_open_vswitch *row, const char **names, size_t n);
void __wrap_ovsrec_open_vswitch_set_datapath_types(
    const struct ovsrec_open_vswitch *row, const char **names, size_t n);

void
__wrap_ovsrec_open_vswitch_set_datapath_types(
    const struct ovsrec_open_vswitch *row, const char **names, size_t n)
{
    struct sset all = SSET_INITIALIZER(&all);
    const char **array;

    sset_add_array(&all, (char **) names, n);
    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        if (served[i]) {
            sset_add(&all, types[i]);
        }
    }
    array = sset_array(&all);
    __real_ovsrec_open_vswitch_set_datapath_types(row, array,
                                                  sset_count(&all));
    free(array);
    sset_destroy(&all);
    dpif_xdp_version_tell(row);
}
