"""Hard limits of the tissue's surroundings, checked with the plant's truth (I1)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from controller.rig.description import PressureLimit, Rig
from controller.rig.organs import HeartConfig
from controller.rig.perfusion import fed_by
from controller.rig.probes import chamber_temperature, loop_ph
from controller.safety.limits import draws_from
from sim.lab import SimulatedLab
from sim.plant.truth import PlantTruth
from verification.campaign.findings import Findings
from verification.campaign.troubles import Troubles, unseen_places

UNFED_S = 120.0
"""Maximum time without inflow while the heart runs (s)."""


class Perfused:
    """Watches the chambers that a heart feeds over a junction or over another chamber; the others show in its own line."""

    def __init__(self, rig: Rig, findings: Findings, *, unseen: Collection[str]) -> None:
        """Watch all branches except those whose chamber or line is in `unseen`: no sensor shows them."""
        self._tell = findings.tell
        self._chambers = {
            chamber: (
                inlets,
                tuple(heart.line for heart in rig.organs.hearts.values() if chamber in fed_by(rig, heart)),
            )
            for heart in rig.organs.hearts.values()
            for chamber, inlets in _branches(rig, heart)
            if not {chamber, *inlets}.intersection(unseen)
        }
        self._since_s: dict[str, float] = {}
        self._moved_ul: dict[str, float] = {}

    def update(self, truth: PlantTruth, standing: set[str], now_s: float) -> None:
        """Check the inflow of each chamber; `standing` are the lines of the hearts that stand, which others judge."""
        for chamber, (inlets, hearts) in self._chambers.items():
            moved_ul = sum(truth.moved_ul[line] for line in inlets)
            fed = moved_ul - self._moved_ul.get(chamber, -1.0) > 0.0
            self._moved_ul[chamber] = moved_ul
            if fed or standing.issuperset(hearts):
                self._since_s.pop(chamber, None)
                continue
            unfed_s = now_s - self._since_s.setdefault(chamber, now_s)
            if unfed_s > UNFED_S:
                self._tell(
                    "every chamber is fed",
                    chamber,
                    f"nothing has flowed into {chamber} for {unfed_s:.0f} s, its heart runs, and no hazard says so (I1)",
                )


def _branches(rig: Rig, heart: HeartConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each chamber with tissue that a heart feeds over passive lines, with these lines."""
    for chamber in fed_by(rig, heart):
        inlets = tuple(name for name, line in rig.lines.items() if line.to == chamber)
        if chamber in rig.tissue and heart.line not in inlets:
            yield chamber, inlets


HEART_STOPPED_S = 60.0
"""Maximum standstill of the heart without an announcement (s): its status may be 20 s old, the alarm waits 5 s, and
a new command needs its time.
"""
HEART_DOWN_S = 30.0
"""Time by which the guard has the heart circulating when no controller is at work (s)."""
HOT_C, COLD_C = 39.5, 34.0
COLD_TOLD_S = 900.0
PH_LOW, PH_HIGH = 6.9, 7.8
PH_SOUR = 6.7
"""An alarm does not excuse this: CO2 can be shut without a reading of any other gas."""
MUCH_CO2_MM = 2.5
"""Dissolved CO2 of a gas with 11 % of it, twice that of the loop. Dead tissue and microbes also acidify the medium:
then the gas is not the cause.
"""
TELLS_OF_PH = frozenset(("acidity", "gas_mixture", "device_lost", "command_failed", "probe_disagreement"))
"""Alarms that announce medium that is too acid or too alkaline."""
TELLS_OF_COLD = frozenset(("temperature", "device_lost", "command_failed", "probe_disagreement"))
PH_FOR_S = 180.0
"""Gas that stops or changes is announced within a minute; the medium follows within another."""
PRESSED = 1.3
PRESSED_FOR_S = 30.0
"""Maximum time above a line's highest pressure (s): a sensor is read every other second, a pump stopped at once."""
DRAWN_UL = 600.0
DRAWN_AFTER_S = 60.0
"""Maximum time of drawing from the loop of a heart that stands still (s): its status may be 29 s old."""
LOST_VIABILITY = 0.10
ML = 1000.0
MOSM_LOW, MOSM_HIGH = 220.0, 360.0
"""Osmolality that tissue bears for days; no fault that it must survive goes beyond."""
HARDLY_FILLED = 0.1
"""Share of a chamber's volume below which there is no medium to judge."""
BORNE_S = 3600.0
"""Maximum time of a pH beyond its limits around tissue (s): neither an alarm nor a person excuses more."""
TELLS_OF_HEART = frozenset(("no_heart_flow", "over_pressure_heart", "command_failed", "device_lost"))
"""Alarms that announce a heart that stands."""
Active = set[tuple[str, str]]
"""Kind and source of each active alarm."""


