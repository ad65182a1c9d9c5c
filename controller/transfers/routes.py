"""Routes of the transfer verbs on a rig: line, pump, valve, flow, smallest volume, and accuracy of the pump."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from controller.rig.description import Rig
from controller.rig.dosing import THROUGH, choose, dosable, dose_flow_ul_min, dosing_paths, levels_of
from controller.rig.places import at
from controller.rig.selectors import PumpedPath
from controller.safety.kernel import MAX_TRANSFER_S, SLACK, SLACK_S
from drivers.device import Dosing
from drivers.registry import MODELS
from protocols.host import ProtocolError
from protocols.table import OF_CHAMBERS, TRANSFERS

MAX_REQUEST_UL = 1e9


@dataclass(frozen=True, slots=True)
class Trust:
    """States how well a pump delivers: delivered over requested volume (`gain`), its uncertainty, and the calibration that
    it comes from.

    `rel_sd` is the calibration's, and the same in every dose; `dose_sd_ul` is the scatter from dose to dose.
    """

    gain: float
    rel_sd: float
    dose_sd_ul: float
    calibration: str


@dataclass(frozen=True, slots=True)
class Route:
    """One way of moving liquid. Volumes in µL, flow in µL/min."""

    line: str
    pump: str
    source: str
    target: str
    valve: str | None
    batch: str | None
    """The vessel whose medium it changes without moving any: that in which its line's dialyser hangs."""
    flow_ul_min: float
    min_ul: float
    rel_sd: float
    """Of its model, before anybody has calibrated it."""
    dose_sd_ul: float
    weighed: int
    """+1 when the weighed vessel is filled by it, -1 when it is emptied, 0 when the balance does not see it."""
    path: PumpedPath | None = None
    """Of a dose of one chamber: the lines and the positions of the selectors."""
    levels: Mapping[str, float] = field(default_factory=dict)
    """Set-points of the selectors on its path, by valve."""

    @property
    def ports(self) -> dict[str, int]:
        """Positions of the selectors on its path, by name."""
        return {} if self.path is None else dict(self.path.positions)

    @property
    def exclusive(self) -> tuple[str, ...]:
        """Return the vessels, pumps, valves and lines that no other dose may use during a dose on this route."""
        shared = () if self.path is None else sorted(self.path.resources)
        used = (self.source, self.target, self.pump, self.valve, self.batch, *shared)
        return tuple(name for name in used if name is not None)

    def portions(self, volume_ul: float) -> int:
        """Into how many equal doses a volume is to be parted, so that none may last longer than the gate permits."""
        longest_s = 0.98 * (MAX_TRANSFER_S - SLACK_S) / SLACK  # a pump may round its flow down by a little
        return max(1, math.ceil(volume_ul / (longest_s * self.flow_ul_min / 60.0)))

    def refusal(self, volume_ul: float) -> str:
        """Return why `volume_ul` (µL) cannot be requested along this line; an empty text if it can."""
        if not math.isfinite(volume_ul) or volume_ul >= MAX_REQUEST_UL:
            return "it is no volume that a pump can give"
        if volume_ul < self.min_ul:
            return f"the volume must be at least {self.min_ul:g} µL, the minimum of its pump"
        portions = self.portions(volume_ul)
        if volume_ul / portions < self.min_ul:
            return (
                f"it takes longer than one dose may, and {portions} equal portions are less than {self.min_ul:g} µL each,"
                " the minimum of its pump"
            )
        return ""


def routes_of(rig: Rig) -> dict[str, Route]:
    """Return the route of each transfer verb that this rig has a line for, by the verb's name."""
    routes: dict[str, Route] = {}
    for verb in sorted(TRANSFERS.values(), key=lambda verb: verb.dialyses):  # those that every rig has come first
        line = at(rig, verb.line)
        if line is None:
            continue
        min_ul = at(rig, verb.min_dose) if verb.min_dose else 0.0
        routes[verb.name] = _route(rig, line, at(rig, verb.flow), min_ul=min_ul)
    return routes | _chamber_routes(rig)


