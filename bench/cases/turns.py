# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward, ip6, pop_vlan, push_vlan, set_fields
from bench.lib import datapath, measure, world

TITLE = "By turns with a bare redirect"
GROUP = "Forwarding"
QUESTION = ("How much longer than with a bare bpf_redirect_map does a frame take from the generator through the switch to "
            "the sink, all of which runs on one core? Test runs of 16,384 frames go through one and the other by turns, a "
            "few milliseconds each, so that a change of the machine's speed meets both; the median of the differences. The "
            "switch runs the program that is specialised to its flows.")
RULE = "turns"
KINDS = {                                   # Row: rule, frames, flows.
    "1": (forward.RULE, [], 1),
    "1k": (forward.RULE, [], 1000),
    "1M": (forward.RULE, [], 1000000),
    "set": (set_fields.RULE, [], 1),
    "push": (push_vlan.RULE, [], 1),
    "pop": (pop_vlan.RULE, pop_vlan.FRAMES, 1),
    "ip6": (ip6.RULE, ip6.FRAMES, 1),
    "exact": ("exact", [], 1000),           # The last: flows that were put into the datapath stay there.
}
TITLES = ("1 flow", "1,000 flows", "1,000,000 flows", "setting addresses, decrementing TTL", "pushing a tag",
          "popping a tag", "IPv6, 5-tuple", "1,000 megaflows, 20 masks")
ROWS = {row: {"title": title, "unit": "ns", "better": "less"} for row, title in zip(KINDS, TITLES)}
SAYS = ("1", "1M")


def run(w, peer, settings):
    sinks = make_paths(w, peer)
    answers, rule = {}, forward.RULE
    for row, (wanted, frames, flows) in KINDS.items():
        if wanted != rule and not can(peer, wanted):
            continue
        w.frames = frames
        if wanted != rule:
            change(w, peer, sinks[0], wanted)
            rule = wanted
        answers[row] = measure.over_bare(w, sinks, max(1, settings["seconds"]), flows)
    return answers


def make_paths(w, peer):
    """The path through the switch, and the bare redirect beside it.  Returns the sinks of both."""
    w.make_veth("by0", "gen", "g1", world.GENERATOR_MAC)
    w.make_veth("by1", "sink", "s1", world.SINK_MAC)
    w.hold("forward", "--dev", "by0", "--to", "by1")
    return forward.make_path(w, peer, forward.RULE), w.sink("s1")


def can(peer, rule):
    return hasattr(peer, "daemon") if rule == "exact" else rule in peer.rules


def change(w, peer, sink, rule):
    """Gives the switch another rule, and waits until its flows do not change."""
    if rule == "exact":
        datapath.replace_flows(peer, datapath.exact_flows(1000, 20))
    else:
        peer.change_rule(rule)
        w.wait_for_path(sink)
    peer.rest()
