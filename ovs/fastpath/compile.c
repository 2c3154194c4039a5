/* SPDX-License-Identifier: Apache-2.0 */
/* Datapath actions -> terminal action ("fate") and operations of
 * dp/table.h. */
#include <config.h>

#include "ovs/fastpath/compile_private.h"

#include <string.h>

#include "netlink.h"
#include "odp-netlink.h"
#include "packets.h"

static void compile_list(struct dpif_xdp_program *,
                         const struct nlattr *actions, size_t actions_len);
static void compile_nested(struct dpif_xdp_program *, const struct nlattr *);
static void compile_tunnels(struct dpif_xdp_program *,
                            const struct nlattr *const clones[], size_t n);
static bool is_into_tunnel(const struct nlattr *);
static bool only_pushes_and_outputs(const struct nlattr *clone);
static void compile_next(struct dpif_xdp_program *, const struct nlattr *);
static void compile_action(struct dpif_xdp_program *, const struct nlattr *);
static void compile_recirc(struct dpif_xdp_program *, uint32_t recirc_id);
static void compile_push_vlan(struct dpif_xdp_program *,
                              const struct ovs_action_push_vlan *);
static void compile_pop_vlan(struct dpif_xdp_program *);
static void compile_trunc(struct dpif_xdp_program *,
                          const struct ovs_action_trunc *);
static void compile_push_mpls(struct dpif_xdp_program *,
                              const struct ovs_action_push_mpls *);
static void compile_pop_mpls(struct dpif_xdp_program *, ovs_be16 eth_type);
static void compile_hash(struct dpif_xdp_program *,
                         const struct ovs_action_hash *);
static void compile_check_pkt_len(struct dpif_xdp_program *,
                                  const struct nlattr *);

enum dpif_xdp_compile_reason
dpif_xdp_compile(const struct flow *flow, const struct flow_wildcards *wc,
                 struct dpif_xdp_compiled_mask *last,
                 const struct nlattr *actions, size_t actions_len,
                 const struct dp_capability *caps,
                 struct dpif_xdp_compiled *ret, bool *ret_matches)
{
    enum dpif_xdp_compile_reason reason;

    reason = dpif_xdp_compile_match(flow, wc, last, caps, &ret->key,
                                    &ret->mask);
    *ret_matches = reason == DPIF_XDP_COMPILE_OK;
    if (reason) {
        return reason;
    }
    return dpif_xdp_compile_actions(actions, actions_len, caps, ret);
}

enum dpif_xdp_compile_reason
dpif_xdp_compile_actions(const struct nlattr *actions, size_t actions_len,
                         const struct dp_capability *caps,
                         struct dpif_xdp_compiled *out)
{
    struct dpif_xdp_program p;

    dpif_xdp_program_init(&p, caps, out);
    compile_list(&p, actions, actions_len);
    dpif_xdp_compile_samples_end(&p);
    return dpif_xdp_program_finish(&p);
}

/* What ofproto sends into tunnels is in clones, one for each but the last,
 * among other outputs.  These come first, for the header stays. */
static void
compile_list(struct dpif_xdp_program *p, const struct nlattr *actions,
             size_t actions_len)
{
    const struct nlattr *tunnels[DP_MAX_OPS];
    const struct nlattr *a;
    size_t left, n = 0;

    NL_ATTR_FOR_EACH (a, left, actions, actions_len) {
        if (nl_attr_type(a) == OVS_ACTION_ATTR_SAMPLE && !n) {
            dpif_xdp_compile_sample(p, a);
        } else if (is_into_tunnel(a) && n < ARRAY_SIZE(tunnels)) {
            tunnels[n++] = a;
        } else if (!n || nl_attr_type(a) == OVS_ACTION_ATTR_OUTPUT) {
            compile_next(p, a);
        } else if (nl_attr_type(a) == OVS_ACTION_ATTR_TUNNEL_PUSH) {
            compile_tunnels(p, tunnels, n);
            n = 0;
            compile_next(p, a);
        } else if (!p->reason) {
            p->reason = DPIF_XDP_COMPILE_ORDER;
        }
    }
    if (n) {
        compile_tunnels(p, tunnels, n);
        p->cloned = true;
    }
}

/* Translates the actions of another, which is the last. */
static void
compile_nested(struct dpif_xdp_program *p, const struct nlattr *outer)
{
    bool nested = p->nested;

    p->nested = true;
    compile_list(p, nl_attr_get(outer), nl_attr_get_size(outer));
    p->nested = nested;
    p->cloned = true;
}

/* Translates 'n' clones, behind which another header may be pushed. */
static void
compile_tunnels(struct dpif_xdp_program *p,
                const struct nlattr *const clones[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        compile_next(p, clones[i]);
        if (only_pushes_and_outputs(clones[i])) {
            p->cloned = false;
            p->tunnelled = false;
            p->overwrites = true;
        }
    }
}

