# SPDX-License-Identifier: Apache-2.0
import time

from bench.lib import cpu, world

TITLE = "Output to several ports"
GROUP = "Forwarding"
QUESTION = ("One OpenFlow rule sends each frame to 2, 4, 8 or 32 veths (a bridge floods it, as a frame to an address that it "
            "does not know). How many frames of 64 bytes per second, of one flow, are carried to all of them, and how many of "
            "1,500 bytes to 8? A frame counts when each output has seen it.")
RULE = "flood"
PLOT = "lines"
AXIS = "outputs"
UNKNOWN_MAC = "02:00:00:00:00:77"
# Row: number of outputs, bytes of a frame without the frame check sequence.
COUNTS = {"2": (2, 60), "4": (4, 60), "8": (8, 60), "32": (32, 60), "2-1500": (2, 1496), "8-1500": (8, 1496)}
ROWS = {row: {"title": f"{n}" if size == 60 else f"{n}, 1,500 bytes", "unit": "Mpps", "better": "more"}
        for row, (n, size) in COUNTS.items()}


def run(w, peer, settings):
    first, one = w.make_path()
    outputs = [one]
    for i in range(2, 1 + max(n for n, _ in COUNTS.values())):
        w.make_receiver(f"sw{i}", f"s{i}")
        outputs.append(f"sw{i}")
    sinks = [w.sink(), *(w.sink(f"s{i}") for i in range(2, 1 + len(outputs)))]
    w.frames = ["--dst", UNKNOWN_MAC]
    peer.start(w, [first, *outputs], None)
    answers = {}
    for row, (n, size) in COUNTS.items():
        peer.change_flood(w, [first, *outputs], n)
        wait_for_all(w, sinks[:n])
        answers[row] = carried_rate(w, peer, sinks[:n], settings["seconds"], size)
    return answers


def wait_for_all(w, sinks):
    """Returns when a frame of the generator reaches every sink."""
    before = [sink.read()["packets"] for sink in sinks]

    def reached():
        world.generated(w.generate(0.02, rate=10000))
        return all(sink.read()["packets"] > old for sink, old in zip(sinks, before))

    world.wait_for(reached, "a frame at every output")


def carried_rate(w, peer, sinks, seconds, size):
    """Frames per second that the sink which misses most of them receives, while the generator sends at full speed; beside
    it the copies of all sinks."""
    warm_up = max(0.3, seconds / 4)
    generator = w.generate(warm_up + seconds + 0.3, size=size)
    time.sleep(warm_up)
    before = [sink.read() for sink in sinks]
    meter = cpu.Meter(peer.pids(), before[0]["ns"] / 1e9)
    w.record(f"{len(sinks)}-outputs", seconds * 0.8)
    time.sleep(seconds)
    after = [sink.read() for sink in sinks]
    used = meter.stop(after[0]["ns"] / 1e9)
    sent = world.generated(generator)
    rates = [(b["packets"] - a["packets"]) / (b["ns"] - a["ns"]) * 1e9 for a, b in zip(before, after)]
    return {"value": min(rates), "copies": sum(rates), "sent_rate": sent["sent"] / sent["seconds"],
            "generator_cpu": sent["cpu_seconds"] / sent["seconds"], **used}
