"""`python -m tests.protocols.plant_only 60 [TISSUE [BOTTLE_D]]`: sixty days of recycling and of exchange, on the plant alone.

The recycler's own pure decisions (draw, grade, treatment, plan) act on the plant's vessels directly; no wires, controller
or estimator: what it believes is the truth with bounds of a given width. Sixty days take some twenty seconds, so prices and
rules can be tried; what the whole stack makes of them is for `choroid verify comparison`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from controller.rig.description import required
from controller.rig.grading import read_grading
from controller.rig.loading import load_rig
from controller.rig.rules import Grading
from controller.runs.facts import RigTargets
from controller.runs.grading import prices_of, rule_set, rules_of
from controller.transfers.routes import routes_of
from protocols import economy
from protocols.dialysis import DialyserModel, koa_at
from protocols.grading import Grade, RuleSet, Sample, grade
from protocols.interval import Interval
from protocols.mixing import MediumState
from sim.plant.columns import Content, TallyCause
from sim.plant.dialysis import INSULIN_KOA, SMALL, exchange_share
from sim.plant.fleet import Fleet
from sim.plant.parameters import PlantParameters
from sim.plant.tissue_models import MODELS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RIGS = EXAMPLES / "rigs"
SENSITIVE = EXAMPLES / "grading" / "sensitive.yaml"
LOOK_H = 8
EXCEED = 0.02
STEP_S = 20.0
BATCH_UL = 18_000.0
EXCHANGED_UL = 20_000.0
BOTTLE_D = 14.0
"""The usual limit of use of complete medium at 4 °C (:mod:`protocols.medium_ageing`)."""
DISSOLVED_CO2_MM = 1.1
PH = 7.35

Row = NDArray[np.float64]


@dataclass(slots=True)
class Story:
    """What came of it: mL used, the tissue, how bad the loop became, what was chosen."""

    fresh_ml: float = 0.0
    stocks_ml: float = 0.0
    dialysate_ml: float = 0.0
    viability: list[float] = field(default_factory=list)
    lactate_mm: float = 0.0
    ammonia_mm: float = 0.0
    insulin: float = 1.0
    passes: float = 0.0
    actions: dict[str, int] = field(default_factory=dict)

    @property
    def mean_viability(self) -> float:
        """Over the whole time."""
        return float(np.mean(self.viability))


class Culture:
    """One rig's plant, warm, under 5 % CO2, its heart beating."""

    def __init__(
        self,
        name: str,
        *,
        lactate_sd: float,
        ammonia_rel_sd: float,
        tissue: str,
        rules: RuleSet | None,
        bottle_d: float,
    ) -> None:
        """`bottle_d`: days after which a new bottle of each medium is put in, however much is left in the last."""
        self._new_bottle_d = bottle_d
        self.rig = load_rig(RIGS / f"{name}.yaml")
        self.story = Story()
        self._sd = (lactate_sd, ammonia_rel_sd)
        self._rules = rules or rules_of(self.rig)
        self.fleet = Fleet(self.rig, [1], parameters=PlantParameters(tissue=MODELS[tissue]))
        space = self.fleet.spaces[0, 0]
        space["co2_fraction"], space["o2_fraction"], space["temperature_c"], space["ambient_c"] = 0.05, 0.19, 37.0, 37.0
        heart = self.rig.lines[self.rig.organs.hearts["heart"].line].pump or ""
        self.fleet.lines["command_ul_min"][0, self.fleet.pumps[heart]] = self.rig.organs.hearts["heart"].flow_ul_min
        names = self.fleet.vessel_names
        self.loop: Row = self.fleet.vessels[0, names.index("loop")]
        self.spent: Row = self.fleet.vessels[0, names.index("spent")]
        self._tissue = self.fleet.tissues[0, 0]
        self._passes = [0.0, 0.0]
        self._made = 0.0
        self.rate_umol_d = 30.0
        self._bottle_d = 0.0

    def live(self) -> None:
        """Until the next look."""
        self.fleet.advance(STEP_S, round(LOOK_H * 3600 / STEP_S))
        self._bottle_d += LOOK_H / 24
        if self._bottle_d >= self._new_bottle_d:
            self._bottle_d = 0.0
            for number, vessel in enumerate(self.rig.vessels.values()):
                if vessel.kind == "source":
                    self.fleet.vessels[0, number] = self.fleet.composition(vessel.contains) * vessel.volume_ul
        made = float(self.fleet.tally[0, TallyCause.METABOLISM, Content.LACTATE])
        self.rate_umol_d = (made - self._made) / 1000.0 * 24 / LOOK_H
        self._made = made
        story, loop = self.story, self.loop / self.loop[Content.LIQUID]
        story.viability.append(float(self._tissue["viability"]))
        story.lactate_mm, story.ammonia_mm = (
            max(story.lactate_mm, loop[Content.LACTATE]),
            max(story.ammonia_mm, loop[Content.AMMONIA]),
        )
        story.insulin, story.passes = min(story.insulin, loop[Content.INSULIN]), max(story.passes, self._passes[0])

    def exchange(self) -> None:
        """What labs do: throw a volume away, give as much fresh."""
        self.loop *= 1.0 - EXCHANGED_UL / self.loop[Content.LIQUID]
        wanted_ul = RigTargets(self.rig).loop_ul - self.loop[Content.LIQUID]
        self.loop += self._bottle("fresh", wanted_ul)
        self.story.fresh_ml += wanted_ul / 1000.0

    def recycle(self) -> None:
        """One look of the recycler."""
        bench = self._bench()
        loop = self._believed(self.loop, 0)
        decision = economy.draw(
            bench, self._grade(bench, loop), self._believed(self.spent, 1), loop, PH, max_ul=BATCH_UL
        )
        action = decision.chosen.action
        if action != "rest":
            self._pour(self.loop, self.spent, decision.chosen.draw_ul, 0, 1)
            batch = self._believed(self.spent, 1)
            verdict = self._grade(bench, batch)
            chosen = economy.treatment(bench, verdict, batch, self._believed(self.loop, 0), PH).chosen
            action, plan = chosen.action, chosen.plan
            self._dialyse(plan.dialysate_ul)
            self.spent *= 1.0 - plan.discard_ul / self.spent[Content.LIQUID]
            for name, ul in (("fresh", plan.fresh_ul), ("glucose", plan.glucose_ul), ("base", plan.base_ul)):
                self._passes[1] *= self.spent[Content.LIQUID] / (self.spent[Content.LIQUID] + ul)
                self.spent += self._bottle(name, ul)
            self._passes[1] += 1.0 - plan.fresh_ul / self.spent[Content.LIQUID]
            self._pour(self.spent, self.loop, plan.give_back_ul, 1, 0)
            self.story.fresh_ml += plan.fresh_ul / 1000.0
            self.story.stocks_ml += (plan.glucose_ul + plan.base_ul) / 1000.0
        self.story.actions[action] = self.story.actions.get(action, 0) + 1

    # --- inside -----------------------------------------------------------------------------------------

    def _bench(self) -> economy.TreatmentContext:
        rig, targets, dialyser = self.rig, RigTargets(self.rig), None
        if rig.organs.kidney is not None and rig.organs.kidney.dialyse is not None:
            route = routes_of(rig)["kidney.dialyse"]
            dialyser = DialyserModel(self._koa_ul_min(), route.flow_ul_min, route.min_ul)
        min_ul = routes_of(rig)["gut.feed"].min_ul
        return economy.TreatmentContext(
            self._rules,
            prices_of(rig),
            targets,
            targets.media,
            dialyser,
            min_ul,
            min_ul,
            Interval.exact(self.rate_umol_d),
            LOOK_H / 24,
            EXCEED,
        )

    def _believed(self, row: Row, number: int) -> MediumState:
        held = (row / row[Content.LIQUID]).tolist()
        lactate_sd, ammonia_rel_sd = self._sd

        def about(value: float, sd: float) -> Interval:
            return Interval.around(value, sd, floor=0.0)

        return MediumState(
            float(row[Content.LIQUID]),
            about(held[Content.LACTATE], lactate_sd),
            about(held[Content.AMMONIA], ammonia_rel_sd * held[Content.AMMONIA]),
            about(held[Content.GLUCOSE], 0.5),
            about(held[Content.CARBON] - DISSOLVED_CO2_MM, lactate_sd),
            about(held[Content.OSMOLES], 2.0),
            self._passes[number],
            min(1.0, held[Content.INSULIN]),
        )

    def _grade(self, bench: economy.TreatmentContext, body: MediumState) -> Grade:
        seen = body.variables(bench.targets) | {"ph": Interval.around(PH, 0.02), "oxygen_pct": Interval.exact(90.0)}
        return grade(Sample(**seen, sterile=True), bench.rules)  # type: ignore[arg-type]

    def _bottle(self, name: str, ul: float) -> Row:
        line = {
            "fresh": required(self.rig.organs.gut, "organs.gut").feed,
            "glucose": required(self.rig.organs.liver, "organs.liver").glucose,
        }
        of = line.get(name, required(self.rig.organs.liver, "organs.liver").base)
        held: Row = self.fleet.vessels[0, self.fleet.vessel_names.index(self.rig.lines[of].from_)]
        poured: Row = held * (ul / held[Content.LIQUID])
        return poured

    def _pour(self, source: Row, target: Row, ul: float, source_number: int, number: int) -> None:
        row = source * (ul / source[Content.LIQUID])
        source -= row
        target += row
        self._passes[number] += (self._passes[source_number] - self._passes[number]) * ul / target[Content.LIQUID]

    def _koa_ul_min(self) -> float:
        """At the flow at which this rig dialyses."""
        kidney = required(self.rig.organs.kidney, "organs.kidney")
        fibres = self.rig.dialysers[self.rig.lines[kidney.dialyse or ""].dialyser or ""]
        return koa_at(kidney.dialysate_ul_min, fibres.koa_ul_min, fibres.koa_at_ul_min)

    def _dialyse(self, ul: float) -> None:
        if ul <= 0.0:
            return
        kidney = required(self.rig.organs.kidney, "organs.kidney")
        line = self.rig.lines[kidney.dialyse or ""]
        koa = self._koa_ul_min()
        basal = self.fleet.composition(self.rig.vessels[line.from_].contains)
        share = exchange_share(koa, kidney.dialysate_ul_min, ul, self.spent[Content.LIQUID])
        for column in SMALL:
            self.spent[column] += (basal[column] * self.spent[Content.LIQUID] - self.spent[column]) * share
        self.spent[Content.INSULIN] *= 1.0 - exchange_share(
            INSULIN_KOA * koa, kidney.dialysate_ul_min, ul, self.spent[Content.LIQUID]
        )
        self.story.dialysate_ml += ul / 1000.0


