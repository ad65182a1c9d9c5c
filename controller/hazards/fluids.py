"""Hazards of the liquids themselves: what each source of medium does to the tissue's medium at the doses that the rig allows.

Fresh medium replaces the medium in time, so it has to be one that tissue bears. A stock is judged twice: by the smallest dose
in the smallest batch, which no measurement makes smaller, and by the largest dose that conditioning needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log10

from controller.hazards import bounds
from controller.hazards.terms import Hazard, Subject
from controller.rig.description import Medium, Rig
from controller.rig.dosing import dosing_paths
from controller.rig.graph import entering
from controller.rig.organ_lines import fresh_medium
from controller.rig.organs import LiverConfig
from controller.rig.probes import ph_target
from controller.rig.problems import Finding, named
from controller.rig.surroundings import bicarbonate_mm, culture_vessel

OSMOTIC = 0.9
"""Osmotic coefficient of dissolved salts and sugars at these concentrations [R]."""
RAISES = 1.5
"""A batch is made that much sweeter than fresh medium at most (:mod:`protocols.conditioning`): a stock has to exceed that."""


SOLUTES = {"glucose": "glucose_mm", "base": "bicarbonate_mm"}
"""What each stock of the liver is there to raise."""


def largest_share(key: str, fresh: Medium, stock: Medium) -> float:
    """Return the largest dose of a stock over the medium that lacks its solute altogether (uL/uL).

    Glucose may exceed that of fresh medium by :data:`RAISES`, bicarbonate may not.
    """
    has, wanted = getattr(stock, SOLUTES[key]), getattr(fresh, SOLUTES[key]) * (RAISES if key == "glucose" else 1.0)
    return float(wanted / (has - wanted)) if has > wanted else 0.0


def hazards(subject: Subject) -> Iterator[Hazard]:
    """Yield a row for each liquid that harms what it enters, or cannot do what it is there for."""
    rig, liver = subject.rig, subject.rig.organs.liver
    for vessel, place in _bathing(rig).items():
        medium = rig.media.get(rig.vessels[vessel].contains or "")
        if medium is not None and (gaps := [*_possible(rig, vessel, medium), *_bearable(rig, vessel, medium)]):
            yield _row(vessel, place, gaps)
    for vessel, chambers in _dosed(rig).items():
        medium = rig.media.get(rig.vessels[vessel].contains or "")
        if medium is not None and (gaps := [*_possible(rig, vessel, medium), *_bearable(rig, vessel, medium)]):
            yield _row(vessel, named(chambers), gaps, bounds.PERSON_S)
    if gaps := list(_incomplete(rig)):
        yield _row("fed", culture_vessel(rig), gaps)
    if liver is None or rig.organs.kidney is None:
        return
    for key in ("glucose", "base"):
        line = rig.lines[getattr(liver, key)]
        medium = None if line.from_ not in rig.vessels else rig.media.get(rig.vessels[line.from_].contains or "")
        if medium is not None and (gaps := [*_possible(rig, line.from_, medium), *_stock(rig, liver, key, medium)]):
            yield _row(line.from_, line.to, gaps)


def _row(vessel: str, place: str, gaps: list[Finding], harm_s: float = bounds.LIQUID_HARMS_S) -> Hazard:
    return Hazard(
        f"liquid_{vessel}", place, "none", "none", (), f"{bounds.BORNE_MOSM[0]:g} to {bounds.BORNE_MOSM[1]:g} mOsm/kg", 0.0,
        harm_s, "what the liquid does to the tissue's medium at the doses that the rig allows", tuple(gaps),
    )  # fmt: skip


def _bathing(rig: Rig) -> dict[str, str]:
    """Return the vessels whose content bathes tissue, undiluted in time, with where it does so.

    Those are loop, chambers, and each vessel that a pump empties into them or into the kidney's vessel, stocks left out.
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


def _dosed(rig: Rig) -> dict[str, list[str]]:
    """Return the bottles whose content a path over selectors may bring into chambers, with these chambers.

    What kills on contact is judged with the ports that may be reached (:mod:`controller.hazards.selectors`).
    """
    found: dict[str, list[str]] = {}
    for path in dosing_paths(rig):
        source = rig.vessels[path.source]
        medium = rig.media.get(source.contains or "")
        known = medium is not None and bounds.MIN_MOSM <= medium.osmolality_mosm <= bounds.MAX_MOSM
        if path.positions and known and source.kind == "source" and rig.vessels[path.target].kind == "chamber":
            found.setdefault(path.source, []).append(path.target)
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


