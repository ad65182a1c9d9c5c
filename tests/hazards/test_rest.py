"""Sampling periods at rest follow from what needs the readings: interlocks, gate, regulators, alarms and hazards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.hazards.loading import load_checked_rig
from controller.hazards.rest import at_rest, rest_periods
from controller.hazards.table import hazards_of
from controller.regulation import oxygen, ph
from controller.regulation.temperature import WINDOW_S
from controller.rig.description import EmergencyButton, Rig
from controller.safety.limits import limits_of
from controller.safety.probe_rules import max_age_s
from drivers.registry import MODELS
from tests.hazards.files import BENCH, SHIPPED, problems_of_data

RIG = load_checked_rig(BENCH, models=MODELS)


def device(point: str) -> str:
    return point.partition(".")[0]


def assert_served(rig: Rig) -> None:
    """Derive from each need the age that a reading may have, and compare it with the period at rest."""
    rest_s, limits, lung, skin = rest_periods(rig), limits_of(rig), rig.organs.lung, rig.organs.skin
    ages = [(rule.point, rule.stale_s) for rule in limits.interlocks]
    ages += [*((heart.pump, heart.stale_s) for heart in limits.hearts), *limits.switch_stale_s.items()]
    if lung is not None:
        assert limits.mixture is not None
        ages += [(gas, limits.mixture.stale_s) for gas in (lung.air, lung.co2, lung.o2)]
        ages += [(lung.ph, limits.mixture.ph_stale_s), (lung.ph, ph.STALE_S), (lung.oxygen, oxygen.STALE_S)]
    ages += [(name, max_age_s(spec.every_s)) for name, spec in rig.devices.items()]
    for point, age_s in ages:
        full_s = rig.devices[device(point)].every_s
        assert full_s <= rest_s[device(point)] <= max(full_s, age_s / 2.0), (
            f"{point}: one lost reading is a lost sensor"
        )
    full = {row.id: row for row in hazards_of(rig, limits)}
    for row in hazards_of(at_rest(rig, rest_s), limits):
        assert len(row.gaps) <= len(full[row.id].gaps), row.id
        assert row.detection_s <= max(full[row.id].detection_s, 0.5 * row.harm_s), row.id
    for rule in limits.interlocks:
        slowed = rest_s[device(rule.point)] > rig.devices[device(rule.point)].every_s
        if skin is not None and rule.rise_per_s > 0.0 and slowed:
            room_s = (rule.ceiling - skin.setpoint_c) / rule.rise_per_s
            assert room_s - rest_s[device(rule.point)] >= WINDOW_S, "the age of the reading would shorten the pulses"


@pytest.mark.parametrize("path", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_I8_at_rest_every_need_of_a_shipped_rig_is_served(path: Path) -> None:
    rig = load_checked_rig(path, models=MODELS)
    assert_served(rig)
    if not rig.lines:  # read every 10 s at full rate: nothing moves on it
        return
    assert sum(1 / each for each in rest_periods(rig).values()) < 0.7 * sum(1 / d.every_s for d in rig.devices.values())


PERIODS = st.sampled_from([0.5, 1.0, 2.0, 5.0, 10.0, 30.0])


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_I8_at_rest_every_need_of_any_rig_is_served(data: st.DataObject) -> None:
    """Other periods, a stronger heater, tighter vessels and sensors that count as lost sooner."""
    devices = {
        name: spec.model_copy(update={"every_s": data.draw(PERIODS, label=name)}) for name, spec in RIG.devices.items()
    }
    vessels = dict(RIG.vessels)
    spent = vessels["spent"]
    vessels["spent"] = spent.model_copy(
        update={"ceiling_ul": data.draw(st.floats(30_000.0, 44_990.0), label="ceiling")}
    )
    assert RIG.organs.skin is not None
    assert RIG.safety.over_pressure_heart is not None
    skin = RIG.organs.skin.model_copy(update={"power_w": data.draw(st.floats(1.0, 200.0), label="power")})
    stale_s = data.draw(st.floats(1.0, 60.0), label="stale")
    safety = RIG.safety.model_copy(
        update={"over_pressure_heart": RIG.safety.over_pressure_heart.model_copy(update={"stale_s": stale_s})}
    )
    organs = RIG.organs.model_copy(update={"skin": skin})
    assert_served(RIG.model_copy(update={"devices": devices, "vessels": vessels, "organs": organs, "safety": safety}))


def test_a_hazard_that_leaves_little_time_keeps_its_devices_at_full_rate() -> None:
    """A spent vessel with a floor at 1 mL: what draws 4 mL/min out of it empties it within 15 s."""
    spent = RIG.vessels["spent"].model_copy(update={"floor_ul": 1000.0})
    reglo = RIG.devices["reglo"].model_copy(update={"every_s": 2.0})
    rig = RIG.model_copy(update={"devices": {**RIG.devices, "reglo": reglo}})
    rest_s = rest_periods(rig.model_copy(update={"vessels": {**RIG.vessels, "spent": spent}}))
    assert rest_periods(rig)["reglo"] > 2.0
    assert rest_s["reglo"] == 2.0
    assert rest_s["ph_loop"] > RIG.devices["ph_loop"].every_s, "it has nothing to do with that vessel"


def test_an_emergency_button_and_a_device_with_unknown_points_are_always_read_at_full_rate() -> None:
    button = EmergencyButton.model_validate({"input": "relay.stop", "stale": "20 s"})
    safety = RIG.safety.model_copy(update={"emergency_stop": button})
    unknown = RIG.devices["do_loop"].model_copy(update={"model": "modbus-generic"})
    devices = {**RIG.devices, "described": unknown}
    rest_s = rest_periods(RIG.model_copy(update={"safety": safety, "devices": devices}))
    assert rest_s["relay"] == RIG.devices["relay"].every_s
    assert rest_s["described"] == unknown.every_s


def test_A12_a_heart_that_is_read_too_seldom_to_notice_a_foreign_stop_is_refused(tmp_path: Path) -> None:
    def seldom(data: dict[str, Any]) -> None:
        data["devices"]["reglo"]["every"] = "10 s"

    (problem,) = problems_of_data(tmp_path, seldom)
    assert problem.key == "devices.reglo.every"
    assert "another controller could stop it unseen" in str(problem)