@dataclass(slots=True)
class _Heart:
    """A heart under observation."""

    name: str
    line: str
    pump: str
    own: frozenset[str]
    """Sources of alarms that announce it: its pump, the pump's device, its gauge."""
    beaten_ul: float
    since_s: float | None = None
    """Since when nothing has moved in its line (s)."""

    @property
    def subject(self) -> str:
        """Its name in a finding."""
        return "heart" if self.name == "heart" else f"heart {self.name}"


@dataclass(slots=True)
class _Draw:
    """A pump that may not draw while all of `hearts` (their pumps) stand."""

    hearts: tuple[str, ...]
    line: str
    pump: str
    since_s: float | None = None
    """Since when the hearts have stood (s)."""
    stood_ul: float = 0.0


class Surroundings:
    """Circulation, temperature, pressure and gas; and whether the tissue lives."""

    def __init__(self, rig: Rig, lab: SimulatedLab, findings: Findings, troubles: Troubles) -> None:
        self._rig = rig
        self._lab = lab
        self._tell = findings.tell
        self._troubles = troubles
        moved = lab.plant.truth().moved_ul
        self._hearts = [_heart(rig, name, heart, moved) for name, heart in rig.organs.hearts.items()]
        self._draws = list(_draws(rig))
        self._gauges = list(_gauges(rig))
        self._perfused = Perfused(rig, findings, unseen=unseen_places(rig))
        self._thermometer, self._ph = chamber_temperature(rig), loop_ph(rig)
        self._cold_since_s: float | None = None
        self._sour_since_s: float | None = None
        self._sour_told = False
        """Whether an alarm has announced it since then."""
        self._gassed_since_s: float | None = None
        self._pressed_since_s: dict[str, float] = {}
        self._first_viability = {name: tissue.viability for name, tissue in lab.plant.truth().tissue.items()}
        self._watched = _watched(rig, self._thermometer)
        self._beyond_since_s: dict[str, float] = {}
        """Since when the pH of a chamber has been beyond its limits while nothing ailed the gas (s)."""

    def update(self, truth: PlantTruth, active: Active, *, at_work: bool, last_s: float, now_s: float) -> None:
        """Compare the truth with the limits; `active` are the alarms, `last_s` is the time of the previous check.

        What no probe of the rig can show is not asked of the controller.
        """
        kinds = {kind for kind, _ in active}
        for heart in self._hearts:
            self._see_heart(heart, truth.moved_ul, active, at_work, last_s, now_s)
        self._perfused.update(truth, {heart.line for heart in self._hearts if heart.since_s is not None}, now_s)
        if self._thermometer is not None:
            self._see_warmth(truth.tissue[self._watched].temperature_c, kinds, at_work, now_s)
        self._see_pressure(truth.pressures_kpa, at_work, now_s)
        for draw in self._draws:
            self._see_draw(draw, truth.moved_ul, at_work, now_s)
        loop = self._rig.loop
        if loop is not None and self._ph is not None:
            self._see_acidity(truth.ph[loop], truth.concentrations[loop]["co2"], kinds, at_work, now_s)
        if self._troubles.survivable:
            self._see_tissue(truth)
            self._see_medium(truth, at_work, now_s)

    def _see_tissue(self, truth: PlantTruth) -> None:
        """Check that the tissue of every chamber lives."""
        for name, first in self._first_viability.items():
            now = truth.tissue[name].viability
            if now < first - LOST_VIABILITY:
                where, subject = ("", "viability") if len(self._first_viability) == 1 else (f" in {name}", name)
                what = f"viability{where} fell from {first:.2f} to {now:.2f} under survivable faults"
                self._tell("no organoid lost", subject, what)

    def _see_medium(self, truth: PlantTruth, at_work: bool, now_s: float) -> None:
        """Check the medium around the tissue, whatever was announced: its liquids and the way of its gas are the rig's."""
        lung = self._rig.organs.lung
        air_troubled = lung is not None and self._troubles.near(lung.air, now_s)
        excused = not at_work or air_troubled or self._gas_troubled(now_s)
        for name in truth.tissue:
            if truth.volumes_ul[name] < HARDLY_FILLED * self._rig.vessels[name].volume_ul:
                continue  # a chamber that ran dry is judged as such
            mosm, acidity = truth.concentrations[name]["osmoles"], truth.ph[name]
            if not MOSM_LOW <= mosm <= MOSM_HIGH:
                self._tell("medium within hard limits", f"{name} osmolality", f"{name} has {mosm:.0f} mOsm/kg (I1)")
            if PH_LOW <= acidity <= PH_HIGH or excused:
                self._beyond_since_s.pop(name, None)
            elif now_s - self._beyond_since_s.setdefault(name, now_s) > BORNE_S:
                what = f"{name} has been beyond pH {PH_LOW:g} to {PH_HIGH:g} for an hour, now at {acidity:.2f} (I1)"
                self._tell("medium within hard limits", f"{name} pH", what)

    def _see_heart(
        self, heart: _Heart, moved: Mapping[str, float], active: Active, at_work: bool, last_s: float, now_s: float
    ) -> None:
        flows = moved[heart.line] - heart.beaten_ul > 0.0
        heart.beaten_ul = moved[heart.line]
        if flows:
            heart.since_s = None
            return
        if heart.since_s is None:
            heart.since_s = last_s
        stood_s = now_s - heart.since_s
        if self._troubles.backwards(heart.line, now_s) or self._troubles.stopped_unseen(heart.name, now_s):
            heart.since_s = None
            return
        only = len(self._hearts) == 1
        told = any(kind in TELLS_OF_HEART and (only or source in heart.own) for kind, source in active)
        if (
            stood_s > HEART_STOPPED_S + HEART_DOWN_S
            and not told
            and not (self._troubles.disturbed(now_s) and not at_work)
        ):
            who = "a controller at work" if at_work else "no controller at work"
            what = f"the {heart.subject} has stood for {stood_s:.0f} s, no alarm, {who}"
            self._tell("the heart beats", heart.subject, what)

    def _see_warmth(self, celsius: float, kinds: set[str], at_work: bool, now_s: float) -> None:
        # With a single probe a rig cannot detect its offset: its limit moves by the same amount.
        hot_c = HOT_C + self._troubles.offset(self._thermometer or "", now_s)
        if celsius > hot_c and (self._troubles.survivable or "temperature" not in kinds):
            self._tell("temperature within hard limits", "hot", f"the chamber is at {celsius:.1f} °C (I1)")
        if celsius >= COLD_C or not at_work:
            self._cold_since_s = None  # a controller that has just come back has the same time to announce it
            return
        self._cold_since_s = now_s if self._cold_since_s is None else self._cold_since_s
        cold_s = now_s - self._cold_since_s
        if cold_s > COLD_TOLD_S and not kinds & TELLS_OF_COLD:
            self._tell(
                "temperature within hard limits",
                "cold",
                f"the chamber has been below {COLD_C:g} °C for {cold_s:.0f} s, and no alarm says so",
            )

    def _see_pressure(self, pressures: Mapping[str, float], at_work: bool, now_s: float) -> None:
        """Check that no pump keeps pressing against a blockage while its gauge can be read and it can be commanded."""
        for line, rule in self._gauges:
            pump = self._rig.lines[line].pump or ""
            if pressures[line] <= PRESSED * rule.high_kpa:
                self._pressed_since_s.pop(line, None)
                continue
            since_s = self._pressed_since_s.setdefault(line, now_s)
            reached = at_work and not self._troubles.near(rule.point, now_s) and not self._troubles.near(pump, now_s)
            if not reached:
                self._pressed_since_s[line] = now_s
            elif now_s - since_s > PRESSED_FOR_S:
                self._tell(
                    "pressure within hard limits",
                    line,
                    f"{line} has been above {PRESSED * rule.high_kpa:.0f} kPa for {now_s - since_s:.0f} s"
                    f" ({pressures[line]:.0f} kPa), and its pump is not stopped (I1)",
                )

    def _see_draw(self, draw: _Draw, moved: Mapping[str, float], at_work: bool, now_s: float) -> None:
        """Check that no medium is drawn from tissue without circulation."""
        flows = any(self._lab.drives.moving.get(heart, 0.0) for heart in draw.hearts)
        if flows or not at_work or self._troubles.near(draw.pump, now_s):
            draw.since_s = None
            return
        if draw.since_s is None:
            draw.since_s = now_s
        if now_s - draw.since_s <= DRAWN_AFTER_S:
            draw.stood_ul = moved[draw.line]
        elif moved[draw.line] - draw.stood_ul > DRAWN_UL:
            self._tell(
                "nothing is drawn while the heart stands",
                draw.line,
                f"{(moved[draw.line] - draw.stood_ul) / ML:.2f} mL were drawn while the heart has stood for"
                f" {now_s - draw.since_s:.0f} s (I1)",
            )

    def _see_acidity(self, acidity: float, co2_mm: float, kinds: set[str], at_work: bool, now_s: float) -> None:
        """Check that a pH beyond the limits is announced, and that CO2 is shut off when it causes the low pH."""
        self._note_gassed(acidity < PH_SOUR and co2_mm > MUCH_CO2_MM and at_work, now_s)
        if PH_LOW <= acidity <= PH_HIGH or not at_work:
            self._sour_since_s = None  # a controller that has just come back has the same time to announce it
            self._sour_told = False
            return
        self._sour_since_s = now_s if self._sour_since_s is None else self._sour_since_s
        # Medium lags minutes behind the gas: an alarm may be over as soon as the gas is correct again.
        self._sour_told = self._sour_told or bool(kinds & TELLS_OF_PH)
        if now_s - self._sour_since_s <= PH_FOR_S:
            return
        if not self._sour_told:
            self._tell(
                "gas within hard limits", "ph", f"the loop has been beyond pH {acidity:.2f} for minutes, no alarm"
            )
        elif self._is_gassed(now_s):
            self._tell("gas within hard limits", "sour", f"the loop is at pH {acidity:.2f}, and CO2 is not shut (I1)")

    def _note_gassed(self, gassed: bool, now_s: float) -> None:
        """Record since when CO2 makes the medium too acid; medium acidified by microbes is not the gas's fault."""
        if not gassed:
            self._gassed_since_s = None
        elif self._gassed_since_s is None:
            self._gassed_since_s = now_s

    def _is_gassed(self, now_s: float) -> bool:
        """Return whether sound gas supply has kept the medium too acid for longer than :data:`PH_FOR_S`."""
        since_s = self._gassed_since_s
        return since_s is not None and now_s - since_s > PH_FOR_S and not self._gas_troubled(now_s)

    def _gas_troubled(self, now_s: float) -> bool:
        """Return whether CO2 might not have been shut, or only late."""
        lung = self._rig.organs.lung
        return lung is not None and (self._troubles.near(lung.co2, now_s) or self._troubles.near(lung.ph, now_s))


