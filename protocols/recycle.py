"""Recycling: draw spent medium when it is worthwhile, measure, grade, and return what is good enough.

Each cycle checks the loop first: while leaving it alone is the cheapest, nothing is drawn, since each pass through
a pump also harms medium. Drawn medium is graded, then returned, conditioned, diluted, dialysed or discarded, by the
lowest cost that its grade permits (:mod:`protocols.economy`). A cycle is neutral in volume for the loop and leaves
the spent vessel as it was. When the estimate of the tissue shows or suspects a loss of viability, medium is
exchanged instead (:mod:`protocols.retreat`). The volumes of a cycle, and the decision with all alternatives,
are in its note `recycle`; its inputs are in its note `grade`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from protocols.assay_requests import ASSAY_WANTED, best_request
from protocols.conditioning import TRIFLE_UL, BatchPlan
from protocols.economy import Decision, TreatmentContext, draw, treatment
from protocols.grading import Grade, Letter, Sample, grade
from protocols.interval import Interval
from protocols.language import Lab
from protocols.ldh_requests import LdhRequests
from protocols.mixing import MediumState, retained
from protocols.organs import Gut, Immune, Kidney, Liver
from protocols.parameters import Param
from protocols.results import NOTHING, Amount, Measurement
from protocols.retreat import retreat
from protocols.soft_sensor import MediaEstimate
from protocols.tissue_loss import LossWatch, TissueLoss
from protocols.turns import first_turn, next_turn

NAME = "recycle"
TITLE = "Draw, measure, grade, condition and give back medium"
VERSION = 2
"""Increased when a run that began before must not go on under this text; its steps are compared with its record as well."""
VERBS = (
    Kidney.draw,
    Kidney.discard,
    Kidney.give_back,
    Gut.feed,
    Liver.add_glucose,
    Liver.add_base,
    Liver.ph,
    Immune.barrier,
)
"""Verbs that it cannot do without."""
PARAMS = (
    Param("batch", "uL", 18_000.0, 2_000.0, 35_000.0, "maximum volume drawn at a time"),
    Param("min_batch", "uL", 0.0, 0.0, 35_000.0, "minimum volume drawn in each cycle, needed or not"),
    Param("every", "s", 8 * 3_600.0, 3_600.0, 7 * 86_400.0, "time between two cycles"),
    Param("exceed", "%", 2.0, 0.1, 20.0, "highest probability to be beyond grade B at the next cycle"),
    Param("max_assays", "", 2, 0, 14, "most assays of the loop that are requested in a week; 0: none"),
    Param("assay_cost", "uL", 5_000.0, 0.0, 1_000_000.0, "fresh medium that an assay must save to be requested"),
    Param("max_ldh_assays", "", 3, 0, 14, "most assays of LDH of the loop that are requested in a week; 0: none"),
    Param(
        "accepted_loss", "%", 0.0, 0.0, 100.0, "known loss of viability; a larger one makes it retreat; 100: none does"
    ),
    Param("resumes", "", 1, 0, 10, "times that recycling goes on after a suspicion that did not last; 0: never"),
    Param("cycles", "", 0, 0, 100_000, "number of cycles; 0: until stopped"),
)

SETTLE_S = 60.0
TEST_UL = 2_000.0
"""Volume that is drawn and returned where no filter pass is on record (µL): the loop's own medium, in half a
minute.
"""
DAY_S = 86_400.0
WEEK_D = 7.0
LDH_RECENT_H = 24.0
"""Maximum age (h) of an assay of LDH that counts in a grade."""
ANSWER_D = 2.0
"""Time that a laboratory has for an assay before another one may be requested (days)."""


@dataclass(frozen=True, slots=True)
class RecycleChoice:
    """A decision as it is on record: a run that is taken up follows it, however this release would decide."""

    action: str
    draw_ul: float
    plan: BatchPlan
    decision: Mapping[str, Any]
    """The decision with all alternatives, for people."""

    @classmethod
    async def made(cls, lab: Lab, what: str, decide: Callable[[], Decision]) -> RecycleChoice:
        """Return what `decide` chooses, or what is on record."""

        def chosen() -> dict[str, Any]:
            found = decide()
            one = found.chosen
            return {
                "action": one.action,
                "draw_ul": one.draw_ul,
                "plan": one.plan.to_json(),
                "decision": found.to_json(),
            }

        record = await lab.decide(what, chosen)
        return cls(record["action"], record["draw_ul"], BatchPlan(**record["plan"]), record["decision"])


async def protocol(lab: Lab, params: Mapping[str, float]) -> None:
    """Run cycle after cycle, the first at once. Missed cycles are skipped. A loss of viability makes it retreat."""
    begun_s = await first_turn(lab)
    cycle = slot = 0
    watch = LossWatch(params["accepted_loss_pct"])
    requested: list[float] = []
    ldh = LdhRequests(params["max_ldh_assays"])
    retreats = 0
    while not params["cycles"] or cycle < params["cycles"]:
        slot = await next_turn(lab, begun_s, slot, params["every_s"])
        now_s = slot * params["every_s"]
        slot, cycle = slot + 1, cycle + 1
        await _seen_at_work(lab)
        loop = await lab.estimate()
        now_d = now_s / DAY_S
        await ldh.ask(lab, loop.tissue, now_d)
        if loop.tissue is not None and (why := await _retreats(lab, watch.reason(loop.tissue, now_s))):
            days, final = _days_left(params, cycle), retreats >= params["resumes"]
            if not await retreat(lab, why, loop.tissue, watch, ldh, now_d, days=days, final=final):
                return
            retreats += 1
            continue
        await recycle_once(lab, params, cycle, loop)
        requested = [at_d for at_d in requested if at_d > now_d - WEEK_D]
        if len(requested) < params["max_assays"] and now_d >= max(requested, default=-WEEK_D) + ANSWER_D:
            requested += [now_d] if await _request_assay(lab, params, loop) else []


async def _retreats(lab: Lab, why: str) -> str:
    """Return why this run retreats, as a step: a run that is taken up follows it, whatever this release's thresholds say."""
    return str(await lab.decide("retreat", lambda: why))


