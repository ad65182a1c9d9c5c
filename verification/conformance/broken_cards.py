"""Broken cards: a layer around a sound card with one defect, and the property that must notice it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from nerves.cards.conformance.stage import CardBench, CardStage, TruePulse
from nerves.cards.contract import (
    ArrayInfo,
    CardFault,
    CardState,
    Delivery,
    ElectrodeCard,
    FrameBlock,
    Frames,
    Impedance,
    Phase,
    Pulse,
    SelfCheck,
    hand_over,
)


class CardLayer:
    """A card that passes everything on; subclasses add a defect."""

    def __init__(self, inner: ElectrodeCard) -> None:
        self.inner = inner
        self.blocks = 0

    @property
    def info(self) -> ArrayInfo:
        """That of the sound card."""
        return self.inner.info

    @property
    def state(self) -> CardState:
        """That of the sound card."""
        return self.inner.state

    def now_frame(self) -> int:
        """Pass on."""
        return self.inner.now_frame()

    def read(self) -> FrameBlock:
        """Pass on, after :meth:`altered`."""
        self.blocks += 1
        return self.altered(self.inner.read())

    def altered(self, block: FrameBlock) -> FrameBlock:
        """Return the block as the broken card gives it."""
        return block

    def stimulate(self, pulse: Pulse) -> None:
        """Pass on."""
        self.inner.stimulate(pulse)

    def stimulate_together(self, pulses: tuple[Pulse, ...]) -> None:
        """Pass on."""
        hand_over(self.inner, pulses)

    def cancel(self) -> None:
        """Pass on."""
        self.inner.cancel()

    def impedances(self) -> tuple[Impedance | None, ...]:
        """Pass on."""
        return self.inner.impedances()

    def measure_impedances(self) -> tuple[Impedance | None, ...]:
        """Pass on."""
        return self.inner.measure_impedances()

    def self_test(self) -> tuple[SelfCheck, ...]:
        """Pass on."""
        return self.inner.self_test()

    def close(self) -> None:
        """Pass on."""
        self.inner.close()


class LayerStage:
    """The stage of a sound card, with a layer around the card."""

    def __init__(self, sound: CardStage, layer: Callable[[ElectrodeCard], CardLayer]) -> None:
        self._sound = sound
        self.card: ElectrodeCard = layer(sound.card)

    def truth(self, block: FrameBlock) -> Frames:
        """Return that of the sound stage."""
        return self._sound.truth(block)

    def received(self) -> list[TruePulse]:
        """Return that of the sound stage."""
        return self._sound.received()

    def idle(self, seconds: float) -> None:
        """Pass on."""
        self._sound.idle(seconds)

    def fail(self, state: CardState, electrodes: tuple[int, ...]) -> None:
        """Pass on."""
        self._sound.fail(state, electrodes)

    def repair(self) -> None:
        """Pass on."""
        self._sound.repair()

    def true_impedances(self) -> tuple[float, ...]:
        """Return that of the sound stage."""
        return self._sound.true_impedances()


class _RenumbersFrames(CardLayer):
    next: int | None = None

    def altered(self, block: FrameBlock) -> FrameBlock:
        first = block.first_frame if self.next is None else self.next
        self.next = first + len(block.samples)
        return replace(block, first_frame=first)


class _LosesABlock(CardLayer):
    next: int | None = None

    def altered(self, block: FrameBlock) -> FrameBlock:
        if self.blocks == 7:
            block = self.inner.read()
        first = block.first_frame if self.next is None else self.next
        self.next = first + len(block.samples)
        return replace(block, first_frame=first)


class _WrongTime(CardLayer):
    def altered(self, block: FrameBlock) -> FrameBlock:
        return replace(block, first_frame=block.first_frame + 3)


class _RepeatsABlock(CardLayer):
    last: FrameBlock | None = None

    def altered(self, block: FrameBlock) -> FrameBlock:
        if self.blocks == 9 and self.last is not None:
            return replace(self.last, first_frame=block.first_frame)
        self.last = block
        return block


class _SwapsChannels(CardLayer):
    def altered(self, block: FrameBlock) -> FrameBlock:
        return replace(block, samples=np.ascontiguousarray(block.samples[:, ::-1]))


class _WrapsAround(CardLayer):
    def altered(self, block: FrameBlock) -> FrameBlock:
        return replace(block, samples=(block.samples.astype(np.int32) * 2).astype(np.int16))


class _ReusesItsBuffer(CardLayer):
    buffer: Frames | None = None

    def altered(self, block: FrameBlock) -> FrameBlock:
        if self.buffer is None or self.buffer.shape != block.samples.shape:
            self.buffer = block.samples.copy()
        self.buffer[:] = block.samples
        return replace(block, samples=self.buffer)


class _ClockInMicroseconds(CardLayer):
    def now_frame(self) -> int:
        return round(self.inner.now_frame() * 1e6 / self.info.sample_rate_hz)


class _ClockStands(CardLayer):
    def now_frame(self) -> int:
        return 0


class _RoundsCurrents(CardLayer):
    def stimulate(self, pulse: Pulse) -> None:
        us, ua = self.info.time_step_us, self.info.current_step_ua
        phases = tuple(
            Phase(round(phase.duration_us / us) * us, round(phase.current_ua / ua) * ua) for phase in pulse.phases
        )
        self.inner.stimulate(replace(pulse, phases=phases))


class _ClipsCurrents(CardLayer):
    def stimulate(self, pulse: Pulse) -> None:
        most = 1.0
        phases = tuple(Phase(phase.duration_us, max(-most, min(most, phase.current_ua))) for phase in pulse.phases)
        self.inner.stimulate(replace(pulse, phases=phases))


class _CutsPhases(CardLayer):
    def stimulate(self, pulse: Pulse) -> None:
        self.inner.stimulate(replace(pulse, phases=pulse.phases[: self.info.max_phases]))


class _DeliversThreePhases(CardLayer):
    def stimulate(self, pulse: Pulse) -> None:
        self.inner.stimulate(replace(pulse, phases=pulse.phases[:3]))


class _SwapsPhases(CardLayer):
    def stimulate(self, pulse: Pulse) -> None:
        self.inner.stimulate(replace(pulse, phases=tuple(reversed(pulse.phases))))


class _WrongElectrode(CardLayer):
    def stimulate(self, pulse: Pulse) -> None:
        if 0 <= pulse.electrode < self.info.electrodes:
            pulse = replace(pulse, electrode=(pulse.electrode + 1) % self.info.electrodes)
        self.inner.stimulate(pulse)


class _DeliversLate(CardLayer):
    def stimulate(self, pulse: Pulse) -> None:
        later = pulse.at_frame + round(0.5 * self.info.sample_rate_hz)
        self.inner.stimulate(replace(pulse, not_after=max(pulse.not_after, later)))


class _DeliversOneFrameOff(CardLayer):
    def stimulate(self, pulse: Pulse) -> None:
        more = round(0.1 * self.info.sample_rate_hz)
        self.inner.stimulate(replace(pulse, at_frame=pulse.at_frame - more, not_after=pulse.not_after - more))


class _ReportsThePlan(CardLayer):
    def altered(self, block: FrameBlock) -> FrameBlock:
        told = tuple(
            Delivery(each.pulse, each.pulse.at_frame + 5) if each.frame is not None else each
            for each in block.deliveries
        )
        return replace(block, deliveries=told)


class _ForgetsReports(CardLayer):
    def altered(self, block: FrameBlock) -> FrameBlock:
        return replace(block, deliveries=tuple(each for each in block.deliveries if each.pulse.id % 3))


class _ReportsTwice(CardLayer):
    def altered(self, block: FrameBlock) -> FrameBlock:
        return replace(block, deliveries=block.deliveries * 2)


class _DropsWithoutReason(CardLayer):
    def altered(self, block: FrameBlock) -> FrameBlock:
        return replace(block, deliveries=tuple(Delivery(each.pulse, each.frame) for each in block.deliveries))


class _Staggers(CardLayer):
    def stimulate_together(self, pulses: tuple[Pulse, ...]) -> None:
        for later, pulse in enumerate(pulses):
            self.inner.stimulate(replace(pulse, at_frame=pulse.at_frame + later, not_after=pulse.not_after + later))


class _DeliversAPart(CardLayer):
    def stimulate_together(self, pulses: tuple[Pulse, ...]) -> None:
        for pulse in pulses:
            self.inner.stimulate(pulse)


class _StatesASkewOnly(CardLayer):
    @property
    def stimulate_together(self) -> None:  # type: ignore[override]
        raise AttributeError


class _StatesNoSkew(CardLayer):
    @property
    def info(self) -> ArrayInfo:
        return replace(self.inner.info, skew_us=None)


class _StatesAJitter(CardLayer):
    @property
    def info(self) -> ArrayInfo:
        return replace(self.inner.info, jitter_us=5600.0)


class _StatesNoNumberAsJitter(CardLayer):
    @property
    def info(self) -> ArrayInfo:
        return replace(self.inner.info, jitter_us=math.nan)


class _IgnoresCancel(CardLayer):
    def cancel(self) -> None:
        """Do nothing."""


class _CancelIsFinal(CardLayer):
    def cancel(self) -> None:
        self.inner.close()


class _IgnoresClose(CardLayer):
    def close(self) -> None:
        """Do nothing."""


class _HidesFaults(CardLayer):
    hidden: tuple[CardState, ...] = (CardState.HEADSTAGE_UNPLUGGED,)

    @property
    def state(self) -> CardState:
        return CardState.CONNECTED

    def altered(self, block: FrameBlock) -> FrameBlock:
        return replace(block, faults=tuple(fault for fault in block.faults if fault.state not in self.hidden))


class _HidesDeadChips(_HidesFaults):
    hidden = (CardState.DEAD,)


class _HidesAStall(_HidesFaults):
    hidden = (CardState.STALLED,)


class _BlamesAllElectrodes(CardLayer):
    def altered(self, block: FrameBlock) -> FrameBlock:
        everything = tuple(range(self.info.electrodes))
        return replace(block, faults=tuple(replace(fault, electrodes=everything) for fault in block.faults))


class _NeverRecovers(CardLayer):
    seen: tuple[CardFault, ...] = ()

    def altered(self, block: FrameBlock) -> FrameBlock:
        if block.faults:
            self.seen = block.faults
        return replace(block, faults=self.seen) if self.seen else block


class _InventsFrames(CardLayer):
    last: FrameBlock | None = None

    def altered(self, block: FrameBlock) -> FrameBlock:
        if len(block.samples) or self.last is None:
            self.last = block
            return block
        first = self.last.first_frame + len(self.last.samples)
        self.last = replace(self.last, first_frame=first, deliveries=(), faults=())
        return self.last


class _ImpedanceInOhm(CardLayer):
    def measure_impedances(self) -> tuple[Impedance | None, ...]:
        return tuple(each and replace(each, kohm=each.kohm * 1000.0) for each in self.inner.measure_impedances())


class _OldImpedances(CardLayer):
    def measure_impedances(self) -> tuple[Impedance | None, ...]:
        return tuple(each and replace(each, at_frame=0) for each in self.inner.impedances())


class _SelfTestAlwaysPasses(CardLayer):
    def self_test(self) -> tuple[SelfCheck, ...]:
        return (SelfCheck("hardware", True, "fine"),)


class _SelfTestNothing(CardLayer):
    def self_test(self) -> tuple[SelfCheck, ...]:
        return ()


class _SwallowsPulses(CardLayer):
    def altered(self, block: FrameBlock) -> FrameBlock:
        return replace(block, deliveries=())


class _ClaimsToStimulate(CardLayer):
    def altered(self, block: FrameBlock) -> FrameBlock:
        told = tuple(
            Delivery(each.pulse, each.pulse.at_frame) if each.frame is None else each for each in block.deliveries
        )
        return replace(block, deliveries=told)


class _NoBlockLength(CardLayer):
    @property
    def info(self) -> ArrayInfo:
        return replace(self.inner.info, block_frames=0)


@dataclass(frozen=True, slots=True)
class BrokenCard:
    """One broken card: its defect `what`, and the `property` that must notice it."""

    what: str
    property: str
    layer: Callable[[ElectrodeCard], CardLayer]

    def on(self, bench: CardBench) -> CardBench:
        """Return the bench with the broken card."""

        @contextmanager
        def opened() -> Iterator[CardStage]:
            with bench.open() as stage:
                yield LayerStage(stage, self.layer)

        return replace(bench, open=opened)

    def __str__(self) -> str:
        return self.what


BROKEN = (
    BrokenCard("gives no block length", "data-sheet", _NoBlockLength),
    BrokenCard("loses a block and renumbers the rest", "frames", _LosesABlock),
    BrokenCard("hides a gap by renumbering", "gap", _RenumbersFrames),
    BrokenCard("numbers frames three too high", "frames", _WrongTime),
    BrokenCard("repeats a block in place of another", "frames", _RepeatsABlock),
    BrokenCard("reverses the order of channels", "frames", _SwapsChannels),
    BrokenCard("doubles the samples", "frames", _WrapsAround),
    BrokenCard("reuses its buffer", "frames", _ReusesItsBuffer),
    BrokenCard("has a clock in microseconds", "clock", _ClockInMicroseconds),
    BrokenCard("has a clock that stands", "clock", _ClockStands),
    BrokenCard("rounds currents and durations", "as-it-is", _RoundsCurrents),
    BrokenCard("clips currents", "as-it-is", _ClipsCurrents),
    BrokenCard("cuts off phases that it does not drive", "as-it-is", _CutsPhases),
    BrokenCard("delivers the first three phases", "delivery", _DeliversThreePhases),
    BrokenCard("swaps the phases", "delivery", _SwapsPhases),
    BrokenCard("stimulates another electrode", "delivery", _WrongElectrode),
    BrokenCard("delivers late pulses", "late", _DeliversLate),
    BrokenCard("delivers too early", "delivery", _DeliversOneFrameOff),
    BrokenCard("reports the plan in place of the frame", "delivery", _ReportsThePlan),
    BrokenCard("forgets every third report", "once", _ForgetsReports),
    BrokenCard("reports every pulse twice", "once", _ReportsTwice),
    BrokenCard("drops without a reason", "late", _DropsWithoutReason),
    BrokenCard("swallows reports", "once", _SwallowsPulses),
    BrokenCard("staggers pulses that belong together", "together", _Staggers),
    BrokenCard("delivers a part of pulses that belong together", "together", _DeliversAPart),
    BrokenCard("states a skew and takes single pulses only", "together", _StatesASkewOnly),
    BrokenCard("takes pulses together and states no skew", "together", _StatesNoSkew),
    BrokenCard("has deadlines and states a jitter", "data-sheet", _StatesAJitter),
    BrokenCard("states a jitter that is no number", "data-sheet", _StatesNoNumberAsJitter),
    BrokenCard("ignores cancel", "cancel", _IgnoresCancel),
    BrokenCard("delivers nothing after a cancel", "cancel", _CancelIsFinal),
    BrokenCard("ignores close", "close", _IgnoresClose),
    BrokenCard("hides an unplugged headstage", "faults", _HidesFaults),
    BrokenCard("hides a dead chip", "faults", _HidesDeadChips),
    BrokenCard("mutes all electrodes for one headstage", "faults", _BlamesAllElectrodes),
    BrokenCard("never recovers from a fault", "faults", _NeverRecovers),
    BrokenCard("hides a stall", "stalled", _HidesAStall),
    BrokenCard("repeats old frames during a stall", "stalled", _InventsFrames),
    BrokenCard("gives impedances in ohm", "impedance", _ImpedanceInOhm),
    BrokenCard("gives old impedances as new", "impedance", _OldImpedances),
    BrokenCard("passes every self-test", "self-test", _SelfTestAlwaysPasses),
    BrokenCard("tests nothing", "self-test", _SelfTestNothing),
    BrokenCard("claims to stimulate", "input-only", _ClaimsToStimulate),
)
"""Broken cards. "claims to stimulate" needs a card that only records."""
