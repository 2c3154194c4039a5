# SPDX-License-Identifier: Apache-2.0
"""From samples to tables, pages and comparisons, on results that are made up: nothing is measured here."""
import copy
import json
import pathlib
import socket
import sys
import types

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP))

from bench.lib import (attack, causes, compare, draw, emulated, field, fold, html, iperf, kept, markdown,  # noqa: E402
                       plain_plot, profiles, progress, runs, story, summary, targets, worker)

RATES = {"ceiling": [9e6, 9.2e6, 9.1e6], "ours": [7e6, 7.2e6, 6.9e6], "stock-afxdp": [1.4e6, 1.5e6, 1.3e6],
         "bridge": [1.2e6, 1.2e6, 1.3e6]}
DELAYS = {"ours": [40e-6, 41e-6, 42e-6], "stock-afxdp": [60e-6, 61e-6, 59e-6], "bridge": [8e-6, 8e-6, 8e-6]}


@pytest.fixture(name="results")
def made_up():
    forward, latency = field.cases()["forward"], field.cases()["latency"]
    samples = [{"case": "forward", "peer": peer, "round": i, "row": "1", "value": value, "daemon_cpu": 0.5,
                "machine_cpu": 1.5} for peer, values in RATES.items() for i, value in enumerate(values)]
    samples += [{"case": "latency", "peer": peer, "round": i, "row": "first", "value": value}
                for peer, values in DELAYS.items() for i, value in enumerate(values)]
    return {
        "format": 2, "started": "2026-01-01 00:00 UTC", "ended": "2026-01-01 01:00 UTC",
        "machine": {"cpu": "a <processor>", "cores": 2, "memory_mb": 1000, "kernel": "Linux 6.1", "system": "Debian",
                    "virtual": True, "load_before": 0.1, "mhz": 2000.0},
        "settings": {"rounds": 3, "seconds": 0.5, "nice": 0, "loss": 0.001},
        "cases": {name: {"title": case.TITLE, "question": case.QUESTION, "group": case.GROUP, "plot": "bars",
                         "rows": case.ROWS} for name, case in (("forward", forward), ("latency", latency))},
        "peers": {name: {"title": peer.title, "role": peer.role, "version": "1"}
                  for name, peer in field.peers().items() if name in RATES or name == "kernel-module"},
        "missing": {"forward/kernel-module": "no module here", "forward/bridge/1M": "too many"},
        "failures": [{"case": "forward", "peer": "kernel-module", "round": 0, "reason": "it broke", "log": []}],
        "samples": samples,
    }


@pytest.mark.parametrize("values, wanted", [
    ([5], (5, 5, 5)),
    ([1, 3], (1.5, 2, 2.5)),
    ([3, 1, 2], (1.5, 2, 2.5)),
    ([1, 2, 3, 4, 100], (2, 3, 4)),
])
def test_quartiles(values, wanted):
    assert summary.quartiles(values) == wanted


def front(results):
    return markdown.pages(results, "x.json")["benchmarks.md"]


def again_forward(results, **machine):
    again = copy.deepcopy(results) | {"started": "2026-02-02 00:00 UTC", "missing": {}, "failures": [], "took": {}}
    del again["cases"]["latency"], again["ended"]
    again["peers"] = {"ours": again["peers"]["ours"]}
    again["machine"] |= machine
    return again


def test_measured_again(results):
    """On the same machine the others' samples stay, and what says when it was measured is the whole's."""
    now, label = kept.updated(copy.deepcopy(results), again_forward(results, load_before=7.0))
    label["ended"] = "2026-02-02 01:00 UTC"
    assert {s["peer"] for s in now["samples"] if s["case"] == "forward"} == set(RATES) - {"ours"}
    assert now["ended"] == "2026-02-02 01:00 UTC" and "measured" not in now["cases"]["forward"]