def _days_left(params: Mapping[str, float], cycle: int) -> int:
    """Return for how many days a run goes on that is in its cycle number `cycle`; 0: until it is stopped."""
    if not params["cycles"]:
        return 0
    return max(math.ceil((params["cycles"] - cycle) * params["every_s"] / DAY_S), 1)


async def _request_assay(lab: Lab, params: Mapping[str, float], estimate: MediaEstimate) -> bool:
    """Request the assay whose expected saving exceeds its cost; return whether there is one. Nothing waits for it."""
    exceed, cost_ul = params["exceed_pct"] / 100.0, params["assay_cost_ul"]
    _, loop = _bodies(lab, estimate)

    def wanted() -> dict[str, Any] | None:
        request = best_request(loop, lab.rules, estimate.lactate_umol_d.value, exceed=exceed, cost_ul=cost_ul)
        return None if request is None else request.to_json()

    request = await lab.decide("assay", wanted)
    if request is not None:
        await lab.note(ASSAY_WANTED, request)
    return request is not None


async def recycle_once(lab: Lab, params: Mapping[str, float], cycle: int, estimate: MediaEstimate) -> None:
    """Run one cycle: check the loop by its `estimate`, and draw and treat a batch if that is worthwhile."""
    batch_ul, min_ul = params["batch_ul"], params["min_batch_ul"]
    targets = lab.targets
    max_ul = min(batch_ul, targets.spent_room_ul, targets.loop_spare_ul)
    ph = await lab.lung.ph()
    verdict = await judge(lab, estimate, ph, "loop")
    bench = _bench(lab, params, estimate)
    spent, loop = _bodies(lab, estimate)
    choice = await RecycleChoice.made(
        lab,
        "draw",
        lambda: draw(bench, verdict, spent, loop, ph.value, max_ul=max_ul, min_ul=min(min_ul, max_ul)),
    )
    if choice.action == "rest":
        await lab.note("grade", {"cycle": cycle, "of": "loop", **verdict.to_json(), "estimate": estimate.to_json()})
        await _note(lab, cycle, verdict, choice, {})
        return
    drawn = await lab.kidney.draw(choice.draw_ul)
    estimate = await lab.estimate()
    ph = await lab.liver.ph(SETTLE_S)
    verdict = await judge(lab, estimate, ph)
    await lab.note("grade", {"cycle": cycle, "of": "batch", **verdict.to_json(), "estimate": estimate.to_json()})
    if verdict.of("sterility") is Letter.D:
        await lab.ask(
            "the sterile barrier failed. Likely cause: the filter burst, leaks or is clogged. Next: replace the filter;"
            " then stop this run, have filter-integrity pass, and start again. If you resume, the batch is"
            " discarded, and so is each one until that test was passed"
        )
    batch, loop = _bodies(lab, estimate)
    bench = _bench(lab, params, estimate)
    choice = await RecycleChoice.made(lab, "treatment", lambda: treatment(bench, verdict, batch, loop, ph.value))
    await treat(lab, choice, cycle, verdict, drawn)


async def _seen_at_work(lab: Lab) -> None:
    """Make a pass through the filter where none is on record: otherwise a new rig's first batch would be grade C at
    best.
    """
    if (await lab.immune.barrier()).sterile is not None:
        return
    pressure = await lab.immune.pressure()
    if pressure.value is None or pressure.value >= lab.immune.max_pressure_kpa:
        return
    drawn = await lab.kidney.draw(min(TEST_UL, lab.targets.spent_room_ul, lab.targets.loop_spare_ul))
    if drawn.ul >= lab.kidney.give_back.min_ul:
        await lab.kidney.give_back(drawn.ul)


def _bench(lab: Lab, params: Mapping[str, float], estimate: MediaEstimate) -> TreatmentContext:
    return TreatmentContext(
        rules=lab.rules,
        prices=lab.prices,
        targets=lab.targets,
        media=lab.targets.media,
        dialyser=lab.kidney.dialyser,
        min_dose_ul=lab.liver.min_dose_ul,
        min_draw_ul=max(lab.kidney.draw.min_ul, lab.kidney.give_back.min_ul, TRIFLE_UL),
        lactate_umol_d=estimate.lactate_umol_d,
        look_d=params["every_s"] / DAY_S,
        exceed=params["exceed_pct"] / 100.0,
    )


