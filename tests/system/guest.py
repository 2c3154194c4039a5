# SPDX-License-Identifier: Apache-2.0
"""A guest: Debian's kernel under QEMU's plain emulation, with network cards on taps of the test's host.

    guest                                       host
    [ namespace "tso" with its one card ] ===== tap-tso
    [ namespace "raw" with its one card ] ===== tap-raw

It has no disk: an initramfs holds busybox, the drivers' modules and a few of the host's programs.  It boots in a few
seconds.  Each card lives in a network namespace of the guest, so that one guest stands for several.
"""
import pathlib
import re
import shlex
import shutil
import socket
import sys
import tempfile

import lab

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "vm"))

import machine  # noqa: E402

MODULES = "virtio_pci", "virtio_net", "e1000e", "vmxnet3"
PROGRAMS = "ip", "ethtool", "ping", "iperf3"
APPLETS = ("sh mkdir mount insmod stty echo wc cat poweroff ls sha256sum head sleep dmesg grep readlink "
           "timeout basename dirname reboot").split()
KERNEL_LINE = "console=ttyS0 quiet panic=-1 no_timer_check tsc=reliable mitigations=off nokaslr nowatchdog audit=0"
BOOT_PATIENCE = 3 * lab.PATIENCE        # Seconds.  On a busy machine the emulator gets a small part of a CPU.
Unusable = machine.Unusable


class Card:
    """A network card of the guest, and the namespace of the guest in which it is alone as eth0: like lab.Namespace.

    'model' is QEMU's name of the card with options; each of its 'queues' is one of the tap's."""

    def __init__(self, name, model, queues=1):
        self.name, self.model, self.queues = name, model, queues
        self.tap = f"tap-{name}"
        self.mac = self._guest = None

    def plug(self, guest, number):
        self._guest, self.mac = guest, f"52:54:00:00:00:{number:02x}"

    def make_tap(self):
        lab.run("ip", "tuntap", "add", self.tap, "mode", "tap", "vnet_hdr", *(["multi_queue"] if self.queues > 1 else []))
        lab.run("ip", "link", "set", self.tap, "up")

    def arguments(self, rom):
        """QEMU's.  'rom': whether the card has its PXE loader, iPXE."""
        queues = f",queues={self.queues}" if self.queues > 1 else ""
        several = f",mq=on,vectors={2 * self.queues + 2}" if self.queues > 1 else ""
        return ["-netdev", f"tap,id={self.name},ifname={self.tap},script=no,downscript=no{queues}",
                "-device", f"{self.model},netdev={self.name},mac={self.mac}{'' if rom else ',romfile='}{several}"]

    def settle(self):
        """Takes the device, which the guest has just found, into the namespace."""
        lab.wait_until(self._take, f"the card {self.name}")
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "link", "set", "eth0", "up")

    def _take(self):
        """Whether it is there.  Others' devices may come and change names meanwhile."""
        find = f"basename $(dirname $(grep -l {self.mac} /sys/class/net/*/address))"
        device = self._guest.run("sh", "-c", find, check=False).strip()
        self._guest.run("ip", "link", "set", device, "netns", self.name, "name", "eth0", check=False)
        return self.mac in self.run("ip", "link", "show", "dev", "eth0", check=False)

    def run(self, *args, **how):
        return self._guest.run("ip", "netns", "exec", self.name, *args, **how)

    def start(self, *args):
        """Starts a program in the background, which ends with the guest."""
        self._guest.start("ip", "netns", "exec", self.name, *args)


