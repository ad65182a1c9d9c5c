"""The language of protocols: organs with verbs that are awaited, each a journalled step (decision 11).

A protocol is `async def name(lab: Lab, params: Mapping[str, float]) -> None`. It may use anything that gives the same
answer when it is run again from the beginning, because that is what happens after a restart: the function runs again
and every verb that was finished before answers at once with what was recorded. So take times, volumes and readings only
from `lab`; do not read files, clocks or random numbers.

A verb returns when its work is done and measured, however long that takes: a refusal that passes is waited out, one
that does not holds the run until a person resumes it, and then the verb goes on with what remains. Only abort and stop
end a protocol from outside, as :class:`RunEnded`, which it must let pass.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from protocols.dialysis import DialyserModel
from protocols.grading import RuleSet
from protocols.interval import Interval
from protocols.prices import Prices
from protocols.soft_sensor import Composition, MediaEstimate

VERSION = 1
"""Raised when a verb changes its meaning: part of every protocol's source hash."""


class RunEnded(BaseException):
    """The run was stopped or aborted; not an `Exception`, so that a protocol does not swallow it by accident."""


class ProtocolError(Exception):
    """The protocol asked for something that makes no sense (a negative volume, an unknown point)."""


@dataclass(frozen=True, slots=True)
class Amount:
    """What a transfer moved (µL): best value and the bounds between which it lies."""

    ul: float
    low: float
    high: float
    peak_kpa: float | None = None
    """Highest pressure before the sterile filter while it ran (kPa gauge), where it passes the filter."""


NOTHING = Amount(0.0, 0.0, 0.0)
"""What a transfer that is not worth making moves."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A settled reading: the mean of several, its bounds (sensor error included), and when it could not be had, why."""

    point: str
    unit: str
    interval: Interval | None
    detail: str = ""

    @property
    def value(self) -> float | None:
        """The mean, or None when the sensor gave nothing that may be trusted."""
        return None if self.interval is None else self.interval.value


@dataclass(frozen=True, slots=True)
class VesselVolume:
    """What the ledger knows of one vessel (µL), as of the end of the last step."""

    ul: float
    sd_ul: float
    passes: float
    """How often the medium in it has been given back already (mean)."""
    age_s: float
    """How long ago it came from its bottle (mean, s)."""
    insulin: float = 1.0
    """What is left of the supplements of fresh medium (0..1) after stocks have thinned it and dialysis has leaked."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A probe that was told in what buffer it stands: what it read before and after, and how many places are set."""

    before: float
    after: float
    places: int


@dataclass(frozen=True, slots=True)
class Barrier:
    """What the passes on record tell of the sterile filter (kPa gauge before it)."""

    sterile: bool | None
    """Whether it is whole; None when no pass is on record that could tell."""
    peak_kpa: float | None
    """Highest pressure of the last pass."""
    least_kpa: float
    """What a whole filter needs at the least."""
    most_kpa: float
    """What it stands."""
    detail: str
    """Why it is not known to be whole; empty when it is."""


class Heart(Protocol):
    """Circulates medium. Its flow belongs to the regulator; a protocol may look."""

    async def flow(self) -> Measurement:
        """What the pump says of its flow (µL/min)."""

    async def pressure(self, settle_s: float = 0.0) -> Measurement:
        """Pressure behind the pump (kPa gauge); no value on a rig that has no sensor there."""


class Kidney(Protocol):
    """Moves spent medium: all volumes in µL, > 0."""

    async def draw(self, volume_ul: float) -> Amount:
        """Loop → spent vessel."""

    async def give_back(self, volume_ul: float) -> Amount:
        """Spent vessel → loop, through the sterile filter; the return valve is open for exactly as long."""

    async def discard(self, volume_ul: float) -> Amount:
        """Spent vessel → waste."""

    async def mass(self, settle_s: float = 0.0) -> Measurement:
        """What the balance under the spent vessel shows (g)."""

    @property
    def dialyser(self) -> DialyserModel | None:
        """The dialyser in the spent vessel, if the rig has one."""

    async def dialyse(self, dialysate_ul: float) -> Amount:
        """Pass so much basal medium (µL) through the dialyser, from its bottle to waste; the batch keeps its volume."""


class Gut(Protocol):
    """Gives fresh medium."""

    async def feed(self, volume_ul: float) -> Amount:
        """Reservoir → spent vessel (µL, at least the dosing pump's least dose)."""


class Liver(Protocol):
    """Conditions the batch in the spent vessel."""

    @property
    def min_dose_ul(self) -> float:
        """The least volume its dosing pumps give."""

    async def add_glucose(self, volume_ul: float) -> Amount:
        """Glucose stock → spent vessel."""

    async def add_base(self, volume_ul: float) -> Amount:
        """Bicarbonate stock → spent vessel."""

    async def acidity(self, settle_s: float = 60.0) -> Measurement:
        """pH of the batch."""

    async def calibrate(self, place: str, ph: float, valid_s: float) -> Calibrated:
        """Tell the batch's pH probe that it stands in a buffer of this pH; `place` is mid (first), low or high.

        A person has to have put it there. What it says afterwards is on record, and trusted for `valid_s`.
        """

    async def conductivity(self, settle_s: float = 60.0) -> Measurement:
        """Conductivity of the batch (µS/cm); no value on a rig that has no probe for it in the spent vessel."""


