# SPDX-License-Identifier: Apache-2.0
"""What happened in a datapath between two moments, from two answers of the daemon.

A report is made of plain dictionaries: "ovs-xdp-top --once --json" prints it, the views print it for people.
"""
import os
import re
import time

ALMOST_FULL = 0.9
SLOW_SHARE, SLOW_RATE = 0.1, 1000       # Of packets, and packets/s, from which the slow path is worth a word.
FLOW = re.compile(r"^(?:ufid:(?P<ufid>\S+), )?(?P<match>.*?), packets:(?P<packets>\d+), bytes:(?P<bytes>\d+), used:"
                  r"(?P<state>.*?), actions:(?P<actions>.*)$")
NOTHING = r"(?:0x0+|0+|0\.0\.0\.0|::|00(?::00){5})"
MEMBER = re.compile(rf"(?<=[(,])(?:\w+=)?[^,()]*/{NOTHING}(?=[,)])")    # A member of a field that is not matched.
TRAFFIC = ("rx_packets", "rx_bytes", "tx_packets", "tx_bytes")
PASSED = ("forwarded", "unknown_port")  # Frames of these fates are no drops and do not go to the engine.


class Sample:
    """What the daemon said at one moment."""

    def __init__(self, client, wanted=()):
        """'wanted' has "masks" or "flows" where their rates are wanted: those take the daemon more time."""
        self.time = time.monotonic()
        self.version, self.shown = _datapaths(client.document("xdp/show"))
        _, self.stats = _datapaths(client.document("xdp/stats"))
        _, self.tracked = _datapaths(client.document("xdp/ct-show"))
        self.masks = _datapaths(client.document("xdp/dump-masks"))[1] if "masks" in wanted else None
        self.flows = {name: _flows(client.call("dpctl/dump-flows", "-m", f"{found['type']}@{name}"))
                      for name, found in self.shown.items()} if "flows" in wanted else None
        self.cpu = _cpu_times()

    def names(self):
        """The datapaths, by name."""
        return sorted(self.shown)


def report(new, old, name):
    """What happened in datapath 'name' from 'old' to 'new'.  Rates are of a second; without a past (None, or the daemon was
    restarted meanwhile) they are None."""
    shown, stats = new.shown[name], new.stats.get(name, {"engine": {"drops": {}}, "ports": []})
    past = _past(new, old, name)
    seconds = new.time - old.time if past else None
    old_shown, old_stats = past or (None, None)

    ports = _ports(shown, stats, old_shown, old_stats, seconds)
    drops, slow = _drops(shown, stats, old_shown, old_stats, seconds), _slow(stats, old_stats, seconds)
    found = {
        "datapath": name, "version": new.version, "seconds": seconds,
        "total": _total(stats, old_stats, seconds, ports, drops),
        "ports": ports, "drops": drops, "slow_path": slow,
        "tables": _tables(shown, new.tracked.get(name, {})), "flows": shown["flows"],
        "flows_by_reason": [reason for reason in shown.get("fast_path", {}).get("flows_by_reason", []) if reason["flows"]],
        "threads": _threads(shown, old_shown, seconds),
        "softirq": _softirq(new.cpu, old.cpu) if old else None,
    }
    found["engine_cpu"] = _sum(thread["busy"] for thread in found["threads"])
    if new.masks is not None:
        found["masks"] = _masks(new.masks.get(name), old.masks.get(name) if past and old.masks else None, seconds)
    if new.flows is not None:
        found["top_flows"] = _top_flows(new.flows.get(name, {}), old.flows.get(name) if past and old.flows else None, seconds)
    found["advice"] = _advice(found)
    return found


def _datapaths(document):
    return document["version"], {datapath["name"]: datapath for datapath in document["datapaths"]}


def _past(new, old, name):
    """What 'old' said of the datapath, if it is the past of 'new': the same daemon's, whose counters only grow."""
    if not old or name not in old.shown or name not in old.stats or new.time <= old.time:
        return None
    pairs = ((new.stats[name]["engine"][key], old.stats[name]["engine"][key]) for key in ("misses", "masks_walked"))
    cpu = ((now["cpu_ms"], then["cpu_ms"]) for now, then in zip(new.shown[name]["threads"], old.shown[name]["threads"]))
    return (old.shown[name], old.stats[name]) if all(now >= then for now, then in (*pairs, *cpu)) else None


def _rate(now, then, seconds):
    """Of a number that only grows; None without a past, or if it was set back."""
    return (now - then) / seconds if seconds and then is not None and now >= then else None


def _sum(numbers):
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _key(port):
    """A port keeps its past while it has its number and its name."""
    return port["port"], port["name"]