def _chamber_routes(rig: Rig) -> dict[str, Route]:
    """Return the routes of the doses of chambers, by verb, chamber and, where it was named, source."""
    known = dosing_paths(rig)
    routes: dict[str, Route] = {}
    for verb in OF_CHAMBERS.values():
        places = rig.selectors if verb.what == THROUGH else dosable(rig)
        for place in places:
            for source in ("", *_sources(rig, known)) if verb.source else ("",):
                path = choose(rig, known, verb.what, place, source)
                if not isinstance(path, str):
                    args = {verb.place: place, verb.source: source}
                    routes[verb.way(args)] = _dosing_route(rig, path)
    return routes


def _sources(rig: Rig, known: Sequence[PumpedPath]) -> tuple[str, ...]:
    """Return the vessels that paths begin at, and the media in them."""
    vessels = dict.fromkeys(path.source for path in known)
    media = (rig.vessels[name].contains for name in vessels)
    return tuple(dict.fromkeys((*vessels, *(name for name in media if name is not None))))


def _dosing_route(rig: Rig, path: PumpedPath) -> Route:
    plain = _route(rig, path.pumped, dose_flow_ul_min(rig, path.pumped))
    return replace(plain, source=path.source, target=path.target, path=path, levels=levels_of(rig, path))


def route_of(routes: Mapping[str, Route], verb: str) -> Route:
    """Return the route of a verb; raises :class:`ProtocolError` for one that this rig has no line for."""
    found = routes.get(verb)
    if found is None:
        known = TRANSFERS.get(verb) or OF_CHAMBERS.get(verb.partition(" ")[0])
        needs = "such verb" if known is None else known.needs
        several = [name for name in routes if name.startswith(f"{verb} ")]
        hint = f"; write from: one of {', '.join(name.rpartition(' ')[2] for name in several)}" if several else ""
        cause = "several vessels lead there" if several else f"it has no {needs}"
        raise ProtocolError(
            f"{verb}: this rig has no line for it. Likely cause: {cause}. Next: run it on a rig that has one{hint}, or"
            " leave the step out"
        )
    return found


def by_line(routes: Mapping[str, Route]) -> dict[str, Route]:
    """Return the routes by the name of their line; of several on one line the last."""
    return {route.line: route for route in routes.values()}


def route_of_dose(routes: Iterable[Route], line: str, ports: Mapping[str, int]) -> Route:
    """Return the route that a dose on record took, by its line and the positions of its selectors."""
    of_line = [route for route in routes if route.line == line]
    return next((route for route in of_line if route.ports == ports), of_line[0])


def dosing_of(rig: Rig, pump: str) -> Dosing:
    """Return how well a pump of this model doses (:class:`drivers.device.Dosing`); the usual accuracy where the model has
    none.
    """
    driver = MODELS.get(rig.devices[pump.partition(".")[0]].model)
    return (driver.model.dosing if driver is not None else None) or Dosing()


def trust_of_model(rig: Rig, pump: str) -> Trust:
    """Return the trust in a pump without a calibration."""
    dosing = dosing_of(rig, pump)
    return Trust(1.0, dosing.rel_sd, dosing.dose_sd_ul, "factory")


def _route(rig: Rig, name: str, flow_ul_min: float, *, min_ul: float = 0.0) -> Route:
    line = rig.lines[name]
    if line.pump is None:
        raise ValueError(
            f"line “{name}” has no pump. Likely cause: a passive line is named under organs. Next: name another"
        )
    dosing = dosing_of(rig, line.pump)
    kidney = rig.organs.kidney
    weighed = None if kidney is None else kidney.vessel
    return Route(
        line=name,
        pump=line.pump,
        source=line.from_,
        target=line.to,
        valve=line.valve,
        batch=None if line.dialyser is None else rig.dialysers[line.dialyser].vessel,
        flow_ul_min=flow_ul_min,
        min_ul=max(min_ul, dosing.min_ul),
        rel_sd=dosing.rel_sd,
        dose_sd_ul=dosing.dose_sd_ul,
        weighed=(line.to == weighed) - (line.from_ == weighed),
    )
