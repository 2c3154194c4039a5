# SPDX-License-Identifier: Apache-2.0
"""Results that are kept while some of them are measured again."""

import json

from bench.lib import field, machine


def as_json(results):
    """Text for a file: one line for each sample, so that files stay short."""
    samples = ",\n  ".join(json.dumps(sample) for sample in results["samples"])
    rest = json.dumps(results | {"samples": []}, indent=1)
    return rest.replace('\n "samples": []', f'\n "samples": [\n  {samples}\n ]' if samples else '\n "samples": []', 1) + "\n"


def updated(old, again):
    """What is kept without the cases and peers that are measured again, and what says when they were.  A case is of one
    machine: on another it is measured again as a whole."""
    def machine_of(case):
        return old["cases"][case].get("measured", old)["machine"]

    def stays(case, peer):
        return case not in again["cases"] or (peer not in again["peers"]
                                              and machine.is_same(machine_of(case), again["machine"]))

    for name in "samples", "failures":
        old[name] = [item for item in old[name] if stays(item["case"], item["peer"])]
    old["missing"] = {pair: reason for pair, reason in old["missing"].items() if stays(*pair.split("/")[:2])}
    for name, order in ("cases", field.cases()), ("peers", field.peers()):
        old[name] = {key: old[name].get(key, {}) | again[name].get(key, {}) for key in order
                     if key in old[name] or key in again[name]}
    old["took"] = again["took"] | old.get("took", {})
    if machine.is_same(old["machine"], again["machine"]):
        label = old
        old["settings"] = again["settings"]
    else:
        label = {name: again[name] for name in ("machine", "started")}
        old["settings"] = again["settings"] | old["settings"]
    for case in again["cases"]:
        old["cases"][case].pop("measured", None)
        if label is not old:
            old["cases"][case]["measured"] = label
    return old, label
