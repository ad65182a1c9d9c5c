"""Medium ages where it stands: in bottles and lines, by temperature; tissue that is fed from an old bottle does worse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from controller.rig.description import Rig, Zone
from controller.rig.loading import load_rig
from sim.plant.columns import Content, TallyCause
from sim.plant.fleet import Fleet
from sim.plant.parameters import PlantParameters
from sim.plant.tissue_models import REFERENCE, TissueKind
from sim.plant.validation_medium import left

BENCH = load_rig(Path(__file__).resolve().parents[3] / "examples" / "rigs" / "bench.yaml")
DAY_S = 86_400.0


def rig_with(temperature_c: float, *, stable: bool = False) -> Rig:
    """Return the bench rig with its reservoir at a temperature."""
    zone = Zone.model_construct(temperature_c=temperature_c, co2_pct=0.04, oxygen_pct=20.9)
    vessels = dict(BENCH.vessels) | {"reservoir": BENCH.vessels["reservoir"].model_copy(update={"zone": "store"})}
    media = dict(BENCH.media) | {"fresh": BENCH.media["fresh"].model_copy(update={"stable_glutamine": stable})}
    return BENCH.model_copy(update={"zones": {"store": zone}, "vessels": vessels, "media": media})


class Culture:
    """The bench rig's plant without a controller; its heart beats, and medium is exchanged by hand."""

    def __init__(self, rig: Rig, tissue: TissueKind = REFERENCE) -> None:
        self.fleet = Fleet(rig, [1], parameters=PlantParameters(tissue=tissue))
        space = self.fleet.spaces[0, 0]
        space["co2_fraction"], space["o2_fraction"], space["temperature_c"], space["ambient_c"] = 0.05, 0.19, 37.0, 37.0
        self.fleet.lines["command_ul_min"][0, self.fleet.line_names.index("heart")] = 2000.0

    def __getitem__(self, vessel: str) -> dict[str, float]:
        row = self.fleet.vessels[0, self.fleet.vessel_names.index(vessel)]
        return {each.name.lower(): float(row[each] / row[Content.LIQUID]) for each in Content}

    def live(self, days: float) -> None:
        self.fleet.advance(20.0, round(days * DAY_S / 20.0))

    def exchange(self) -> None:
        """Half of the loop for what the bottle holds now."""
        loop, bottle = (self.fleet.vessels[0, self.fleet.vessel_names.index(name)] for name in ("loop", "reservoir"))
        half_ul = 0.5 * float(loop[Content.LIQUID])
        loop *= 0.5
        loop += bottle * (half_ul / bottle[Content.LIQUID])

    def renew(self) -> None:
        """A new bottle."""
        number = self.fleet.vessel_names.index("reservoir")
        vessel = self.fleet.rig.vessels["reservoir"]
        self.fleet.vessels[0, number] = self.fleet.composition(vessel.contains) * vessel.volume_ul


@pytest.mark.parametrize(
    ("temperature_c", "stable"),
    [
        (4.0, False),
        pytest.param(24.0, False, marks=pytest.mark.long),
        pytest.param(37.0, False, marks=pytest.mark.long),
        pytest.param(37.0, True, marks=pytest.mark.long),
    ],
)
def test_a_bottle_declines_over_sixty_days_by_temperature(temperature_c: float, stable: bool) -> None:
    culture = Culture(rig_with(temperature_c, stable=stable))
    fresh = culture["reservoir"]
    culture.live(60.0)
    old = culture["reservoir"]
    assert old["age"] == pytest.approx(60.0, rel=1e-3)
    for column in (Content.INSULIN, Content.TROPHIC):
        name = column.name.lower()
        assert old[name] / fresh[name] == pytest.approx(left(column, 60.0, temperature_c), rel=1e-2), name
    made, lost = old["ammonia"] - fresh["ammonia"], fresh["glutamine"] - old["glutamine"]
    assert made == pytest.approx(lost), "glutamine that decays is ammonia"
    if stable:
        assert made == 0.0
        assert 0.8 < old["dipeptide"] / fresh["dipeptide"] < 1.0
    else:
        low, high = {4.0: (0.1, 0.4), 24.0: (0.8, 0.98), 37.0: (0.98, 1.0)}[temperature_c]
        assert low < lost / fresh["glutamine"] < high


def test_what_time_takes_is_in_the_tally() -> None:
    culture = Culture(rig_with(24.0))
    before = culture.fleet.contents()[0]
    culture.live(5.0)
    after, tally = culture.fleet.contents()[0], culture.fleet.tally[0]
    for column in (Content.GLUTAMINE, Content.AMMONIA, Content.INSULIN, Content.DIPEPTIDE, Content.AGE, Content.CARBON):
        assert after[column] - before[column] == pytest.approx(
            tally[:, column].sum(), abs=1e-9 * after[Content.AGE] + 1e-9 * after[column]
        )
    turnover = tally[TallyCause.TURNOVER]
    assert turnover[Content.AMMONIA] == pytest.approx(-turnover[Content.GLUTAMINE])
    assert turnover[Content.INSULIN] < 0.0


def test_a_bottle_in_the_air_loses_carbon_dioxide() -> None:
    culture = Culture(rig_with(4.0))
    fresh = culture["reservoir"]
    culture.live(20.0)
    old = culture["reservoir"]
    assert old["carbon"] < fresh["carbon"]
    assert old["alkalinity"] == pytest.approx(fresh["alkalinity"]), "bicarbonate stays as charge"


def test_medium_in_a_line_ages_too() -> None:
    culture = Culture(rig_with(4.0))
    culture.live(10.0)
    held = culture.fleet.held[0, culture.fleet.line_names.index("feed"), 0]
    share = float(held[Content.TROPHIC] / held[Content.LIQUID])
    assert share == pytest.approx(left(Content.TROPHIC, 10.0, 24.0), rel=1e-2), "the line lies in the room"
    assert share < culture["reservoir"]["trophic"]


@pytest.mark.long
def test_tissue_fed_from_an_old_warm_bottle_does_worse_than_from_a_weekly_one() -> None:
    ends = {}
    for name, temperature_c, each_d in (("weekly", 4.0, 7), ("old", 37.0, 999), ("old in the cold", 4.0, 999)):
        culture = Culture(rig_with(temperature_c), replace(REFERENCE, min_insulin=0.4))
        for day in range(60):
            culture.live(1.0)
            if (day + 1) % each_d == 0:
                culture.renew()
            culture.exchange()
        tissue = culture.fleet.tissues[0, 0]
        ends[name] = float(tissue["viability"]), float(tissue["volume_mm3"])
    assert ends["old"][0] < ends["weekly"][0] - 0.1, ends
    assert ends["old"][1] < 0.95 * ends["weekly"][1], "it grew less"
    assert ends["old in the cold"][0] > ends["old"][0] + 0.1, "a refrigerator keeps most of it"


def test_stable_glutamine_makes_less_ammonia_in_the_loop() -> None:
    ammonia = {}
    for stable in (False, True):
        culture = Culture(rig_with(4.0, stable=stable))
        culture.live(3.0)
        ammonia[stable] = culture["loop"]["ammonia"]
    assert ammonia[True] < 0.8 * ammonia[False]
    assert ammonia[True] > 0.05, "what the tissue uses of it becomes ammonia as before"
