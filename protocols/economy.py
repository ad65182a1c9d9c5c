"""Choice of a batch's treatment: the cheapest that keeps the loop within its limits, with a stated probability.

Every treatment that the grade permits is calculated to its end: the content of the loop when the batch is back, and at
the next look, at the tissue's rate of lactate production. The chance constraint: no variable may then be beyond the
limit of grade B with a probability above `exceed`, by the estimate's own interval. Medium is therefore replaced at the
highest concentration that the uncertainty permits, where the mass balance needs least of it. Among the treatments that
meet this the lowest cost decides: consumables, and what risk is left, priced by the day of harm. Fresh medium is not all
lost: what it removes of lactate and ammonia need not be removed later, which is credited (:func:`_demand_ul`). All
candidates and their costs go into the journal with the decision. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from protocols.conditioning import BatchPlan, plan_batch
from protocols.dialysis import DialyserModel
from protocols.grading import Grade, Letter, RuleSet
from protocols.interval import K_BOUND, Interval
from protocols.mixing import MediumState, standard_ph
from protocols.prices import Prices
from protocols.soft_sensor import Composition
from protocols.targets import Targets

VERSION = "economy-3"

ACTIONS = ("rest", "return", "condition", "dilute", "dialyse", "discard")
SHARES = (0.03, 0.05, 0.07, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of the batch that may be replaced by fresh medium. Small ones of a large batch waste least: what stays in the
spent vessel is the diluted medium of the batch before, and lowers the concentration of what is discarded."""
DIALYSED_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
"""Shares that may be replaced after dialysis."""
DIALYSATES = (0.5, 1.0, 2.0, 3.0)
"""Volumes of dialysate relative to the batch."""
DRAWS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0)
"""Sizes of a batch relative to the largest."""
HALF = 0.5
"""Minimum share of a batch of grade C that is replaced or exchanged (biology.md §3.2)."""
DIALYSABLE = ("lactate_mm", "ammonia_mm", "glucose_share", "glucose_mm", "ph", "osmolality_change_pct")
"""Variables that a dialyser improves; not passes, insulin and particles."""
PRODUCTS = ("lactate_mm", "ammonia_mm")
"""What the tissue makes, and only renewal removes."""
ML = 1000.0


@dataclass(frozen=True, slots=True)
class TreatmentContext:
    """Everything independent of the batch: rules, prices, bottles, pumps, and the tissue's rate (µmol lactate a
    day).
    """

    rules: RuleSet
    prices: Prices
    targets: Targets
    media: Mapping[str, Composition]
    """`fresh`, `glucose`, `base`, and `basal` where the rig has a dialyser."""
    dialyser: DialyserModel | None
    min_dose_ul: float
    min_draw_ul: float
    """Smallest volume that can be drawn and given back."""
    lactate_umol_d: Interval
    look_d: float
    """Time until the next decision (days)."""
    exceed: float
    """Highest permitted probability (0..1) that a variable is beyond the limit of B at the next look."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One treatment: its volumes, its cost (EUR), and why it is not permitted (empty: it is)."""

    action: str
    draw_ul: float
    plan: BatchPlan
    costs: Mapping[str, float]
    risk: float
    """Probability that the loop is beyond an edge of B at the next look."""
    worst: str
    """The variable that most probably is."""
    chance: float
    """That probability of the worst variable alone, except for the pH, which the lung regulates."""
    credit: float = 0.0
    """Worth (EUR) of the fresh medium that is not needed later, as the tissue's products have left; at most that of the fresh
    medium used."""
    refused: str = ""
    still: str = ""
    """The variable by which the loop would still be of grade C or D afterwards."""

    @property
    def total(self) -> float:
        """Total cost (EUR), less the credit."""
        return sum(self.costs.values()) - self.credit

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the journal."""
        return {
            "action": self.action,
            "draw_ul": round(self.draw_ul, 1),
            "fresh_ul": round(self.plan.fresh_ul, 1),
            "dialysate_ul": round(self.plan.dialysate_ul, 1),
            "eur": round(self.total, 3),
            "costs": {name: round(cost, 3) for name, cost in self.costs.items() if cost},
            **({"credit": round(self.credit, 3)} if self.credit else {}),
            "risk": round(self.risk, 4),
            "worst": self.worst,
            "chance": round(self.chance, 4),
            **({"refused": self.refused} if self.refused else {}),
            **({"still": self.still} if self.still else {}),
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """The cheapest permitted candidate, and the best of every other kind."""

    chosen: Candidate
    others: tuple[Candidate, ...]
    examined: int

    @property
    def reason(self) -> str:
        """One line for people."""
        chosen = self.chosen
        text = f"{chosen.action}: {chosen.total:.2f} EUR, risk {chosen.risk:.1%} ({chosen.worst})"
        rest = [f"{other.action} {other.refused or f'{other.total:.2f} EUR{_but(other)}'}" for other in self.others]
        return f"{text}; {'; '.join(rest)}" if rest else text

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the journal."""
        return {
            "version": VERSION,
            "reason": self.reason,
            "chosen": self.chosen.to_json(),
            "others": [other.to_json() for other in self.others],
            "examined": self.examined,
        }


