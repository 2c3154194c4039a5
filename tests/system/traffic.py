# SPDX-License-Identifier: Apache-2.0
"""Traffic between namespaces, made with ordinary sockets: bytes are compared, losses counted."""
import contextlib
import hashlib
import os
import re
import signal
import socket
import tempfile
import threading
import time

import lab
import switch as switches


def ping(source, destination, count=3, size=56, limit=20, options=()):
    """Pings 'destination' from namespace 'source'; returns how many answers came, 'count' at most: with a deadline ping goes
    on until it has so many, so that it sends and gets more where answers take longer than its interval."""
    said = source.run("ping", "-n", "-q", "-c", count, "-i", "0.05", "-s", size, "-w", limit, *options, destination,
                      check=False, limit=limit + lab.PATIENCE)
    found = re.search(r"(\d+) received", said)
    if not found:
        raise lab.Failed(f"ping: {said.strip()}")
    return min(int(found[1]), count)


def wait_for_ping(source, destination, limit=lab.PATIENCE, **how):
    """Returns when 'destination' answers 'source'."""
    lab.wait_until(lambda: ping(source, destination, count=1, limit=1, **how), f"an answer from {destination}", limit)


def introduce(here, there, address):
    """Gives 'here' a permanent neighbour entry for 'address' of 'there': while there is no daemon, ARP requests are not
    forwarded, and a learned entry expires after half a minute."""
    here.run("ip", "neighbour", "replace", address, "lladdr", lab.mac_of(there), "dev", "eth0")


def tcp(client, server, address, size=4 << 20, port=5001, limit=lab.PATIENCE, behind=None):
    """Sends 'size' bytes over TCP from 'client' to 'address' of 'server'.  Raises Failed unless the same bytes arrive.
    Returns the seconds it took.  'behind': address and port that the server has there, if they are translated."""
    data = os.urandom(1 << 16)
    listener = _listen(server, *(behind or (address, port)), limit)
    received = {}

    def serve():
        digest, n = hashlib.sha256(), 0
        try:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(limit)
                while chunk := connection.recv(1 << 16):
                    digest.update(chunk)
                    n += len(chunk)
                received.update(digest=digest.digest(), n=n)
                connection.sendall(b"!")
        except OSError as error:
            received["error"] = error

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    digest, begin = hashlib.sha256(), time.monotonic()
    try:
        with _connect(client, address, port, limit) as connection:
            for offset in range(0, size, len(data)):
                chunk = data[:size - offset]
                digest.update(chunk)
                connection.sendall(chunk)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)
    except OSError as error:
        raise lab.Failed(f"TCP to {address}: {error}") from error
    finally:
        seconds = time.monotonic() - begin
        thread.join(limit)
        listener.close()
    if received.get("n") != size or received["digest"] != digest.digest():
        raise lab.Failed(f"TCP to {address}: sent {size} bytes, received {received}")
    return seconds


def udp(client, server, address, count=100, size=1000, port=5002, limit=20):
    """Sends datagrams that come back one by one; returns how many of 'count' did."""
    family = _family(address)
    with server.entered():
        echo = socket.socket(family, socket.SOCK_DGRAM)
    with client.entered():
        sender = socket.socket(family, socket.SOCK_DGRAM)
    back = 0
    with echo, sender:
        echo.settimeout(limit)
        sender.settimeout(limit)
        echo.bind((address, port))
        for number in range(count):
            datagram = number.to_bytes(4, "big") + os.urandom(size - 4)
            sender.sendto(datagram, (address, port))
            try:
                data, origin = echo.recvfrom(size + 1)
                echo.sendto(data, origin)
                back += sender.recv(size + 1) == datagram
            except socket.timeout:
                break
    return back


