"""The types against which the page's scripts are checked agree with what the server sends."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dashboards.auth import Role
from tests import page_cards, page_types
from tests.dashboards.fake_rig import BENCH
from tests.dashboards.world import world

pytestmark = pytest.mark.virtual_time

LIVE = (page_types.TARGET.parent / "live.d.ts").read_text(encoding="utf-8")


def required(interface: str) -> set[str]:
    """The fields that live.d.ts declares for an interface, without the optional and the inherited ones."""
    block = re.search(rf"^export interface {interface}\b[^{{]*\{{\n(.*?)^\}}", LIVE, re.S | re.M)
    assert block is not None, interface
    return set(re.findall(r"^  (\w+):", block[1], re.M))


def optional(interface: str) -> set[str]:
    block = re.search(rf"^export interface {interface}\b[^{{]*\{{\n(.*?)^\}}", LIVE, re.S | re.M)
    assert block is not None, interface
    return set(re.findall(r"^  (\w+)\?:", block[1], re.M))


async def test_the_types_of_the_answers_are_those_of_the_models() -> None:
    assert page_cards.TARGET.read_text(encoding="utf-8") == page_cards.text(), "run `make types`"
    for target in page_types.GENERATED:
        assert target.read_text(encoding="utf-8") == page_types.generate(target), "run `make types`"


@pytest.mark.parametrize("rig", ["bench", "incubator"])
async def test_the_rig_has_the_declared_graph(rig: str) -> None:
    async with world(rig=BENCH.with_name(f"{rig}.yaml")) as w, w.http(Role.VIEWER) as page:
        graph = (await page.get("/api/rig")).json()["schematic"]
    assert graph.keys() == required("SchematicGraph")
    for part, interface in (("vessels", "Vessel"), ("lines", "Line"), ("probes", "Probe"), ("zones", "Zone")):
        assert graph[part] or (rig, part) == ("bench", "zones"), part
        for each in graph[part]:
            assert each.keys() == required(interface)
    assert graph["gas"] is None if rig == "incubator" else graph["gas"].keys() == required("Gas")


async def test_a_message_of_the_feed_has_the_declared_fields() -> None:
    async with world() as w, w.socket(Role.VIEWER) as page:
        message: dict[str, Any] = await page.body()
    inherited = {"at_s", "utc", "readings", "volumes", "trips", "links"}
    assert message.keys() - {"whole"} == inherited | required("LiveState") | optional("LiveState")
    scores = message["scores"]
    assert required("Scores") <= scores.keys()
    assert required("ViabilityEstimate") <= scores["viability"].keys()
    assert required("Rating") <= scores["happiness"].keys()
    for score in (scores["care_rating"], scores["welfare"]):
        assert required("Rating") | required("Score") <= score.keys()
        assert all(part.keys() == required("ScorePart") for part in score["parts"].values())
        assert all(gate.keys() == required("ScoreGate") for gate in score["gates"].values())
    assert required("Stimulation") <= scores["stimulation"].keys()
    known = required("ActuatorStatus") | optional("ActuatorStatus")
    for actuator in message["actuators"].values():
        assert required("ActuatorStatus") <= actuator["status"].keys() <= known
