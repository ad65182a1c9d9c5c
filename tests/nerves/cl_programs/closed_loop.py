"""A closed loop in the shapes of the CL API: answer spikes with a pulse, record everything, keep a data stream."""

import sys

import cl

with cl.open() as neurons:
    assert neurons.get_frame_duration_us() == 1e6 / neurons.get_frames_per_second()
    recording = neurons.record(file_suffix="loop", file_location=sys.argv[1], attributes={"experiment": "closed loop"})
    answers = neurons.create_data_stream("answers", attributes={"unit": "spikes"})
    design = cl.StimDesign(160, -1.0, 160, 1.0)
    channels = cl.ChannelSet(0, 1) | cl.ChannelSet([2])
    ticks = spikes = 0
    for tick in neurons.loop(ticks_per_second=50, stop_after_seconds=2, ignore_jitter=True):
        ticks += 1
        spikes += len(tick.analysis.spikes)
        assert tick.iteration == ticks - 1
        if tick.analysis.spikes and ticks % 10 == 0:
            neurons.stim(channels, design)
            answers.append(tick.iteration_timestamp, {"spikes": len(tick.analysis.spikes)})
    neurons.wait_for_stims()
    recording.stop()
    print(ticks, spikes, recording.file["path"])