def _bodies(lab: Lab, estimate: MediaEstimate) -> tuple[MediumState, MediumState]:
    """Return the estimated states of spent vessel and loop."""
    volumes = lab.volumes()
    spent, loop = volumes["spent"], volumes["loop"]
    return MediumState.of(estimate.spent, spent), MediumState.of(estimate.loop, loop)


async def judge(lab: Lab, estimate: MediaEstimate, ph: Measurement, where: str = "spent") -> Grade:
    """Return the grade of the medium `where` ("spent" or "loop") by measurements and estimate."""
    media = estimate.spent if where == "spent" else estimate.loop
    oxygen = await lab.lung.oxygen()
    sterile = await _sterile(lab)
    targets, volume = lab.targets, lab.volumes()[where]
    change = 100.0 / targets.osmolality_mosm
    osmolality = media.osmolality_mosm
    sample = Sample(
        lactate_mm=media.lactate_mm,
        ammonia_mm=media.ammonia_mm,
        glucose_share=media.glucose_mm.scaled(1.0 / targets.glucose_mm),
        glucose_mm=media.glucose_mm,
        ph=ph.interval,
        osmolality_change_pct=Interval(
            osmolality.value * change - 100.0, osmolality.low * change - 100.0, osmolality.high * change - 100.0
        ),
        oxygen_pct=oxygen.interval,
        passes=Interval.exact(volume.passes),
        insulin_share=retained(volume.insulin),
        ldh_ratio=_ldh_ratio(estimate.tissue),
        age_d=Interval.exact(volume.age_s / DAY_S),
        sterile=sterile,
    )
    return grade(sample, lab.rules)


def _ldh_ratio(seen: TissueLoss | None) -> Interval | None:
    """Return LDH over the culture's first one, if it was assayed within a day: later it says little of the medium."""
    ldh = None if seen is None else seen.ldh
    return None if ldh is None or ldh.age_h is None or ldh.age_h > LDH_RECENT_H else ldh.ratio


async def _sterile(lab: Lab) -> bool | None:
    """Return whether the sterile barrier holds, by the filter's passes and the present pressure; None if unknown."""
    pressure = await lab.immune.pressure()
    barrier = await lab.immune.barrier()
    if barrier.sterile is False or (pressure.value is not None and pressure.value >= lab.immune.max_pressure_kpa):
        return False
    return None if pressure.value is None else barrier.sterile


async def treat(lab: Lab, choice: RecycleChoice, cycle: int, verdict: Grade, drawn: Amount) -> None:
    """Execute a decision; what remains in the spent vessel beyond its residue is discarded."""
    targets, plan = lab.targets, choice.plan
    passes = lab.volumes()["spent"].passes
    dialysate = await lab.kidney.dialyse(plan.dialysate_ul) if plan.dialysate_ul > 0 else NOTHING
    min_ul = lab.kidney.discard.min_ul
    discarded = await lab.kidney.discard(plan.discard_ul) if plan.discard_ul >= min_ul else NOTHING
    fresh = await lab.gut.feed(plan.fresh_ul) if plan.fresh_ul > 0 else NOTHING
    glucose = await lab.liver.add_glucose(plan.glucose_ul) if plan.glucose_ul > 0 else NOTHING
    base = await lab.liver.add_base(plan.base_ul) if plan.base_ul > 0 else NOTHING
    volumes = lab.volumes()
    # As measured, not as planned: pumps err by some percent, the balance does not.
    give_ul = min(volumes["spent"].ul - targets.spent_ul, targets.loop_ul - volumes["loop"].ul)
    given = await lab.kidney.give_back(give_ul) if give_ul >= max(TRIFLE_UL, lab.kidney.give_back.min_ul) else NOTHING
    excess_ul = lab.volumes()["spent"].ul - targets.spent_ul
    excess = await lab.kidney.discard(excess_ul) if excess_ul >= max(2 * TRIFLE_UL, min_ul) else NOTHING
    moved = {
        "drawn_ul": drawn.ul,
        "dialysate_ul": dialysate.ul,
        "discarded_ul": discarded.ul + excess.ul,
        "fresh_ul": fresh.ul,
        "glucose_ul": glucose.ul,
        "base_ul": base.ul,
        "given_back_ul": given.ul,
    }
    await _note(lab, cycle, verdict, choice, {**moved, "passes": passes})


async def _note(lab: Lab, cycle: int, verdict: Grade, choice: RecycleChoice, moved: Mapping[str, float]) -> None:
    volumes = lab.volumes()
    await lab.note(
        "recycle",
        {
            "cycle": cycle,
            "grade": verdict.letter.value,
            "limiting": verdict.limiting,
            "action": choice.action,
            "fresh_share": choice.plan.fresh_share,
            "planned": choice.plan.to_json(),
            "decision": choice.decision,
            **moved,
            "loop_ul": volumes["loop"].ul,
            "spent_ul": volumes["spent"].ul,
        },
    )
