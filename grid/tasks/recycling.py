"""Keep organoids healthy on the simulated plant with as little fresh medium as possible.

Every eight hours a batch is drawn from the loop, as recycling does. The agent proposes its volume, how much of it is
replaced by fresh medium, and the doses of glucose and bicarbonate stock. Proposals are bounded by the parameters of
the recipe `recycle` and by floor and ceiling of the vessels; what is beyond a bound is cut to it, and counted. An
ideal hand pumps (no devices fail here). The tissue of a seed works up to three times as hard as that of another, so
that no fixed plan is good for all.

The score is the lowest viability of the episode, less the fresh medium used as a share of what replacing whole
batches would use, times `fresh_weight`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from choroid.common.examples import bench_rig
from controller.hazards.loading import load_checked_rig
from controller.rig.description import Rig, required
from controller.rig.probes import temperature_target_c
from grid.tasks.task import BoardTask, Episode, Params, Policy, Scored, Values, array, received
from protocols.recycle import PARAMS
from sim.plant.plant import Plant

CYCLE_S = 8 * 3600.0
GAS_EVERY_S = 600.0
LOOK_EVERY_S = 3600.0
MIN_DOSE_UL = 500.0
MAX_STOCK_UL = 2000.0
"""Most of a stock in one cycle (µL)."""
BATCH = next(each for each in PARAMS if each.name == "batch")
ASSAY_SD = 0.03
"""Standard deviation of an assay as a share of its value."""
WORK_SPREAD = (3.0, 9.0)
"""Range of the tissue's activity, relative to that of the rig file."""
OBSERVED = ("lactate", "ammonia", "glucose", "osmoles")
SCALES = (20.0, 2.0, 20.0, 300.0)
"""Values (mM, mM, mM, mOsm/kg) by which observations are divided."""


@lru_cache(maxsize=1)
def _rig() -> Rig:
    return load_checked_rig(bench_rig())


class IdealHand:
    """The plant of the bench rig, pumped without errors, in its own time."""

    def __init__(self, seed: int) -> None:
        self.now_s = 0.0
        self.rig = _rig()
        self.plant = Plant(self.rig, seed=seed % 2**31, now=lambda: self.now_s)
        self.plant.fleet.spaces["ambient_c"][0] = temperature_target_c(self.rig)
        rng = np.random.default_rng([seed, 0x4EC])
        self.plant.fleet.tissues["count"][0] *= math.exp(rng.uniform(*np.log(WORK_SPREAD)))
        self.plant.fleet.settle()
        self.kidney = required(self.rig.organs.kidney, "organs.kidney")
        self.gut = required(self.rig.organs.gut, "organs.gut")
        self.liver = required(self.rig.organs.liver, "organs.liver")
        self.loop = required(self.rig.loop, "a loop")
        self._co2_pct = 5.0
        for heart in self.rig.organs.hearts.values():
            self.plant.set_pump(self.rig.lines[heart.line].pump or "", heart.flow_ul_min)

    def wait(self, seconds: float) -> list[float]:
        """Let time pass with regulated gas; return the viability of each hour."""
        seen: list[float] = []
        end_s = self.now_s + seconds
        while self.now_s < end_s - 1e-6:
            self._breathe()
            self.now_s = min(self.now_s + GAS_EVERY_S, end_s)
            self.plant.advance()
            if round(self.now_s) % round(LOOK_EVERY_S) < GAS_EVERY_S:
                seen.append(self.plant.health)
        return seen

    def move(self, line: str, ul: float, flow_ul_min: float) -> None:
        """Pump a volume along a line."""
        if ul < MIN_DOSE_UL:
            return
        described = self.rig.lines[line]
        if described.valve is not None:
            self.plant.set_switch(described.valve, True)
        self.plant.set_pump(described.pump or "", flow_ul_min)
        self.now_s += ul / flow_ul_min * 60.0
        self.plant.set_pump(described.pump or "", 0.0)
        if described.valve is not None:
            self.plant.set_switch(described.valve, False)

    def volume_ul(self, vessel: str) -> float:
        """Return the true volume of a vessel."""
        return self.plant.truth().volumes_ul[vessel]

    def contents(self) -> dict[str, float]:
        """Return the true concentrations in the loop, with its pH."""
        truth = self.plant.truth()
        return truth.concentrations[self.loop] | {"ph": truth.ph[self.loop]}

    def _breathe(self) -> None:
        """Hold the pH of the loop by CO2, as the lung's regulator does."""
        lung = required(self.rig.organs.lung, "organs.lung")
        error = self.contents()["ph"] - lung.ph_setpoint
        self._co2_pct = min(lung.co2_max_pct, max(lung.co2_min_pct, self._co2_pct * 10.0 ** (0.5 * error)))
        co2 = round(lung.total_ml_min * self._co2_pct / 100.0, 2)
        self.plant.set_gas(lung.co2, co2)
        self.plant.set_gas(lung.air, round(lung.total_ml_min - co2, 2))