def test_measured_again_elsewhere(results):
    """A case is of one machine: nothing else of it stays, and the pages say where it was measured."""
    now, label = kept.updated(copy.deepcopy(results), again_forward(results, cpu="another <processor>"))
    label["ended"] = "2026-02-02 01:00 UTC"
    assert {s["case"] for s in now["samples"]} == {"latency"} and now["ended"] == results["ended"]
    page = front(now)
    assert "another <processor>" in page and "2026-02-02 00:00 UTC to 2026-02-02 01:00 UTC" in page and "| B | " in page
    assert "another &lt;processor&gt;" in html.page(now)
    now, _ = kept.updated(now, again_forward(results))
    assert "another <" not in front(now) and "of one run" in front(now)


@pytest.mark.parametrize("shares, wanted", [
    ([0.01, 0.0, 0.0], 0.01),               # Little enough: once.
    ([0.5, 0.02, 0.0], 0.02),
    ([0.5, 0.2, 0.4, 0.0], 0.2),            # No more than three times, then the least disturbed.
])
def test_disturbed_measurements(monkeypatch, shares, wanted):
    made = []

    class Theft:
        def share(self):
            return shares[len(made) - 1]

    monkeypatch.setattr(worker.cpu, "Theft", Theft)
    monkeypatch.setattr(worker, "measure_apart", lambda *_: made.append({"rows": {}, "number": len(made)}) or made[-1])
    answer, stolen = worker.measure_undisturbed("forward", "ours", {"stolen": 0.05})
    assert stolen == wanted == shares[answer["number"]]


@pytest.mark.parametrize("own, wanted", [([0.01, 0.03], 0.03), ([0.01, 0.5], 0.5)])
def test_rows_that_say_what_was_stolen(monkeypatch, own, wanted):
    """What was stolen before and after they were measured does not matter, and they have been measured again."""
    made = []
    rows = {str(i): {"value": 1, "stolen": share} for i, share in enumerate(own)}
    monkeypatch.setattr(worker.cpu, "Theft", lambda: types.SimpleNamespace(share=lambda: 0.4))
    monkeypatch.setattr(worker, "measure_apart", lambda *_: made.append(1) or {"rows": rows})
    assert worker.measure_undisturbed("host", "ours", {"stolen": 0.05})[1] == wanted
    assert made == [1]


@pytest.mark.parametrize("shares, runs, wanted", [([0.04], 1, 0.04), ([0.5, 0.0], 2, 0.0),
                                                  ([0.5, 0.3, 0.2, 0.4], 4, 0.2)])
def test_disturbed_tcp(monkeypatch, shares, runs, wanted):
    """After a run that shows the switch its flows, and is not looked at, and the rest until it has its programs for them."""
    made = []
    peer = types.SimpleNamespace(rest=made.clear)
    monkeypatch.setattr(iperf.cpu, "Theft", lambda: types.SimpleNamespace(share=lambda: shares[len(made) - 1]))
    monkeypatch.setattr(iperf, "_once", lambda *_: made.append(1) or {"rate": {"value": len(made)}})
    rows = iperf.tcp(None, peer, {"stolen": 0.05, "seconds": 1})
    assert rows == {"rate": {"value": shares.index(wanted) + 1, "stolen": wanted}} and len(made) == runs


def test_what_was_stolen_is_shown(results):
    assert "hypervisor" not in front(results)
    results["settings"]["stolen"] = 0.05
    for i, sample in enumerate(results["samples"]):
        sample["stolen"] = 0.2 if i == 0 else 0.01
    assert "1.0% of what was wanted in the median measurement, 20% at most; above 5%" in front(results)


@pytest.mark.parametrize("value, wanted", [(0, "0"), (1234.5, "1234"), (12.34, "12.3"), (1.234, "1.23"),
                                           (0.0123456, "0.0123"), (-12.3, "-12.3")])
def test_number(value, wanted):
    assert summary.number(value) == wanted


