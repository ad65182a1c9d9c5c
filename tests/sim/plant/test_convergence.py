"""The plant's steps against a general solver at tight tolerance, on one day of a whole rig."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from controller.rig.loading import load_rig
from sim.plant import gas
from sim.plant.columns import SPECIES
from sim.plant.fleet import Fleet
from tests.sim.plant.reference import Reference

BENCH = load_rig(Path(__file__).resolve().parents[3] / "examples" / "rigs" / "bench.yaml")
HOUR = 3600.0
AT_REST = ("age", "ammonia", "trophic", "ldh", "glutamine", "insulin")
"""What changes in medium at rest, which ages in steps of its own, ten minutes long."""
DAY_PLAN: list[tuple[float, str, float]] = [
    (0.0, "heart", 2000.0), (0.0, "heater", 7.15), (0.0, "co2", 3.5),
    (2 * HOUR, "draw", 4000.0), (2 * HOUR + 240, "draw", 0.0),
    (2 * HOUR + 480, "feed", 10_000.0), (2 * HOUR + 512, "feed", 0.0),
    (2 * HOUR + 1024, "return", 4000.0), (2 * HOUR + 1280, "return", 0.0),
    (6 * HOUR, "heater", 6.9), (9 * HOUR, "co2", 2.5),
    (14 * HOUR, "draw", 4000.0), (14 * HOUR + 240, "draw", 0.0),
    (14 * HOUR + 480, "base", 2000.0), (14 * HOUR + 512, "base", 0.0),
    (14 * HOUR + 512, "discard", 4000.0), (14 * HOUR + 576, "discard", 0.0),
    (15 * HOUR, "return", 4000.0), (15 * HOUR + 192, "return", 0.0),
    (20 * HOUR, "heart", 1200.0), (24 * HOUR, "end", 0.0),
]  # fmt: skip
"""A day of life: transfers both ways, doses, another temperature, another gas, a slower heart."""


def command(fleet: Fleet, what: str, value: float) -> None:
    if what == "heater":
        fleet.spaces["heater_w"] = value
    elif what == "co2":
        fractions = gas.mixed(46.5, value, 0.0)
        assert fractions
        fleet.spaces["o2_fraction"], fleet.spaces["co2_fraction"] = fractions
    elif what != "end":
        fleet.lines["command_ul_min"][:, fleet.line_names.index(what)] = value


def stepped(dt_s: float) -> NDArray[np.float64]:
    fleet = Fleet(BENCH, [1])
    fleet.lines["open"] = 1.0
    at_s = 0.0
    for until_s, what, value in DAY_PLAN:
        if until_s > at_s:
            fleet.advance(dt_s, round((until_s - at_s) / dt_s))
            at_s = until_s
        command(fleet, what, value)
    return Reference(fleet).pack()


def solved(method: str, until: float) -> tuple[Reference, NDArray[np.float64]]:
    fleet = Fleet(BENCH, [1])
    fleet.lines["open"] = 1.0
    reference = Reference(fleet)
    y, at_s = reference.pack(), 0.0
    for until_s, what, value in DAY_PLAN:
        if at_s >= until:
            break
        if until_s > at_s:
            end_s = min(until_s, until)
            found = solve_ivp(reference.rates, (at_s, end_s), y, method=method, rtol=1e-9, atol=1e-7)
            assert found.success, found.message
            y, at_s = found.y[:, -1], end_s
        command(fleet, what, value)
    return reference, y


def errors(reference: Reference, y: NDArray[np.float64], exact: NDArray[np.float64]) -> dict[str, float]:
    """Largest relative error of each species over vessels (against its largest concentration), and of the body."""
    vessels, true_vessels = reference.split(y)[0], reference.split(exact)[0]
    names = reference.fleet.vessel_names
    wet = [names.index(name) for name in ("loop", "chamber", "spent", "reservoir", "waste")]
    found = {}
    for column, species in enumerate((*SPECIES, "liquid")):
        c, true_c = vessels[wet, column], true_vessels[wet, column]
        scale = np.maximum(np.abs(true_c), 1e-6 * np.abs(true_c).max(initial=0.0) + 1e-12)
        found[species] = float((np.abs(c - true_c) / scale).max())
    body, true_body = reference.split(y)[2], reference.split(exact)[2]
    found["living"] = float(np.abs(body[3:] - true_body[3:]).max())
    for name, value, true_value in zip(("temperature", "volume", "fouling"), body[:3], true_body[:3], strict=True):
        found[name] = abs(value - true_value) / true_value
    return found


@pytest.mark.long
def test_a_day_of_a_rig_agrees_with_a_general_solver() -> None:
    """DOP853 at 1e-9 over the whole day; the plant's own step of 2 s, coarser ones and a finer one."""
    reference, truth = solved("DOP853", 24 * HOUR)
    worst, at_rest = {}, {}
    for dt_s in (8.0, 4.0, 2.0, 1.0):
        found = errors(reference, stepped(dt_s), truth)
        at_rest[dt_s] = max(found.pop(name) for name in AT_REST)
        worst[dt_s] = max(found.values())
        print(dt_s, sorted(found.items(), key=lambda item: -item[1])[:8])
    assert worst[2.0] < 5e-5, "the plant's own step"
    assert max(at_rest.values()) < 1e-3, "whatever the step"
    assert worst[8.0] > worst[4.0] > worst[2.0] > worst[1.0]
    assert worst[8.0] / worst[2.0] > 4.0


def test_the_two_general_solvers_agree() -> None:
    """LSODA is the other opinion, over the first hours' transfers' beginning: it is slow with six hundred states."""
    reference, one = solved("DOP853", 600.0)
    _, other = solved("LSODA", 600.0)
    assert max(errors(reference, one, other).values()) < 1e-7
