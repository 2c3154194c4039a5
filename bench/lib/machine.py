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