def bounded(hand: IdealHand, proposal: NDArray[np.float64]) -> dict[str, float]:
    """Return the volumes (µL) of a proposal (mL) after the limits, with `cut`, the volume that they took off."""
    asked = np.maximum(proposal, 0.0) * 1000.0
    spare_ul = hand.volume_ul(hand.loop) - hand.rig.vessels[hand.loop].floor_ul
    room_ul = hand.rig.vessels[hand.kidney.vessel].limit_ul - hand.volume_ul(hand.kidney.vessel)
    glucose, base = min(asked[2], MAX_STOCK_UL), min(asked[3], MAX_STOCK_UL)
    batch = min(asked[0], BATCH.high, spare_ul, room_ul - MAX_STOCK_UL)
    batch = batch if batch >= BATCH.low else 0.0
    fresh = min(asked[1], max(batch - glucose - base, 0.0))
    volumes = {"batch": batch, "fresh": fresh, "glucose": glucose, "base": base}
    if not batch:
        volumes |= {"glucose": 0.0, "base": 0.0}
    return volumes | {"cut": float(np.sum(asked)) - sum(volumes.values())}


def treat(hand: IdealHand, volumes: Mapping[str, float]) -> None:
    """Draw a batch, replace a part of it, and give it back; neutral in volume."""
    if not volumes["batch"]:
        return
    kidney, gut, liver = hand.kidney, hand.gut, hand.liver
    hand.move(kidney.draw, volumes["batch"], kidney.flow_ul_min)
    doses = [volumes[name] if volumes[name] >= MIN_DOSE_UL else 0.0 for name in ("fresh", "glucose", "base")]
    hand.move(kidney.discard, sum(doses), kidney.flow_ul_min)
    hand.move(gut.feed, doses[0], gut.flow_ul_min)
    hand.move(liver.glucose or "", doses[1], liver.flow_ul_min)
    hand.move(liver.base or "", doses[2], liver.flow_ul_min)
    rest_ul = hand.rig.vessels[kidney.vessel].volume_ul
    hand.move(kidney.return_, hand.volume_ul(kidney.vessel) - rest_ul, kidney.flow_ul_min)  # whatever the pumps' errors


def _episode(seed: int, control: str | None, params: Params) -> Episode:
    hand = IdealHand(seed)
    rng = np.random.default_rng([seed, 0xA55])
    cycles = round(params["days"] * 86_400.0 / CYCLE_S)
    viability: list[float] = []
    fresh_ul = cut_ul = 0.0
    last = np.zeros(4)
    seen: list[NDArray[np.float32]] = []
    for cycle in range(cycles):
        begun_s = hand.now_s
        observed = _observed(hand, rng, last, cycle / cycles)
        seen.append(observed)
        action = yield {"state": _controlled(seen, control, rng)}
        volumes = bounded(hand, received(action, "proposal_ml", (4,)))
        treat(hand, volumes)
        fresh_ul += volumes["fresh"]
        cut_ul += volumes["cut"]
        last = np.array([volumes[name] for name in ("batch", "fresh", "glucose", "base")])
        viability += hand.wait(max(CYCLE_S - (hand.now_s - begun_s), GAS_EVERY_S))
    share = fresh_ul / (cycles * BATCH.default)
    figures = {"viability": min(viability), "fresh_ml": fresh_ul / 1000.0, "cut_ml": cut_ul / 1000.0}
    return Scored(min(viability) - params["fresh_weight"] * share, figures)


def _observed(hand: IdealHand, rng: np.random.Generator, last: NDArray[np.float64], done: float) -> NDArray[np.float32]:
    """Return assays of the loop, its pH, the last volumes (shares of a batch) and the share of the episode that is over."""
    contents = hand.contents()
    assays = [
        contents[name] / scale * (1.0 + ASSAY_SD * rng.normal()) for name, scale in zip(OBSERVED, SCALES, strict=True)
    ]
    return array([*assays, contents["ph"] - 7.4 + 0.02 * rng.normal(), *(last / BATCH.default), done])


def _controlled(seen: list[NDArray[np.float32]], control: str | None, rng: np.random.Generator) -> NDArray[np.float32]:
    if control == "zero":
        return np.zeros_like(seen[-1])
    if control == "shuffled":
        return seen[int(rng.integers(len(seen)))][rng.permutation(len(seen[-1]))]
    return seen[-1]


def _fixed(batch_ml: float, fresh_ml: float, glucose_ml: float = 0.0, base_ml: float = 0.0) -> Policy:
    proposal = array([batch_ml, fresh_ml, glucose_ml, base_ml])
    return lambda _: {"proposal_ml": proposal}


def _by_lactate(observation: Values) -> Values:
    """Replace as much as the excess of lactate and ammonia asks for; add glucose and base when they are low."""
    lactate, ammonia, glucose, osmolality = observation["state"][:4] * np.array(SCALES)
    excess = max(lactate - 8.0, 0.0) / 8.0 + max(ammonia - 0.8, 0.0) / 0.8
    sweet = 1.5 if glucose < 10.0 and osmolality < 320.0 else 0.0
    base = 1.0 if observation["state"][4] < -0.1 and osmolality < 320.0 else 0.0
    return {"proposal_ml": array([18.0, min(18.0 * excess, 18.0 - sweet - base), sweet, base])}


RECYCLING = BoardTask(
    "recycle-medium",
    _episode,
    ("zero", "shuffled"),
    {
        "nothing": lambda seed, params: _fixed(0.0, 0.0),
        "half-exchange": lambda seed, params: _fixed(18.0, 9.0),
        "full-exchange": lambda seed, params: _fixed(18.0, 18.0),
        "by-lactate": lambda seed, params: _by_lactate,
    },
)
