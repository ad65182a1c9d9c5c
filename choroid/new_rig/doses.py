"""Chambers of a new rig that are fed in doses: a pump gives, a second one draws through a straw that keeps the level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from choroid.new_rig.draft import Draft
from choroid.new_rig.questions import GAUGES, Answers, listed
from controller.rig.families import FAMILIES, PUMP
from controller.rig.quantities import parse_quantity

PORTS = 16
"""Positions of a selector: chambers from 1 on, the last but one leads to waste, the last is closed."""
DRAWN = 0.85
"""Share of the medium of a chamber that its straw leaves."""
BOTTLE_ML = 1000
BOTTLES: Mapping[str, tuple[str, ...]] = {"1": ("bottle",), "2": ("bottle_a", "bottle_b")}
TUBE = {"bore": "0.8 mm", "length": "0.3 m"}


@dataclass(frozen=True, slots=True)
class DosedDraft:
    """What the parts of a dosed rig share."""

    chambers: tuple[str, ...]
    chamber_ul: float
    pumps: tuple[str, str]
    """Points of the pump that gives and of the one that draws."""

    @property
    def max_flow(self) -> str:
        """Maximum flow of a dose: half of a chamber's medium in a minute, at most 5 mL/min."""
        return f"{min(max(0.5 * self.chamber_ul, 50.0), 5000.0):g} uL/min"

    @property
    def straw(self) -> str:
        """The volume that the straw of a chamber leaves."""
        return f"{DRAWN * self.chamber_ul:g} uL"


def add(draft: Draft, answers: Answers, chambers: tuple[str, ...], settings: str) -> None:
    """Add bottles, pumps, selectors and lines.

    Args:
        draft: The rig.
        answers: The answers.
        chambers: Names of the chambers.
        settings: Settings of the pumps' model.
    """
    volume_ul = parse_quantity(answers["volume"], "uL")
    drafted = DosedDraft(chambers, volume_ul, _pumps(draft, answers["pump"], settings))
    bottles = BOTTLES[answers["media"]]
    for bottle in bottles:
        draft.add(
            "vessels", bottle, kind="source", contains="fresh" if bottle == bottles[0] else "second",
            volume=f"{BOTTLE_ML} mL", capacity=f"{1.1 * BOTTLE_ML:g} mL", floor="50 mL",
        )  # fmt: skip
    if len(bottles) > 1:
        draft.add(
            "media", "second", comment="correct it: it is that of the first", glucose=answers["glucose"],
            lactate="0 mM", ammonia="0.02 mM", bicarbonate=answers["bicarbonate"], glutamine="1.25 mM",
            osmolality="285 mOsm/kg",
        )  # fmt: skip
        _selector(draft, "media")
        for port, bottle in enumerate(bottles, 1):
            draft.add("lines", f"from_{bottle}", from_=bottle, to="media", port=str(port), passive="true", **TUBE)
    source = bottles[0] if len(bottles) == 1 else "media"
    if len(chambers) == 1:
        _single(draft, drafted, source)
    else:
        _many(draft, drafted, source)
    _gauge(draft, answers, drafted)


def _pumps(draft: Draft, model: str, settings: str) -> tuple[str, str]:
    """Add the pumps, and return their points."""
    family = FAMILIES[model]
    if family.channel == PUMP:
        channels = {"1": "point: feed, tubing: 0.76 mm", "2": "point: extract, tubing: 0.76 mm"}
        draft.device("pump", model, address='"1"', every="2 s", channels=channels)
        return "pump.feed", "pump.extract"
    for name in ("feeder", "extractor"):
        draft.device(name, model, address='"1"' if family.address else "", every="2 s", settings=settings)
    return "feeder.pump", "extractor.pump"


def _selector(draft: Draft, name: str) -> None:
    draft.add("selectors", name, valve=f"{name}_valve.valve", rest=str(PORTS), dead_volume="5 uL")
    draft.device(
        f"{name}_valve", "vici-actuator", every="5 s", settings=f"{{positions: {PORTS}, rest_position: {PORTS}}}"
    )


def _single(draft: Draft, drafted: DosedDraft, source: str) -> None:
    (chamber,) = drafted.chambers
    give, draw = drafted.pumps
    draft.add("lines", "feed", from_=source, to=chamber, pump=give, max_flow=drafted.max_flow, **TUBE)
    draft.add(
        "lines", "extract", comment="the height of its straw keeps the level", from_=chamber, to="waste", pump=draw,
        max_flow=drafted.max_flow, draws_above=drafted.straw, **TUBE,
    )  # fmt: skip


def _many(draft: Draft, drafted: DosedDraft, source: str) -> None:
    give, draw = drafted.pumps
    _selector(draft, "supply")
    _selector(draft, "takeoff")
    draft.add("lines", "feed", from_=source, to="supply", pump=give, max_flow=drafted.max_flow, **TUBE)
    for port, chamber in enumerate(drafted.chambers, 1):
        draft.add("lines", f"to_{chamber}", from_="supply", to=chamber, port=str(port), passive="true", **TUBE)
    draft.add("lines", "flush", from_="supply", to="waste", port=str(PORTS - 1), passive="true", **TUBE)
    for port, chamber in enumerate(drafted.chambers, 1):
        draft.add(
            "lines", f"from_{chamber}", from_=chamber, to="takeoff", port=str(port), passive="true",
            draws_above=drafted.straw, **TUBE,
        )  # fmt: skip
    draft.add("lines", "extract", from_="takeoff", to="waste", pump=draw, max_flow=drafted.max_flow, **TUBE)


def _gauge(draft: Draft, answers: Answers, drafted: DosedDraft) -> None:
    model = next((probe for probe in listed(answers["probes"]) if probe in GAUGES), None)
    if model is None and len(drafted.chambers) > 1:
        model = GAUGES[0]  # behind a selector only a gauge shows a blocked port
    if model is not None:
        draft.device("p_feed", model, bus="gauges", address='"1"', at="feed", every="2 s")
        limit = f"{{point: p_feed.pressure, high: 60 kPa, stale: 10 s, trips: [{drafted.pumps[0]}]}}"
        draft.over_pressure("feed", limit)
