"""The plant follows the lung's gas to the vessel that it enters (Q5)."""

from __future__ import annotations

import pytest

from controller.rig.description import Rig, required
from sim.plant.gas import KLA_LUNG_PER_S, surface_kla_per_s
from sim.plant.plant import Plant
from tests.sim.plant.test_plant import BENCH

AIR_ML_MIN, CO2_ML_MIN = 46.5, 3.5


def gassed(vessel: str) -> Rig:
    """Return the bench rig with the gas led into a vessel."""
    lung = required(BENCH.organs.lung, "organs.lung").model_copy(update={"vessel": vessel})
    return BENCH.model_copy(update={"organs": BENCH.organs.model_copy(update={"lung": lung})})


class Perfused:
    """The plant of a rig whose heart and gas run, with a clock in hand."""

    def __init__(self, rig: Rig, *, air: float = AIR_ML_MIN, co2: float = CO2_ML_MIN) -> None:
        self.now = 0.0
        self.plant = Plant(rig, seed=1, now=lambda: self.now)
        lung = required(rig.organs.lung, "organs.lung")
        self.plant.set_gas(lung.air, air)
        self.plant.set_gas(lung.co2, co2)
        self.plant.set_pump("reglo.heart", 2000.0)

    def after(self, hours: float) -> Plant:
        """Return the plant after so many hours more."""
        self.now += hours * 3600.0
        self.plant.advance()
        return self.plant


def test_Q5_gas_acts_on_the_vessel_that_it_enters() -> None:
    found = {vessel: Perfused(gassed(vessel)).after(2.0).truth() for vessel in ("loop", "chamber", "spent", "waste")}
    ph = {vessel: truth.ph for vessel, truth in found.items()}
    assert 7.2 < ph["loop"]["loop"] < 7.5
    assert 7.2 < ph["spent"]["spent"] < 7.5, "the gas reaches the vessel that it enters"
    assert ph["chamber"]["chamber"] < ph["chamber"]["loop"] - 0.05, "the chamber has the gas, the loop that of the room"
    assert ph["chamber"]["loop"] < ph["spent"]["loop"], "what flows from the chamber carries CO2 into the loop"
    for astray in ("spent", "waste"):
        assert ph[astray]["loop"] > 7.8, "the room takes the CO2"
        assert found[astray].tissue["chamber"].viability < found["loop"].tissue["chamber"].viability - 0.05


def test_Q5_a_bottle_into_which_gas_is_led_takes_its_co2() -> None:
    bottle = [Perfused(gassed("reservoir"), co2=co2).after(2.0).truth() for co2 in (0.0, 10.0)]
    assert bottle[0].ph["reservoir"] > bottle[1].ph["reservoir"] + 1.0
    assert bottle[0].ph["loop"] == pytest.approx(bottle[1].ph["loop"]), "nothing flows from the bottle into the loop"


def test_Q5_only_the_lung_stirs_gas_into_the_loop() -> None:
    fleet = Perfused(gassed("spent")).plant.fleet
    kla = dict(zip(fleet.vessel_names, fleet.traits["kla_per_s"].tolist(), strict=False))
    assert kla["spent"] == KLA_LUNG_PER_S
    assert 0.0 < kla["loop"] < 0.05 * KLA_LUNG_PER_S, "its surface only"


def test_the_gas_of_a_surface_follows_its_area_over_the_volume() -> None:
    """60 mL as high as wide have 42.4 mm of diameter: 1.2e-5 m/s * 14.1 cm2 / 40 mL."""
    assert surface_kla_per_s(60_000.0, 40_000.0) == pytest.approx(1.2e-5 * 14.14e-4 / 40e-6, rel=0.01)
