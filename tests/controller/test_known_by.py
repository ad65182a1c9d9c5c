"""Each quantity of the tissue says whether a probe, a sensor or an assay measured it, whether it is estimated, or neither."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from controller.core.state import Reading
from controller.rig.description import DeviceSpec
from drivers.commands import Quality
from tests.controller.test_score_isolation import WELL, WildBench
from tests.execution.world import EPOCH

MEDIUM = ("glucose", "lactate", "ammonia", "osmolality")
FEW = {"t_chamber.temperature": 37.0}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[WildBench]:
    found = WildBench(tmp_path)
    yield found
    found.journal.close()


def said(bench: WildBench, readings: Mapping[str, float]) -> dict[str, Any]:
    bench.clock.hours += 1.0 / 60.0
    found = bench.signs.score(bench.now(readings), None, "").to_json()["viability"]
    assert isinstance(found, dict)
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def assay(
    bench: WildBench, analyte: str, value: float, taken_h: float, *, used: bool = True, where: str = "loop"
) -> None:
    taken = (EPOCH + timedelta(hours=taken_h)).isoformat()
    row = {"analyte": analyte, "where": where, "vessel": where, "taken_utc": taken, "value": value, "sd": 0.1}
    bench.journal.append("assay", row | {"unit": "mM", "used": used, "method": ""})


def test_what_only_the_balance_of_the_medium_knows_is_estimated(bench: WildBench) -> None:
    bench.set_media(None)
    found = said(bench, WELL)
    assert {name: found["quantities"][name]["how"] for name in MEDIUM} == dict.fromkeys(MEDIUM, "estimated")
    assert not set(MEDIUM) & set(found["measured"])
    assert set(MEDIUM) <= set(found["unmeasured"])
    assert "Estimated, not measured: glucose, lactate, ammonia, osmolality." in found["sentences"]
    assert "(3 of 11 measured)" in found["sentences"][0]
    assert found["quantities"]["temperature"] == {"how": "measured", "by": "probe", "age_h": None}
    assert found["quantities"]["LDH"]["how"] == "neither"


def test_an_assay_measures_for_two_days_and_its_age_is_named(bench: WildBench) -> None:
    bench.set_media(None)
    bench.clock.hours = 5.0
    assay(bench, "lactate", 3.0, 2.0)
    assay(bench, "ammonia", 0.2, 2.0, used=False)
    assay(bench, "glucose", 15.0, 2.0, where="spent")
    found = said(bench, WELL)
    assert found["quantities"]["lactate"] == {"how": "measured", "by": "assay", "age_h": 3.0}
    assert {name: found["quantities"][name]["how"] for name in MEDIUM if name != "lactate"} == {
        "glucose": "estimated",
        "ammonia": "estimated",
        "osmolality": "estimated",
    }
    assert any("lactate (assay 3 h ago)" in sentence for sentence in found["basis"])
    bench.clock.hours = 51.0
    bench.set_media(None)
    assert said(bench, WELL)["quantities"]["lactate"] == {"how": "estimated", "by": "assay", "age_h": 49.0}


def test_without_an_estimate_of_the_medium_neither_is_said(bench: WildBench) -> None:
    bench.set_media((0, 0.0, 0.0))
    assert bench.media is not None
    bench.media = type(bench.media)(1.0, 1.0, bench.media.mean, bench.media.covariance, observations=0)
    found = said(bench, FEW)
    assert {name: found["quantities"][name]["how"] for name in MEDIUM} == dict.fromkeys(MEDIUM, "neither")
    assert "(1 of 11 measured)" in found["sentences"][0]
    assert any(sentence.startswith("Not measured: oxygen, pH, glucose, lactate") for sentence in found["sentences"])


def test_a_sensor_on_line_measures(bench: WildBench) -> None:
    sensor = DeviceSpec.model_validate({"model": "jobst-six", "link": "sim:six", "at": "loop"})
    bench.rig = bench.rig.model_copy(update={"devices": bench.rig.devices | {"six": sensor}})
    bench.signs = bench.begun()
    bench.set_media(None)
    state = bench.now(WELL)
    seen = Reading(3.0, "mM", Quality.GOOD, bench.clock.now_s())
    state = replace(state, readings={**state.readings, "six.lactate": seen})
    scores = bench.signs.score(state, None, "")
    found = scores.to_json()["viability"]
    assert found["quantities"]["lactate"] == {"how": "measured", "by": "sensor", "age_h": None}
