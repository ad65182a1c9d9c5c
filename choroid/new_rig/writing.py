"""Write a rig file from the answers: chambers, perfusion, exchange of medium, and what they need."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from choroid.new_rig import agitation, climate, dialysis, doses
from choroid.new_rig.draft import Draft
from choroid.new_rig.questions import DOSES, GAUGES, NONE, Answers, listed
from controller.hazards.physics import oxygen_demand_pmol_s, oxygen_supply_pmol_s
from controller.rig.description import TissueSpec, UpkeepSpec
from controller.rig.families import FAMILIES, PUMP
from controller.rig.plates import WELLS
from controller.rig.quantities import parse_quantity

INCUBATOR = "incubator"
MIN_UL_MIN = 50.0
"""Smallest working flow of a heart that is proposed (µL/min); tissue that uses little oxygen needs less."""
FLOWS = {"flow": 2.5, "basal": 1.5, "min": 0.8, "max": 5.0}
"""Flows of a heart in relation to what the tissue's use of oxygen needs."""
ICC_CHANNELS = 4
GAUGES_PER_LINK = 16
"""Gauges on one bus that leave time for commands."""
MANIFOLD = "manifold"
PUMP_SETTINGS: Mapping[str, str] = {
    "longer-0xe9": "{max_rpm: 100, ul_per_rev: 215}",
    "masterflex-ls": "{max_rpm: 600, ul_per_rev: 215}",
    "masterflex-usb": "{max_rpm: 600, ul_per_rev: 215}",
    "tecan-cavro": "{series: xcalibur, syringe_ul: 1000}",
    "watson-marlow-ascii": '{series: "530", max_rpm: 220, ul_per_rev: 215}',
}
"""Settings without a default, as proposals."""
WELL_CM2 = {6: 9.5, 12: 3.8, 24: 1.9, 48: 0.95, 96: 0.32, 384: 0.056}
"""Surface of the medium in a well of the usual plates."""
DEPTH_MM = 4.0
"""Depth of medium in a dish that is proposed: with less, a tenth evaporates within a day."""
PERSON_MIN = 60.0
"""Time that a person needs to change a bottle after its alarm (min)."""


@dataclass(frozen=True, slots=True)
class PlumbingDraft:
    """Names and amounts that the parts of a rig share."""

    chambers: tuple[str, ...]
    chamber_ul: float
    source: str
    """The vessel that hearts draw from; "" without perfusion."""
    source_ul: float
    zone: str
    """The zone of medium and tissue; "" in the room."""


def write(answers: Answers) -> str:
    """Return the text of a rig file.

    Args:
        answers: An answer to each question (:func:`choroid.new_rig.questions.gather`).
    """
    draft = Draft(real_links=answers["links"] == "real")
    layout = _layout(answers)
    _head(draft, answers)
    _tissue(draft, answers, layout)
    if layout.source:
        _perfusion(draft, answers, layout)
    if answers["perfusion"] == DOSES:
        doses.add(draft, answers, layout.chambers, PUMP_SETTINGS.get(answers["pump"], ""))
        _waste(draft, answers)
    if answers["exchange"] == "pumps":
        _exchange(draft, answers, layout)
    agitation.add(draft, answers, ("plate",) if answers["culture"] == "plate" else layout.chambers)
    warmed_ul = layout.chamber_ul * len(layout.chambers) + (layout.source_ul if layout.source == "loop" else 0.0)
    climate.add(draft, answers, layout.chambers, layout.source, warmed_ul, layout.zone)
    _balance(draft, answers, layout)
    return draft.text()


def _layout(answers: Answers) -> PlumbingDraft:
    count, volume_ul = int(answers["count"]), parse_quantity(answers["volume"], "uL")
    if answers["culture"] == "plate":
        rows, columns = WELLS[count]
        names = tuple(
            f"plate-{'ABCDEFGHIJKLMNOP'[row]}{column}" for row in range(rows) for column in range(1, columns + 1)
        )
    else:
        name = "dish" if answers["culture"] == "dishes" else "chamber"
        names = (name,) if count == 1 else tuple(f"{name}{number}" for number in range(1, count + 1))
    sources = {"loop": ("loop", max(80_000.0, 5.0 * count * volume_ul)), "single-pass": ("bottle", 1e6)}
    source, source_ul = sources.get(answers["perfusion"], ("", 0.0))
    zone = INCUBATOR if INCUBATOR in (answers["gas"], answers["heat"]) else ""
    return PlumbingDraft(names, volume_ul, source, source_ul, zone)


