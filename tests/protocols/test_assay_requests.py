"""Value of information: an assay is requested when it saves more fresh medium than it costs, and as often as is allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocols.assay_requests import ASSAYED, best_request, demand_ul
from protocols.interval import Interval
from protocols.mixing import MediumState
from tests.protocols.test_economy import WITHOUT, body

RULES = WITHOUT.rules


def loop(lactate_sd: float, ammonia_sd: float, lactate: float = 7.0, ammonia: float = 0.45) -> MediumState:
    return replace(
        body(40_000.0),
        lactate_mm=Interval.around(lactate, lactate_sd, floor=0.0),
        ammonia_mm=Interval.around(ammonia, ammonia_sd, floor=0.0),
    )


def requested(of: MediumState, rate: float = 60.0, cost_ul: float = 5_000.0) -> tuple[str, ...]:
    found = best_request(of, RULES, rate, exceed=0.02, cost_ul=cost_ul)
    return () if found is None else found.analytes


def test_what_is_well_known_is_not_assayed() -> None:
    assert requested(loop(0.2, 0.02)) == ()


@pytest.mark.parametrize(("lactate_sd", "ammonia_sd"), [(1.2, 0.02), (0.2, 0.15), (1.2, 0.15)])
def test_the_analyte_that_wastes_medium_is_assayed(lactate_sd: float, ammonia_sd: float) -> None:
    unsure = tuple(name for name, bad in (("lactate", lactate_sd > 1.0), ("ammonia", ammonia_sd > 0.1)) if bad)
    assert set(requested(loop(lactate_sd, ammonia_sd))) == set(unsure)


def test_nothing_is_requested_while_the_limit_is_far_or_the_assay_dear() -> None:
    assert requested(loop(0.3, 0.05, lactate=1.5, ammonia=0.1), rate=20.0) == ()
    assert requested(loop(1.2, 0.15), cost_ul=100_000.0) == ()


def test_the_demand_is_the_mass_balance() -> None:
    """60 µmol a day for a week at 10 mM less what the loop may still take."""
    exact = loop(0.0, 0.0, lactate=9.0, ammonia=0.1)
    sds = dict.fromkeys(ASSAYED, 0.0)
    assert demand_ul(exact, RULES, 60.0, 0.02, sds) == pytest.approx((420.0 - 40.0) / 10.0 * 1000.0)
    assert demand_ul(exact, RULES, 60.0, 0.02, {**sds, "lactate": 1.0}) > demand_ul(exact, RULES, 60.0, 0.02, sds)
