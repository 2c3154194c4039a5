# SPDX-License-Identifier: Apache-2.0
"""One row for one configuration.  Where sockets are behind the ports, xdp-hook=auto is tcx: there the peer "ours-tcx" is the
peer "ours" measured once more."""

from bench.lib import field, runs, summary

SECOND = "ours-tcx"


def folded(results):
    """The results with both as one: of a round in which both were measured, the mean counts.  What the second measured with
    another commit is left out."""
    samples, second = [], {}
    for sample in results["samples"]:
        if sample["peer"] == SECOND and is_twice(sample["case"]):
            second[sample["case"], sample["round"], sample["row"]] = sample
        else:
            samples.append(sample)
    samples = [_mean(results, sample, second) for sample in samples]
    missing = {key: why for key, why in results["missing"].items()
               if not (key.split("/")[1] == SECOND and is_twice(key.split("/")[0]))}
    return results | {"samples": samples, "missing": missing}


def is_twice(case):
    return getattr(field.cases().get(case), "SOCKETS", False)


def noise(results):
    """[(case, row, by what share the medians of both differ)]: what a difference between two switches must exceed."""
    found = []
    for case, about in results["cases"].items():
        if is_twice(case) and _same_commit(results, case):
            for row in about["rows"]:
                one, other = (list(summary.values(results, case, peer, row).values()) for peer in ("ours", SECOND))
                if one and other:
                    medians = sorted(summary.quartiles(values)[1] for values in (one, other))
                    if medians[0]:
                        found.append((case, row, medians[1] / medians[0] - 1))
    return found


def _mean(results, sample, second):
    other = second.get((sample["case"], sample["round"], sample["row"])) if sample["peer"] == "ours" else None
    if not other or not _same_commit(results, sample["case"]):
        return sample
    numbers = {key: (sample[key] + other[key]) / 2 for key in sample.keys() & other.keys() - {"round"}
               if isinstance(sample[key], (int, float))}
    return sample | numbers


def _same_commit(results, case):
    return runs.commit_of(results, case, "ours") == runs.commit_of(results, case, SECOND)