def _head(draft: Draft, answers: Answers) -> None:
    draft.head += [
        "# Written by `choroid create`. Amounts and tubing are proposals: correct them to what stands on your bench, and run",
        "# `choroid check` after each change. docs/rig.md describes every key.",
        *(["# Links: write the ports by id (/dev/serial/by-id/…), because ttyUSB0 changes when cables are moved."]
          if draft.real_links else []),
        "choroid: 1",
        f"name: {answers['name']}",
    ]  # fmt: skip
    draft.add(
        "media", "fresh", glucose=answers["glucose"], lactate="0 mM", ammonia="0.02 mM",
        bicarbonate=answers["bicarbonate"], glutamine="1.25 mM", osmolality="285 mOsm/kg",
    )  # fmt: skip


def _tissue(draft: Draft, answers: Answers, layout: PlumbingDraft) -> None:
    tissue = {"count": answers["organoids"], "diameter": answers["diameter"], "age": answers["age"]}
    vessel = {
        "volume": answers["volume"], "capacity": _volume(2.0 * layout.chamber_ul), **_bounds(answers, layout),
        "contains": "fresh",
        "surface": _surface(answers, layout), "zone": layout.zone,
    }  # fmt: skip
    if answers["feeder"] != NONE:
        draft.sections["safety"] += [
            "  accepted:",
            f"    missed_feeding: {{reason: medium is changed by hand {answers['feeding']}, by: {answers['feeder']}}}",
        ]
    if answers["culture"] == "plate":
        draft.add("tissue", "plate", **tissue)
        draft.add("plates", "plate", wells=answers["count"], **vessel)
        return
    for name in layout.chambers:
        draft.add("tissue", name, **tissue)
        draft.add("vessels", name, kind="chamber", **vessel)


def _bounds(answers: Answers, layout: PlumbingDraft) -> dict[str, str]:
    """Return floor and ceiling of a chamber that pumps dose."""
    if answers["perfusion"] != DOSES:
        return {}
    return {"floor": _volume(0.5 * layout.chamber_ul), "ceiling": _volume(1.5 * layout.chamber_ul)}


def _surface(answers: Answers, layout: PlumbingDraft) -> str:
    """Return the surface of medium that is open to the gas; "" for a closed chamber."""
    if answers["culture"] == "plate":
        return f"{WELL_CM2[int(answers['count'])]:g} cm^2"
    if answers["culture"] == "chambers" and layout.source:
        return ""
    return f"{layout.chamber_ul / DEPTH_MM / 100.0:.3g} cm^2"


def _perfusion(draft: Draft, answers: Answers, layout: PlumbingDraft) -> None:
    """Add the vessel that hearts draw from, the lines of the hearts, and the way back or out."""
    count = len(layout.chambers)
    drive = answers["drive"] if count > 1 else "each"
    hearts = list(layout.chambers) if drive == "each" and count > 1 else ["heart"]
    _source(draft, layout)
    lines = list(_lines(draft, layout, drive, _pumps(draft, answers["pump"], hearts)))
    _gauges(draft, answers, [(line, pump) for line, _, pump in lines], one_heart=len(hearts) == 1)
    _tubes(draft, answers, layout, lines)
    flows_ul_min = _flows(answers, count if drive == MANIFOLD else 1)
    _hearts(draft, answers, dict(zip(hearts, (line for line, _, _ in lines), strict=False)), flows_ul_min)
    _overflows(draft, layout)
    if layout.source != "loop":
        _waste(draft, answers)
        _stock(draft, answers, layout, flows_ul_min["flow"] * (1 if drive == MANIFOLD else count))


def _tubes(draft: Draft, answers: Answers, layout: PlumbingDraft, lines: list[tuple[str, str, str]]) -> None:
    """Add the pumped lines: name, end and pump of each."""
    valve = "true" if answers["check_valve"] == "yes" else ""
    for line, end, pump in lines:
        bore = "1.6 mm" if end == MANIFOLD else "1.02 mm"
        draft.add(
            "lines", line, from_=layout.source, to=end, pump=pump, bore=bore, length="0.5 m", check_valve=valve
        )  # fmt: skip


def _source(draft: Draft, layout: PlumbingDraft) -> None:
    loop, ul = layout.source == "loop", layout.source_ul
    draft.add(
        "vessels", layout.source, kind="loop" if loop else "source", contains="fresh", volume=_volume(ul),
        capacity=_volume(1.5 * ul), floor=_volume(0.4 * ul if loop else 50_000.0),
        ceiling=_volume(1.25 * ul) if loop else "", zone=layout.zone,
    )  # fmt: skip