def test_ratio_is_that_of_the_medians(results):
    """As a reader computes it from the table; what rounds agree on stands around it."""
    results["samples"] = [s for s in results["samples"] if (s["peer"], s["round"]) != ("stock-afxdp", 1)]
    low, _, high = summary.quartiles([7 / 1.4, 6.9 / 1.3])
    assert summary.ratio(results, "forward", "ours", "1") == pytest.approx((low, 7 / 1.35, high))
    for sample in results["samples"]:
        if sample["peer"] == "stock-afxdp" and sample["case"] == "forward":
            sample["value"] = (1e6, 2e6, 0.5e6)[sample["round"]]        # Rounds that have nothing to do with each other.
    low, middle, high = summary.ratio(results, "forward", "ours", "1")
    assert middle == pytest.approx(7e6 / 0.75e6) and low <= middle <= high
    results["samples"] = [s for s in results["samples"] if s["peer"] != "stock-afxdp" or s["round"] == 0]
    assert summary.spread(summary.ratio(results, "forward", "ours", "1")) == "7.0"      # One round agrees with itself.


def test_one_row_for_one_configuration(results):
    """Between sockets xdp-hook=auto is tcx: what both names measured in a round is one figure, if of one commit."""
    results["peers"]["ours-tcx"] = {"title": "the same", "role": "ours", "version": "1"}
    samples = [{"case": "latency", "peer": "ours-tcx", "round": 0, "row": "first", "value": 50e-6}]
    results["samples"] += samples + [{"case": "forward", "peer": "ours-tcx", "round": 0, "row": "1", "value": 1e6}]
    (case, row, share), = fold.noise(results)
    assert (case, row) == ("latency", "first") and share == pytest.approx(50 / 41 - 1)
    once = fold.folded(results)
    assert not summary.values(once, "latency", "ours-tcx", "first") and summary.values(once, "forward", "ours-tcx", "1")
    assert summary.values(once, "latency", "ours", "first") == pytest.approx({0: 45e-6, 1: 41e-6, 2: 42e-6})
    results["cases"]["latency"]["versions"] = {"ours": "v, commit a", "ours-tcx": "v, commit b"}
    assert not fold.noise(results)
    assert summary.values(fold.folded(results), "latency", "ours", "first")[0] == 40e-6
    assert not summary.values(fold.folded(results), "latency", "ours-tcx", "first")


def test_results_are_kept_as_they_are(results):
    assert json.loads(kept.as_json(results)) == results
    assert json.loads(kept.as_json(results | {"samples": []}))["samples"] == []
    assert summary.ratio(results, "forward", "stock-afxdp", "1") is None


def test_table_says_why_not(results):
    lines = summary.table(results, "forward")
    assert [results["peers"]["kernel-module"]["title"], "no module here"] in lines
    ours = next(line for line in lines if line[0] == "OVS-XDP")
    assert ours[1] == "7.00 [6.95 7.10] x5.0" and ours[2] == "-"
    assert summary.notes(results, "forward") == [("Linux bridge", "1,000,000 flows", "too many")]


def test_cpu_per_packet(results):
    ours = next(line for line in summary.cpu_table(results, "forward") if line[0] == "OVS-XDP")
    assert ours[1] == "0.50 / 1.50, 214 ns = 429 cycles"


def test_what_was_left_stands_instead_of_what_was_used(results):
    for sample in results["samples"]:
        if sample["peer"] == "ours":
            sample["left"] = [0.25, 0.75]
            del sample["machine_cpu" if "machine_cpu" in sample else "left"]
    head, *lines = summary.cpu_table(results, "forward")
    assert head[0].startswith("left on") and ["OVS-XDP", "0.25 + 0.75", "-", "-"] in lines


def test_loss_is_shown(results):
    for sample in results["samples"]:
        if sample["peer"] == "bridge":
            sample["lost"] = 0.4
    assert any("(lost 40%)" in cell for line in summary.table(results, "forward") for cell in line)


def test_better_for_less(results):
    assert story.better(results, "latency", "ours", "first")[1] == pytest.approx(61 / 41, rel=0.03)


def test_sentence_is_about_whom_the_case_is_about(results):
    assert story.sentence(results, "forward").startswith("1 flow: OVS-XDP has 7.00 Mpps")
    results["cases"]["forward"]["about"] = "bridge"
    assert "Linux bridge has 1.20 Mpps" in story.sentence(results, "forward")
    results["cases"]["latency"]["says"] = ["p50", "first"]      # The first was not measured.
    assert story.sentence(results, "latency").startswith("first packet, median: OVS-XDP has 41.0 us")


