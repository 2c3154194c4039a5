/* SPDX-License-Identifier: Apache-2.0 */
/* Which hook takes the packets of a port. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include "core/kernel/device.h"
#include "core/multi_buffer.h"
#include "ovs/fastpath/fastpath.h"
#include "ovs/netdev/netdev_internal.h"
#include "util.h"

/* Why a port is on a hook.  X(name, text shown to people, what would have to
 * change). */
#define HOOK_REASONS(X)                                                     \
    X(INTERNAL, "it is an internal port, where the host keeps its "         \
      "offloads",                                                           \
      "nothing can: internal ports are always at tcx")                      \
    X(OPTION, "options:xdp-hook of the Interface says so",                  \
      "set options:xdp-hook of the Interface, or remove it")                \
    X(CONFIG, "other_config:xdp-hook of Open_vSwitch says so",              \
      "set options:xdp-hook of the Interface, which comes first")           \
    X(MODE, "options:xdp-mode of the Interface asks for a mode of XDP",     \
      "remove options:xdp-mode, or set options:xdp-hook")                   \
    X(OBJ, "the Interface has an XDP program of the user's: "               \
      "options:xdp-obj",                                                    \
      "remove options:xdp-obj, or set options:xdp-hook")                    \
    X(UNFINISHED, "its packets have CHECKSUM_PARTIAL and GSO, which tcx "   \
      "keeps",                                                              \
      "set options:xdp-hook=xdp where packets a second matter more than "   \
      "TCP")                                                                \
    X(GUEST_SENDS, "its guest sends packets with GSO or CHECKSUM_PARTIAL, " \
      "though its driver takes none: tcx keeps them so",                    \
      "nothing: XDP comes back when the guest has sent none for a while; "  \
      "set options:xdp-hook=xdp where packets a second matter more")        \
    X(UNDERLAY, "its flows pop tunnel headers and there are containers, to " \
      "which tcx hands what the kernel has merged (GRO)",                   \
      "set options:xdp-hook=xdp where packets a second matter more than "   \
      "TCP")                                                                \
    X(GUEST, "its guest has no offloads now: XDP is fastest, and what the " \
      "guest may yet send with GSO or CHECKSUM_PARTIAL goes to tcx",        \
      "nothing: the port is at tcx when the guest has offloads")            \
    X(NO_NATIVE, "its driver has no native XDP as the device is set up "    \
      "now, and tcx is faster than generic XDP",                            \
      "docs/reference/drivers.md says which drivers need what; set "        \
      "options:xdp-hook=xdp for generic XDP")                               \
    X(JUMBO, "its MTU is above 3,498: XDP forwards its frames, of several " \
      "buffers, to devices that take them, tcx those for others",           \
      "set options:xdp-hook, or an MTU of at most 3,498")                   \
    X(LONG, "its MTU is above what XDP takes with this driver",             \
      "lower the MTU: to 3,498 or, if the driver gives XDP frames of "      \
      "several buffers (Linux 6.6), to 9,216")                              \
    X(WHOLE, "its packets are frames of a wire, for which XDP is fastest",  \
      "set options:xdp-hook=tcx or both where flows need what only tcx does")

enum hook_reason {
#define X(NAME, TEXT, CHANGE) HOOK_##NAME,
    HOOK_REASONS(X)
#undef X
};

/* Packets with GSO and CHECKSUM_PARTIAL go to tcx, which keeps them so.  A
 * mode or a program of XDP in the options asks for XDP.  Internal ports have
 * no options: the host keeps its offloads. */
static enum hook_reason
choose(const struct dpif_xdp_dp *dp, const struct dpif_xdp_port *port,
       const struct dpif_xdp_netdev_config *config)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    return (dpif_xdp_internal_is(port->netdev) ? HOOK_INTERNAL
            : config->hook != DPIF_XDP_HOOK_AUTO ? HOOK_OPTION
            : dp->ports.hook != DPIF_XDP_HOOK_AUTO ? HOOK_CONFIG
            : config->mode != OXDP_MODE_BEST_EFFORT ? HOOK_MODE
            : config->has_obj ? HOOK_OBJ
            : oxdp_device_sends_unfinished(&port->device) ? HOOK_UNFINISHED
            : port->guest.sends_unfinished ? HOOK_GUEST_SENDS
            : port->no_native ? HOOK_NO_NATIVE
            : port->underlay ? HOOK_UNDERLAY
            : port->device.vnet_hdr && port->largest_mtu <= OXDP_FRAME_MTU
            ? HOOK_GUEST
            : port->largest_mtu <= OXDP_FRAME_MTU ? HOOK_WHOLE
            : port->largest_mtu <= oxdp_max_mtu() && port->device.rx_buffers
            ? HOOK_JUMBO
            : HOOK_LONG);
}

