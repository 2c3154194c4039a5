# SPDX-License-Identifier: Apache-2.0
"""ovs-xdp-exporter: what it says of a switch, and what Prometheus makes of that.

promtool and prometheus are those of Debian's package; without them their tests are skipped."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import urllib.error
import urllib.request

import pytest

import lab
import scene
import switch as switches

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
EXPORTER = TOP / "tools/observe/ovs-xdp-exporter"
RULES = TOP / "examples/prometheus/ovs-xdp.rules.yml"
DASHBOARD = TOP / "examples/grafana/ovs-xdp.json"
NASTY = 'a"b\\c'


def program(name):
    path = shutil.which(name)
    if not path:
        pytest.skip(f"{name} is not installed: apt-get install prometheus")
    return path


@pytest.fixture(scope="module")
def metrics():
    """The metrics of a switch with traffic, and of its port with a nasty name."""
    lab.new_host()
    with scene.with_odd_port(NASTY) as (switch, red):
        switch.flows("br0", "priority=1,icmp,in_port=to-red,actions=ct(commit,zone=7),normal", "priority=0,actions=normal")
        switch.appctl("dpctl/ct-set-limits", "zone=7,limit=100")
        switch.use_hook("to-red", "options:xdp-hook=xdp")
        red.run("ping", "-c", "3", "-i", "0.01", "10.0.0.100")
        yield once(switch)


def once(switch):
    return lab.run(EXPORTER, "--once", "-t", scene.target(switch))


def values(text, name):
    """The samples of a metric: {labels: value}."""
    return {labels: float(value) for labels, value in re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", text, re.MULTILINE)}


def test_promtool_accepts_metrics(metrics):
    done = subprocess.run([program("promtool"), "check", "metrics"], input=metrics, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_values(metrics):
    """Each frame has one fate; names are quoted."""
    assert values(metrics, "ovs_xdp_up") == {"": 1}
    frames = values(metrics, "ovs_xdp_port_frames_total")
    red = sum(number for labels, number in frames.items() if 'port="to-red"' in labels)
    received = values(metrics, "ovs_xdp_port_receive_packets_total")['datapath="ovs-xdp",port="to-red"']
    assert 4 <= red <= received
    assert any('tier="engine",reason="up_miss"' in labels and number for labels, number in frames.items())
    assert 'port="a\\"b\\\\c"' in metrics
    assert values(metrics, "ovs_xdp_table_size")['datapath="ovs-xdp",table="masks"'] == 128
    assert values(metrics, "ovs_xdp_table_used")['datapath="ovs-xdp",table="connections"'] == 1
    assert values(metrics, "ovs_xdp_ct_zone_connections") == {'datapath="ovs-xdp",zone="7"': 1}
    assert values(metrics, "ovs_xdp_ct_zone_limit") == {'datapath="ovs-xdp",zone="7"': 100}
    assert values(metrics, "ovs_xdp_port_open")['datapath="ovs-xdp",port="to-red"'] == 1


def test_every_metric_is_documented(metrics):
    documented = set(re.findall(r"^\| `(ovs_xdp_\w+)`", (TOP / "docs/reference/metrics.md").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r'^    "(ovs_xdp_\w+)": \(', EXPORTER.read_text(encoding="utf-8"), re.MULTILINE))
    seen = set(re.findall(r"^# TYPE (\S+)", metrics, re.MULTILINE))
    assert documented == named == seen


def test_types_and_labels_are_documented(metrics):
    """Of each metric, and of a label with few values those."""
    rows = re.findall(r"^\| `(ovs_xdp_\w+)` \| (\w+) \| (.*?) \| .*\|$", (TOP / "docs/reference/metrics.md").read_text(encoding="utf-8"),
                      re.MULTILINE)
    assert len(rows) > 30
    for name, kind, labels in rows:
        assert f"# TYPE {name} {kind}\n" in metrics
        named = [label for label in re.sub(r" \([^)]*\)", "", labels).split(", ") if label]
        samples = [dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', sample)) for sample in values(metrics, name)]
        assert samples and all(list(sample) == named for sample in samples), (name, named, samples)
        for label, few in re.findall(r"(\w+) \((`[^)]*`)\)", labels):
            assert {sample[label] for sample in samples} <= set(re.findall(r"`(\w+)`", few)), (name, label)


def test_rules():
    """Each alert is silent on a healthy switch and speaks when it should."""
    lab.run(program("promtool"), "check", "rules", RULES)
    lab.run(program("promtool"), "test", "rules", RULES.with_suffix(".test.yml"))


def test_rules_and_dashboard_use_metrics_that_are_there():
    named = set(re.findall(r'^    "(ovs_xdp_\w+)": \(', EXPORTER.read_text(encoding="utf-8"), re.MULTILINE))
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    assert len(expressions) >= 10
    for text in [RULES.read_text(encoding="utf-8"), *expressions]:
        assert set(re.findall(r"\bovs_xdp_\w+(?!:)\b(?!-)", text)) <= named


class Exporter:
    """A running exporter, without privileges if it can open the socket so."""

    def __init__(self, *args):
        self.process = subprocess.Popen([EXPORTER, "--listen", "127.0.0.1:0", *args], stderr=subprocess.PIPE, text=True)
        self.url = re.search(r"http://\S+", self.process.stderr.readline())[0]

    def get(self, path="/metrics"):
        with urllib.request.urlopen(self.url.replace("/metrics", path), timeout=lab.PATIENCE) as answer:
            return answer.read().decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(lab.PATIENCE)
        self.process.stderr.close()


NO_CAPABILITIES = "setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"


def test_without_privileges(tmp_path_factory):
    """root without capabilities, and an ordinary user: refused with a sentence, and served once the socket is the user's."""
    installed = tmp_path_factory.mktemp("installed")
    for folder in installed, *installed.parents[:2]:    # pytest's own, which nobody else may enter.
        folder.chmod(0o755)
    for path in EXPORTER, EXPORTER.parent / "ovs_xdp_client.py":
        shutil.copy(path, installed)
    with switches.Switch() as switch:
        command = [installed / EXPORTER.name, "--once", "-t", scene.target(switch)]
        nobody = [*NO_CAPABILITIES, "--reuid=nobody", "--regid=nogroup", "--clear-groups", *command]
        assert "\novs_xdp_up 1\n" in lab.run(*NO_CAPABILITIES, *command)
        assert "Permission denied" in lab.run(*nobody, check=False)
        switch.rundir.chmod(0o711)
        shutil.chown(scene.target(switch), "nobody")
        assert "\novs_xdp_up 1\n" in lab.run(*nobody)


