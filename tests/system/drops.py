# SPDX-License-Identifier: Apache-2.0
"""What the kernel drops in this network namespace, as its tracepoints tell (drops.c)."""
import bisect
import collections
import os
import pathlib
import re
import subprocess
import tempfile

import lab
import switch as switches

PACKET, REDIRECT, TRANSMIT, EXCEPTION = KINDS = "packet", "redirected frame", "frame for a device", "frame at XDP"
ACTIONS = "XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT"

# Of 'kind' above, because of 'reason' (of a packet: enum skb_drop_reason without its prefix; of a frame
# at XDP: the action that could not be done; else an errno's name), in function 'place', on 'device'.
Drop = collections.namedtuple("Drop", "kind reason place device")


class Unusable(Exception):
    """This kernel does not tell; the text says why."""


class Watch:
    """From now on."""

    def __init__(self):
        program = switches.BUILD / "tests/system/drops"
        if not program.exists():
            raise lab.Failed(f"{program} does not exist: run make")
        self._namespace = os.stat("/proc/self/ns/net").st_ino
        self._program = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                         stderr=subprocess.DEVNULL)
        said = self._program.stdout.readline().strip()
        if said != "ready":
            self.close()
            raise Unusable(said)
        self._reasons, self._symbols = _reasons(), _symbols()

    def take(self):
        """What was dropped since the last call: a collections.Counter of Drop."""
        self._program.stdin.write("\n")
        self._program.stdin.flush()
        found = collections.Counter()
        while words := self._program.stdout.readline().split():
            count, kind, namespace, reason, location, device = words
            if int(namespace) == self._namespace:
                found[Drop(KINDS[int(kind)], self._reason(int(kind), int(reason)), self._place(int(location, 16)),
                           device)] += int(count)
        return found

    def _reason(self, kind, number):
        if KINDS[kind] == EXCEPTION:
            return ACTIONS[number] if number < len(ACTIONS) else str(number)
        return os.strerror(number) if kind else self._reasons.get(number, str(number))

    def _place(self, address):
        index = bisect.bisect_right(self._symbols, (address, "~")) - 1
        return self._symbols[index][1] if address and index >= 0 else "-"

    def close(self):
        self._program.stdin.close()
        self._program.wait(lab.PATIENCE)
        self._program.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _reasons():
    """Number -> name."""
    with tempfile.TemporaryDirectory(dir="/run") as folder:
        lab.run("mount", "-t", "tracefs", "tracefs", folder, check=False)
        try:
            text = pathlib.Path(folder, "events/skb/kfree_skb/format").read_text(encoding="ascii")
        except OSError as error:
            raise Unusable(f"the kernel has no tracefs with skb:kfree_skb: {error}") from error
        finally:
            lab.run("umount", folder, check=False)
    return {int(number): name for number, name in re.findall(r'\{ (\d+), "(\w+)" \}', text)}


def _symbols():
    """Address and name of the kernel's functions, by address."""
    lines = pathlib.Path("/proc/kallsyms").read_text(encoding="ascii").splitlines()
    symbols = sorted((int(words[0], 16), words[2]) for words in map(str.split, lines) if words[1] in "tT")
    if not symbols or not symbols[-1][0]:
        raise Unusable("/proc/kallsyms hides addresses (kernel.kptr_restrict)")
    return symbols