def _but(candidate: Candidate) -> str:
    return f" but the loop would still be bad by {candidate.still}" if candidate.still else ""


def treatment(
    bench: TreatmentContext, verdict: Grade, batch: MediumState, loop: MediumState, ph: float | None
) -> Decision:
    """Return the treatment of the `batch` in the spent vessel, graded `verdict`; `loop` is what remains in the
    loop.
    """
    return _decided(list(_treatments(bench, verdict, batch, loop, ph, drawn_ul=0.0)), bench.exceed)


def draw(
    bench: TreatmentContext,
    verdict: Grade,
    spent: MediumState,
    loop: MediumState,
    ph: float | None,
    *,
    max_ul: float,
    min_ul: float = 0.0,
) -> Decision:
    """Return how much to draw, including nothing: `verdict` is the grade of the loop, `spent` the spent vessel's
    content.
    """
    candidates: list[Candidate] = []
    if min_ul <= 0.0:
        risk = _risk(bench, loop)
        refused = "" if verdict.letter in (Letter.A, Letter.B) else f"grade {verdict.letter} has to be treated"
        costs = {"risk": risk.eur}
        candidates.append(Candidate("rest", 0.0, NOTHING, costs, risk.any, risk.worst, risk.chance, refused=refused))
    smallest_ul = min(max(min_ul, bench.min_draw_ul), max_ul)
    for draw_ul in sorted({max(share * max_ul, smallest_ul) for share in DRAWS}):
        batch = spent.poured(loop.taken(draw_ul))
        left = loop.taken(loop.ul - draw_ul)
        candidates += _treatments(bench, verdict, batch, left, ph, drawn_ul=draw_ul)
    return _decided(candidates, bench.exceed)