static enum dpif_xdp_hook
choose_hook(const struct dpif_xdp_dp *dp, const struct dpif_xdp_port *port,
            const struct dpif_xdp_netdev_config *config)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    switch (choose(dp, port, config)) {
    case HOOK_OPTION:
        return config->hook;
    case HOOK_CONFIG:
        return dp->ports.hook;
    case HOOK_INTERNAL:
    case HOOK_UNFINISHED:
    case HOOK_GUEST_SENDS:
    case HOOK_NO_NATIVE:
    case HOOK_UNDERLAY:
    case HOOK_LONG:
        return DPIF_XDP_HOOK_TCX;
    case HOOK_GUEST:
    case HOOK_JUMBO:
        return DPIF_XDP_HOOK_BOTH;
    case HOOK_MODE:
    case HOOK_OBJ:
    case HOOK_WHOLE:
        break;
    }
    return DPIF_XDP_HOOK_XDP;
}

enum dpif_xdp_hook
dpif_xdp_port_explain_hook(const struct dpif_xdp_dp *dp,
                           const struct dpif_xdp_port *port,
                           const char **why, const char **change)
{
    static const struct {
        const char *why;
        const char *change;
    } texts[] = {
#define X(NAME, TEXT, CHANGE) { TEXT, CHANGE },
        HOOK_REASONS(X)
#undef X
    };
    struct dpif_xdp_netdev_config config;
    enum hook_reason reason;

    memset(&config, 0, sizeof config);
    if (dpif_xdp_netdev_is(port->dev)) {
        dpif_xdp_netdev_get_config(port->dev, &config);
    }
    reason = choose(dp, port, &config);
    *why = texts[reason].why;
    *change = texts[reason].change;
    return choose_hook(dp, port, &config);
}

static struct dpif_xdp_choice *
add_choice(struct dpif_xdp_choices *choices, enum dpif_xdp_hook hook,
           enum oxdp_mode mode)
{
    struct dpif_xdp_choice *choice = &choices->list[choices->n++];

    *choice = (struct dpif_xdp_choice) { .hook = hook, .mode = mode };
    return choice;
}

uint32_t
dpif_xdp_port_max_mtu(const struct dpif_xdp_dp *dp,
                      const struct dpif_xdp_port *port)
{
    return (dp->progs
            ? oxdp_progs_max_mtu(dp->progs, odp_to_u32(port->port_no))
            : oxdp_max_mtu());
}

void
dpif_xdp_port_choices(const struct dpif_xdp_dp *dp,
                      const struct dpif_xdp_port *port,
                      const struct dpif_xdp_netdev_config *config,
                      struct dpif_xdp_choices *choices)
{
    enum dpif_xdp_hook hook = choose_hook(dp, port, config);
    enum hook_reason reason = choose(dp, port, config);
    bool nobody_asked = (reason == HOOK_GUEST || reason == HOOK_JUMBO
                         || reason == HOOK_WHOLE);
    bool fits = port->largest_mtu <= dpif_xdp_port_max_mtu(dp, port);

    choices->n = 0;
    choices->wanted = hook;
    if (dpif_xdp_hook_has_xdp(hook) && fits) {
        add_choice(choices, hook,
                   nobody_asked ? OXDP_MODE_BEST_NATIVE : config->mode);
        if (config->mode != OXDP_MODE_BEST_EFFORT) {
            add_choice(choices, hook, OXDP_MODE_BEST_EFFORT);
        }
        if (hook == DPIF_XDP_HOOK_BOTH) {
            add_choice(choices, DPIF_XDP_HOOK_XDP,
                       nobody_asked ? OXDP_MODE_BEST_NATIVE
                       : OXDP_MODE_BEST_EFFORT);
        }
    }
    add_choice(choices, DPIF_XDP_HOOK_TCX, OXDP_MODE_BEST_EFFORT);
    if ((nobody_asked || !dpif_xdp_hook_has_xdp(hook)) && fits) {
        add_choice(choices, DPIF_XDP_HOOK_XDP, OXDP_MODE_BEST_EFFORT);
    }
    if (fits) {
        struct dpif_xdp_choice *choice
            = add_choice(choices, DPIF_XDP_HOOK_XDP, OXDP_MODE_BEST_EFFORT);

        choice->bare = true;
    }
    add_choice(choices, DPIF_XDP_HOOK_NONE, OXDP_MODE_BEST_EFFORT);
    ovs_assert(choices->n <= DPIF_XDP_MAX_CHOICES);
}

enum dpif_xdp_hook
dpif_xdp_port_get_hook(const struct dpif_xdp_port *port)
{
    int hook;

    atomic_read(&CONST_CAST(struct dpif_xdp_port *, port)->hook, &hook);
    return hook;
}

void
dpif_xdp_port_set_hook(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
                       enum dpif_xdp_hook hook)
{
    atomic_store(&port->hook, (int) hook);
    dpif_xdp_flow_lock(dp);
    dpif_xdp_fastpath_hook_changed(dp, port->port_no);
    dpif_xdp_flow_unlock(dp);
}