/* Whether 'a' is a clone whose first action pushes a tunnel's header. */
static bool
is_into_tunnel(const struct nlattr *a)
{
    return (nl_attr_type(a) == OVS_ACTION_ATTR_CLONE
            && nl_attr_get_size(a) >= NLA_HDRLEN
            && nl_attr_type(nl_attr_get(a)) == OVS_ACTION_ATTR_TUNNEL_PUSH);
}

/* Whether nothing but the header tells the packet behind 'clone' from the one
 * before it. */
static bool
only_pushes_and_outputs(const struct nlattr *clone)
{
    const struct nlattr *a;
    size_t left;

    NL_NESTED_FOR_EACH (a, left, clone) {
        if (nl_attr_type(a) != OVS_ACTION_ATTR_TUNNEL_PUSH
            && nl_attr_type(a) != OVS_ACTION_ATTR_OUTPUT) {
            return false;
        }
    }
    return true;
}

/* Translates the action behind those that are translated. */
static void
compile_next(struct dpif_xdp_program *p, const struct nlattr *a)
{
    if (!p->reason && (p->ended || p->cloned)) {
        p->reason = DPIF_XDP_COMPILE_ORDER;
    } else if (!p->reason && p->outputs) {
        dpif_xdp_program_output_copy(p);
    }
    if (p->reason) {
        return;
    }
    compile_action(p, a);
    if (p->out->n_outputs && !p->outputs) {
        p->reason = DPIF_XDP_COMPILE_ORDER;
    }
}

static void
compile_action(struct dpif_xdp_program *p, const struct nlattr *a)
{
    switch ((enum ovs_action_attr) nl_attr_type(a)) {
    case OVS_ACTION_ATTR_OUTPUT:
        p->outputs = true;
        p->output = nl_attr_get_u32(a);
        break;

    case OVS_ACTION_ATTR_DROP:
        /* The reason, told from flows without actions: fastpath/drops.c. */
        dpif_xdp_program_end(p, DP_FATE_DROP, nl_attr_get_u32(a) + 1);
        break;

    case OVS_ACTION_ATTR_RECIRC:
        compile_recirc(p, nl_attr_get_u32(a));
        break;

    case OVS_ACTION_ATTR_SET:
        if (nl_attr_type((const struct nlattr *) nl_attr_get(a))
            == OVS_KEY_ATTR_TUNNEL) {
            dpif_xdp_compile_tunnel_set(p, nl_attr_get(a));
        } else {
            dpif_xdp_compile_set(p, nl_attr_get(a), false);
        }
        break;

    case OVS_ACTION_ATTR_SET_MASKED:
        dpif_xdp_compile_set(p, nl_attr_get(a), true);
        break;

    case OVS_ACTION_ATTR_PUSH_VLAN:
        compile_push_vlan(p, nl_attr_get(a));
        break;

    case OVS_ACTION_ATTR_POP_VLAN:
        compile_pop_vlan(p);
        break;

    case OVS_ACTION_ATTR_PUSH_MPLS:
        compile_push_mpls(p, nl_attr_get(a));
        break;

    case OVS_ACTION_ATTR_POP_MPLS:
        compile_pop_mpls(p, nl_attr_get_be16(a));
        break;

    case OVS_ACTION_ATTR_TRUNC:
        compile_trunc(p, nl_attr_get(a));
        break;

    case OVS_ACTION_ATTR_HASH:
        compile_hash(p, nl_attr_get(a));
        break;

    case OVS_ACTION_ATTR_CT:
        dpif_xdp_compile_ct(p, a);
        break;

    case OVS_ACTION_ATTR_CT_CLEAR:
        dpif_xdp_op_add(p, DP_OP_CT_CLEAR);
        break;

    case OVS_ACTION_ATTR_METER:
        dpif_xdp_op_add(p, DP_OP_METER)->meter = nl_attr_get_u32(a);
        break;

    case OVS_ACTION_ATTR_CLONE:
        compile_nested(p, a);
        break;

    case OVS_ACTION_ATTR_CHECK_PKT_LEN:
        compile_check_pkt_len(p, a);
        break;

    case OVS_ACTION_ATTR_TUNNEL_PUSH:
        dpif_xdp_compile_tunnel_push(p, nl_attr_get(a));
        break;

    case OVS_ACTION_ATTR_TUNNEL_POP:
        dpif_xdp_compile_tunnel_pop(p, nl_attr_get_u32(a));
        break;

    case OVS_ACTION_ATTR_UNSPEC:
    case OVS_ACTION_ATTR_USERSPACE:
    case OVS_ACTION_ATTR_SAMPLE:
    case OVS_ACTION_ATTR_PUSH_ETH:
    case OVS_ACTION_ATTR_POP_ETH:
    case OVS_ACTION_ATTR_PUSH_NSH:
    case OVS_ACTION_ATTR_POP_NSH:
    case OVS_ACTION_ATTR_ADD_MPLS:
    case OVS_ACTION_ATTR_LB_OUTPUT:
    case __OVS_ACTION_ATTR_MAX:
    default:
        p->reason = DPIF_XDP_COMPILE_ACTION;
        break;
    }
}