class Immune(Protocol):
    """The sterile barrier."""

    @property
    def max_pressure_kpa(self) -> float:
        """What the filter stands (kPa)."""

    @property
    def least_pressure_kpa(self) -> float:
        """What a whole filter needs at the least while medium is given back (kPa)."""

    async def pressure(self) -> Measurement:
        """Pressure before the filter (kPa gauge): at rest that of the room, whether the filter is whole or not."""

    async def barrier(self) -> Barrier:
        """Whether the filter is whole, by the pressure that its passes needed; a failure stays until it was tested again."""


class Lung(Protocol):
    """Oxygen and carbon dioxide of the loop."""

    async def oxygen(self, settle_s: float = 0.0) -> Measurement:
        """Dissolved oxygen (% of air saturation)."""

    async def acidity(self, settle_s: float = 0.0) -> Measurement:
        """pH of the loop."""


class Skin(Protocol):
    """Warmth."""

    async def temperature(self, settle_s: float = 0.0) -> Measurement:
        """Chamber temperature (°C)."""


class Targets(Protocol):
    """What the rig file says the loop should be like."""

    @property
    def loop_ul(self) -> float:
        """The loop's working volume (µL)."""

    @property
    def loop_spare_ul(self) -> float:
        """What may be drawn from it at once (µL)."""

    @property
    def spent_ul(self) -> float:
        """What stays in the spent vessel between cycles (µL)."""

    @property
    def spent_floor_ul(self) -> float:
        """What must never be pumped out of it (µL)."""

    @property
    def spent_room_ul(self) -> float:
        """What the spent vessel may take beyond that, with a margin for the interlock's doubt (µL)."""

    @property
    def ph(self) -> float:
        """pH set-point."""

    @property
    def glucose_mm(self) -> float:
        """Glucose of fresh medium (mM)."""

    @property
    def glucose_stock_mm(self) -> float:
        """Glucose of the stock (mM)."""

    @property
    def base_stock_mm(self) -> float:
        """Bicarbonate of the stock (mM)."""

    @property
    def osmolality_mosm(self) -> float:
        """Osmolality of fresh medium (mOsm/kg)."""

    @property
    def media(self) -> Mapping[str, Composition]:
        """What the bottles hold: `fresh`, `glucose`, `base`, and `basal` where the rig has a dialyser."""


class Lab(Protocol):
    """What a protocol holds: the organs, and a few verbs of its own."""

    @property
    def heart(self) -> Heart:
        """Circulates."""

    @property
    def kidney(self) -> Kidney:
        """Moves spent medium."""

    @property
    def gut(self) -> Gut:
        """Feeds."""

    @property
    def liver(self) -> Liver:
        """Conditions."""

    @property
    def immune(self) -> Immune:
        """Keeps sterile."""

    @property
    def lung(self) -> Lung:
        """Breathes."""

    @property
    def skin(self) -> Skin:
        """Keeps warm."""

    @property
    def targets(self) -> Targets:
        """The rig's set-points."""

    @property
    def rules(self) -> RuleSet:
        """What media are graded by on this rig."""

    @property
    def prices(self) -> Prices:
        """What treating a batch costs on this rig."""

    async def together(self, *works: Coroutine[Any, Any, Any], names: Sequence[str] = ()) -> list[Any]:
        """Run coroutines that use this lab as branches, at the same time; their results in order, when all are through.

        `names` (default 1, 2, …) are for people and the journal. Doses that share a vessel, and readings in the vessel
        that everything passes through, take turns, first come, first served: where the order matters, write it in one
        branch. A hold, a question to a person, a stop and an error are the whole run's.
        """

    async def measure(self, point: str, settle_s: float = 0.0) -> Measurement:
        """A settled reading of any sensor `device.point`."""

    async def sleep(self, seconds: float) -> None:
        """Wait; the deadline is absolute, so a restart in between does not lengthen it."""

    async def sleep_until(self, elapsed_s: float) -> float:
        """Wait until `elapsed_s` after the run's start; returns how late it ended (s, 0 when it waited as planned)."""

    async def sleep_until_clock(self, at: str, zone: str, *, after: str | None = None) -> str:
        """Wait until it is `at` (HH:MM) in the time zone `zone` (IANA); returns that time (UTC, ISO 8601).

        `after` is what the call before returned: each date is waited for at most once, whatever happens to the clocks.
        """

    async def note(self, kind: str, data: Mapping[str, Any]) -> None:
        """Write something to the journal, as kind `note.<kind>`."""

    async def ask(self, message: str) -> None:
        """Hold the run until a person has read `message`, done what it says, and resumed."""

    async def estimate(self) -> MediaEstimate:
        """What the soft sensor makes of the latest readings: composition of loop and batch, with bounds."""

    def least_ul(self, verb: str) -> float:
        """The least volume (µL) that a transfer's pump gives; `verb` as in `kidney.draw`."""

    def volumes(self) -> Mapping[str, VesselVolume]:
        """Vessel volumes as of the end of the branch's last step, under the roles `loop`, `spent`, `waste`."""


ProtocolFunction = Callable[[Lab, Mapping[str, float]], Awaitable[None]]
