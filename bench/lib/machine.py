# SPDX-License-Identifier: Apache-2.0
"""What the numbers were measured on."""

import os
import platform


def describe():
    return {"cpu": _field("/proc/cpuinfo", "model name"), "cores": os.cpu_count(),
            "mhz": float(_field("/proc/cpuinfo", "cpu MHz") or 0),
            "memory_mb": int(_field("/proc/meminfo", "MemTotal").split()[0]) // 1024,
            "kernel": f"{platform.system()} {platform.release()}", "system": _os_name(),
            "virtual": "hypervisor" in _field("/proc/cpuinfo", "flags").split(),
            "load_before": os.getloadavg()[0]}


def named(on):
    cores = f"{on['cores']} core{'s' if on['cores'] != 1 else ''}"
    return f"{on['cpu']}, {cores}{' of a virtual machine' if on['virtual'] else ''}, {on['system']}, {on['kernel']}"


def shown(on, started, ended):
    """When and where something was measured."""
    return f"{started} to {ended} on {named(on)}"


def is_same(one, other):
    """Whether numbers that were measured on both can stand in one table."""
    return all(one[what] == other[what] for what in ("cpu", "cores", "kernel", "system"))


def _field(path, name):
    with open(path, encoding="utf-8") as f:
        for line in f:
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    return ""


def _os_name():
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.system()