class Stream:
    """Numbered datagrams in the background, one every 'interval' seconds, and a count of those that arrive.  Never
    fails: losses are what it measures."""

    def __init__(self, client, server, address, port=5003, interval=0.002):
        self.sent = self.received = 0
        self._ended = False
        self._interval, self._target = interval, (address, port)
        with client.entered():
            self._out = socket.socket(_family(address), socket.SOCK_DGRAM)
        with server.entered():
            self._in = socket.socket(_family(address), socket.SOCK_DGRAM)
        self._in.bind(self._target)
        self._in.settimeout(0.1)
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def _send(self):
        while not self._stop.wait(self._interval):
            if self._ended:
                continue
            try:
                self._out.sendto(b"x" * 200, self._target)
            except OSError:
                pass                    # The device is away: what did not leave did not arrive.
            self.sent += 1

    def _receive(self):
        while not self._stop.is_set():
            try:
                self._in.recv(2048)
                self.received += 1
            except socket.timeout:
                pass

    def flowing(self, limit=lab.PATIENCE):
        """Waits until datagrams arrive (again)."""
        before = self.received
        lab.wait_until(lambda: self.received >= before + 5, "datagrams", limit)

    def lost(self, limit=20):
        """Sends no more and returns how many of what was sent did not arrive."""
        self._ended = True
        end = time.monotonic() + limit
        while self.received != self.sent and time.monotonic() < end:     # One is counted when it has left.
            time.sleep(0.01)
        return self.sent - self.received

    def silent(self, count=50, limit=lab.PATIENCE):
        """Waits until 'count' datagrams in a row were lost."""
        def lost_in_a_row():
            sent, received = self.sent, self.received
            lab.wait_until(lambda: self.sent >= sent + count, "datagrams sent")
            return self.received <= received
        lab.wait_until(lost_in_a_row, "no more datagrams", limit)

    def close(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(5)
        self._out.close()
        self._in.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Numbered:
    """Numbered datagrams at 'rate' a second, sent and received by processes of their own (numbered.c), which lose none: what
    does not arrive is lost on the way.  'address' has been resolved.  end() says what became of them."""

    def __init__(self, client, server, address, rate, port=5004):
        self._files = [tempfile.TemporaryFile("w+", encoding="ascii") for _ in range(2)]
        program = switches.BUILD / "tests/system/numbered"
        self._receiver = server.start(program, "receive", address, port, stdout=self._files[0])
        lab.wait_until(lambda: f"{address}:{port} " in server.run("ss", "-Hlnu"), "the receiver")
        self._sender = client.start(program, "send", address, port, rate, stdout=self._files[1])

    def end(self):
        """(sent, lost, [(first lost number, how many, ms by the monotonic clock)], whether all came once and in order)."""
        self._sender.kill(signal.SIGTERM)
        sent = int(re.search(r"sent (\d+), failed 0", self._said(1))[1])
        time.sleep(0.2)
        self._receiver.kill(signal.SIGTERM)
        said = self._said(0)
        received, late, twice, overflow = map(int, re.search(r"received (\d+), late (\d+), twice (\d+), overflow (\d+)",
                                                             said).groups())
        if overflow:
            raise lab.Failed(f"the receiver itself lost {overflow} of {sent}")
        gaps = [tuple(map(int, gap.split())) for gap in re.findall(r"^gap (.*)$", said, re.MULTILINE)]
        return sent, sent - (received - twice), gaps, not late and not twice

    def _said(self, index):
        self._files[index].seek(0)
        return self._files[index].read()

    def close(self):
        self._sender.close()
        self._receiver.close()
        for file in self._files:
            file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _listen(namespace, address, port, limit):
    with namespace.entered():
        listener = socket.socket(_family(address), socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.settimeout(limit)
    listener.bind((address, port))
    listener.listen()
    return listener


def _connect(namespace, address, port, limit):
    with namespace.entered():
        connection = socket.socket(_family(address), socket.SOCK_STREAM)
    connection.settimeout(limit)
    connection.connect((address, port))
    return connection


class Burst:
    """A TCP connection on which 'client' has sent a few packets' worth of bytes at once.  Nobody waits for them to arrive."""

    def __init__(self, client, server, address, size=10000, port=5012):
        listener = _listen(server, address, port, lab.PATIENCE)
        self._data, self._got = os.urandom(size), b""
        with listener:
            self._client = _connect(client, address, port, lab.PATIENCE)
            self._server, _ = listener.accept()
        self._client.sendall(self._data)

    def got(self):
        """How many bytes have arrived."""
        self._server.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while chunk := self._server.recv(1 << 16):
                self._got += chunk
        return len(self._got)

    def whole(self):
        """Whether all has arrived, as it was sent."""
        return self.got() == len(self._data) and self._got == self._data

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._client.close()
        self._server.close()


class Connection:
    """A TCP connection that sends as fast as it goes."""

    def __init__(self, client, server, address, port=5011):
        with server.entered():
            listener = socket.create_server((address, port))
        with listener:
            with client.entered():
                self._client = socket.create_connection((address, port), lab.PATIENCE)
            self._server, _ = listener.accept()
        self._server.settimeout(lab.PATIENCE)
        self._sent, self._got, self.received = hashlib.sha256(), hashlib.sha256(), 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(work,), daemon=True) for work in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def _run(self, work):
        try:
            work()
        except OSError:
            if not self._stop.is_set():     # Else it was closed while one end waited.
                raise

    def _send(self):
        data = os.urandom(1 << 16)
        while not self._stop.is_set():
            self._client.sendall(data)
            self._sent.update(data)
        self._client.shutdown(socket.SHUT_WR)

    def _receive(self):
        while chunk := self._server.recv(1 << 16):
            self._got.update(chunk)
            self.received += len(chunk)

    def goes_on(self):
        """Waits until more than was under way has arrived."""
        before = self.received
        lab.wait_until(lambda: self.received > before + (16 << 20), "bytes over TCP")

    def same(self):
        """Ends it: whether what arrived is what was sent."""
        self._stop.set()
        for thread in self._threads:
            thread.join(lab.PATIENCE)
        return not any(thread.is_alive() for thread in self._threads) and self._sent.digest() == self._got.digest()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._client.close()
        self._server.close()
