# SPDX-License-Identifier: Apache-2.0
"""A virtual machine under plain emulation, on one of Debian's stock kernels and the host's own root folder.

The kernel comes from Debian's package linux-image-*-amd64, which is unpacked in the cache folder, not
installed.  The machine sees the host's files as they are, but what it writes is gone with it, except in the
results folder.  Each machine starts anew: two seconds to a shell.
"""
import contextlib
import fcntl
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import threading

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("OVSXDP_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "ovs-xdp")) / "vm"
KERNELS = {"6.1": "bookworm", "6.12": "trixie"}     # Series, and the release of Debian that has it.
ARCHIVE = "http://deb.debian.org/debian"
MODULES = "virtio_pci", "9pnet_virtio", "9p", "overlay"
APPLETS = "sh mkdir mount insmod poweroff switch_root echo".split()
PASSED_ON = "OVSXDP_CACHE", "XDG_CACHE_HOME", "LANG", "LC_ALL", "OXDP_BUILD", "OXDP_PATIENCE"


class Unusable(Exception):
    """No machine can be started here; the text says why."""


class Guest:
    """A running machine."""

    def __init__(self, process, status, timeout):
        self.process = process
        self.status = status
        self.late = threading.Event()
        self.watchdog = threading.Timer(timeout, self.switch_off)
        self.watchdog.start()

    def switch_off(self):
        self.late.set()
        self.process.kill()

    def lines(self):
        """What the command prints, line by line (of a machine started with capture)."""
        return self.process.stdout

    def wait(self):
        """The command's exit status; 124 after the time limit, 125 when the machine broke down."""
        self.process.wait()
        self.watchdog.cancel()
        if self.late.is_set():
            return 124
        try:
            return int(self.status.read_text())
        except (FileNotFoundError, ValueError):
            return 125


@contextlib.contextmanager
def started(command, results, timeout, memory, cpus="1", capture=False, series="6.1", devices=()):
    """A machine that runs 'command' (a list of words) as root, in the present folder, and ends with it.

    'results' is a folder that the machine sees as /results; the kernel's messages go to console.log in it.
    The machine is switched off after 'timeout' seconds, or at the end of the context.  'memory' is in MiB, 'cpus' as
    QEMU's -smp has them, 'series' one of KERNELS; 'devices' are more of QEMU's arguments.
    """
    kernel = kernel_folder(series)
    image = next(kernel.glob("boot/vmlinuz-*"))
    release = image.name.removeprefix("vmlinuz-")
    modules = kernel / "lib/modules" / release
    results.mkdir(parents=True, exist_ok=True)
    status = results / ".status"
    status.unlink(missing_ok=True)
    shutil.copyfile(HERE / "guest", results / ".guest")
    (results / ".command").write_text("exec " + shlex.join(map(str, command)) + "\n")
    variables = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    variables.update(OXDP_VM_MODULES=str(modules), OXDP_VM_FOLDER=os.getcwd())
    (results / ".environment").write_text("".join(
        f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()))

    qemu = ["qemu-system-x86_64", "-M", "q35,usb=off", "-accel", "tcg,thread=multi,tb-size=1024",
            "-cpu", "max", "-smp", cpus, "-m", str(memory), "-display", "none", "-no-reboot", "-nodefaults",
            "-serial", f"file:{results}/console.log", "-chardev", "stdio,id=out,signal=off",
            "-serial", "chardev:out", "-kernel", image, "-initrd", initrd(kernel, release),
            "-append", "console=ttyS0 quiet panic=-1 no_timer_check tsc=reliable mitigations=off nokaslr nowatchdog audit=0",
            "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
            "-fsdev", f"local,id=results,path={results},security_model=none",
            "-device", "virtio-9p-pci,fsdev=results,mount_tag=results",
            "-device", "virtio-rng-pci", *devices]
    if not shutil.which(qemu[0]):
        raise Unusable(f"{qemu[0]} is missing: apt-get install qemu-system-x86")
    process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *qemu], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE if capture else None, text=True, errors="replace")
    guest = Guest(process, status, timeout)
    try:
        yield guest
    finally:
        guest.watchdog.cancel()
        process.kill()
        process.wait()


