"""The properties of a sound electrode card. Each raises AssertionError, or NotApplicable with the reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from drivers.conformance.trying import NotApplicable, expect
from nerves.cards.conformance.stage import CardBench, CardStage, TruePulse
from nerves.cards.contract import ArrayInfo, CardState, Delivery, ElectrodeCard, FrameBlock, Phase, Pulse, hand_over

BLOCKS = 40
TOGETHER = 6
"""Beginnings of several pulses that are tried: half of them ahead, half as soon as possible."""
MAX_BACKLOG_S = 3.0
"""How far behind the hardware a reader may begin (s)."""
MIN_WAIT_S = 0.05
"""What a block without frames counts as, at least, whatever the card's clock says (s)."""


@dataclass(frozen=True, slots=True)
class CardProperty:
    """`meaning` completes the sentence “the card …”."""

    meaning: str
    holds: Callable[[CardBench, CardStage], None]


def _read(
    card: ElectrodeCard, seconds: float, found: Callable[[FrameBlock], bool] = lambda _: False
) -> list[FrameBlock]:
    """Read blocks until the frames of so many seconds from now have come, or as many waits have ended, or one is `found`."""
    rate = card.info.sample_rate_hz
    blocks: list[FrameBlock] = []
    frames, waits = 0, 0.0
    before = card.now_frame()
    until = before + seconds * rate
    while frames < (seconds + MAX_BACKLOG_S) * rate and waits <= seconds:
        block = card.read()
        blocks.append(block)
        now = card.now_frame()
        frames += len(block.samples)
        waits += 0.0 if len(block.samples) else max(MIN_WAIT_S, (now - before) / rate)
        before = now
        if found(block) or (_end(block) >= until and frames >= seconds * rate):
            break
    return blocks


def _end(block: FrameBlock) -> int:
    return block.first_frame + len(block.samples)


def _near(stage: CardStage, block: FrameBlock, context: str) -> None:
    """Compare a block with the truth; electrodes with a fault mean nothing."""
    truth = stage.truth(block)
    sound = np.ones(truth.shape[1], bool)
    for fault in block.faults:
        sound[list(fault.electrodes)] = False
    same = np.array_equal(block.samples[:, sound], truth[:, sound])
    expect(same, f"{context}: frames {block.first_frame} to {_end(block) - 1} are not what the electrodes gave then")


def _stimulating(stage: CardStage) -> ArrayInfo:
    info = stage.card.info
    if not info.stimulates:
        raise NotApplicable("it only records")
    return info


def _pulse(bench: CardBench, number: int, at_frame: int, late: int = 0) -> Pulse:
    return Pulse(number, bench.electrode, bench.phases, at_frame, at_frame + late)