def test_restarted_daemon():
    """The exporter outlives the daemon, says when that is away, and finds the next one."""
    with switches.Switch() as switch, Exporter("-t", scene.target(switch)) as exporter:
        switch.add_bridge("br0")
        assert values(exporter.get(), "ovs_xdp_up") == {"": 1}
        assert "metrics" in exporter.get("/")
        with pytest.raises(urllib.error.HTTPError):
            exporter.get("/other")
        switch.stop()
        assert values(exporter.get(), "ovs_xdp_up") == {"": 0}
        switch.start()
        assert values(exporter.get(), "ovs_xdp_up") == {"": 1}
        assert "ovs_xdp_datapath_flows" in exporter.get()


def test_textfile(tmp_path):
    """The file is replaced at once, and says so when there is no daemon."""
    path = tmp_path / "ovs_xdp.prom"
    lab.run(EXPORTER, "--textfile", path, "-t", tmp_path / "none.ctl")
    assert values(path.read_text(encoding="utf-8"), "ovs_xdp_up") == {"": 0}
    assert path.stat().st_mode & 0o777 == 0o644
    assert [found.name for found in tmp_path.iterdir()] == ["ovs_xdp.prom"]


@pytest.mark.parametrize("args, sentence", [
    (["--listen", "nonsense"], "expected [ADDRESS:]PORT"), (["--listen", "1.2.3.4:99999"], "expected [ADDRESS:]PORT"),
    (["--textfile", "/nonexistent/x.prom"], "No such file or directory"), (["--once", "--interval", "-1"], "0 or more seconds")])
def test_wrong_options(args, sentence):
    with pytest.raises(lab.Failed, match=re.escape(sentence)):
        lab.run(EXPORTER, *args)


