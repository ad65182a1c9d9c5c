"""Dialysis of spent medium in a new rig: hollow fibres in the weighed vessel, and what conditions the batch afterwards."""

from __future__ import annotations

from choroid.new_rig.draft import Draft
from choroid.new_rig.questions import Answers


def add(draft: Draft, answers: Answers) -> None:
    """Add dialyser, dialysate with its pump and gauge, and the liver that `dialyse` and `recycle` need.

    Args:
        draft: The rig.
        answers: The answers.
    """
    _media(draft, answers)
    draft.add(
        "dialysers",
        "fibres",
        vessel="spent",
        koa="0.6 mL/min",
        koa_at="0.5 mL/min",
        cut_off="10 kDa",
        max_pressure="60 kPa",
    )
    draft.add(
        "lines", "dialyse", from_="basal", to="waste", pump="dialysate.dialysate", dialyser="fibres", bore="1.02 mm",
        length="0.8 m",
    )  # fmt: skip
    draft.device(
        "dialysate", "ismatec-reglo-icc", address='"1"', every="5 s",
        channels={"1": "point: dialysate, tubing: 1.02 mm"},
    )  # fmt: skip
    draft.device("p_dialysate", "keller-x-line", bus="dialysate_gauge", address='"1"', at="dialyse", every="2 s")
    for name in ("glucose", "base"):
        draft.add("lines", name, from_=name, to="spent", pump=f"dose_{name}.pump")
        draft.device(f"dose_{name}", "atlas-ezo-pmp", every="5 s")
    draft.device("ph_spent", "atlas-ezo-ph", at="spent", every="5 s")
    draft.sections["organs"].append(
        "  liver: {glucose: glucose, base: base, ph: ph_spent.ph, flow: 10 mL/min, min_dose: 0.5 mL}"
    )
    draft.over_pressure(
        "dialyse", "{point: p_dialysate.pressure, high: 40 kPa, stale: 10 s, trips: [dialysate.dialysate]}"
    )


def _media(draft: Draft, answers: Answers) -> None:
    shared = {"lactate": "0 mM", "ammonia": "0 mM", "glutamine": "0 mM"}
    draft.add(
        "media", "basal", glucose=answers["glucose"], **shared, bicarbonate=answers["bicarbonate"],
        osmolality="285 mOsm/kg",
    )  # fmt: skip
    draft.add("media", "glucose_stock", glucose="60 mM", **shared, bicarbonate="27.5 mM", osmolality="310 mOsm/kg")
    draft.add("media", "base_stock", glucose="0 mM", **shared, bicarbonate="150 mM", osmolality="290 mOsm/kg")
    draft.add("vessels", "basal", kind="source", contains="basal", volume="4000 mL", capacity="4100 mL", floor="20 mL")
    for name, medium in (("glucose", "glucose_stock"), ("base", "base_stock")):
        draft.add(
            "vessels", name, kind="source", contains=medium, volume="250 mL", capacity="260 mL", floor="5 mL"
        )  # fmt: skip