def _longest_pulse(bench: CardBench, info: ArrayInfo) -> tuple[Phase, ...]:
    """Return the pulse of a bench, its last phase in so many steps that it has as many phases as the card drives."""
    last = bench.phases[-1]
    steps = round(last.duration_us / info.time_step_us)
    count = min(info.max_phases - 1, steps)
    lasting = [(steps // count + (k < steps % count)) * info.time_step_us for k in range(count)]
    return (*bench.phases[:-1], *(Phase(us, last.current_ua) for us in lasting))


def _reports(blocks: list[FrameBlock]) -> list[Delivery]:
    return [delivery for block in blocks for delivery in block.deliveries]


def _late(bench: CardBench, info: ArrayInfo) -> int:
    """Return how late a pulse may come on this bench (frames)."""
    return 0 if bench.exact else math.ceil(bench.within_s * info.sample_rate_hz)


def data_sheet(bench: CardBench, stage: CardStage) -> None:
    """Every figure of the data sheet is usable."""
    info = stage.card.info
    expect(bool(info.name), "it has no name")
    expect(info.electrodes >= 1, "it has no electrodes")
    for name in ("sample_rate_hz", "uv_per_unit", "diameter_um", "time_step_us", "current_step_ua", "compliance_v"):
        value = getattr(info, name)
        expect(math.isfinite(value) and value > 0, f"{name} is {value}")
    expect(1 <= info.block_frames <= info.sample_rate_hz, f"a block has {info.block_frames} frames")
    expect(info.lead_frames >= 0, f"lead_frames is {info.lead_frames}")
    expect(math.isfinite(info.jitter_us) and info.jitter_us >= 0, f"jitter_us is {info.jitter_us}")
    if info.geometry is not None:
        expect(len(info.geometry.x_um) == info.electrodes, f"its geometry has {len(info.geometry.x_um)} electrodes")
    exact = "hits the exact frame" if bench.exact else "begins a pulse after its frame"
    expect(bench.exact == (info.jitter_us == 0), f"it {exact}, and states a jitter of {info.jitter_us} µs")
    expect(stage.card.state is CardState.CONNECTED, f"a sound card is {stage.card.state}")


def frames(_: CardBench, stage: CardStage) -> None:
    """Frames are consecutive, as sampled, and stay as they are."""
    card = stage.card
    kept: list[tuple[FrameBlock, bytes]] = []
    last = None
    for _turn in range(BLOCKS):
        block = card.read()
        expect(block.samples.dtype == np.int16, f"samples are {block.samples.dtype}, not int16")
        expect(block.samples.ndim == 2, "samples have not the shape (frames, electrodes)")
        expect(block.samples.shape[1] == card.info.electrodes, f"a block has {block.samples.shape[1]} electrodes")
        expect(block.samples.flags.c_contiguous, "samples are not contiguous")
        expect(block.faults == (), f"a sound card reports {block.faults}")
        if last is not None:
            expect(block.first_frame == last, f"frame {block.first_frame} came when {last} was next")
        last = _end(block)
        kept.append((block, block.samples.tobytes()))
    expect(any(len(block.samples) for block, _ in kept), "no frames came")
    for block, at_first in kept:
        expect(block.samples.tobytes() == at_first, "samples of an earlier block have changed")
        _near(stage, block, "without any disturbance")


def clock(bench: CardBench, stage: CardStage) -> None:
    """Its clock is at the frames that it reads, and goes on."""
    card = stage.card
    before = -1
    for _turn in range(BLOCKS):
        end = _end(card.read())
        now = card.now_frame()
        ahead = (now - end) / card.info.sample_rate_hz
        expect(now >= end - 1, f"its clock is at {now} after frame {end - 1} was read")
        expect(ahead <= bench.clock_s, f"its clock is at {now}, {ahead:.3f} s ahead of the last frame that was read")
        expect(now >= before, f"its clock went back from {before} to {now}")
        before = now


def gap(bench: CardBench, stage: CardStage) -> None:
    """Lost frames show as a jump of the frame number, and what follows has its true numbers."""
    if not bench.buffer_s:
        raise NotApplicable("its far end loses no frames")
    card = stage.card
    end = _end(_read(card, 0.01)[-1])
    stage.idle(bench.buffer_s + 0.3)
    jump = 0
    for block in _read(card, bench.buffer_s + 0.5):
        jump = max(jump, block.first_frame - end)
        end = _end(block)
        _near(stage, block, "after frames were lost")
    expect(jump > 0, "frames were lost and it shows no gap")


def delivery(bench: CardBench, stage: CardStage) -> None:
    """A pulse reaches its electrode at its frame, as it is, and the report says so in the block that has the frame."""
    info, card, phases = _stimulating(stage), stage.card, _longest_pulse(bench, stage.card.info)
    _read(card, 0.01)
    at = card.now_frame() + round(bench.ahead_s * info.sample_rate_hz)
    late = _late(bench, info)
    card.stimulate(replace(_pulse(bench, 1, at, late), phases=phases))
    blocks = _read(card, 2 * bench.ahead_s + 2 * late / info.sample_rate_hz + 0.1)
    reports = _reports(blocks)
    expect(len(reports) == 1, f"one pulse, {len(reports)} reports")
    frame = reports[0].frame
    expect(frame is not None, f"it dropped a sound pulse: {reports[0].why}")
    assert frame is not None  # noqa: S101  (for the type)
    expect(at <= frame <= at + late, f"a pulse for frame {at} began at {frame}")
    received = stage.received()
    expect(received == [TruePulse(bench.electrode, frame, phases)], f"it reports frame {frame}; true: {received}")
    for block in blocks:
        if block.deliveries:
            expect(frame < _end(block), "it reports a pulse before its frame is read")
            expect(bench.exact is False or block.first_frame <= frame, "its report comes in a later block")


def as_it_is(bench: CardBench, stage: CardStage) -> None:
    """What the stimulator cannot deliver exactly is dropped with a reason, never rounded."""
    info, card = _stimulating(stage), stage.card
    _read(card, 0.01)
    us, ua = bench.phases[0].duration_us, bench.phases[0].current_ua
    at = card.now_frame() + round(bench.ahead_s * info.sample_rate_hz)
    unfit = {
        "a current off its grid": (
            Phase(us, ua + 0.4 * info.current_step_ua),
            Phase(us, -ua - 0.4 * info.current_step_ua),
        ),
        "a duration off its grid": (Phase(us + 0.4 * info.time_step_us, ua), Phase(us + 0.4 * info.time_step_us, -ua)),
        "more phases than it drives": bench.phases * (info.max_phases // 2 + 1),
        "a current beyond it": (Phase(us, -10 * info.max_current_ua), Phase(us, 10 * info.max_current_ua)),
    }
    for number, phases in enumerate(unfit.values()):
        card.stimulate(replace(_pulse(bench, number, at, _late(bench, info)), phases=phases))
    card.stimulate(replace(_pulse(bench, 9, at, _late(bench, info)), electrode=info.electrodes))
    reports = {report.pulse.id: report for report in _reports(_read(card, 2 * bench.ahead_s + 0.1))}
    for number, what in enumerate([*unfit, "an electrode that it has not"]):
        report = reports.get(number if number < len(unfit) else 9)
        expect(report is not None and report.frame is None, f"it delivers {what}: {report}")
        expect(report is not None and bool(report.why), f"it drops {what} without a reason")
    expect(not stage.received(), f"the electrodes received {stage.received()}")


def late(bench: CardBench, stage: CardStage) -> None:
    """A pulse whose latest frame has passed is dropped, and never comes."""
    info, card = _stimulating(stage), stage.card
    end = _end(_read(card, 0.05)[-1])
    card.stimulate(Pulse(1, bench.electrode, bench.phases, end - info.block_frames, end - 1))
    stage.idle(bench.ahead_s)
    card.stimulate(Pulse(2, bench.electrode, bench.phases, end, end + 1))
    reports = {report.pulse.id: report for report in _reports(_read(card, 0.2))}
    for number in (1, 2):
        report = reports.get(number)
        expect(report is not None and report.frame is None, f"a pulse that was too late was not dropped: {report}")
        expect(report is not None and bool(report.why), "it drops a late pulse without a reason")
    expect(not stage.received(), f"a late pulse was delivered: {stage.received()}")


def once(bench: CardBench, stage: CardStage) -> None:
    """Every pulse is reported exactly once, in time order of the frames."""
    info, card = _stimulating(stage), stage.card
    _read(card, 0.01)
    start = card.now_frame() + round(bench.ahead_s * info.sample_rate_hz)
    apart = max(round(0.01 * info.sample_rate_hz), 3 * _late(bench, info) // 2)
    numbers = list(range(1, 5))
    for number in numbers:
        card.stimulate(_pulse(bench, number, start + number * apart, _late(bench, info)))
    blocks = _read(card, bench.ahead_s + 6 * apart / info.sample_rate_hz + 0.1)
    reports = _reports(blocks)
    seen = sorted(report.pulse.id for report in reports)
    expect(seen == numbers, f"pulses {numbers} were handed over; {seen} were reported")
    began = [report.frame for report in reports if report.frame is not None]
    true = [pulse.frame for pulse in stage.received()]
    expect(sorted(began) == sorted(true), f"it reports {began}; true: {true}")


def together(bench: CardBench, stage: CardStage) -> None:
    """Pulses that belong together begin in one frame, ahead or as soon as possible, or none of them begins."""
    info, card = _stimulating(stage), stage.card
    if not hasattr(card, "stimulate_together"):
        expect(info.skew_us is None, f"it states a skew of {info.skew_us} µs and takes single pulses only")
        raise NotApplicable("it takes single pulses only")
    skew_us = math.inf if info.skew_us is None else info.skew_us
    frame_us = 1e6 / info.sample_rate_hz
    expect(0 <= skew_us <= frame_us, f"it states a skew of {info.skew_us} µs; a frame lasts {frame_us:g} µs")
    _read(card, 0.01)
    ahead = round(bench.ahead_s * info.sample_rate_hz)
    for turn in range(TOGETHER):
        before = len(stage.received())
        soon = turn % 2 == 1
        at = card.now_frame() + (0 if soon else ahead)
        pulses = _several(bench, 10 * turn, at, at + ahead + _late(bench, info) if soon else at + _late(bench, info))
        hand_over(card, pulses)
        reports = _reports(_read(card, 2 * bench.ahead_s + 2 * _late(bench, info) / info.sample_rate_hz + 0.1))
        expect(
            sorted(report.pulse.id for report in reports) == [pulse.id for pulse in pulses],
            f"{len(pulses)} pulses were handed over together; it reports {reports}",
        )
        began = {report.frame for report in reports}
        expect(len(began) == 1, f"pulses that belong together began at {began}")
        expect(None not in began, f"it dropped sound pulses that belong together: {reports[0].why}")
        true = stage.received()[before:]
        expect({pulse.frame for pulse in true} == began, f"it reports frames {began}; true: {true}")
        expect(len(true) == len(pulses), f"{len(pulses)} pulses belong together; {len(true)} were delivered")
    before = len(stage.received())
    at = card.now_frame() + ahead
    sound = _several(bench, 100, at, at + _late(bench, info))
    for number in range(len(sound)):
        pulses = [
            replace(pulse, phases=(Phase(pulse.phases[0].duration_us, -10 * info.max_current_ua), *pulse.phases[1:]))
            if pulse is sound[number]
            else pulse
            for pulse in sound
        ]
        hand_over(card, [replace(pulse, id=pulse.id + 10 * number) for pulse in pulses])
    reports = _reports(_read(card, 2 * bench.ahead_s + _late(bench, info) / info.sample_rate_hz + 0.1))
    expect(len(reports) == len(sound) ** 2, f"{len(sound) ** 2} pulses were handed over, {len(reports)} reported")
    expect(
        all(report.frame is None and report.why for report in reports), f"one of several cannot be delivered: {reports}"
    )
    expect(len(stage.received()) == before, "it delivers a part of pulses that belong together")


def _several(bench: CardBench, number: int, at_frame: int, not_after: int) -> list[Pulse]:
    """Return pulses that belong together, on all electrodes of the bench."""
    electrodes = (bench.electrode, *bench.others)
    return [Pulse(number + k, electrode, bench.phases, at_frame, not_after) for k, electrode in enumerate(electrodes)]


def cancel(bench: CardBench, stage: CardStage) -> None:
    """A cancelled pulse never begins and is reported as dropped; later pulses are delivered."""
    info, card = _stimulating(stage), stage.card
    _read(card, 0.01)
    ahead = round(bench.ahead_s * info.sample_rate_hz)
    start = card.now_frame() + 2 * ahead
    for number in (1, 2, 3):
        card.stimulate(_pulse(bench, number, start + number * ahead // 3, _late(bench, info)))
    early = _reports(_read(card, 0.01))
    expect(not early, f"a pulse was reported before its frame: {early}")
    card.cancel()
    reports = _reports(_read(card, 4 * bench.ahead_s))
    expect(not stage.received(), f"cancelled pulses were delivered: {stage.received()}")
    dropped = sorted(report.pulse.id for report in reports if report.frame is None)
    expect(dropped == [1, 2, 3], f"three pulses were cancelled; {dropped} were reported as dropped")
    card.stimulate(_pulse(bench, 4, card.now_frame() + ahead, _late(bench, info)))
    again = _reports(_read(card, 2 * bench.ahead_s + 2 * _late(bench, info) / info.sample_rate_hz + 0.1))
    expect([report.frame is not None for report in again] == [True], "after a cancel it delivers nothing more")


def close(bench: CardBench, stage: CardStage) -> None:
    """A closed card stimulates no more."""
    info, card = _stimulating(stage), stage.card
    _read(card, 0.01)
    start = card.now_frame() + round(bench.ahead_s * info.sample_rate_hz)
    card.stimulate(_pulse(bench, 1, start, _late(bench, info)))
    card.close()
    card.stimulate(_pulse(bench, 2, start, _late(bench, info)))
    stage.idle(bench.ahead_s / 2)
    try:
        _read(card, 2 * bench.ahead_s)
    except OSError:
        stage.idle(2 * bench.ahead_s)  # it is gone for good, as it may be
    expect(not stage.received(), f"a closed card delivered {stage.received()}")


def faults(bench: CardBench, stage: CardStage) -> None:
    """An unplugged headstage and a dead chip are reported, with exactly their electrodes, until they are repaired."""
    partial = [(state, which) for state, which in bench.faults if state is not CardState.STALLED]
    if not partial:
        raise NotApplicable("its far end cannot tell that a headstage is unplugged")
    card = stage.card
    _read(card, 0.01)
    for state, electrodes in partial:
        which = electrodes or tuple(range(card.info.electrodes))
        stage.fail(state, which)
        _expect_fault(bench, card, state, which)
        if card.info.stimulates and bench.electrode in which:
            at = card.now_frame() + round(bench.ahead_s * card.info.sample_rate_hz)
            before = len(stage.received())
            card.stimulate(_pulse(bench, 1, at, _late(bench, card.info)))
            reports = _reports(_read(card, 2 * bench.ahead_s + 0.1))
            expect([report.frame for report in reports] == [None], f"{state}: a pulse was not dropped: {reports}")
            expect(len(stage.received()) == before, f"{state}: a pulse was delivered")
        stage.repair()
        _expect_recovery(bench, stage, state)


def _expect_fault(bench: CardBench, card: ElectrodeCard, state: CardState, which: tuple[int, ...]) -> None:
    for block in _read(card, bench.fault_s, lambda block: any(fault.state is state for fault in block.faults)):
        named = {electrode for fault in block.faults if fault.state is state for electrode in fault.electrodes}
        if named:
            expect(named == set(which), f"{state} concerns electrodes {sorted(which)}; it reports {sorted(named)}")
            expect(all(fault.text for fault in block.faults), f"{state} is reported without a text")
            expect(card.state is state, f"{state} is reported, and its state is {card.state}")
            return
    raise AssertionError(f"{state} was not reported within {bench.fault_s} s")


def _expect_recovery(bench: CardBench, stage: CardStage, state: CardState) -> None:
    block = None
    for block in _read(stage.card, 4 * bench.fault_s, lambda block: not block.faults and bool(len(block.samples))):
        if not block.faults and len(block.samples):
            expect(stage.card.state is CardState.CONNECTED, f"{state} is over, and its state is {stage.card.state}")
            for later in _read(stage.card, 0.02):
                _near(stage, later, f"after {state}")
            return
    raise AssertionError(f"{state} is over, and it still reports {block.faults if block else 'nothing'}")


def stalled(bench: CardBench, stage: CardStage) -> None:
    """Without frames it says so in time, does not invent any, and goes on at a higher number."""
    if CardState.STALLED not in dict(bench.faults):
        raise NotApplicable("its far end cannot stall")
    card = stage.card
    end = _end(_read(card, 0.05)[-1])
    everything = tuple(range(card.info.electrodes))
    stage.fail(CardState.STALLED, everything)
    blocks = _read(card, bench.fault_s, lambda block: bool(block.faults))
    blocks += _read(card, MIN_WAIT_S)
    for block in blocks:
        expect(block.first_frame >= end, f"frame {block.first_frame} came when {end} was next")
        end = max(end, _end(block))
        if len(block.samples):
            _near(stage, block, "while the far end stalls")
    last = blocks[-1]
    expect(not len(last.samples), "the far end stalls, and frames go on")
    expect([fault.state for fault in last.faults] == [CardState.STALLED], f"the stall is not reported: {last.faults}")
    stage.repair()
    _expect_recovery(bench, stage, CardState.STALLED)
    expect(card.read().first_frame >= end, "after a stall its frames run backwards")


def impedance(bench: CardBench, stage: CardStage) -> None:
    """Impedances are those of the electrodes, with the frame of their measurement."""
    card = stage.card
    if not card.info.measures_impedance:
        expect(set(card.impedances()) == {None}, "it cannot measure impedances and gives some")
        raise NotApplicable("it cannot measure impedances")
    end = _end(_read(card, 0.2)[-1])
    measured = card.measure_impedances()
    expect(len(measured) == card.info.electrodes, f"{len(measured)} impedances of {card.info.electrodes} electrodes")
    for electrode, (found, true) in enumerate(zip(measured, stage.true_impedances(), strict=True)):
        expect(found is not None, f"electrode {electrode} has no impedance")
        assert found is not None  # noqa: S101  (for the type)
        expect(
            abs(found.kohm - true) <= 0.2 * true, f"electrode {electrode} has {true:g} kΩ; it measures {found.kohm:g}"
        )
        expect(
            found.at_frame >= end - card.info.block_frames, f"a new measurement is dated {found.at_frame}, not {end}"
        )
    expect(card.impedances() == measured, "the latest impedances are not those that were measured last")


def self_test(bench: CardBench, stage: CardStage) -> None:
    """The self-test passes on sound hardware, fails with a fault, and delivers nothing."""
    card = stage.card
    checks = card.self_test()
    expect(bool(checks), "its self-test tests nothing")
    expect(all(check.passed for check in checks), f"the self-test fails on sound hardware: {checks}")
    expect(all(check.detail for check in checks), "a check says nothing")
    expect(not stage.received(), f"the self-test stimulated: {stage.received()}")
    for state, electrodes in bench.faults[:1]:
        which = electrodes or tuple(range(card.info.electrodes))
        stage.fail(state, which)
        _read(card, bench.fault_s, lambda block: bool(block.faults))
        expect(not all(check.passed for check in card.self_test()), f"the self-test passes with {state}")


def input_only(bench: CardBench, stage: CardStage) -> None:
    """A card that cannot stimulate drops every pulse with a reason."""
    card = stage.card
    if card.info.stimulates:
        raise NotApplicable("it stimulates")
    _read(card, 0.01)
    at = card.now_frame() + round(bench.ahead_s * card.info.sample_rate_hz)
    card.stimulate(_pulse(bench, 1, at, at))
    reports = _reports(_read(card, 2 * bench.ahead_s + 0.1))
    expect([report.frame for report in reports] == [None], f"it cannot stimulate and does not drop a pulse: {reports}")
    expect("cannot stimulate" in reports[0].why, f"it does not say that it cannot stimulate: {reports[0].why!r}")


PROPERTIES: Mapping[str, CardProperty] = MappingProxyType(
    {
        "data-sheet": CardProperty("has a usable data sheet", data_sheet),
        "frames": CardProperty("reads consecutive frames as the electrodes gave them", frames),
        "clock": CardProperty("has a clock that counts its frames", clock),
        "gap": CardProperty("shows lost frames as a gap", gap),
        "delivery": CardProperty("delivers a pulse at its frame and reports it truly", delivery),
        "as-it-is": CardProperty("drops what it cannot deliver exactly", as_it_is),
        "late": CardProperty("never delivers a pulse too late", late),
        "once": CardProperty("reports each pulse once", once),
        "together": CardProperty("begins pulses that belong together in one frame, or none of them", together),
        "cancel": CardProperty("drops cancelled pulses", cancel),
        "close": CardProperty("is silent once it is closed", close),
        "faults": CardProperty("reports hardware that does not work, and its recovery", faults),
        "stalled": CardProperty("reports that no frames arrive, and goes on later", stalled),
        "impedance": CardProperty("measures impedances", impedance),
        "self-test": CardProperty("tests its hardware", self_test),
        "input-only": CardProperty("says that it cannot stimulate", input_only),
    }
)