def test_behind_names_the_fastest_other_switch(results):
    (case, row, peer, times), = story.behind(results)
    assert (case, row, peer) == ("latency", "first", "bridge") and times[1] == pytest.approx(41 / 8, rel=0.05)


def test_behind_does_not_name_who_lost_packets(results):
    for sample in results["samples"]:
        sample["lost"] = 0.4 if sample["peer"] == "bridge" else 0
    assert not any(peer == "bridge" for _, _, peer, _ in story.behind(results))


def test_shares(results):
    (name, wanted, share, cost, of_3_mpps, plain, least), = targets.shares(results)
    assert (wanted, plain, least) == ("0.97", "-", "-") and share.startswith("0.78") and cost.startswith("32")
    assert of_3_mpps.startswith("0.91")
    assert "Forwarding" in name


def test_only_failures_of_ours_fail(results):
    assert results["failures"] and not summary.ours_failed(results)
    results["failures"] += [results["failures"][0] | {"peer": "ours"}]
    assert summary.ours_failed(results)


def test_baselines_stand_beside_what_was_wanted(results):
    """The share of the least that looks anything up, and what there is without a switch."""
    results["samples"] += [{"case": "forward", "peer": "l2-xdp", "round": i, "row": "1", "value": rate}
                           for i, rate in enumerate(RATES["ceiling"])]
    assert next(targets.shares(results))[-1] == "1.00 [1.00 1.00]"

    tcp = field.cases()["tcp"]
    results["cases"]["tcp"] = {"title": tcp.TITLE, "rows": tcp.ROWS}
    results["samples"] += [{"case": "tcp", "peer": peer, "round": 0, "row": "rate", "value": rate}
                           for peer, rate in (("bridge", 2e9), ("ours", 2.1e9), ("direct", 2.3e9))]
    tables = {title: lines for title, _, lines in targets.all_tables(results)}
    head, line = next(lines for title, lines in tables.items() if "Linux bridge" in title)
    assert head[-1] == "without a switch" and line[-2:] == ["no", "1.15"]


@pytest.mark.parametrize("drawing", [True, False])
def test_page_is_complete(results, drawing, monkeypatch):
    """With and without matplotlib; a page that loads something would name an address."""
    if drawing:
        pytest.importorskip("matplotlib", reason="python3-matplotlib is not installed")
    else:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = html.page(results)
    assert ("<svg" in page) == drawing
    assert "a &lt;processor&gt;" in page and "it broke" in page and "no module here" in page
    assert not [word for word in ("<script", "<link", "src=", "@import") if word in page]
    for case in results["cases"]:
        assert f'id="{case}"' in page


def test_every_case_and_peer_can_be_drawn(results):
    pytest.importorskip("matplotlib", reason="python3-matplotlib is not installed")
    for name, case in field.cases().items():
        results["cases"] = {name: {"title": case.TITLE, "question": case.QUESTION, "group": case.GROUP,
                                   "plot": getattr(case, "PLOT", "bars"), "rows": case.ROWS}}
        results["samples"] = [{"case": name, "peer": "ours", "round": i, "row": row, "value": 1.0 + i}
                              for row in case.ROWS for i in range(2)]
        assert draw.plot(results, name).startswith("<svg")
    assert set(draw.STYLES) == set(field.peers())


def test_markdown_is_complete(results):
    pages = markdown.pages(results, "docs/benchmarks/results/x.json")
    assert set(pages) == {"benchmarks.md", *(f"benchmarks/{name}" for name in ("aims.md", "gain.svg", "forward.md",
                                                                              "latency.md"))}
    case = pages["benchmarks/forward.md"]
    assert "| OVS-XDP | 7.00 [6.95 7.10] x5.0 |" in case and "it broke" in case and "Run A" in case
    assert "(benchmarks/forward.md)" in pages["benchmarks.md"] and "**Not measured:**" in pages["benchmarks.md"]
    assert pages["benchmarks/gain.svg"].startswith("<svg")
    assert ">5.0x</text>" in plain_plot.gains([("packets <", [("ours", "OVS-XDP", 5, 4, 6)])], "stock")