def kernel_folder(series="6.1"):
    """The unpacked kernel package, with its modules' dependencies resolved; made when it is missing."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with locked(CACHE / "kernel.lock"):
        if complete := sorted(CACHE.glob(f"linux-image-{series}.*/.complete")):
            return complete[-1].parent
        package, options = stock_kernel(series)
        folder = CACHE / package
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        call(["apt-get", "-q", *options, "-o", "APT::Sandbox::User=root", "download", package], folder,
             f"{package} cannot be downloaded")
        archive = next(folder.glob("*.deb"))
        call(["dpkg", "-x", archive, "."], folder, f"{package} cannot be unpacked")
        archive.unlink()
        if not (folder / "lib").exists():           # Since Debian 13 modules are in /usr/lib.
            (folder / "lib").symlink_to("usr/lib")
        release = next(folder.glob("boot/vmlinuz-*")).name.removeprefix("vmlinuz-")
        call(["depmod", "-b", ".", release], folder, f"the modules of {package} cannot be indexed")
        (folder / ".complete").touch()
        return folder


def headers_folder(series="6.1"):
    """The headers of that kernel as one tree, for a compiler of programs for the kernel; made when it is missing."""
    kernel = kernel_folder(series)
    release = next(kernel.glob("boot/vmlinuz-*")).name.removeprefix("vmlinuz-")
    folder = CACHE / f"headers-{release}"
    with locked(CACHE / "kernel.lock"):
        if (folder / ".complete").exists():
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "packages").mkdir(parents=True)
        common, own = (f"linux-headers-{release.removesuffix('-amd64')}-common", f"linux-headers-{release}")
        _, options = stock_kernel(series)
        call(["apt-get", "-q", *options, "-o", "APT::Sandbox::User=root", "download", common, own], folder / "packages",
             f"{own} cannot be downloaded")
        for name in common, own:        # What both have is the second's.
            call(["dpkg", "-x", next((folder / "packages").glob(f"{name}_*.deb")), "packages"], folder, f"{name} cannot be unpacked")
            call(["cp", "-al", "--remove-destination", f"packages/usr/src/{name}/.", "."], folder, f"{name} has no headers")
        shutil.rmtree(folder / "packages")
        (folder / ".complete").touch()
        return folder


def stock_kernel(series):
    """The name of Debian's present kernel package of a series, and apt's options: none if the host's own lists have it, else
    those of lists in the cache folder."""
    for options in [], release_options(KERNELS[series]):
        if options:
            call(["apt-get", "-q", *options, "update"], CACHE, f"the list of packages of {KERNELS[series]} cannot be read")
        depends = subprocess.run(["apt-cache", *options, "depends", "linux-image-amd64"], text=True, check=False,
                                 stdout=subprocess.PIPE).stdout
        if found := re.search(rf"linux-image-{re.escape(series)}\.\d\S*-amd64", depends):
            return found[0], options
    raise Unusable(f"Debian has no linux-image-{series}.*-amd64 in {KERNELS[series]} any more")


def release_options(release):
    """apt's options for the packages of another release of Debian, without touching the host's lists."""
    folder = CACHE / f"apt-{release}"
    for part in "lists/partial", "cache/archives/partial":
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "sources.list").write_text(f"deb {ARCHIVE} {release} main\n", encoding="utf-8")
    settings = {"Dir::Etc::sourcelist": folder / "sources.list", "Dir::Etc::sourceparts": "/dev/null",
                "Dir::State::lists": folder / "lists", "Dir::Cache": folder / "cache", "APT::Sandbox::User": "root"}
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def program_of(release, name, *packages):
    """A script that runs 'name' of one of 'packages', which are another release of Debian's, as there: with that release's
    libraries, which are among them.  Nothing is installed."""
    folder = CACHE / f"{name}-{release}"
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / name
    with locked(CACHE / "kernel.lock"):
        if script.exists():
            return script
        options = release_options(release)
        call(["apt-get", "-q", *options, "update"], folder, f"the list of packages of {release} cannot be read")
        call(["apt-get", "-q", *options, "download", *packages], folder, f"{name} of {release} cannot be downloaded")
        for archive in folder.glob("*.deb"):
            call(["dpkg", "-x", archive, "."], folder, f"{archive.name} cannot be unpacked")
            archive.unlink()
        loader = next(folder.glob("usr/lib/*/ld-linux-*.so.*"))
        partial = script.with_suffix(".partial")
        partial.write_text(f'#!/bin/sh\nexec {loader} --library-path {loader.parent} {folder}/usr/bin/{name} "$@"\n', encoding="ascii")
        partial.chmod(0o755)
        partial.rename(script)
        return script


def initrd(kernel, release):
    """A small initrd: busybox, `init`, and the modules that reach the host's files."""
    archive = kernel / f"initrd-{release}.cpio"
    with locked(kernel / "initrd.lock"):
        if archive.exists() and archive.stat().st_mtime > (HERE / "init").stat().st_mtime:
            return archive
        pack(busybox_tree(kernel / "initrd", kernel, release, HERE / "init", MODULES, APPLETS), archive)
        return archive


def busybox_tree(tree, kernel, release, init, modules, applets):
    """Makes the folder 'tree' anew: what a root of busybox, the program 'init' and the kernel's 'modules' needs.  Returns
    it."""
    busybox = shutil.which("busybox")
    if not busybox:
        raise Unusable("busybox is missing: apt-get install busybox-static")
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "bin").mkdir(parents=True)
    (tree / "modules").mkdir()
    shutil.copy(busybox, tree / "bin/busybox")
    for applet in applets:
        (tree / "bin" / applet).symlink_to("busybox")
    shutil.copyfile(init, tree / "init")
    (tree / "init").chmod(0o755)
    order = dict.fromkeys(path for name in modules for path in module_files(kernel, release, name))
    for path in order:
        shutil.copy(path, tree / "modules")
    (tree / "modules/order").write_text("".join(f"{path.name}\n" for path in order))
    return tree


def pack(tree, archive):
    """Makes 'archive', an initramfs of the folder 'tree'."""
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    partial = archive.with_suffix(".partial")
    with open(partial, "wb") as file:
        subprocess.run(["busybox", "cpio", "-o", "-H", "newc", "-R", "0:0"], cwd=tree,
                       input=names.encode(), stdout=file, check=True)
    partial.rename(archive)


def module_files(kernel, release, name):
    """The files to insert for module 'name', in order; none for what is built in."""
    shown = subprocess.run(["modprobe", "-d", kernel, "-S", release, "--show-depends", name], text=True,
                           stdout=subprocess.PIPE, check=True).stdout
    return [pathlib.Path(line.split()[1]) for line in shown.splitlines() if line.startswith("insmod ")]


def call(command, folder, problem):
    if subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=False).returncode:
        raise Unusable(problem)


@contextlib.contextmanager
def locked(path):
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
