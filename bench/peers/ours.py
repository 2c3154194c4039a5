# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import shutil

from bench.lib import ovs, world


class Peer(ovs.OvsPeer):
    """With the hook that the switch picks itself where there are sockets behind the ports; where frames come from the
    generator, as from a wire, with XDP."""

    name = "ours"
    title = "OVS-XDP"
    role = "ours"
    datapath_type = "xdp"
    offloads = True
    own_core = False
    hook = None                             # options:xdp-hook; None: as said above.
    rules = ovs.OvsPeer.rules | {"program", "flow-api", "turns", "trace", "ovn"}

    def missing(self, settings):
        self.daemon = os.path.join(settings["build"], "ovs-vswitchd-xdp")
        return super().missing(settings) or stale(settings["build"])

    def version(self):
        """With the commit, where it is built from a repository."""
        top = pathlib.Path(__file__).resolve().parent.parent.parent
        try:
            commit = world.command("git", "-C", str(top), "rev-parse", "--short", "HEAD").strip()
        except world.Failed:
            return super().version()
        return f"{super().version()}, commit {commit}"

    def rest(self):
        """The program that fits the flows is loaded about two seconds after the last flow that needs something new; programs
        that track connections, a second after the first packet that meets ct()."""
        if self.options.get("xdp-offload") != "false":
            world.wait_for(lambda: "programs-track:no" not in self.appctl("xdp/ct-show"), "programs that track")
        self.appctl("xdp/specialise")

    def interface(self, port):
        hook = self.hook or ("auto" if self.sockets else "xdp")
        return [f"options:xdp-hook={hook}"]


def stale(build):
    """Why what is in a build tree is not what its sources are; None if it is, or if nobody can tell."""
    if not (pathlib.Path(build) / "build.ninja").exists() or not shutil.which("ninja"):
        return None
    try:
        is_new = "no work to do" in world.command("ninja", "-C", str(build), "-n")
    except world.Failed as failure:
        return str(failure)
    return None if is_new else "it is older than its sources: run make"
