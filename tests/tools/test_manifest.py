# SPDX-License-Identifier: Apache-2.0
"""The manifest for Kubernetes, by the schemas of Kubernetes' own API: it has no field that these lack, and no wrong value."""
import os
import pathlib
import subprocess

import pytest

import pypi

MANIFEST = pathlib.Path(__file__).resolve().parent.parent.parent / "examples/container/kubernetes.yaml"
VERSIONS = ("1.25", "1.30", "1.37")
# What might be written instead, and what the schema says of it.
MISTAKES = {
    "seccompProfile:": "secompProfile:",
    "hostNetwork: true": "hostnetwork: true",
    "hostNetwork: true ": "hostNetwork: yes please",
    "readOnlyRootFilesystem:": "readOnlyRootFileSystem:",
    "allowPrivilegeEscalation:": "allowPrivilegedEscalation:",
    "drop: [ALL]": "drop: ALL",
    "readinessProbe:": "readynessProbe:",
    "livenessProbe:": "aliveProbe:",
    "periodSeconds: 10": "periodSeconds: ten",
    "timeoutSeconds: 10": "timeoutsSeconds: 10",
    "failureThreshold: 6": "failuresThreshold: 6",
    "mountPropagation:": "mountPropogation:",
    "medium: Memory": "media: Memory",
    "matchLabels:": "matchLabel:",
    "mountPath: /tmp": "path: /tmp",
    "priorityClassName:": "priorityClass:",
    "kind: DaemonSet": "kind: DeamonSet",
}


def validated(text, version="1.37"):
    """What the program says of a manifest, None if nothing is wrong."""
    folder = pypi.folder("python-kubernetes", "kubernetes-validate==1.37.0")
    done = subprocess.run([pypi.PYTHON, "-m", "kubernetes_validate", "--strict", "-k", version, "-"], input=text, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          env={**os.environ, "PYTHONPATH": str(folder)})
    return done.stdout if done.returncode or "passed" not in done.stdout else None


@pytest.mark.parametrize("version", VERSIONS)
def test_manifest(version):
    assert validated(MANIFEST.read_text(encoding="utf-8"), version) is None


@pytest.mark.parametrize("right", MISTAKES)
def test_mistakes_are_found(right):
    """The schema has an opinion of each part of the manifest."""
    text = MANIFEST.read_text(encoding="utf-8")
    assert right.strip() in text
    assert validated(text.replace(right.strip(), MISTAKES[right], 1))
