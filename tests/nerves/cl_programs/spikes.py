"""Spikes in the shapes of the CL API: the largest one plotted, a datagram for each turn, a loop that falls behind."""

import socket
import struct

import cl
from cl.util import Benchmark, ordinal, plot_spike

receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("127.0.0.1", 0))
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

with cl.open() as neurons:
    rate = neurons.get_frames_per_second()
    largest = None
    for tick in neurons.loop(ticks_per_second=2, ignore_jitter=True):
        largest = max(tick.analysis.spikes, key=lambda each: each.samples.max() - each.samples.min(), default=None)
        if largest is not None:
            break
    assert largest.samples.shape == (75,)
    plot_spike(largest)

    sent = turns = 0
    for tick in neurons.loop(ticks_per_second=rate, stop_after_seconds=1, ignore_jitter=True):
        turns += 1
        spikes = tick.analysis.spikes
        if spikes:
            channels = bytes(spike.channel for spike in spikes)
            sender.sendto(struct.pack("<Q", spikes[0].timestamp) + channels, receiver.getsockname())
            sent += 1
    assert turns == rate
    timestamp = struct.unpack("<Q", receiver.recv(1500)[:8])[0]

    try:
        with Benchmark("late loop", report_threshold_us=10):
            for tick in neurons.loop(100):
                neurons.read(1, tick.iteration_next_timestamp + rate // 4)
    except TimeoutError:
        behind = (neurons.timestamp() - tick.timestamp) / rate
        print(f"failed in the {ordinal(tick.iteration + 1)} turn, more than 0.02 s behind: {behind > 0.02}")
    print(sent > 0, 0 < timestamp <= neurons.timestamp())

receiver.close()
sender.close()