def _incomplete(rig: Rig) -> Iterator[Finding]:
    """Yield a finding if the gut gives a medium without glutamine, and so without supplements, to tissue in one with it."""
    gut, lived_in = rig.organs.gut, rig.media.get(rig.vessels[culture_vessel(rig)].contains or "")
    given = None if gut is None else rig.media.get(fresh_medium(rig))
    if given is not None and lived_in is not None and given.glutamine_mm == 0.0 < lived_in.glutamine_mm:
        what = f"“{fresh_medium(rig)}” has no glutamine, and the tissue's medium has {lived_in.glutamine_mm:g} mM"
        fix = "Lead the feed to the bottle of fresh medium (are two bottles exchanged?), or write its glutamine"
        yield Finding(("organs", "gut", "feed"), what, fix)


def _shifted(rig: Rig, bicarbonate: float) -> float:
    """Return the pH that medium with this bicarbonate has where that of the culture is at its target."""
    return ph_target(rig) + log10(max(bicarbonate, 0.1) / bicarbonate_mm(rig))


def _stock(rig: Rig, liver: LiverConfig, key: str, stock: Medium) -> Iterator[Finding]:
    """Yield findings for a stock that does not raise what it should, or whose doses harm."""
    fresh = rig.media.get(fresh_medium(rig))
    kidney = rig.organs.kidney
    if fresh is None or kidney is None:
        return
    line, place = getattr(liver, key), ("organs", "liver", key)
    solute = SOLUTES[key].removesuffix("_mm")
    has, wanted = getattr(stock, SOLUTES[key]), getattr(fresh, SOLUTES[key])
    if has <= RAISES * wanted:
        what = f"line “{line}” brings {has:g} mM of {solute}, fresh medium has {wanted:g}: it cannot raise it"
        yield Finding(
            place, what, "Name the line of the other stock (are glucose and base exchanged?), or correct the medium"
        )
        return
    spent = rig.vessels[kidney.vessel]
    batch_ul = max(spent.volume_ul, spent.floor_ul, 1.0)
    smallest, largest = liver.min_dose_ul / batch_ul, largest_share(key, fresh, stock)
    doses = {f"the smallest dose ({liver.min_dose_ul:g} uL in {batch_ul:g} uL)": smallest, "the largest dose": largest}
    for which, share in doses.items():
        mosm = (fresh.osmolality_mosm + share * stock.osmolality_mosm) / (1.0 + share)
        if not bounds.BORNE_MOSM[0] <= mosm <= bounds.BORNE_MOSM[1]:
            fix = "Use a weaker or an isotonic stock, a smaller “min_dose”, or a larger batch (volume)"
            yield Finding(place, f"{which} brings the batch to {mosm:.0f} mOsm/kg", fix)
            return
    yield from _acidity(rig, liver, key, fresh, stock, (smallest, largest))


def _acidity(
    rig: Rig, liver: LiverConfig, key: str, fresh: Medium, stock: Medium, doses: tuple[float, float]
) -> Iterator[Finding]:
    """Yield a finding if the smallest dose of base makes too alkaline, or the largest one of glucose dilutes bicarbonate."""
    place, share = ("organs", "liver", key), doses[0] if key == "base" else doses[1]
    bicarbonate = (fresh.bicarbonate_mm + share * stock.bicarbonate_mm) / (1.0 + share)
    if key == "base" and not bounds.MIN_PH <= (ph := _shifted(rig, bicarbonate)) <= bounds.MAX_PH:
        fix = "Use a weaker stock, a smaller “min_dose”, or a larger batch (volume)"
        yield Finding(place, f"the smallest dose brings the batch to pH {ph:.2f}", fix)
    shift = log10(max(bicarbonate, 0.1) / max(fresh.bicarbonate_mm, 0.1))
    if key == "glucose" and abs(shift) > bounds.GLUCOSE_SHIFTS_PH:
        fix = f"Use glucose in basal medium with about {fresh.bicarbonate_mm:g} mM of bicarbonate"
        yield Finding(place, f"the largest dose of glucose shifts the pH of the batch by {shift:+.2f}", fix)