def _overflows(draft: Draft, layout: PlumbingDraft) -> None:
    end = "loop" if layout.source == "loop" else "waste"
    for number, chamber in enumerate(layout.chambers, 1):
        name = "overflow" if len(layout.chambers) == 1 else f"overflow{number}"
        draft.add("lines", name, from_=chamber, to=end, passive="true", bore="3.2 mm", length="0.4 m")


def _pumps(draft: Draft, model: str, hearts: list[str]) -> list[str]:
    """Add the pumps of the hearts, and return the point of each."""
    family = FAMILIES[model]
    if family.channel == PUMP:
        return list(_channels(draft, model, hearts))
    names = ["pump"] if len(hearts) == 1 else [f"pump{number}" for number in range(1, len(hearts) + 1)]
    settings = PUMP_SETTINGS.get(model, "")
    if settings:
        comment = "  # settings of the pump: from its rating plate; measure ul_per_rev with your tubing"
        draft.sections["devices"].append(comment)
    for name in names:
        draft.device(name, model, address='"1"' if family.address else "", every="2 s", settings=settings)
    return [f"{name}.pump" for name in names]


def _channels(draft: Draft, model: str, hearts: list[str]) -> Iterator[str]:
    """Add pumps with several channels, and yield the point of each heart."""
    for number, first in enumerate(range(0, len(hearts), ICC_CHANNELS), 1):
        name = "pump" if len(hearts) <= ICC_CHANNELS else f"pump{number}"
        group = hearts[first : first + ICC_CHANNELS]
        channels = {str(place): f"point: {heart}, tubing: 1.02 mm" for place, heart in enumerate(group, 1)}
        draft.device(name, model, address='"1"', every="2 s", channels=channels)
        yield from (f"{name}.{heart}" for heart in group)