def told(
    name: str,
    *,
    days: int,
    recycling: bool = True,
    lactate_sd: float = 0.5,
    ammonia_rel_sd: float = 0.15,
    tissue: str = "reference",
    rules: RuleSet | None = None,
    bottle_d: float = BOTTLE_D,
) -> Story:
    """The story of a culture of one kind of `tissue` on the example rig `name`, by its own grading or by other `rules`."""
    culture = Culture(
        name, lactate_sd=lactate_sd, ammonia_rel_sd=ammonia_rel_sd, tissue=tissue, rules=rules, bottle_d=bottle_d
    )  # fmt: skip
    for look in range(days * 24 // LOOK_H):
        if recycling:
            culture.recycle()
        elif look % (24 // LOOK_H) == 0:
            culture.exchange()
        culture.live()
    return culture.story


def sensitive() -> RuleSet:
    """The rules of the example for tissue that chronic lactate and ammonia harm."""
    return rule_set(Grading.model_validate(read_grading(SENSITIVE)))


def main(days: int = 60, tissue: str = "reference", bottle_d: str = str(BOTTLE_D)) -> None:
    """Print the tables of docs/recycling.md."""
    reference = told("bench", days=days, recycling=False, tissue=tissue, bottle_d=float(bottle_d))
    arms = {"exchange": reference}
    for sd in (0.3, 0.6, 1.0):
        arms[f"recycle, lactate ± {sd} mM"] = told(
            "bench", days=days, lactate_sd=sd, tissue=tissue, bottle_d=float(bottle_d)
        )
        arms[f"recycle with dialyser, ± {sd} mM"] = told(
            "bench_dialysis", days=days, lactate_sd=sd, tissue=tissue, bottle_d=float(bottle_d)
        )
    for name, rig in (("recycle", "bench"), ("with dialyser", "bench_dialysis")):
        arms[f"{name}, sensitive, ± 0.3 mM"] = told(
            rig, days=days, lactate_sd=0.3, tissue=tissue, bottle_d=float(bottle_d), rules=sensitive()
        )
    print(f"{days} days{'':<26}fresh mL  share  stocks  dialysate  lactate  ammonia  insulin  passes  viability")
    for name, story in arms.items():
        print(
            f"{name:<34}{story.fresh_ml:>7.0f}{story.fresh_ml / reference.fresh_ml:>7.0%}{story.stocks_ml:>8.0f}"
            f"{story.dialysate_ml:>11.0f}{story.lactate_mm:>9.2f}{story.ammonia_mm:>9.2f}{story.insulin:>9.2f}"
            f"{story.passes:>8.1f}{story.mean_viability:>11.4f}   {story.actions}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
