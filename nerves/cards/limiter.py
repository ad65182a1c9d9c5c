"""The stimulation limiter of the card process: the last check before the hardware, independent of the engine's governor.

It shares no code with the governor and counts in whole numbers: charge in femtocoulombs, time in microseconds of the array.
Its limits lie a little above the governor's, so that it acts only when something before it has failed. It keeps no clock.
It counts by the times of delivery; a pulse may be handed over up to a second out of their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, pi

SECOND_US = 1_000_000
DENSITY_FC_UM2 = {"Pt": 550, "PtIr": 198, "TiN": 770}
"""Charge density of a phase by metal, a tenth above the limits of electrodes.md §3 (1 µC/cm² = 10 fC/µm²)."""


@dataclass(frozen=True, slots=True)
class LimiterLimits:
    """Holds the limits of one electrode unless `array_` says otherwise; `fc` are femtocoulombs."""

    phase_fc: int
    """Charge before it is taken back: that of a phase, of several of one sign in turn, or what has stayed of all so far."""
    net_fc: int = 10_000
    """Charge that stays, whatever the size of the phases."""
    net_per_mille: int = 20
    """Charge that stays, as a share of the larger phase; the larger of both limits holds."""
    interval_us: int = 4_500
    """From one pulse to the next: 222 Hz."""
    second_fc: int = 12_500_000
    """Charge of all phases in any second."""
    array_second_fc: int = 100_000_000
    """The same, of the whole array."""
    duty_us: int = 350_000
    """Time with a pulse in any second."""
    session_us: int = 1_320_000_000
    """Time in which the array is stimulated without a rest."""
    rest_us: int = 270_000_000
    """Time without a pulse that is a rest."""
    phases: int = 7
    reversals: int = 2
    """Changes of sign within one pulse: with more it would be several pulses that count as one."""
    phase_us: int = 600
    pulse_us: int = 1_700
    """All phases of a pulse: charge that is not taken back for longer may do harm."""
    dead_man_us: int = 5_000
    """Silence of the engine after which nothing may be delivered."""

    @classmethod
    def of(cls, material: str, diameter_um: float) -> LimiterLimits:
        """Return the limits of disc electrodes.

        Args:
            material: Metal of the electrodes: Pt, PtIr or TiN.
            diameter_um: Diameter of an electrode (µm).

        Returns:
            The limits: a phase is limited by charge density, and to 1.1 nC.
        """
        area_um2 = pi * diameter_um * diameter_um / 4.0
        return cls(phase_fc=min(1_100_000, int(DENSITY_FC_UM2[material] * area_um2)))


class StimulationLimiter:
    """Admits or refuses single pulses. Times are microseconds of the array, except those of the dead-man timer."""

    def __init__(self, limits: LimiterLimits, electrodes: int) -> None:
        self.limits = limits
        self._electrodes = electrodes
        self._recent: dict[int, deque[tuple[int, int, int, int]]] = {}
        """By electrode: earliest and latest begin, charge, and duration of what was admitted within the last two seconds."""
        self._newest_us = 0
        self._sessions: list[tuple[int, int]] = []
        """Begin and end of each stretch without a rest, in order; those that ended more than a rest ago are left out."""
        self._alive_us: int | None = None

    def alive(self, now_us: int) -> None:
        """Note a sign of life of the engine.

        Args:
            now_us: When (µs), by any steady clock.
        """
        self._alive_us = now_us

    def silent(self, now_us: int) -> bool:
        """Return whether the engine has shown no life for too long.

        Args:
            now_us: The time (µs), by the clock of :meth:`alive`.

        Returns:
            True before the first sign of life, and `dead_man_us` after the last one.
        """
        return self._alive_us is None or now_us - self._alive_us > self.limits.dead_man_us

    def admit(
        self, electrode: int, phases: Sequence[tuple[float, float]], earliest_us: int, latest_us: int, now_us: int
    ) -> str:
        """Admit one pulse of `phases` (µs, µA), and remember it.

        Args:
            electrode: The electrode.
            phases: Duration (µs) and current (µA, signed) of each phase.
            earliest_us: When it may begin, by the array.
            latest_us: When it may begin at the latest.
            now_us: The clock of the dead-man timer.

        Returns:
            Why it is refused; empty when it is admitted.
        """
        if self.silent(now_us):
            return "limiter: the engine has been silent for too long"
        why = self._shape(electrode, phases) or self._load(electrode, phases, earliest_us, latest_us)
        if not why:
            admitted = earliest_us, latest_us, _moved_fc(phases), _lasts_us(phases)
            self._recent.setdefault(electrode, deque()).append(admitted)
            self._newest_us = max(self._newest_us, earliest_us)
            oldest = self._newest_us - SECOND_US - self.limits.rest_us
            self._sessions = [each for each in self._joined(earliest_us, latest_us) if each[1] > oldest]
        return why

    def _shape(self, electrode: int, phases: Sequence[tuple[float, float]]) -> str:
        """Return what is wrong with the pulse by itself."""
        limits = self.limits
        if not 0 <= electrode < self._electrodes:
            return f"limiter: there is no electrode {electrode}"
        if not 1 < len(phases) <= limits.phases or not all(isfinite(us) and isfinite(ua) for us, ua in phases):
            return f"limiter: {len(phases)} phases, or one that is no number"
        if any(not 0 < us <= limits.phase_us for us, _ in phases):
            return f"limiter: a phase must last more than 0 and at most {limits.phase_us} µs"
        if _lasts_us(phases) > limits.pulse_us:
            return f"limiter: the pulse lasts {_lasts_us(phases)} µs; at most {limits.pulse_us} µs"
        charges = [_charge_fc(us, ua) for us, ua in phases]
        largest = side = moved = reversals = 0
        for charge in charges:  # phases of one sign that follow each other count together, and so does what has stayed
            reversals += side * charge < 0
            side = side + charge if side * charge >= 0 else charge
            moved += charge
            largest = max(largest, abs(side), abs(moved))
        if reversals > limits.reversals:
            return f"limiter: the current changes its sign {reversals} times; at most {limits.reversals} times"
        if largest > limits.phase_fc:
            return f"limiter: {largest / 1e6:.3f} nC before it is taken back; at most {limits.phase_fc / 1e6:.3f} nC"
        left, allowed = abs(moved), max(limits.net_fc, largest * limits.net_per_mille // 1000)
        if left > allowed:
            return f"limiter: {left / 1e3:.1f} pC stay in the tissue; at most {allowed / 1e3:.1f} pC"
        return ""

    def _load(self, electrode: int, phases: Sequence[tuple[float, float]], earliest_us: int, latest_us: int) -> str:
        """Return what is wrong with the pulse among those around it."""
        limits, second = self.limits, SECOND_US
        if latest_us < earliest_us:
            return "limiter: its latest time lies before its earliest"
        if earliest_us < self._newest_us - second:
            return "limiter: it lies more than a second before a pulse that was admitted already"
        for recent in self._recent.values():
            while recent and recent[0][1] <= self._newest_us - 2 * second:
                recent.popleft()
        near = {
            key: [each for each in recent if earliest_us - second < each[1] and each[0] < latest_us + second]
            for key, recent in self._recent.items()
        }
        own = near.get(electrode, [])
        if any(max(earliest_us - last, first - latest_us) < limits.interval_us for first, last, _, _ in own):
            return f"limiter: another pulse on electrode {electrode} within {limits.interval_us} µs"
        charge = _moved_fc(phases)
        if charge + sum(fc for _, _, fc, _ in own) > limits.second_fc:
            return f"limiter: more than {limits.second_fc / 1e6:g} nC on electrode {electrode} in a second"
        if charge + sum(fc for each in near.values() for _, _, fc, _ in each) > limits.array_second_fc:
            return f"limiter: more than {limits.array_second_fc / 1e6:g} nC on the array in a second"
        if _lasts_us(phases) + sum(us for *_, us in own) > limits.duty_us:
            return f"limiter: electrode {electrode} would be stimulated for more than {limits.duty_us} µs of a second"
        if any(end - begin > limits.session_us for begin, end in self._joined(earliest_us, latest_us)):
            return f"limiter: more than {limits.session_us // second} s without a rest of {limits.rest_us // second} s"
        return ""

    def _joined(self, earliest_us: int, latest_us: int) -> list[tuple[int, int]]:
        """Return the sessions with one more pulse, which may join two of them."""
        rest = self.limits.rest_us
        near = [each for each in self._sessions if earliest_us - each[1] < rest and each[0] - latest_us < rest]
        begins, ends = [begin for begin, _ in near], [end for _, end in near]
        one = min([earliest_us, *begins]), max([latest_us, *ends])
        return sorted([*(each for each in self._sessions if each not in near), one])


def _charge_fc(us: float, ua: float) -> int:
    """Return the signed charge of a phase (µA × µs = pC)."""
    return round(us * ua * 1000.0)


def _moved_fc(phases: Sequence[tuple[float, float]]) -> int:
    return sum(abs(_charge_fc(us, ua)) for us, ua in phases)


def _lasts_us(phases: Sequence[tuple[float, float]]) -> int:
    return round(sum(us for us, _ in phases))