def test_what_was_not_measured(results):
    """A case of which there is a sample of ours was measured, not one that failed."""
    assert "connection tracking and NAT; VXLAN and Geneve; OVN" in markdown.not_measured(results)
    for name in "ct", "tunnel", "ovn":
        results["cases"][name] = {"title": name, "rows": {}}
        results["samples"].append({"case": name, "peer": "bridge" if name == "ovn" else "ours", "round": 0, "row": "1", "value": 1})
    said = markdown.not_measured(results)
    assert "connection tracking" not in said and "VXLAN" not in said and "OVN" in said


def test_case_that_failed_is_no_run_of_its_own(results):
    results["cases"] = {"guest": {"title": "guest", "rows": {}}, **results["cases"]}
    found = runs.of(results)
    assert len(found) == 1 and set(found["A"]["cases"]) == set(results["cases"]) and found["A"]["commits"]


def test_what_is_not_the_fastest(results):
    """Slower, and level where nobody can tell: both are said."""
    for sample in results["samples"]:
        if (sample["case"], sample["peer"]) == ("forward", "bridge"):
            sample["value"] = (6.5e6, 7.3e6, 7.0e6)[sample["round"]]
    _, slower, level = causes.table(results)
    assert slower[0] == "Latency" and slower[2] == "slower" and level[2] == "level within noise"
    assert "Linux bridge 1.00 [0.9" in level[1]
    results["cases"]["forward"]["about"], results["peers"]["ours-engine"] = "ours-engine", {"title": "engine", "role": "part"}
    results["samples"].append({"case": "forward", "peer": "ours-engine", "round": 0, "row": "1", "value": 1e6})
    assert causes.table(results)[1][1].startswith("engine, 1 flow: ")


def test_retransmissions_of_who_sends_little_say_nothing(results):
    tcp = field.cases()["tcp"]
    results["cases"]["tcp"] = {"title": tcp.TITLE, "rows": tcp.ROWS}
    for peer, rate, again in (("ours", 30e9, 80), ("bridge", 28e9, 40), ("stock-afxdp", 2e9, 1)):
        results["samples"] += [{"case": "tcp", "peer": peer, "round": 0, "row": row, "value": value}
                               for row, value in (("rate", rate), ("retransmits", again))]
    assert [(row, peer, times[1]) for case, row, peer, times in story.behind(results) if case == "tcp"] == [
        ("retransmits", "bridge", 2)]


def test_emulated_ratios(results):
    inner = copy.deepcopy(results)
    for sample in inner["samples"]:
        if sample["peer"] == "bridge":
            sample["peer"] = "kernel-module"
    results["emulated"] = inner
    lines = emulated.table(results)
    head, forward, latency = lines
    at = head.index("OVS-XDP")
    assert forward[at].startswith("5.8 [") and latency[head.index("stock OVS, AF_XDP ports")].startswith("0.13")
    assert emulated.sentence(results).startswith("OVS-XDP is 0.20 (Latency: first packet, median) to 5.8 times")
    assert emulated.not_ahead(results) == [f"Latency: first packet, median: {latency[at]}"]
    assert "Beside the kernel module" in html.page(results)
    results["emulated"] = {"failed": "no qemu"}
    assert "no qemu" in html.page(results)


def changed(results, peer, factor):
    after = copy.deepcopy(results)
    for sample in after["samples"]:
        if sample["peer"] == peer:
            sample["value"] *= factor
    return after


@pytest.mark.parametrize("factor, wanted", [(1, 0), (1.03, 0), (0.5, 2), (2, 2)])
def test_compare(results, factor, wanted):
    found = compare.changes(results, changed(results, "ours", factor))
    assert len(found) == wanted
    if wanted:                              # More packets are better, longer delays are worse.
        assert found[0][3] == pytest.approx(factor) and found[1][3] == pytest.approx(1 / factor)
        assert "1 better, 1 worse" in compare.as_text(results, changed(results, "ours", factor))


def test_compare_knows_noise(results):
    noisy = copy.deepcopy(results)
    for sample in noisy["samples"]:
        sample["value"] *= (0.5, 1.0, 1.9)[sample["round"]]
    assert not compare.changes(results, noisy)