NOTHING = BatchPlan(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def _treatments(
    bench: TreatmentContext, verdict: Grade, batch: MediumState, loop: MediumState, ph: float | None, *, drawn_ul: float
) -> Iterator[Candidate]:
    """Yield every treatment of one batch."""
    if verdict.letter is Letter.D:
        yield _candidate(bench, "discard", verdict, batch, loop, ph, 1.0, 0.0, drawn_ul, conditioned=False)
        return
    yield _candidate(bench, "return", verdict, batch, loop, ph, 0.0, 0.0, drawn_ul, conditioned=False)
    yield _candidate(bench, "condition", verdict, batch, loop, ph, 0.0, 0.0, drawn_ul)
    for share in SHARES:
        yield _candidate(bench, "dilute", verdict, batch, loop, ph, share, 0.0, drawn_ul)
    if bench.dialyser is not None:
        for volumes in DIALYSATES:
            dialysate_ul = volumes * batch.ul
            if dialysate_ul >= bench.dialyser.min_ul:
                for share in DIALYSED_SHARES:
                    yield _candidate(bench, "dialyse", verdict, batch, loop, ph, share, dialysate_ul, drawn_ul)
    yield _candidate(bench, "discard", verdict, batch, loop, ph, 1.0, 0.0, drawn_ul, conditioned=False)


def _candidate(
    bench: TreatmentContext,
    action: str,
    verdict: Grade,
    batch: MediumState,
    loop: MediumState,
    ph: float | None,
    share: float,
    dialysate_ul: float,
    drawn_ul: float,
    *,
    conditioned: bool = True,
) -> Candidate:
    media, prices, exchanged = bench.media, bench.prices, 0.0
    treated = batch
    if dialysate_ul > 0.0 and bench.dialyser is not None:
        exchanged = bench.dialyser.exchanged(dialysate_ul, batch.ul)
        treated = batch.nearer(MediumState.stock(dialysate_ul, media["basal"]), exchanged, ul=batch.ul, small=True)
        treated = replace(treated, insulin=batch.insulin * (1.0 - bench.dialyser.leaked(dialysate_ul, batch.ul)))
        # Dialysate brings its own bicarbonate; the probe's earlier value no longer applies.
        ph = None if ph is None else standard_ph(treated.bicarbonate_mm.value)
    plan = plan_batch(
        share,
        treated,
        ph,
        conditioned=conditioned,
        emptied=action == "discard",
        spent_ul=batch.ul,
        loop=loop,
        targets=bench.targets,
        min_dose_ul=bench.min_dose_ul,
        dialysate_ul=dialysate_ul,
    )
    held = treated.taken(batch.ul - plan.discard_ul)
    for name, ul in (("fresh", plan.fresh_ul), ("glucose", plan.glucose_ul), ("base", plan.base_ul)):
        held = held.poured(MediumState.stock(ul, media[name], complete=name == "fresh"))
    used = replace(held, passes=held.passes + (held.ul - plan.fresh_ul) / held.ul if held.ul > 0 else 0.0)
    after = loop.poured(used.taken(plan.give_back_ul))
    risk = _risk(bench, after)
    costs = {
        "fresh": prices.fresh_eur_ml * plan.fresh_ul / ML,
        "stocks": (prices.glucose_eur_ml * plan.glucose_ul + prices.base_eur_ml * plan.base_ul) / ML,
        "dialysis": (prices.basal_eur_ml + prices.dialyser_eur / prices.dialyser_life_ml) * dialysate_ul / ML,
        "filter": prices.filter_eur / prices.filter_life_ml * plan.give_back_ul / ML,
        "waste": prices.waste_eur_ml * (plan.discard_ul + dialysate_ul) / ML,
        "risk": risk.eur,
    }
    refused = _refused(bench, action, verdict, share, exchanged, held)
    removed_ul = _demand_ul(bench, batch) + _demand_ul(bench, loop)
    removed_ul -= _demand_ul(bench, used.taken(held.ul - plan.give_back_ul)) + _demand_ul(bench, after)
    given_ul = plan.fresh_ul + plan.glucose_ul + plan.base_ul
    of_fresh = plan.fresh_ul / given_ul if given_ul > 0.0 else 0.0
    credit = min(max(_renewal_eur_ml(bench) * of_fresh * removed_ul / ML, 0.0), costs["fresh"])
    bad = _bad(bench, after)
    return Candidate(action, drawn_ul, plan, costs, risk.any, risk.worst, risk.chance, credit, refused, bad)


def _demand_ul(bench: TreatmentContext, body: MediumState) -> float:
    """Return the fresh medium (µL) that removes the tissue's products in `body` at the limit of grade B.

    This is the mass balance. Medium that is discarded below the limit takes less with it than its volume.
    """
    shares = [0.0]
    for name in PRODUCTS:
        rule = bench.rules.rule(name)
        if rule is not None and rule.sense == "high":
            shares.append(getattr(body, name).value / rule.edges[1])
    return body.ul * max(shares)


def _renewal_eur_ml(bench: TreatmentContext) -> float:
    """Return what the cheapest renewal of a volume of medium costs: fresh medium, or dialysis."""
    prices, dialyser = bench.prices, bench.dialyser
    if dialyser is None:
        return prices.fresh_eur_ml
    dialysate_eur_ml = prices.basal_eur_ml + prices.waste_eur_ml + prices.dialyser_eur / prices.dialyser_life_ml
    dialysed = (dialysate_eur_ml * volumes / dialyser.exchanged(volumes, 1.0) for volumes in DIALYSATES)
    return min(prices.fresh_eur_ml, *dialysed)


def _refused(
    bench: TreatmentContext, action: str, verdict: Grade, share: float, exchanged: float, held: MediumState
) -> str:
    """Return why the grade does not permit this, or an empty text; `held` is what would be returned."""
    letter = verdict.letter
    if action == "discard":
        return ""
    if letter is Letter.D:
        return "grade D is discarded"
    if letter is Letter.B and action == "return":
        return "grade B is conditioned first"
    if letter is Letter.C and not _half_replaced(verdict, share, exchanged):
        return "of grade C at least half is replaced"
    if letter is not Letter.A and (bad := _bad(bench, held)):
        return f"would still be bad by {bad}"
    return ""


def _half_replaced(verdict: Grade, share: float, exchanged: float) -> bool:
    """Return whether at least half of a batch of grade C is replaced.

    `exchanged`, the share that dialysis exchanges (0..1), counts only if dialysis removes every cause of the grade.
    """
    causes = [finding.variable for finding in verdict.findings if finding.letter is Letter.C]
    improved = exchanged if all(cause in DIALYSABLE for cause in causes) else 0.0
    return max(share, improved) >= HALF - 1e-9


def _bad(bench: TreatmentContext, body: MediumState) -> str:
    """Return the first variable by which a medium would be of grade C or D; empty if it is better."""
    for name, interval in body.variables(bench.targets).items():
        rule = bench.rules.rule(name)
        # The lung sets the pH; the batch's pH is that of its probe and is part of the verdict already.
        if rule is not None and name != "ph" and rule.judged(interval)[0] in (Letter.C, Letter.D):
            return name
    return ""


def _decided(candidates: Sequence[Candidate], exceed: float) -> Decision:
    """Return the decision for the lowest cost; among equals for the first candidate, so that it is deterministic.

    Medium of grade C is not left in the loop while another treatment improves it: a small batch, half replaced,
    would suffice for its own grade and leave the tissue in bad medium permanently. Where nothing improves it at
    once, the largest possible batch is treated, and the next cycle continues from there.
    """
    eligible = _eligible([candidate for candidate in candidates if not candidate.refused], exceed)
    chosen = min(eligible, key=lambda candidate: candidate.total)
    return Decision(chosen, tuple(_alternatives(candidates, chosen)), len(candidates))


def _eligible(permitted: Sequence[Candidate], exceed: float) -> Sequence[Candidate]:
    """Return the candidates that keep the loop within the limits with the stated probability.

    Where none does, those that bring it nearest; where none gets it out of grade C, those that treat the largest batch.
    """
    improving = [candidate for candidate in permitted if not candidate.still]
    if improving:
        least = max(exceed, min(candidate.chance for candidate in improving))
        return [candidate for candidate in improving if candidate.chance <= least]
    max_ul = max(candidate.draw_ul for candidate in permitted)
    return [candidate for candidate in permitted if candidate.draw_ul == max_ul]


def _alternatives(candidates: Sequence[Candidate], chosen: Candidate) -> Iterator[Candidate]:
    """Return the best candidate of each action other than the chosen one, in the order of the actions."""
    for action in ACTIONS:
        same = [each for each in candidates if each.action == action and action != chosen.action]
        if same:
            yield min(same, key=lambda each: (bool(each.refused), bool(each.still), each.total))


@dataclass(frozen=True, slots=True)
class _Risk:
    """Holds the probability that any variable is beyond grade B at the next look, the worst variable with its probability,
    and the price (EUR).
    """

    any: float
    worst: str
    chance: float
    eur: float


def _risk(bench: TreatmentContext, loop: MediumState) -> _Risk:
    """Return the risk at the next look, at most the horizon ahead."""
    prices = bench.prices
    ahead_d = min(bench.look_d, prices.horizon_d)
    then = loop.later(bench.lactate_umol_d.scaled(ahead_d))
    chances: dict[str, float] = {}
    spared_b = spared_c = 1.0
    for name, interval in then.variables(bench.targets).items():
        rule = bench.rules.rule(name)
        if rule is None:
            continue
        _, b, c = (beyond(interval, rule.sense, edge) for edge in rule.edges)
        chances[name] = b
        spared_b *= 1.0 - b
        spared_c *= 1.0 - c
    worst = max(chances, key=lambda name: chances[name]) if chances else "none"
    chance = max((each for name, each in chances.items() if name != "ph"), default=0.0)
    eur = ((1.0 - spared_b) * prices.harm_b_eur_d + (1.0 - spared_c) * prices.harm_c_eur_d) * ahead_d
    return _Risk(1.0 - spared_b, worst, chance, eur)


def beyond(interval: Interval, sense: str, edge: Any) -> float:
    """Return the probability (0..1) that the value is on the bad side of an edge; each half of the interval is half
    a normal.
    """
    if sense == "band":
        low, high = edge
        return min(1.0, beyond(interval, "low", low) + beyond(interval, "high", high))
    distance = interval.value - edge if sense == "high" else edge - interval.value
    # The half of the interval on the side of the edge.
    towards_high = (sense == "high") == (distance <= 0)
    sd = (interval.high - interval.value if towards_high else interval.value - interval.low) / K_BOUND
    if sd <= 0.0:
        return 1.0 if distance > 0.0 else 0.0
    return 0.5 * math.erfc(-distance / (sd * math.sqrt(2.0)))