class Prometheus(lab.Process):
    """A real one, which reads an exporter every second and evaluates the rules on what it says."""

    def __init__(self, folder, exporter):
        config = folder / "prometheus.yml"
        config.write_text(f"global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\nrule_files: [{RULES}]\n"
                          f"scrape_configs: [{{job_name: ovs-xdp, static_configs: [{{targets: ['{exporter.url[7:-8]}']}}]}}]\n",
                          encoding="utf-8")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        super().__init__(program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                         f"--web.listen-address=127.0.0.1:{self._port}", env=dict(os.environ))

    def ask(self, what):
        """The answer to a request of its API, nothing while it is starting."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/v1/{what}", timeout=lab.PATIENCE) as answer:
                return json.load(answer)["data"]
        except OSError:
            return {}

    def samples(self, query):
        """Of each series the value now, by its label "table"."""
        series = self.ask(f"query?query={query}").get("result", [])
        return {one["metric"].get("table"): float(one["value"][1]) for one in series}

    def reads(self):
        """Whether its last scrape was without an error."""
        return [(target["health"], target["lastError"]) for target in self.ask("targets").get("activeTargets", [])] == [("up", "")]

    def healths(self):
        """{name: "ok", "err" or "unknown"} of all rules."""
        return {rule["name"]: rule["health"] for rule in self._rules()}

    def alerts(self):
        """{name: state} of those that are not silent."""
        return {rule["name"]: rule["state"] for rule in self._rules() if rule.get("state", "inactive") != "inactive"}

    def _rules(self):
        return [rule for group in self.ask("rules").get("groups", []) for rule in group["rules"]]


def test_prometheus_scrapes(tmp_path):
    """A real Prometheus reads the exporter, evaluates every rule, and has an alert while the daemon is away, only."""
    with switches.Switch() as switch, Exporter("-t", scene.target(switch)) as exporter:
        switch.add_bridge("br0")
        with Prometheus(tmp_path, exporter) as prometheus:
            assert lab.wait_until(lambda: prometheus.samples("ovs_xdp_table_size"), "a scrape by Prometheus")["masks"] == 128
            lab.wait_until(prometheus.reads, "a target that is up")
            named = set(re.findall(r"^ +- (?:alert|record): (\S+)", RULES.read_text(encoding="utf-8"), re.MULTILINE))
            lab.wait_until(lambda: prometheus.healths() == dict.fromkeys(named, "ok"), "rules evaluated")
            lab.wait_until(lambda: not prometheus.alerts(), "silence")
            switch.stop()
            lab.wait_until(lambda: prometheus.alerts() == {"OvsXdpDown": "pending"}, "the alert")
            lab.wait_until(prometheus.reads, "a target that is up while the daemon is away")
            switch.start()
            lab.wait_until(lambda: not prometheus.alerts() and prometheus.samples("ovs_xdp_table_size"), "silence again")


def test_daemon_that_hangs():
    """A scrape has its answer before Prometheus gives it up, ten seconds by default; the next finds the daemon again."""
    with switches.Switch() as switch, Exporter("-t", scene.target(switch)) as exporter:
        switch.expected.append("blocked|poll interval|jsonrpc|unixctl")
        assert values(exporter.get(), "ovs_xdp_up") == {"": 1}
        os.kill(switch.process.pid, signal.SIGSTOP)
        try:
            since = time.monotonic()
            assert values(exporter.get(), "ovs_xdp_up") == {"": 0}
            assert time.monotonic() - since < 9
        finally:
            os.kill(switch.process.pid, signal.SIGCONT)
        lab.wait_until(lambda: values(exporter.get(), "ovs_xdp_up") == {"": 1}, "an answer of the daemon")


def test_scraper_that_hangs_up():
    """One that closes its connection before the answer is no error of the exporter, and others are served."""
    with switches.Switch() as switch, Exporter("-t", scene.target(switch)) as exporter:
        address = re.search(r"//(.+):(\d+)/", exporter.url)
        for _ in range(20):
            with socket.create_connection((address[1], int(address[2]))) as scraper:
                scraper.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))    # Closing resets it.
                scraper.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert values(exporter.get(), "ovs_xdp_up") == {"": 1}
        exporter.process.terminate()
        assert "Traceback" not in exporter.process.stderr.read()
