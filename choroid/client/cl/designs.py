"""Where and what to stimulate: sets of channels, designs of a pulse and of a burst."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from choroid.client.nerves_terms import PulsePhase

MAX_CHANNEL = 16_383
STEP_US = 20
MAX_CURRENT_UA = 3.0
MAX_CHARGE_NC = 3.0
MAX_BURST_HZ = 200.0
SCALAR_US = 160


class ChannelSet:
    """Holds a set of channels. `|`, `&`, `^`, `-` and their in-place forms combine sets; `~` is all others of 64 channels."""

    __slots__ = ("_channels",)

    def __init__(self, *channels: int | Iterable[int]) -> None:
        """Collect channels.

        Args:
            channels: Numbers, or iterables of numbers.

        Raises:
            ValueError: A number is negative or above 16,383.
            TypeError: Something is no number.
        """
        found: set[int] = set()
        for each in channels:
            found.update([each] if isinstance(each, int) else each)
        for channel in found:
            if not isinstance(channel, int) or isinstance(channel, bool):
                raise TypeError(f"a channel is an integer, not {channel!r}")
            if not 0 <= channel <= MAX_CHANNEL:
                raise ValueError(f"there is no channel {channel}")
        self._channels = frozenset(found)

    def __iter__(self) -> Iterator[int]:
        """Yield the channels in ascending order."""
        return iter(sorted(self._channels))

    def __len__(self) -> int:
        """Return the number of channels."""
        return len(self._channels)

    def __contains__(self, channel: object) -> bool:
        """Return whether a channel is in the set."""
        return channel in self._channels

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same channels."""
        return isinstance(other, ChannelSet) and self._channels == other._channels

    def __hash__(self) -> int:
        """Return a hash of the channels."""
        return hash(self._channels)

    def __or__(self, other: Channels) -> Self:
        """Return the channels of either."""
        return type(self)(self._channels | channel_set(other)._channels)

    def __and__(self, other: Channels) -> Self:
        """Return the channels of both."""
        return type(self)(self._channels & channel_set(other)._channels)

    def __xor__(self, other: Channels) -> Self:
        """Return the channels of one of them only."""
        return type(self)(self._channels ^ channel_set(other)._channels)

    def __sub__(self, other: Channels) -> Self:
        """Return the channels that the other has not."""
        return type(self)(self._channels - channel_set(other)._channels)

    def __invert__(self) -> Self:
        """Return the other channels of an array of 64."""
        return type(self)(frozenset(range(64)) - self._channels)

    def __repr__(self) -> str:
        """Return the expression that makes the set."""
        return f"ChannelSet({', '.join(map(str, self))})"


Channels = int | ChannelSet | Iterable[int]


def channel_set(channels: Channels) -> ChannelSet:
    """Return channels as a set.

    Args:
        channels: One channel, several, or a set of them.

    Returns:
        The set; one that is given is returned itself.

    Raises:
        ValueError: A number is negative or above 16,383.
        TypeError: Something is no number.
    """
    return channels if isinstance(channels, ChannelSet) else ChannelSet(channels)


@dataclass(frozen=True, slots=True, init=False)
class StimDesign:
    """Describes a pulse of one, two or three phases: `StimDesign(duration_us, current_ua, …)`, negative is cathodic.

    A design may be unbalanced, as in the CL API; the governor of the engine refuses to deliver such a one.
    """

    phases: tuple[tuple[int, float], ...]

    def __init__(self, *terms: float) -> None:
        """Take durations (µs, whole multiples of 20) and currents (µA) in turn.

        Raises:
            ValueError: Not one to three phases, a term that is not finite, a duration off the grid, more than 3 µA or 3 nC in
                a phase, or two phases of the same sign after each other.
        """
        if len(terms) not in (2, 4, 6):
            raise ValueError(f"a design has 2, 4 or 6 terms (duration, current, …), not {len(terms)}")
        if not all(math.isfinite(term) for term in terms):
            raise ValueError(f"a design of {terms}; give finite durations (µs) and currents (µA)")
        phases = tuple((int(terms[n]), float(terms[n + 1])) for n in range(0, len(terms), 2))
        for at, (duration_us, current_ua) in enumerate(phases):
            if duration_us != terms[2 * at] or duration_us < STEP_US or duration_us % STEP_US:
                raise ValueError(f"a phase of {terms[2 * at]:g} µs; give whole multiples of {STEP_US} µs")
            if not abs(current_ua) <= MAX_CURRENT_UA:
                raise ValueError(f"{current_ua:g} µA; the limit is {MAX_CURRENT_UA:g} µA")
            if abs(current_ua) * duration_us / 1000 > MAX_CHARGE_NC + 1e-9:
                raise ValueError(
                    f"{current_ua:g} µA for {duration_us} µs; the limit is {MAX_CHARGE_NC:g} nC in a phase"
                )
        if any(before[1] * after[1] > 0 for before, after in pairwise(phases)):
            raise ValueError("two phases after each other have the same sign; make them one")
        object.__setattr__(self, "phases", phases)

    @property
    def duration_us(self) -> int:
        """Return the duration of all phases."""
        return sum(duration for duration, _ in self.phases)

    def pulse(self) -> list[PulsePhase]:
        """Return the phases for the engine."""
        return [PulsePhase(duration, current) for duration, current in self.phases]


def design_of(design: StimDesign | float) -> StimDesign:
    """Return the design of a pulse.

    Args:
        design: A design, or the amplitude (µA) of a balanced pulse of 160 µs a phase, negative first.

    Returns:
        The design; one that is given is returned itself.

    Raises:
        ValueError: The amplitude is more than 3 µA.
    """
    if isinstance(design, StimDesign):
        return design
    return StimDesign(SCALAR_US, -float(design), SCALAR_US, float(design))


@dataclass(frozen=True, slots=True)
class BurstDesign:
    """Repeats a pulse: `burst_count` times, at a rate of `burst_hz` (at most 200)."""

    burst_count: int
    burst_hz: float

    def __post_init__(self) -> None:
        """Check the terms.

        Raises:
            ValueError: A count that is negative or not whole, or a rate out of range.
        """
        if self.burst_count < 0 or self.burst_count % 1 != 0:
            raise ValueError(f"a burst of {self.burst_count} pulses; give a whole number")
        if not 0 < self.burst_hz <= MAX_BURST_HZ:
            raise ValueError(f"{self.burst_hz:g} Hz; the limit is {MAX_BURST_HZ:g} Hz")

    def interval_us(self) -> int:
        """Return the time from one pulse to the next, on the grid of 20 µs."""
        return round(1e6 / self.burst_hz / STEP_US) * STEP_US
