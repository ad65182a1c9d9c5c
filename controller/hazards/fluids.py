"""Hazards of the liquids themselves: what each source of medium does to the tissue's medium at the doses that the rig allows.

Fresh medium replaces the medium in time, so it has to be one that tissue bears. A stock is judged twice: by the smallest dose
in the smallest batch, which no measurement makes smaller, and by the largest dose that conditioning needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log10

from controller.hazards import bounds
from controller.hazards.terms import Hazard, Subject
from controller.rig.description import LiverConfig, Medium, Rig
from controller.rig.graph import entering
from controller.rig.organ_lines import fresh_medium
from controller.rig.probes import ph_target
from controller.rig.problems import Finding, named
from controller.rig.surroundings import bicarbonate_mm

OSMOTIC = 0.9
"""Osmotic coefficient of dissolved salts and sugars at these concentrations [R]."""
RAISES = 1.2
"""Factor by which a stock has to exceed fresh medium in what it is there to raise [P]."""


def hazards(subject: Subject) -> Iterator[Hazard]:
    """Yield a row for each liquid that harms what it enters, or cannot do what it is there for."""
    rig, liver = subject.rig, subject.rig.organs.liver
    for vessel, place in _bathing(rig).items():
        medium = rig.media.get(rig.vessels[vessel].contains or "")
        if medium is not None and (gaps := [*_possible(rig, vessel, medium), *_bearable(rig, vessel, medium)]):
            yield _row(vessel, place, gaps)
    if liver is None or rig.organs.kidney is None:
        return
    for key in ("glucose", "base"):
        line = rig.lines[getattr(liver, key)]
        medium = None if line.from_ not in rig.vessels else rig.media.get(rig.vessels[line.from_].contains or "")
        if medium is not None and (gaps := [*_possible(rig, line.from_, medium), *_stock(rig, liver, key, medium)]):
            yield _row(line.from_, line.to, gaps)


def _row(vessel: str, place: str, gaps: list[Finding]) -> Hazard:
    return Hazard(
        f"liquid_{vessel}", place, "none", "none", (), f"{bounds.BORNE_MOSM[0]:g} to {bounds.BORNE_MOSM[1]:g} mOsm/kg", 0.0,
        bounds.LIQUID_HARMS_S, "what the liquid does to the tissue's medium at the doses that the rig allows", tuple(gaps),
    )  # fmt: skip


def _bathing(rig: Rig) -> dict[str, str]:
    """Return the vessels whose content bathes tissue, undiluted in time, with where it does so.

    Those are loop, chambers, and each vessel that a pump empties into them or into the kidney's vessel, stocks left out.
    Bottles behind selectors are judged by what may reach what (:mod:`controller.hazards.selectors`).
    """
    liver = rig.organs.liver
    stocks = () if liver is None else (liver.glucose, liver.base)
    found = {name: name for name, vessel in rig.vessels.items() if vessel.kind in ("loop", "chamber")}
    for name, line in rig.lines.items():
        if name in stocks or line.pump is None or line.from_ not in rig.vessels:
            continue
        into = [vessel for vessel in entering(rig, name) if rig.vessels[vessel].kind in ("loop", "chamber", "process")]
        if line.dialyser is not None:
            into.append(rig.dialysers[line.dialyser].vessel)
        if into:
            found.setdefault(line.from_, named(into))
    return found


def _possible(rig: Rig, vessel: str, medium: Medium) -> Iterator[Finding]:
    """Yield a finding for a liquid that cannot exist: its solutes alone exceed its osmolality."""
    solutes = OSMOTIC * (medium.glucose_mm + 2.0 * medium.bicarbonate_mm + 2.0 * medium.lactate_mm)
    if solutes > medium.osmolality_mosm:
        name = rig.vessels[vessel].contains or ""
        what = (
            f"glucose, bicarbonate and lactate of “{name}” alone make {solutes:.0f} mOsm/kg, more than its osmolality"
        )
        yield Finding(
            ("media", name, "osmolality"), what, "Correct the concentrations, or write the measured osmolality"
        )


def _bearable(rig: Rig, vessel: str, medium: Medium) -> Iterator[Finding]:
    """Yield findings for medium that tissue does not bear."""
    name = rig.vessels[vessel].contains or ""
    low, high = bounds.BORNE_MOSM
    if not low <= medium.osmolality_mosm <= high:
        what = f"“{vessel}” holds {medium.osmolality_mosm:g} mOsm/kg, and tissue bears {low:g} to {high:g}"
        yield Finding(("media", name, "osmolality"), what, f"Write {low:g} to {high:g} mOsm/kg, or another medium")
    if medium.glucose_mm < bounds.MIN_GLUCOSE_MM:
        what = f"“{vessel}” holds {medium.glucose_mm:g} mM of glucose, and tissue lives on it"
        yield Finding(
            ("media", name, "glucose"), what, f"Write at least {bounds.MIN_GLUCOSE_MM:g} mM, or another medium"
        )
    ph = _shifted(rig, medium.bicarbonate_mm)
    if not bounds.MIN_PH <= ph <= bounds.MAX_PH:
        what = f"{medium.bicarbonate_mm:g} mM of bicarbonate in “{vessel}” bring the medium to pH {ph:.2f}"
        yield Finding(
            ("media", name, "bicarbonate"), what, f"Write about {bicarbonate_mm(rig):g} mM, or another medium"
        )


def _shifted(rig: Rig, bicarbonate: float) -> float:
    """Return the pH that medium with this bicarbonate has where that of the culture is at its target."""
    return ph_target(rig) + log10(max(bicarbonate, 0.1) / bicarbonate_mm(rig))


def _stock(rig: Rig, liver: LiverConfig, key: str, stock: Medium) -> Iterator[Finding]:
    """Yield findings for a stock that does not raise what it should, or whose doses harm."""
    fresh = rig.media.get(fresh_medium(rig))
    kidney = rig.organs.kidney
    if fresh is None or kidney is None:
        return
    of, solute = ("glucose_mm", "glucose") if key == "glucose" else ("bicarbonate_mm", "bicarbonate")
    line = getattr(liver, key)
    place = ("organs", "liver", key)
    has, wanted = getattr(stock, of), getattr(fresh, of)
    if has < RAISES * wanted:
        what = f"line “{line}” brings {has:g} mM of {solute}, fresh medium has {wanted:g}: it cannot raise it"
        yield Finding(
            place, what, "Name the line of the other stock (are glucose and base exchanged?), or correct the medium"
        )
        return
    spent = rig.vessels[kidney.vessel]
    batch_ul = max(spent.volume_ul, spent.floor_ul, 1.0)
    smallest, needed = liver.min_dose_ul / batch_ul, wanted / (has - wanted)
    doses = {
        f"the smallest dose ({liver.min_dose_ul:g} uL in {batch_ul:g} uL)": smallest,
        "the largest needed dose": needed,
    }
    for which, share in doses.items():
        mosm = (fresh.osmolality_mosm + share * stock.osmolality_mosm) / (1.0 + share)
        if not bounds.BORNE_MOSM[0] <= mosm <= bounds.BORNE_MOSM[1]:
            fix = "Use a weaker or an isotonic stock, a smaller “min_dose”, or a larger batch (volume)"
            yield Finding(place, f"{which} brings the batch to {mosm:.0f} mOsm/kg", fix)
            return
    ph = _shifted(rig, (fresh.bicarbonate_mm + smallest * stock.bicarbonate_mm) / (1.0 + smallest))
    if not bounds.MIN_PH <= ph <= bounds.MAX_PH:
        fix = "Use a weaker stock, a smaller “min_dose”, or a larger batch (volume)"
        yield Finding(place, f"the smallest dose brings a batch of {batch_ul:g} uL to pH {ph:.2f}", fix)
