/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a device.
 *
 * Open vSwitch removes a port whose options are refused.  So a value that is
 * not allowed is no failure: the one in use stays in use, and the Interface's
 * "error" and status:xdp-error say what was given, what is allowed, and what
 * is used.  A key that is not known, or has no effect, is named in
 * status:xdp-warning. */
#include <config.h>

#include "ovs/netdev/netdev_xdp_private.h"

#include <errno.h>
#include <string.h>

#include "netdev-provider.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/vlog.h"
#include "ovs/netdev/spelling.h"
#include "smap.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(netdev_xdp_options);

static const char *const option_names[] = {
    "xdp-mode", "xdp-hook", "xdp-obj", "xdp-peer",
};

/* Options of the class "afxdp", which have no effect here unless they ask for
 * what is so anyway. */
static const struct {
    const char *key, *value;            /* NULL: no such value. */
    const char *why;
} without_effect[] = {
    { "n_rxq", NULL, "all receive queues of the device are served" },
    { "use-need-wakeup", "true", "it is in use where the kernel has it" },
};

static const char *const hook_names[] = {
    [DPIF_XDP_HOOK_AUTO] = "auto",
    [DPIF_XDP_HOOK_XDP] = "xdp",
    [DPIF_XDP_HOOK_TCX] = "tcx",
    [DPIF_XDP_HOOK_BOTH] = "both",
    [DPIF_XDP_HOOK_NONE] = "none",
};

const char *
dpif_xdp_hook_to_string(enum dpif_xdp_hook hook)
{
    return hook_names[hook];
}

bool
dpif_xdp_hook_from_string(const char *s, enum dpif_xdp_hook *hook)
{
    for (size_t i = 0; i <= DPIF_XDP_HOOK_BOTH; i++) {
        if (hook_names[i] && !strcmp(s, hook_names[i])) {
            *hook = i;
            return true;
        }
    }
    return false;
}

bool
dpif_xdp_obj_is_file(const char *obj)
{
    return obj && obj[0] == '/';
}

bool
dpif_xdp_obj_is_valid(const char *obj)
{
    return dpif_xdp_obj_is_file(obj) || !strcmp(obj, "builtin");
}

void
dpif_xdp_netdev_get_config(const struct netdev *netdev_,
                           struct dpif_xdp_netdev_config *config)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);

    netdev_xdp_lock(netdev);
    *config = netdev->config;
    netdev_xdp_unlock(netdev);
}

char *
dpif_xdp_netdev_get_obj(const struct netdev *netdev_)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    char *obj;

    netdev_xdp_lock(netdev);
    obj = nullable_xstrdup(netdev->obj);
    netdev_xdp_unlock(netdev);
    return obj;
}

/* Adds to 'errors' that 'value' of option 'key' is not among those 'allowed',
 * and that 'used' is used. */
static void
refuse_value(struct ds *errors, const char *key, const char *value,
             const char *allowed, const char *used)
{
    ds_put_format(errors, "%soptions:%s=%s: unsupported value, expected %s; "
                  "%s is used", errors->length ? "; " : "", key, value,
                  allowed, used);
}

static void
read_mode(const struct smap *args, enum oxdp_mode *mode, struct ds *errors)
{
    const char *value = smap_get_def(args, "xdp-mode", "best-effort");

    if (!oxdp_mode_from_string(value, mode)) {
        refuse_value(errors, "xdp-mode", value, "best-effort, "
                     "native-with-zerocopy, native or generic",
                     oxdp_mode_to_string(*mode));
    }
}

static void
read_hook(const struct smap *args, enum dpif_xdp_hook *hook,
          struct ds *errors)
{
    const char *value = smap_get_def(args, "xdp-hook", "auto");

    if (!dpif_xdp_hook_from_string(value, hook)) {
        refuse_value(errors, "xdp-hook", value, "auto, xdp, tcx or both",
                     hook_names[*hook]);
    }
}

static void
read_peer(const struct smap *args, bool *no_peer, struct ds *errors)
{
    const char *value = smap_get_def(args, "xdp-peer", "true");

    if (!strcmp(value, "true") || !strcmp(value, "false")) {
        *no_peer = !strcmp(value, "false");
    } else {
        refuse_value(errors, "xdp-peer", value, "true or false",
                     *no_peer ? "false" : "true");
    }
}

/* Returns the program to use: of 'args' or 'now'. */
static const char *
read_obj(const struct smap *args, const char *now, struct ds *errors)
{
    const char *value = smap_get(args, "xdp-obj");

    if (value && !dpif_xdp_obj_is_valid(value)) {
        refuse_value(errors, "xdp-obj", value, "the absolute path of a BPF "
                     "object, or builtin", now ? now : "builtin");
        return now;
    }
    return value;
}