static void
compile_recirc(struct dpif_xdp_program *p, uint32_t recirc_id)
{
    /* Number 0 is what tells popping from it (dp/predict.h). */
    if (p->trunc || p->tunnelled || !recirc_id) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
        return;
    }
    dpif_xdp_program_end(p, DP_FATE_RECIRC, recirc_id);
}

static void
compile_push_vlan(struct dpif_xdp_program *p,
                  const struct ovs_action_push_vlan *vlan)
{
    union dp_op_arg *arg = dpif_xdp_op_add(p, DP_OP_PUSH_VLAN);

    arg->vlan.tpid.raw = (OVS_FORCE uint16_t) vlan->vlan_tpid;
    arg->vlan.tci.raw = (OVS_FORCE uint16_t) vlan->vlan_tci;
    p->last->growth = DP_VLAN_LEN;
    p->rewritten = true;
    if (++p->tags_pushed > DP_MAX_TAGS_PUSHED) {
        p->reason = DPIF_XDP_COMPILE_TOO_LONG;
    }
}

static void
compile_pop_vlan(struct dpif_xdp_program *p)
{
    if (p->trunc) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
        return;
    }
    dpif_xdp_op_add(p, DP_OP_POP_VLAN);
    p->rewritten = true;
    p->tag_popped = true;
}

static void
compile_trunc(struct dpif_xdp_program *p,
              const struct ovs_action_trunc *trunc)
{
    dpif_xdp_op_add(p, DP_OP_TRUNC)->max_len
        = MAX(trunc->max_len, ETH_HEADER_LEN);
    p->trunc = true;
}

static void
compile_push_mpls(struct dpif_xdp_program *p,
                  const struct ovs_action_push_mpls *mpls)
{
    union dp_op_arg *arg;

    if (!eth_type_mpls(mpls->mpls_ethertype) || p->label_popped) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
        return;
    }
    arg = dpif_xdp_op_add(p, DP_OP_PUSH_MPLS);
    arg->mpls.lse = (OVS_FORCE uint32_t) mpls->mpls_lse;
    arg->mpls.eth_type.raw = (OVS_FORCE uint16_t) mpls->mpls_ethertype;
    p->last->growth = DP_MPLS_LEN;
    p->labels_changed = true;
    p->rewritten = true;
}

/* A label that the frame brought is known to be there: one, no more, and not
 * below labels that were pushed.  Nor may cutting leave less than an Ethernet
 * header. */
static void
compile_pop_mpls(struct dpif_xdp_program *p, ovs_be16 eth_type)
{
    if (p->labels_changed || p->trunc) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
        return;
    }
    dpif_xdp_op_add(p, DP_OP_POP_MPLS)->mpls.eth_type.raw
        = (OVS_FORCE uint16_t) eth_type;
    p->rewritten = true;
    p->labels_changed = true;
    p->label_popped = true;
}

static void
compile_hash(struct dpif_xdp_program *p, const struct ovs_action_hash *hash)
{
    union dp_op_arg *arg;

    /* The key still has the old fields. */
    if (p->rewritten || hash->hash_alg > OVS_HASH_ALG_SYM_L4) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
        return;
    }
    arg = dpif_xdp_op_add(p, DP_OP_HASH);
    arg->hash.alg = hash->hash_alg;
    arg->hash.basis = hash->hash_basis;
}

/* The flow is run for packets that are no longer: the engine executes it for
 * the others.  Open vSwitch looks at the packet as it is by then;
 * dp_prepare() looks at it as it arrived. */
static void
compile_check_pkt_len(struct dpif_xdp_program *p, const struct nlattr *attr)
{
    const struct nlattr *len, *shorter;
    uint32_t grown = p->tags_pushed * DP_VLAN_LEN, max_len;

    len = nl_attr_find_nested(attr, OVS_CHECK_PKT_LEN_ATTR_PKT_LEN);
    shorter = nl_attr_find_nested(
        attr, OVS_CHECK_PKT_LEN_ATTR_ACTIONS_IF_LESS_EQUAL);
    if (!len || !shorter || p->tag_popped || p->labels_changed || p->trunc
        || p->tunnelled || nl_attr_get_u16(len) < grown + ETH_HEADER_LEN) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
        return;
    }
    max_len = nl_attr_get_u16(len) - grown;
    p->max_len = p->max_len ? MIN(p->max_len, max_len) : max_len;
    compile_nested(p, shorter);
}

const char *
dpif_xdp_compile_reason_to_string(enum dpif_xdp_compile_reason reason)
{
    static const char *const texts[] = {
#define X(NAME, TEXT, CHANGE) [DPIF_XDP_COMPILE_##NAME] = TEXT,
        DPIF_XDP_COMPILE_REASONS(X)
#undef X
    };

    return texts[reason];
}