def _by_key(datapath):
    return {_key(port): port for port in datapath["ports"]} if datapath else {}


def _handed_up(frames):
    return sum(number for fate, number in frames.items() if fate.startswith("up_"))


def _ports(shown, stats, old_shown, old_stats, seconds):
    past, states, found = _by_key(old_stats), _by_key(shown), []
    for port in stats["ports"]:
        before, state = past.get(_key(port), {}), states.get(_key(port), {})
        entry = {"port": port["port"], "name": port["name"], "hook": port.get("hook"), "error": state.get("error")}
        for key in TRAFFIC:
            entry[key] = _rate(port.get(key, 0), before.get(key), seconds)
        frames, before = port.get("frames", {}), before.get("frames", {})
        rates = {fate: _rate(number, before.get(fate), seconds) for fate, number in frames.items()}
        all_frames, up = _sum(rates.values()), _sum(rate for fate, rate in rates.items() if fate.startswith("up_"))
        entry["frames"] = all_frames
        entry["program_share"] = 1 - up / all_frames if all_frames else None
        entry["engine_share"] = up / all_frames if all_frames else None
        entry["upcalls"] = rates.get("up_miss")
        entry["drops"] = _sum(rate for fate, rate in rates.items() if fate not in PASSED and not fate.startswith("up_"))
        found.append(entry)
    return found


def _shares(ports):
    """Of the frames that ports received: the share that the programs of each hook had, and the engine's; nothing without frames."""
    had = {}
    for port in ports:
        if port["frames"]:
            for tier, part in (port["hook"], port["program_share"]), ("engine", port["engine_share"]):
                had[tier] = had.get(tier, 0) + port["frames"] * part
    whole = sum(had.values())
    return {tier: frames / whole for tier, frames in had.items()}


def _total(stats, old_stats, seconds, ports, drops):
    engine, before = stats["engine"], (old_stats or {}).get("engine", {})
    total = {key: _sum(port[key] for port in ports) for key in TRAFFIC}
    total["shares"] = _shares(ports)
    total["engine_share"] = total["shares"].get("engine")
    total["program_share"] = 1 - total["engine_share"] if total["shares"] else None
    total["upcalls"] = _rate(engine.get("misses", 0), before.get("misses"), seconds)
    total["upcalls_lost"] = _rate(engine.get("upcalls_lost", 0), before.get("upcalls_lost"), seconds)
    total["drops"] = _sum(drop["rate"] for drop in drops)
    programs, old = stats.get("programs"), (old_stats or {}).get("programs", {})
    if programs:
        hits = _rate(programs["mask_hits"], old.get("mask_hits"), seconds)
        walked = _rate(programs["masks_walked"], old.get("masks_walked"), seconds)
        total["masks_walked"], total["mask_hits"] = walked, hits
    return total


def _drop(where, reason, number, before, seconds):
    return {"where": where, "reason": reason, "total": number, "rate": _rate(number, before, seconds)}


def _drops(shown, stats, old_shown, old_stats, seconds):
    """Every drop that ever was, the quickest first."""
    past = _by_key(old_stats)
    found = [_drop("engine", reason, number, (old_stats or {}).get("engine", {}).get("drops", {}).get(reason), seconds)
             for reason, number in stats["engine"]["drops"].items()]
    for port in stats["ports"]:
        before = past.get(_key(port), {})
        found += [_drop(port["name"], fate, number, before.get("frames", {}).get(fate), seconds)
                  for fate, number in port.get("frames", {}).items() if fate not in PASSED and not fate.startswith("up_")]
        found += [_drop(port["name"], f"device_{key}", port[key], before.get(key), seconds)
                  for key in ("rx_dropped", "tx_dropped") if key in port]
    past = _by_key(old_shown)
    for port in shown["ports"]:
        before = past.get(_key(port), {})
        senders, then = _senders(port), _senders(before)
        for reason in ("ring_full", "no_frames", "other_drops"):         # tx_dropped has what could not be sent.
            number = sum(sender.get(reason, 0) for sender in senders)
            found.append(_drop(port["name"], f"socket_{reason}", number,
                               sum(sender.get(reason, 0) for sender in then) if before else None, seconds))
    return sorted((drop for drop in found if drop["total"]), key=lambda drop: (-(drop["rate"] or 0), -drop["total"]))


def _senders(port):
    return ([port["engine"]] if "engine" in port else []) + port.get("queues", [])


