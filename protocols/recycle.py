"""Recycling: draw spent medium, measure, grade, and give back what is good enough, conditioned where it pays.

Each cycle is neutral in volume for the loop and leaves the spent vessel where it stood. Every microlitre of a cycle is
in its note `recycle`, what it was judged by in its note `grade`.
"""

from __future__ import annotations

from collections.abc import Mapping

from protocols.conditioning import TRIFLE_UL, BatchPlan, plan_batch
from protocols.grading import Grade, Letter, Sample, grade
from protocols.interval import Interval
from protocols.language import Amount, Lab, Measurement
from protocols.parameters import Param
from protocols.soft_sensor import MediaEstimate

NAME = "recycle"
TITLE = "Draw, measure, grade, condition and give back medium"
PARAMS = (
    Param("batch", "uL", 18_000.0, 2_000.0, 35_000.0, "medium drawn each time"),
    Param("every", "s", 8 * 3_600.0, 3_600.0, 7 * 86_400.0, "time from one cycle to the next"),
    Param("cycles", "", 0, 0, 100_000, "how many; 0 goes on until stopped"),
)

SETTLE_S = 60.0
NOTHING = Amount(0.0, 0.0, 0.0)


async def protocol(lab: Lab, params: Mapping[str, float]) -> None:
    """Cycle after cycle, the first at once."""
    cycle = 0
    while not params["cycles"] or cycle < params["cycles"]:
        await lab.sleep_until(cycle * params["every_s"])
        cycle += 1
        await recycle_once(lab, params["batch_ul"], cycle)


async def recycle_once(lab: Lab, batch_ul: float, cycle: int) -> None:
    """One cycle."""
    targets = lab.targets
    drawn = await lab.kidney.draw(min(batch_ul, targets.spent_room_ul, targets.loop_spare_ul))
    estimate = await lab.estimate()
    acidity = await lab.liver.acidity(SETTLE_S)
    verdict = await judge(lab, estimate, acidity)
    await lab.note("grade", {"cycle": cycle, **verdict.to_json(), "estimate": estimate.to_json()})
    if verdict.of("sterility") is Letter.D:
        await lab.ask(
            "the sterile barrier failed. Likely cause: the filter burst or is clogged. Next: replace the filter, then"
            " resume; the batch is thrown away"
        )
    volumes = lab.volumes()
    plan = plan_batch(
        verdict,
        estimate.spent,
        acidity.value,
        spent_ul=volumes["spent"].ul,
        loop_ul=volumes["loop"].ul,
        targets=targets,
        min_dose_ul=lab.liver.min_dose_ul,
    )
    await treat(lab, plan, cycle, verdict, drawn)


async def judge(lab: Lab, estimate: MediaEstimate, acidity: Measurement) -> Grade:
    """Grade the batch in the spent vessel by what was measured and what is estimated."""
    oxygen = await lab.lung.oxygen()
    pressure = await lab.immune.pressure()
    targets, batch = lab.targets, estimate.spent
    change = 100.0 / targets.osmolality_mosm
    osmolality = batch.osmolality_mosm
    sample = Sample(
        lactate_mm=batch.lactate_mm,
        ammonia_mm=batch.ammonia_mm,
        glucose_share=batch.glucose_mm.scaled(1.0 / targets.glucose_mm),
        glucose_mm=batch.glucose_mm,
        ph=acidity.interval,
        osmolality_change_pct=Interval(
            osmolality.value * change - 100.0, osmolality.low * change - 100.0, osmolality.high * change - 100.0
        ),
        oxygen_pct=oxygen.interval,
        passes=Interval.exact(lab.volumes()["spent"].passes),
        sterile=None if pressure.value is None else pressure.value < lab.immune.max_pressure_kpa,
    )
    return grade(sample)


async def treat(lab: Lab, plan: BatchPlan, cycle: int, verdict: Grade, drawn: Amount) -> None:
    """Carry out a plan; what is left in the spent vessel beyond its residue goes to waste."""
    targets = lab.targets
    before = lab.volumes()
    discarded = await lab.kidney.discard(plan.discard_ul) if plan.discard_ul > 0 else NOTHING
    fresh = await lab.gut.feed(plan.fresh_ul) if plan.fresh_ul > 0 else NOTHING
    glucose = await lab.liver.add_glucose(plan.glucose_ul) if plan.glucose_ul > 0 else NOTHING
    base = await lab.liver.add_base(plan.base_ul) if plan.base_ul > 0 else NOTHING
    volumes = lab.volumes()
    # As measured, not as planned: pumps are off by some percent, the balance is not.
    give_ul = min(volumes["spent"].ul - targets.spent_ul, targets.loop_ul - volumes["loop"].ul)
    given = await lab.kidney.give_back(give_ul) if give_ul >= TRIFLE_UL else NOTHING
    excess_ul = lab.volumes()["spent"].ul - targets.spent_ul
    excess = await lab.kidney.discard(excess_ul) if excess_ul >= 2 * TRIFLE_UL else NOTHING
    await lab.note(
        "recycle",
        {
            "cycle": cycle,
            "grade": verdict.letter.value,
            "limiting": verdict.limiting,
            "fresh_share": plan.fresh_share,
            "planned": plan.to_json(),
            "drawn_ul": drawn.ul,
            "discarded_ul": discarded.ul + excess.ul,
            "fresh_ul": fresh.ul,
            "glucose_ul": glucose.ul,
            "base_ul": base.ul,
            "given_back_ul": given.ul,
            "loop_ul": lab.volumes()["loop"].ul,
            "spent_ul": lab.volumes()["spent"].ul,
            "passes": before["spent"].passes,
        },
    )
