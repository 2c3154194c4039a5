# SPDX-License-Identifier: Apache-2.0
"""examples/container/kubernetes.yaml, as far as a machine without a kubelet can run it: Podman plays the DaemonSet's pod, with its
image, network, capabilities, read-only root and volumes.

What Podman 4.3 does not read of it is done here, from the same lines: the seccomp profile (as the annotation that came before the
field), and the readiness probe (run in the container).  The liveness probe is run by hand: Podman has systemd do it, which is not
there.  The propagation of mounts, priority and tolerations are ignored."""
import contextlib
import os
import re

import pytest
import yaml

import lab
import system as systems
import test_podman
from test_container import NUMBERS, of_process
from test_package import Network

MANIFEST = systems.PACKAGES / "ovs-xdp/examples/container/kubernetes.yaml"
SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"


def derived_pod(manifest):
    """The pod that a kubelet would make of the DaemonSet."""
    template = manifest["spec"]["template"]
    return {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
            "metadata": {"name": manifest["metadata"]["name"], **template["metadata"]}}


class Pod(test_podman.Podman):
    """The pod of the manifest; its container is the first and only one."""

    def __init__(self):
        self.pod = derived_pod(yaml.safe_load(MANIFEST.read_text(encoding="utf-8")))
        self.container, = self.pod["spec"]["containers"]
        super().__init__(f"{self.pod['metadata']['name']}-{self.container['name']}")
        self.pod["metadata"]["annotations"] = {SECCOMP: self.container["securityContext"]["seccompProfile"]["type"].lower()}
        self.file = self.folder / "pod.yaml"
        self.file.write_text(yaml.safe_dump(self.pod), encoding="utf-8")
        self.settings = self.folder / "containers.conf"
        # As in test_podman.py, what this host may not permit: limits, and the filter of devices, a BPF program for which crun
        # raises one.  And the image, which has a program that only waits, for the container that keeps a pod's namespaces.
        runtime = self.folder / "crun"
        runtime.write_text('#!/bin/sh\nexec /usr/bin/crun --cgroup-manager=disabled "$@"\n', encoding="utf-8")
        runtime.chmod(0o755)
        self.settings.write_text('[containers]\npids_limit = 0\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
                                 f'[engine]\ninfra_image = "{self.container["image"]}"\ninfra_command = "/bin/cat"\n'
                                 f'runtime = "limited"\n[engine.runtimes]\nlimited = ["{runtime}"]\n', encoding="utf-8")

    def run(self, *args, **how):
        return super().run(*args, env={**os.environ, "CONTAINERS_CONF": str(self.settings), "DISABLE_HC_SYSTEMD": "true"}, **how)

    def start_daemon(self):
        self.run("kube", "play", self.file)
        lab.wait_until(self.is_ready, "the pod to be ready")

    def is_ready(self):
        """What the readiness probe says."""
        with contextlib.suppress(lab.Failed):
            return bool(self.exec(*self.container["readinessProbe"]["exec"]["command"]))
        return False

    def is_alive(self):
        """What the liveness probe says."""
        return "unhealthy" not in self.run("healthcheck", "run", self.name, check=False)

    def stop_daemon(self):
        self.run("kube", "down", self.file)

    def close(self):
        self.run("pod", "rm", "--force", "--time", "0", self.pod["metadata"]["name"], check=False)
        super().close()


@pytest.fixture(name="pod")
def pod_of_this_test(world):
    pod = Pod()
    world.callback(pod.close)
    return pod


def test_pod(world, pod):
    """Programs forward; the pod has what the manifest says and no more; deleted and made anew, it loses no packet and no bridge."""
    network = Network(world, pod)
    network.programs_forward()
    assert pod.error("to-red") == "[]"
    daemon = pod.run("inspect", "--format", "{{.State.Pid}}", pod.name).strip()
    status = of_process(daemon, "status")
    added = pod.container["securityContext"]["capabilities"]["add"]
    for kind in "CapEff", "CapBnd":
        assert int(re.search(rf"^{kind}:\s+(\S+)", status, re.MULTILINE)[1], 16) == sum(1 << NUMBERS[name] for name in added)
    assert re.search(r"^NoNewPrivs:\s+1$", status, re.MULTILINE) and re.search(r"^Seccomp:\s+0$", status, re.MULTILINE)
    assert "Read-only file system" in pod.exec("touch", "/etc/x", check=False)
    mounts = {line.split()[4] for line in of_process(daemon, "mountinfo").splitlines()}
    pod.exec("test", "-c", "/dev/net/tun")          # Podman makes the node instead.
    missing = {mount["mountPath"] for mount in pod.container["volumeMounts"]} - mounts - {"/dev/net/tun"}
    assert not missing, missing
    with network.loses_nothing() as stream:
        pod.stop_daemon()
        assert pod.name not in pod.run("ps", "--all")
        stream.flowing()
        pod.start_daemon()
        lab.wait_until(lambda: re.search(r"took over [1-9]\d* device", pod.said()), "the take-over")
    assert pod.vsctl("list-br").split() == ["br0"]


PROCESSES = ("ovsdb-server", "ovs-vswitchd")


@pytest.mark.parametrize("process", PROCESSES)
def test_probes(world, pod, process):
    """They fail while the daemon, or the database's server, does not answer."""
    network = Network(world, pod)
    assert pod.is_ready() and pod.is_alive()
    pod.exec("pkill", "-STOP", process)
    assert not pod.is_ready() and not pod.is_alive()
    pod.exec("pkill", "-CONT", process)
    lab.wait_until(pod.is_ready, "the pod to be ready")
    assert pod.is_alive()
    network.forwards()


@pytest.mark.parametrize("process", PROCESSES)
def test_process_that_dies(world, pod, process):
    """A pod's container is started anew, and takes over."""
    network = Network(world, pod)
    with network.loses_nothing() as stream:
        pod.exec("pkill", "-KILL", process, check=False)
        stream.flowing()
        lab.wait_until(lambda: re.search(r"took over [1-9]\d* device", pod.said()), "the take-over")
        lab.wait_until(pod.is_ready, "the next daemon")
    assert pod.vsctl("list-br").split() == ["br0"]