/* If 'node' has an option without effect, adds that to 'ds' and returns
 * true. */
static bool
has_no_effect(const struct smap_node *node, struct ds *ds)
{
    for (size_t i = 0; i < ARRAY_SIZE(without_effect); i++) {
        if (!strcmp(node->key, without_effect[i].key)) {
            if (!without_effect[i].value
                || strcmp(node->value, without_effect[i].value)) {
                ds_put_format(ds, "%soptions:%s=%s: no effect, %s",
                              ds->length ? "; " : "", node->key, node->value,
                              without_effect[i].why);
            }
            return true;
        }
    }
    return false;
}

/* The sentence on options that are not known, or have no effect; or NULL.  The
 * caller frees it. */
static char *
unused_options(const struct smap *args)
{
    const struct smap_node **nodes = smap_sort(args);
    struct ds ds = DS_EMPTY_INITIALIZER;

    for (size_t i = 0; i < smap_count(args); i++) {
        const char *key = nodes[i]->key;
        const char *closest
            = dpif_xdp_spelling_closest(key, option_names,
                                        ARRAY_SIZE(option_names));

        if ((closest && !strcmp(closest, key))
            || has_no_effect(nodes[i], &ds)) {
            continue;
        }
        ds_put_format(&ds, "%soptions:%s=%s: unknown option, ignored",
                      ds.length ? "; " : "", key, nodes[i]->value);
        if (closest) {
            ds_put_format(&ds, ": did you mean %s?", closest);
        }
    }
    free(nodes);
    return ds.length ? ds_steal_cstr(&ds) : NULL;
}

/* Takes 'new' and 'obj' into use.  Returns whether that changes anything. */
static bool
use_config(struct netdev_xdp *netdev, const struct dpif_xdp_netdev_config *new,
           const char *obj)
    OVS_REQUIRES(dpif_xdp_netdev_mutex)
{
    struct dpif_xdp_netdev_config *config = &netdev->config;
    bool changed = false;

    if (config->mode != new->mode || config->hook != new->hook) {
        config->mode = new->mode;
        config->hook = new->hook;
        config->seq++;
        changed = true;
    }
    if (config->no_peer != new->no_peer) {
        config->no_peer = new->no_peer;
        changed = true;
    }
    if (netdev_xdp_replace_text(&netdev->obj, obj)) {
        config->obj_seq++;
        config->has_obj = dpif_xdp_obj_is_file(obj);
        changed = true;
    }
    return changed;
}

int
netdev_xdp_set_config(struct netdev *netdev_, const struct smap *args,
                      char **errp OVS_UNUSED)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    char *warning = unused_options(args);
    struct ds errors = DS_EMPTY_INITIALIZER;
    struct dpif_xdp_netdev_config config;
    bool changed, refused;
    char *obj;

    netdev_xdp_lock(netdev);
    config = netdev->config;
    read_mode(args, &config.mode, &errors);
    read_hook(args, &config.hook, &errors);
    read_peer(args, &config.no_peer, &errors);
    obj = nullable_xstrdup(read_obj(args, netdev->obj, &errors));
    changed = use_config(netdev, &config, obj);
    refused = netdev_xdp_replace_text(&netdev->option_error,
                                      errors.length ? ds_cstr(&errors) : NULL);
    netdev_xdp_unlock(netdev);

    if (refused && errors.length) {
        VLOG_ERR("%s: %s", netdev_get_name(netdev_), ds_cstr(&errors));
    }
    if (changed || refused) {
        netdev_change_seq_changed(netdev_);
    }
    dpif_xdp_netdev_set_warning(netdev_, DPIF_XDP_WARNING_OPTIONS, warning);
    ds_destroy(&errors);
    free(warning);
    free(obj);
    return 0;
}

int
netdev_xdp_get_config(const struct netdev *netdev_, struct smap *args)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);

    netdev_xdp_lock(netdev);
    if (netdev->config.mode != OXDP_MODE_BEST_EFFORT) {
        smap_add(args, "xdp-mode", oxdp_mode_to_string(netdev->config.mode));
    }
    if (netdev->config.hook != DPIF_XDP_HOOK_AUTO) {
        smap_add(args, "xdp-hook", hook_names[netdev->config.hook]);
    }
    if (netdev->obj) {
        smap_add(args, "xdp-obj", netdev->obj);
    }
    if (netdev->config.no_peer) {
        smap_add(args, "xdp-peer", "false");
    }
    netdev_xdp_unlock(netdev);
    return 0;
}