def _lines(draft: Draft, layout: PlumbingDraft, drive: str, pumps: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield name, end and pump of each pumped line, that of a heart first; branches of a manifold are added."""
    if drive == MANIFOLD:
        draft.sections["junctions"].append(f"  {MANIFOLD}: {{}}")
        for number, chamber in enumerate(layout.chambers, 1):
            draft.add(
                "lines", f"branch{number}", from_=MANIFOLD, to=chamber, passive="true", bore="0.8 mm", length="0.4 m"
            )  # fmt: skip
        yield "heart", MANIFOLD, pumps[0]
        return
    for number, chamber in enumerate(layout.chambers, 1):
        name = "heart" if len(pumps) == 1 and number == 1 else f"feed{number}"
        yield name, chamber, pumps[0 if drive == "cassettes" else number - 1]


def _gauges(draft: Draft, answers: Answers, lines: list[tuple[str, str]], *, one_heart: bool) -> None:
    """Add a gauge on each pumped line, with its limit; the line of the only heart has a limit of its own name."""
    model = _gauge(answers)
    if model is None:
        return
    limits = []
    for number, (line, pump) in enumerate(lines, 1):
        draft.device(
            f"p_{line}",
            model,
            bus=f"gauges{(number - 1) // GAUGES_PER_LINK or ''}",
            address=f'"{number}"',
            at=line,
            every="2 s",
        )
        limits.append(f"{line}: {{point: p_{line}.pressure, high: 60 kPa, stale: 10 s, trips: [{pump}]}}")
    if one_heart:
        draft.sections["safety"].append(f"  over_pressure_{limits.pop(0)}")
    if limits:
        draft.sections["safety"] += ["  over_pressure:", *(f"    {limit}" for limit in limits)]


def _gauge(answers: Answers) -> str | None:
    return next((probe for probe in listed(answers["probes"]) if probe in GAUGES), None)


def _flows(answers: Answers, chambers: int) -> dict[str, float]:
    """Return the flows of a heart (µL/min) that bring the oxygen that the tissue of some chambers uses."""
    tissue = TissueSpec.model_validate(
        {"count": int(answers["organoids"]), "diameter": answers["diameter"], "age": answers["age"]}
    )
    needed = chambers * oxygen_demand_pmol_s(tissue) / oxygen_supply_pmol_s(1.0)
    needed = max(needed, MIN_UL_MIN / FLOWS["flow"])
    return {key: needed * share for key, share in FLOWS.items()}


def _hearts(draft: Draft, answers: Answers, lines: Mapping[str, str], flows_ul_min: Mapping[str, float]) -> None:
    """Add the organs that perfuse, by name with the line of each."""
    flows = ", ".join(f"{key}: {_flow(value)}" for key, value in flows_ul_min.items())
    organs = draft.sections["organs"]
    organs += ["  hearts:"] if len(lines) > 1 else []
    for heart, line in lines.items():
        pressure = f", pressure: p_{line}.pressure" if _gauge(answers) else ""
        margin = "    " if len(lines) > 1 else "  "
        organs.append(f"{margin}{heart}: {{line: {line}{pressure}, {flows}, lease: 30 s}}")


def _stock(draft: Draft, answers: Answers, layout: PlumbingDraft, flow_ul_min: float) -> None:
    """Add the share of bottle and waste at which their alarms leave a person enough time, if the usual one does not."""
    min_ul = min(1.5 * layout.source_ul - 50_000.0, 0.95 * parse_quantity(answers["waste"], "uL"))
    needed_pct = math.ceil(100.0 * flow_ul_min * PERSON_MIN / min_ul) + 1
    if needed_pct > UpkeepSpec().stock_low_pct:
        draft.sections["upkeep"].append(f"  stock_low: {needed_pct} %")


def _exchange(draft: Draft, answers: Answers, layout: PlumbingDraft) -> None:
    """Add the vessel on the balance, with lines that draw, return, discard and feed, and the sterile filter."""
    channels = {
        str(place): f"point: {name}, tubing: 1.02 mm" for place, name in enumerate(("draw", "return", "discard"), 1)
    }
    draft.device("exchange", "ismatec-reglo-icc", address='"1"', every="2 s", channels=channels)
    draft.device("dose", "atlas-ezo-pmp", every="5 s")
    draft.device("p_filter", "keller-x-line", bus="filter_gauge", address='"1"', at="return", every="2 s")
    draft.add(
        "vessels", "reservoir", kind="source", contains="fresh", volume="500 mL", capacity="520 mL", floor="10 mL"
    )
    draft.add(
        "vessels", "spent", kind="process", contains="fresh", volume="3 mL", capacity="45 mL", floor="2 mL",
        ceiling="40 mL", zone=layout.zone,
    )  # fmt: skip
    _waste(draft, answers)
    draft.add("filters", "sterile", pore="0.2 um", area="4 cm^2", max_pressure="80 kPa", bubble_point="3.45 bar")
    tube = {"bore": "1.02 mm", "length": "0.4 m"}
    draft.add("lines", "draw", from_="loop", to="spent", pump="exchange.draw", **tube)
    draft.add("lines", "return", from_="spent", to="loop", pump="exchange.return", filter="sterile", **tube)
    draft.add("lines", "discard", from_="spent", to="waste", pump="exchange.discard", **tube)
    draft.add("lines", "feed", from_="reservoir", to="spent", pump="dose.pump")
    draft.sections["organs"] += [
        "  kidney: {vessel: spent, waste: waste, draw: draw, return: return, discard: discard, mass: balance.mass,"
        f" flow: 4 mL/min{', dialyse: dialyse, dialysate_flow: 0.5 mL/min' if answers['dialysis'] == 'yes' else ''}}}",
        "  gut: {feed: feed, flow: 10 mL/min}",
        "  immune: {filter: sterile, pressure: p_filter.pressure}",
    ]
    draft.sections["safety"].append(
        "  over_pressure_filter: {point: p_filter.pressure, high: 80 kPa, stale: 10 s, trips: [exchange.return]}"
    )
    if answers["dialysis"] == "yes":
        dialysis.add(draft, answers)


def _waste(draft: Draft, answers: Answers) -> None:
    waste_ul = parse_quantity(answers["waste"], "uL")
    draft.add(
        "vessels", "waste", kind="waste", volume="0 mL", capacity=answers["waste"], ceiling=_volume(0.95 * waste_ul)
    )


def _balance(draft: Draft, answers: Answers, layout: PlumbingDraft) -> None:
    """Add the balance under the vessel that is weighed; without one, in the room."""
    exchange = answers["exchange"] == "pumps"
    model = answers["balance"]
    if model == NONE and (exchange or (answers["perfusion"] == DOSES and len(layout.chambers) > 1)):
        model = "mettler-sics"  # no exchange by pumps without a weight; behind a selector it alone shows what was drawn
    if model != NONE:
        weighed = "spent" if exchange else "waste" if answers["perfusion"] == DOSES else layout.source
        draft.device("balance", model, at=weighed, every="2 s")


def _volume(ul: float) -> str:
    return f"{ul / 1000:g} mL" if ul >= 1000 else f"{ul:g} uL"


def _flow(ul_min: float) -> str:
    """Return a flow as text, rounded up to two digits."""
    size = 10.0 ** (math.floor(math.log10(ul_min)) - 1)
    rounded = math.ceil(ul_min / size - 1e-9) * size
    return f"{rounded / 1000:g} mL/min" if rounded >= 1000 else f"{rounded:g} uL/min"