def _slow(stats, old_stats, seconds):
    """Why packets went to the engine, of all ports together."""
    def add_up(datapath):
        sums = {}
        for port in datapath["ports"] if datapath else ():
            for fate, number in port.get("frames", {}).items():
                if fate.startswith("up_"):
                    sums[fate[3:]] = sums.get(fate[3:], 0) + number
        return sums
    now, then = add_up(stats), add_up(old_stats)
    found = [{"reason": reason, "total": number, "rate": _rate(number, then.get(reason), seconds)} for reason, number in now.items()]
    return sorted((entry for entry in found if entry["total"]), key=lambda entry: (-(entry["rate"] or 0), -entry["total"]))


def _tables(shown, tracked):
    fast_path, umem = shown.get("fast_path"), shown.get("umem")
    tables = {table: {"used": fast_path[table], "size": fast_path[f"max_{table}"]}
              for table in ("flows", "masks", "groups")} if fast_path else {}
    if umem:
        tables["umem_frames"] = {"used": umem["frames"] - umem["free"], "size": umem["frames"]}
    if tracked.get("used"):
        tables["connections"] = {"used": tracked["connections"], "size": min(tracked["room"], tracked["max_connections"])}
    return tables


def _threads(shown, old_shown, seconds):
    before = {thread["thread"]: thread for thread in old_shown["threads"]} if old_shown else {}
    return [{"thread": thread["thread"], "cpu": thread.get("cpu"), "queues": thread["queues"],
             "busy": _rate(thread["cpu_ms"] / 1000, before.get(thread["thread"], {}).get("cpu_ms", 0) / 1000
                           if thread["thread"] in before else None, seconds)} for thread in shown["threads"]]


def _masks(now, then, seconds):
    before = {mask["fields"]: mask["hits"] for mask in then["masks"]} if then else {}
    return [{**mask, "rate": _rate(mask["hits"], before.get(mask["fields"]), seconds)} for mask in (now or {"masks": []})["masks"]]


def _flows(text):
    """The flows of "dpctl/dump-flows -m" by their unique id."""
    found = {}
    for line in text.splitlines():
        parts = FLOW.match(line)
        if parts:
            tier = re.search(r"\bdp:(\w+)", parts["state"])
            found[parts["ufid"] or parts["match"]] = {
                "match": _short_match(parts["match"]), "packets": int(parts["packets"]), "bytes": int(parts["bytes"]),
                "tier": tier[1] if tier and "offloaded:yes" in parts["state"] else "engine", "actions": parts["actions"]}
    return found


def _short_match(match):
    """Without what is wildcarded: "-m" names every field with its mask."""
    kept = MEMBER.sub("", match)
    return re.sub(r",+", ",", re.sub(r",*\b\w+\(,*\)|,+(?=\))|(?<=\(),+", "", kept)).strip(",") or match


def _top_flows(now, then, seconds):
    found = []
    for key, flow in now.items():
        before = (then or {}).get(key, {})
        found.append({**flow, "pps": _rate(flow["packets"], before.get("packets"), seconds),
                      "bytes_rate": _rate(flow["bytes"], before.get("bytes"), seconds)})
    return sorted(found, key=lambda flow: (-(flow["pps"] or 0), -flow["packets"]))


def _cpu_times():
    """(softirq, all) of all CPUs, in ticks; None where there is no /proc/stat."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    return (ticks[6], sum(ticks)) if len(ticks) > 6 else None


def _softirq(now, then):
    """CPUs that were busy with softirqs."""
    if not now or not then or now[1] <= then[1]:
        return None
    return max(0, now[0] - then[0]) / (now[1] - then[1]) * (os.cpu_count() or 1)


def _advice(found):
    """What to look at first: one sentence each."""
    lines = [f"{port['name']}: {port['error']}" for port in found["ports"] if port["error"]]
    for name, what in (("masks", "flows with other masks run in the engine: see the masks (m)"),
                       ("flows", "more flows run in the engine: raise other_config:xdp-flows"),
                       ("groups", "flows to other sets of ports run in the engine"),
                       ("connections", "new connections are refused soon: raise other_config:xdp-ct-max"),
                       ("umem_frames", "packets find no buffer: raise other_config:xdp-umem-frames")):
        table = found["tables"].get(name)
        if table and table["size"] and table["used"] >= ALMOST_FULL * table["size"]:
            lines.append(f"{table['used']} of {table['size']} {name.replace('_', ' ')} are used: {what}")
    total = found["total"]
    if total["upcalls_lost"]:
        lines.append(f"ofproto leaves {total['upcalls_lost']:.0f} upcalls/s unanswered: first packets are lost")
    slow = found["slow_path"][:1]
    if (total["engine_share"] or 0) > SLOW_SHARE and slow and (slow[0]["rate"] or 0) > SLOW_RATE:
        lines.append(f"{total['engine_share']:.0%} of the packets take the slow path, most because: {slow[0]['reason']}")
    return lines
