# SPDX-License-Identifier: Apache-2.0
"""Asks a running ovs-vswitchd-xdp over its control socket, as ovs-appctl does.

The protocol is JSON-RPC 1.0 over a UNIX socket (Open vSwitch's unixctl): one request, one reply, both JSON objects
without a delimiter.  The standard library is enough for it, so nothing else has to be installed.
"""
import json
import os
import pathlib
import re
import socket
import time

DEFAULT_RUNDIR = "/var/run/openvswitch"
MARKS = re.compile(rb'\\.|["{}\[\]]', re.DOTALL)
LIMIT = 10                              # Seconds that the daemon may take for an answer.


class Unreachable(Exception):
    """A sentence that says why there is no answer."""


class Refused(Exception):
    """The daemon's own sentence."""


def plain(text):
    """Without what moves a terminal's cursor: names may contain anything."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text)


def socket_path(target=None):
    """The control socket: 'target' if it is a path, else that of the daemon of that name."""
    target = target or "ovs-vswitchd"
    if target.startswith("/"):
        return target
    folder = pathlib.Path(os.environ.get("OVS_RUNDIR") or DEFAULT_RUNDIR)
    pidfile = folder / f"{target}.pid"
    try:
        return str(folder / f"{target}.{int(pidfile.read_text(encoding='ascii'))}.ctl")
    except (OSError, ValueError) as error:
        raise Unreachable(f"{pidfile}: {_reason(error)}: is the daemon running? -t PATH names its control socket") from error


class Client:
    """A connection that is made when it is needed, and made anew after the daemon was restarted."""

    def __init__(self, target=None, limit=LIMIT):
        self._target, self._limit = target, limit
        self._socket = None

    def call(self, command, *args):
        """What "ovs-appctl COMMAND ARGS" prints.  Raises Unreachable or Refused."""
        fresh = self._socket is None
        try:
            return self._call(command, args)
        except OSError as error:
            self.close()
            if fresh or isinstance(error, TimeoutError):
                raise Unreachable(f"{self._name()}: {_reason(error)}") from error
        return self.call(command, *args)        # The daemon that was connected has gone: another may be there.

    def document(self, command, *args):
        """The document of an xdp/... command."""
        text = self.call(command, "--format", "json", *args)
        try:
            return json.loads(text)
        except ValueError as error:
            raise Unreachable(f"{self._name()}: the answer to {command} is no JSON: is it ovs-vswitchd-xdp?") from error

    def close(self):
        if self._socket:
            self._socket.close()
        self._socket = None

    def _call(self, command, args):
        end = time.monotonic() + self._limit
        if not self._socket:
            path = socket_path(self._target)
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(self._limit)
            self._socket.connect(path)
        request = {"id": 0, "method": command, "params": list(args)}
        self._socket.sendall(json.dumps(request).encode())
        reply = self._receive(end)
        if reply.get("error") is not None:
            raise Refused(str(reply["error"]).strip())
        return reply["result"]

    def _receive(self, end):
        """One JSON object: it ends where its first bracket is closed."""
        data, depth, quoted, seen = bytearray(), 0, False, 0
        while True:
            self._socket.settimeout(max(end - time.monotonic(), 0.001))
            part = self._socket.recv(1 << 18)
            if not part:
                raise ConnectionResetError("the daemon closed the connection")
            data += part
            for mark in MARKS.finditer(data, seen):
                seen = mark.end()
                if mark[0] == b'"':
                    quoted = not quoted
                elif not quoted and mark[0] in b"{[":
                    depth += 1
                elif not quoted and mark[0] in b"}]":
                    depth -= 1
                    if not depth:
                        return json.loads(data[:seen].decode(errors="replace"))
            if not data.endswith(b"\\"):       # Else what that escapes is still to come.
                seen = len(data)

    def _name(self):
        try:
            return socket_path(self._target)
        except Unreachable:
            return "the daemon"


def _reason(error):
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
