"""What people look at in a running electrode engine: electrodes, waveforms, leases, budgets, stimulation ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nerves.budgets import BudgetUse
from nerves.ledger import StimulationRecord


@dataclass(frozen=True, slots=True)
class ElectrodeTable:
    """One column for each figure, one entry for each electrode; NaN where it is not known."""

    states: tuple[str, ...]
    rates_hz: tuple[float, ...]
    amplitudes_uv: tuple[float, ...]
    noise_uv: tuple[float, ...]
    impedances_kohm: tuple[float, ...]
    bursts_min: tuple[float, ...]
    muted_pct: tuple[float, ...] = ()
    """Share of the time since the engine started in which nothing could be detected."""
    muted_by: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The same by cause: stimulation, artefact, rail, flat, noise or start."""
    x_um: tuple[float, ...] = ()
    y_um: tuple[float, ...] = ()
    """Positions of the electrodes, y up; empty where the geometry of the array is not known."""
    geometry: str = ""
    """The chip, its reference electrode, and who says where the electrodes are; for people."""


@dataclass(frozen=True, slots=True)
class Waveforms:
    """Raw samples around the latest spikes of one electrode (µV), newest last; `before` of each precede the trough."""

    electrode: int
    sample_rate_hz: float
    before: int
    traces_uv: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class ResponseSeen:
    """Spikes of one electrode around the latest pulses, by latency bin; `edges_ms` has one entry more than the others.

    `rate_hz` is NaN in a bin in which nothing could be detected, the baseline where it is not known. `seconds` is how far
    back pulses are counted, `overlapping` the number of trials with another pulse in their window.
    """

    electrode: int
    seconds: float
    trials: int
    overlapping: int
    edges_ms: tuple[float, ...]
    counts: tuple[int, ...]
    observed_s: tuple[float, ...]
    rate_hz: tuple[float, ...]
    baseline_hz: float
    baseline_low_hz: float
    baseline_high_hz: float


@dataclass(frozen=True, slots=True)
class LeaseSeen:
    """A living lease: when it ends without a sign of life, and how long ago the last one was (s of the array's clock)."""

    requester: str
    electrodes: tuple[int, ...]
    held: bool
    ends_in_s: float
    silent_s: float


class ArrayInspector(Protocol):
    """Gives the page the details of an array. Every method returns None or nothing while no engine answers."""

    async def electrodes(self) -> ElectrodeTable | None:
        """Return the figures of each electrode."""
        ...

    async def waveforms(self, electrode: int) -> Waveforms | None:
        """Return the waveforms of an electrode's spikes of the last seconds."""
        ...

    async def responses(self, electrode: int) -> ResponseSeen | None:
        """Return the spikes of an electrode around the pulses of the last minutes."""
        ...

    async def leases(self) -> tuple[tuple[LeaseSeen, ...], tuple[BudgetUse, ...]] | None:
        """Return the living leases, and the use of the budgets."""
        ...

    async def end_leases(self, requester: str, why: str) -> bool:
        """End an agent's leases and cancel its waiting pulses. Return whether the engine confirmed it."""
        ...

    async def records(
        self, *, before: int | None, limit: int, requester: str | None, electrode: int | None
    ) -> list[StimulationRecord]:
        """Return records of the stimulation ledger, newest first. Raises sqlite3.Error if it cannot be read."""
        ...