def _heart(rig: Rig, name: str, heart: HeartConfig, moved: Mapping[str, float]) -> _Heart:
    pump = rig.lines[heart.line].pump or ""
    own = frozenset(point for point in (pump, pump.partition(".")[0], heart.pressure) if point)
    return _Heart(name, heart.line, pump, own, moved[heart.line])


def _watched(rig: Rig, thermometer: str | None) -> str:
    """Return the chamber whose temperature the thermometer shows; the first one if it stands elsewhere."""
    at = None if thermometer is None else rig.devices[thermometer.partition(".")[0]].at
    return at if at is not None and at in rig.tissue else next(iter(rig.tissue))


def _draws(rig: Rig) -> Iterator[_Draw]:
    """Yield each pump that must not draw from a chamber while its heart stands, or from a loop that no heart mixes."""
    lines = {line.pump: name for name, line in rig.lines.items() if line.pump is not None}
    mixing: dict[str, list[str]] = {}
    for heart in rig.organs.hearts.values():
        line = rig.lines[heart.line]
        for pump in draws_from(rig, fed_by(rig, heart)):
            yield _Draw((line.pump or "",), lines[pump], pump)
        if rig.vessels[line.from_].kind == "loop":
            mixing.setdefault(line.from_, []).append(line.pump or "")
    for loop, hearts in mixing.items():
        for pump in draws_from(rig, {loop}):
            yield _Draw(tuple(hearts), lines[pump], pump)


def _gauges(rig: Rig) -> Iterator[tuple[str, PressureLimit]]:
    """Yield each line whose pressure is limited, with the limit."""
    safety, kidney = rig.safety, rig.organs.kidney
    if safety.over_pressure_heart is not None:
        for heart in rig.organs.hearts.values():
            if len(rig.organs.hearts) == 1 or heart.pressure == safety.over_pressure_heart.point:
                yield heart.line, safety.over_pressure_heart
    if safety.over_pressure_filter is not None and kidney is not None:
        yield kidney.return_, safety.over_pressure_filter
    yield from safety.over_pressure.items()
