"""Reading, plans and bursts in the shapes of the CL API."""

import cl

with cl.open(take_control=True, wait_until_recordable=True) as neurons:
    frames = neurons.read(500)
    assert frames.shape == (500, neurons.get_channel_count())
    result = neurons.read(2500, from_ts=None, analysis=True)
    for spike in result.spikes[:1]:
        assert spike.samples.shape == (75,)

    plan = neurons.create_stim_plan()
    plan.stim(cl.ChannelSet(4, 5), cl.StimDesign(160, -0.5, 160, 0.5), cl.BurstDesign(3, 20))
    plan.sync(cl.ChannelSet(4, 5))
    plan.stim(4, 0.5)
    at = neurons.timestamp() + neurons.get_frames_per_second() // 2
    plan.run(at_timestamp=at)
    result = neurons.read(neurons.get_frames_per_second(), from_ts=at, analysis=True)
    print(at, sorted((stim.timestamp - at, stim.channel) for stim in result.stims))

    def body(tick: object) -> None:
        tick.loop.stop()

    neurons.loop(ticks_per_second=100, ignore_jitter=True).run(body)
    neurons.stim(6, 0.5, cl.BurstDesign(100, 5))
    neurons.interrupt(6)