class Guest:
    """A running guest with 'cards', whose taps are made, up, in the network namespace of this process.  Raises
    Unusable, which says why, if this machine cannot run one.  'series' is of its kernel (machine.KERNELS).  'cpu': that of
    this machine on which all of it runs.  'kvm': with KVM, if there is /dev/kvm, instead of emulated.  'from_network': its
    cards, whose taps are made already, load what to boot (files_to_boot()); wait_for_boot() waits for that."""

    def __init__(self, *cards, memory=384, cpus=2, series="6.1", cpu=None, kvm=False, from_network=False):
        self._cards, self._from_network = cards, from_network
        for number, card in enumerate(cards, 1):
            card.plug(self, number)
        self._folder = tempfile.TemporaryDirectory(prefix="ovs-xdp-guest-", dir="/run")
        self.console = pathlib.Path(self._folder.name) / "console"
        self._accelerators = ["-accel", "kvm"] if kvm else []
        try:
            self._boot(memory, cpus, series, [] if cpu is None else ["taskset", "-c", cpu])
            if not from_network:
                self.wait_for_boot()
        except BaseException:
            self.close()
            raise

    def _boot(self, memory, cpus, series, prefix):
        self._qemu = self._line = None
        path = f"{self._folder.name}/line"
        image, initramfs = files_to_boot(series)
        for card in () if self._from_network else self._cards:
            card.make_tap()
        system = ["-boot", "n"] if self._from_network else ["-kernel", image, "-initrd", initramfs, "-append", KERNEL_LINE,
                                                            "-no-reboot"]
        self._said = open(f"{self._folder.name}/qemu", "wb+")
        self._qemu = lab.Process(
            *prefix, "qemu-system-x86_64", "-M", "q35,usb=off", *self._accelerators, "-accel", "tcg,thread=multi",
            "-cpu", "max", "-smp", cpus, "-m", memory, "-display", "none", "-nodefaults",
            "-serial", f"file:{self.console}", "-serial", f"unix:{path},server=on,wait=off", *system,
            *(word for card in self._cards for word in card.arguments(self._from_network)), stdout=self._said)
        self._line = socket.socket(socket.AF_UNIX)
        lab.wait_until(lambda: self._running() and self._line.connect_ex(path) == 0, "QEMU's control socket")
        self._line.settimeout(BOOT_PATIENCE)
        self._answers = self._line.makefile("rb")

    def wait_for_boot(self):
        """Waits until the system is up, and puts each card into its namespace."""
        try:
            booted = self._answers.readline().strip() == b"ready"
        except TimeoutError:
            booted = False
        if not booted:
            raise lab.Failed(f"the guest does not boot within {BOOT_PATIENCE} s; its console says:\n"
                             f"{self.console.read_text(errors='replace')[-2000:]}")
        for card in self._cards:
            self.run("ip", "netns", "add", card.name)
            card.settle()

    def reboot(self):
        """At once, without an answer.  Then wait_for_boot()."""
        self._line.sendall(b"reboot -f\n")

    def _running(self):
        if self._qemu.running():
            return True
        self._said.seek(0)
        raise lab.Failed(f"QEMU ended: {self._said.read().decode(errors='replace')}")

    def run(self, *args, check=True, limit=lab.PATIENCE):
        """Runs a program in the guest, as lab.run() does here."""
        words = f"timeout -s KILL {limit} {_words(args)}"
        self._line.settimeout(limit + lab.PATIENCE)
        try:
            self._line.sendall(words.encode() + b"\n")
            status, length = map(int, self._answers.readline().split())
            said = self._answers.read(length).decode(errors="replace")
        except (OSError, ValueError) as error:
            raise lab.Failed(f"guest: {words}: no answer ({error}); its console ends with:\n"
                             f"{self.console.read_text(errors='replace')[-2000:]}") from error
        if check and status:
            raise lab.Failed(f"guest: {words}: {said.strip() or f'exit status {status}'}")
        return said

    def start(self, *args):
        self.run("sh", "-c", f"{_words(args)} > /dev/null 2>&1 &")

    def close(self):
        if self._line:
            self._line.close()
        if self._qemu:
            self._qemu.kill()
            self._said.close()
        self._folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _words(args):
    """A command for the guest's shell, which would take busybox's own for a program that busybox has, too."""
    first, *rest = map(str, args)
    return shlex.join([f"/bin/{first}" if first in PROGRAMS else first, *rest])


def files_to_boot(series="6.1"):
    """Kernel and initramfs, to be booted with KERNEL_LINE."""
    if not shutil.which("qemu-system-x86_64"):
        raise Unusable("qemu-system-x86_64 is missing: apt-get install qemu-system-x86")
    try:
        kernel = machine.kernel_folder(series)
        image = next(kernel.glob("boot/vmlinuz-*"))
        return image, _initramfs(kernel, image.name.removeprefix("vmlinuz-"))
    except FileNotFoundError as missing:
        raise Unusable(f"{missing.filename} is not installed") from missing


def _initramfs(kernel, release):
    """The guest's root: made once for each version of the programs in it."""
    archive = kernel / f"guest-{release}.cpio"
    programs = [_path_of(name) for name in PROGRAMS]
    sources = [HERE / "guest.init", HERE / "guest.py", *programs]
    with machine.locked(kernel / "guest.lock"):
        if archive.exists() and archive.stat().st_mtime > max(source.stat().st_mtime for source in sources):
            return archive
        tree = machine.busybox_tree(kernel / "guest", kernel, release, HERE / "guest.init", MODULES, APPLETS)
        for program in programs:
            shutil.copy(program, tree / "bin" / program.name)
            for library in _libraries(program):
                target = tree / library.relative_to("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, target)
        machine.pack(tree, archive)
        return archive


def _path_of(name):
    path = shutil.which(name)
    if not path:
        raise Unusable(f"{name} is not installed")
    return pathlib.Path(path).resolve()


def _libraries(program):
    return [pathlib.Path(path) for path in re.findall(r"(/\S+) \(0x", lab.run("ldd", program))]