def test_compare_wants_rounds(results):
    results["samples"] = [s for s in results["samples"] if not s["round"]]
    results["settings"]["rounds"] = 1
    assert not compare.changes(results, changed(results, "ours", 2))
    assert "nothing can be said" in compare.as_text(results, results)


def test_every_case_and_peer_says_what_it_is():
    for name, case in field.cases().items():
        assert case.TITLE and case.QUESTION and case.GROUP and case.ROWS and callable(case.run), name
        assert all(row["better"] in ("more", "less") for row in case.ROWS.values()), name
        assert any(field.takes_part(case, peer) for peer in field.peers().values()), name
    for name, peer in field.peers().items():
        assert peer.title and peer.role in ("ours", "part", "switch", "baseline"), name
    assert set(field.CASE_ORDER) == set(field.cases()) and set(field.PEER_ORDER) == set(field.peers())


@pytest.mark.parametrize("case, peer, wanted", [
    ("forward", "ours", True),
    ("forward", "ours-tcx", False),         # There the peer "ours" stands for both hooks ...
    ("cpu_cost", "ours-tcx", True),         # ... but where a case wants both ...
    ("tcp", "ours-tcx", False),             # ... and between sockets, where auto is tcx.
    ("tcp", "ours-xdp", True),
    ("veth_xdp", "alone", False),           # What generator and sink cost needs saying only once.
    ("flows", "bridge", False),             # It has no daemon,
    ("host", "l2-xdp", False),              # and it is no host's.
])
def test_who_takes_part(case, peer, wanted):
    assert field.takes_part(field.cases()[case], field.peers()[peer]()) == wanted


def test_attack_needs_many_masks():
    """No two packets differ from what is allowed first at the same bits."""
    frames = [attack.frame(i) for i in range(attack.N_FRAMES)]
    assert len(set(frames)) == attack.N_FRAMES == 512 and {len(frame) for frame in frames} == {60}
    allowed = int.from_bytes(socket.inet_aton(attack.ALLOWED_IP), "big"), attack.ALLOWED_PORT
    first = {tuple((int.from_bytes(frame[at], "big") ^ value).bit_length()
                   for at, value in zip((slice(26, 30), slice(34, 36)), allowed)) for frame in frames}
    assert len(first) == attack.N_FRAMES


def test_profile_is_summed():
    """Compiled twins are one function; idle threads are left out; our programs are always named."""
    shown = "# Overhead;Symbol\n 50.00%  ;[k] default_idle\n 30.00%  ;[k] copy.isra.0\n 10.00%  ;[k] copy\n"
    shown += "".join(f" 1.00%;[k] f{i}\n" for i in range(8)) + " 1.00%;[.] 0x00ab\n 0.5%;[k] g\n"
    shown += " 0.50%;[k] bpf_prog_014b370ae5fcc9c0_oxdp_tcx\n"
    found = profiles.summed(shown)
    assert found[0] == ["copy", 0.8] and ["(unknown)", 0.02] in found and found[-1] == ["oxdp_tcx", 0.01]
    assert len(found) == profiles.N_SHOWN + 1


def test_time_left(capsys):
    jobs = [("forward", peer, turn) for turn in range(2) for peer in ("ours", "bridge")]
    clock = progress.Progress(jobs, {"forward/ours": 60.0}, more=600)
    clock.announce()
    assert "4 measurements, about 14 minutes" in capsys.readouterr().err   # The bridge is taken to be as slow.
    progress.Progress(jobs, {}).announce()
    assert "4 measurements\n" == capsys.readouterr().err


def test_documentation_is_made_of_kept_results():
    docs = TOP / "docs"
    source = (docs / "benchmarks.md").read_text(encoding="utf-8").split("--docs ")[1].split("`")[0]
    pages = markdown.pages(json.loads((TOP / source).read_text(encoding="utf-8")), source)
    there = {str(path.relative_to(docs)): path.read_text(encoding="utf-8")
             for path in (docs / "benchmarks.md", *(docs / "benchmarks").glob("*.*"))}
    assert there == pages, f"run: bench/report --docs {source}"
    assert pages["benchmarks.md"].count("\n") <= 200
