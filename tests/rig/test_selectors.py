"""Selectors: the paths through them, what rests and what is shared, groups of chambers, and the rules with their messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.rig.description import Rig
from controller.rig.graph import fed_by_hearts, static_chambers, vessels_behind
from controller.rig.loading import effective_hash, load_rig
from controller.rig.problems import RigError
from controller.rig.selectors import (
    PumpedPath,
    behind_ul,
    common_lines,
    direction,
    forbidden,
    groups_of,
    held_ul,
    level_at,
    paths,
    ports_of,
)

TWO_SELECTORS = Path(__file__).parents[1] / "rigs" / "two_selectors.yaml"
Data = dict[str, Any]
WELLS = tuple(f"w{number:02d}" for number in range(1, 13))


def wells() -> Data:
    data: Data = yaml.safe_load(TWO_SELECTORS.read_text(encoding="utf-8"))
    return data


def loaded(data: Data, folder: Path) -> Rig:
    path = folder / "rig.yaml"
    path.write_text(yaml.safe_dump(json.loads(json.dumps(data)), sort_keys=False), encoding="utf-8")
    return load_rig(path)


def refused(data: Data, folder: Path) -> dict[str, str]:
    with pytest.raises(RigError) as caught:
        loaded(data, folder)
    found: dict[str, str] = {}
    for problem in caught.value.problems:
        found[problem.key] = f"{found.get(problem.key, '')} {problem.what}. {problem.fix}"
    return found


def paths_between(rig: Rig, *, source: str | None = None, target: str | None = None) -> tuple[PumpedPath, ...]:
    """Return the permitted paths from and to a vessel; None stands for any."""
    permitted = (path for path in paths(rig) if forbidden(rig, path) is None)
    return tuple(path for path in permitted if source in (None, path.source) and target in (None, path.target))


def cascade() -> Data:
    """Return the rig with a third selector behind the first (24-plex), and a choice of two media before the pump."""
    data = wells()
    positions = {"positions": 6, "rest_position": 6}
    for name in ("far", "chooser"):
        data["devices"][name] = {"model": "vici-actuator", "link": f"sim:{name}", "settings": positions}
        data["selectors"][name] = {"valve": f"{name}.valve", "rest": 6, "dead_volume": "10 uL"}
    data["vessels"]["rinse"] = dict(data["vessels"]["medium"])
    lines = data["lines"]
    lines["link"] = {"from": "supply", "to": "far", "port": 14, "passive": True}
    for port, well in enumerate(("w11", "w12"), start=1):
        del lines[f"to{well[1:]}"]
        lines[f"far{port}"] = {"from": "far", "to": well, "port": port, "passive": True}
    lines["dose"]["from"] = "chooser"
    lines["a"] = {"from": "medium", "to": "chooser", "port": 1, "passive": True}
    lines["b"] = {"from": "rinse", "to": "chooser", "port": 2, "passive": True}
    return data


def test_a_path_names_its_lines_positions_and_what_it_shares() -> None:
    rig = load_rig(TWO_SELECTORS)
    (path,) = paths_between(rig, target="w03")
    assert (path.source, path.pump, path.lines, path.positions) == (
        "medium", "reglo.dose", ("dose", "to03"), (("supply", 3),),
    )  # fmt: skip
    (back,) = paths_between(rig, source="w03")
    assert (back.target, back.lines, back.pumped, back.positions) == (
        "waste", ("from03", "take"), "take", (("takeoff", 3),),
    )  # fmt: skip
    assert not path.resources & back.resources
    assert path.resources & paths_between(rig, target="w04")[0].resources == {
        "pump reglo.dose", "line dose", "selector supply",
    }  # fmt: skip
    assert [path.lines for path in paths_between(rig, source="medium", target="waste")] == [("dose", "flush")]
    assert len(paths(rig)) == 12 + 12 + 1


def test_a_selector_knows_its_ports_common_line_and_rest() -> None:
    rig = load_rig(TWO_SELECTORS)
    assert (direction(rig, "supply"), direction(rig, "takeoff")) == ("out", "in")
    assert ports_of(rig, "supply")[13] == "flush"
    assert (common_lines(rig, "supply"), common_lines(rig, "takeoff")) == (("dose",), ("take",))
    assert (level_at(rig, "supply", 3), level_at(rig, "supply", 16)) == (3.0, 0.0)
    assert held_ul(rig.lines["to01"]) == pytest.approx(58.9, abs=0.1)
    assert (behind_ul(rig, "dose"), behind_ul(rig, "to01")) == (5.0, 0.0)


def test_wells_behind_a_selector_are_static_and_dosed_and_have_no_overflow() -> None:
    rig = load_rig(TWO_SELECTORS)
    assert static_chambers(rig) == WELLS
    assert fed_by_hearts(rig) == {}
    assert vessels_behind(rig, "dose") == dict.fromkeys((*WELLS, "waste"), 1.0)
    assert vessels_behind(rig, "take") == {"waste": 1.0}


def test_selectors_in_a_cascade_and_a_choice_of_medium(tmp_path: Path) -> None:
    rig = loaded(cascade(), tmp_path)
    found = {(path.source, path.lines): path.positions for path in paths_between(rig, target="w12")}
    assert found == {
        ("medium", ("a", "dose", "link", "far2")): (("chooser", 1), ("supply", 14), ("far", 2)),
        ("rinse", ("b", "dose", "link", "far2")): (("chooser", 2), ("supply", 14), ("far", 2)),
    }
    assert behind_ul(rig, "dose") == 15.0
    assert behind_ul(rig, "link") == 10.0


def test_a_forbidden_pair_is_no_path(tmp_path: Path) -> None:
    data = cascade()
    data["media"]["ethanol"] = {**data["media"]["fresh"], "osmolality": "2000 mOsm/kg"}
    data["vessels"]["rinse"]["contains"] = "ethanol"
    data["safety"]["never"] = [["ethanol", "chamber"]]
    rig = loaded(data, tmp_path)
    assert {path.target for path in paths_between(rig, source="rinse")} == {"waste"}
    assert paths_between(rig, source="rinse", target="w01") == ()
    assert all(forbidden(rig, path) == ("ethanol", "chamber") for path in paths(rig)
               if path.source == "rinse" and path.target != "waste")  # fmt: skip


def test_groups_are_those_of_the_file_and_the_batches(tmp_path: Path) -> None:
    rig = load_rig(TWO_SELECTORS)
    assert groups_of(rig) == {"B12": WELLS[:6], "B13": WELLS[6:], "edge": ("w01", "w06", "w07", "w12")}
    data = wells()
    data["groups"] = {"edge": [], "core": ["w01", "w01", "w99"], "B12": ["w01"]}
    problems = refused(data, tmp_path)
    assert "is empty" in problems["groups.edge"]
    assert "stands twice" in problems["groups.core.1"]
    assert "“w99” is no chamber" in problems["groups.core.2"]
    assert "a batch of tissue is called “B12”" in problems["groups.B12"]


def test_selectors_are_part_of_the_hash(tmp_path: Path) -> None:
    data = wells()
    one = effective_hash(loaded(data, tmp_path))
    data["selectors"]["supply"]["dead_volume"] = "6 uL"
    two = effective_hash(loaded(data, tmp_path))
    data["lines"]["to01"]["port"], data["lines"]["to02"]["port"] = 2, 1
    assert len({one, two, effective_hash(loaded(data, tmp_path))}) == 3


PORT = {"passive": True}
ELSE = {"from": "supply", "to": "w01", **PORT}


@pytest.mark.parametrize(
    ("section", "changed", "key", "said"),
    [
        ("selectors", {"w01": {"valve": "giver.valve", "rest": 16}}, "selectors.w01", "a vessel is called “w01” as well"),
        ("selectors", {"idle": {"valve": "giver.valve", "rest": 16}}, "selectors.idle", "no pump moves medium through"),
        ("selectors", {"idle": {"valve": "giver.valve", "rest": 16}}, "selectors.idle.valve", "is that of selector “supply”"),
        ("selectors", {"supply": {"valve": "reglo.dose", "rest": 16}}, "selectors.supply.valve",
         "“reglo.dose” is a pump, not a multi-position valve"),
        ("selectors", {"supply": {"valve": "givr.valve", "rest": 16}}, "selectors.supply.valve",
         "no device has the valve “givr.valve”. Did you mean “giver.valve”?"),
        ("selectors", {"supply": {"valve": "giver.valve", "rest": 3}}, "selectors.supply.rest",
         "at rest, position 3, line “to03” is open to “w03”"),
        ("selectors", {"takeoff": {"valve": "taker.valve", "rest": 3}}, "selectors.takeoff.rest",
         "line “from03” is open from “w03”"),
        ("selectors", {"supply": {"valve": "giver.valve", "rest": 17}}, "selectors.supply.rest", "positions 1 to 16"),
        ("selectors", {"supply": {"valve": "giver.valve", "rest": 15}}, "devices.giver.settings.rest_position",
         "“giver” rests at position 16, and selector “supply” at 15. Write “rest_position: 15”"),
        ("lines", {"to01": {**ELSE, "port": 2}}, "lines.to02.port", "position 2 of selector “supply” is that of line “to01”"),
        ("lines", {"to01": {**ELSE, "port": 17}}, "lines.to01.port", "positions 1 to 16, and no 17"),
        ("lines", {"to01": ELSE}, "lines.to01", "is at selector “supply” and has no position"),
        ("lines", {"to01": {"from": "supply", "to": "w01", "port": 1}}, "lines.to01",
         "the pump of the selector's common line"),
        ("lines", {"to01": {**ELSE, "from": "suply", "port": 1}}, "lines.to01.from",
         "selector or vessel “suply” does not exist. Did you mean “supply”?"),
        ("lines", {"to01": {**ELSE, "port": 1, "draws_above": "1 mL"}}, "lines.to01.draws_above", "is a selector"),
        ("lines", {"back": {"from": "w01", "to": "supply", "port": 14, **PORT}}, "selectors.supply",
         "lines dose, back lead into it, and ports lead out: a selector has one common line"),
        ("lines", {"dose": {"from": "medium", "to": "supply", **PORT}}, "lines.dose", "and no pump drives it"),
        ("lines", {"dose": {"from": "medium", "to": "supply", "pump": "reglo.dose", "port": 14}}, "lines.dose.port",
         "it is the common line of selector “supply”"),
        ("lines", {"loose": {"from": "w01", "to": "waste", "port": 1, **PORT}}, "lines.loose.port", "it is at no selector"),
        ("lines", {"to01": {"from": "supply", "to": "w01", "port": 1, "pump": "reglo.dose"}}, "lines.to01.pump",
         "pump “reglo.dose” drives a port"),
        ("lines", {"short": {"from": "supply", "to": "takeoff", "port": 14, **PORT}}, "lines.short",
         "from a port of selector “supply” to one of selector “takeoff”"),
        ("lines", {"to01": {**ELSE, "port": 1, "valve": "giver.valve"}}, "lines.to01.valve", "is in the line of a port"),
        ("safety", {"never": [["fesh", "chamber"]]}, "safety.never.0.0", "Did you mean “fresh”?"),
    ],
)  # fmt: skip
def test_mistakes_of_selectors_are_reported_with_their_fix(
    section: str, changed: Data, key: str, said: str, tmp_path: Path
) -> None:
    data = wells()
    data[section] |= changed
    problems = refused(data, tmp_path)
    assert said in problems.get(key, ""), problems


def test_a_port_leads_to_no_junction_and_selectors_form_no_circle(tmp_path: Path) -> None:
    data = cascade()
    data["junctions"] = {"split": {}}
    data["lines"]["to01"]["to"] = "split"
    data["lines"]["split1"] = {"from": "split", "to": "w01", **PORT}
    assert "where the shares of a dose are not known" in refused(data, tmp_path)["lines.to01.to"]
    data = cascade()
    data["lines"]["round"] = {"from": "far", "to": "supply", "port": 3, **PORT}
    assert "ports lead from selector “supply” back to it" in refused(data, tmp_path)["selectors.supply"]


def test_no_heart_passes_a_selector(tmp_path: Path) -> None:
    data = wells()
    data["organs"] = {"heart": {"line": "dose", "flow": "0.5 mL/min", "basal": "0.5 mL/min", "min": "0.1 mL/min",
                                "max": "1 mL/min", "lease": "30 s"}}  # fmt: skip
    assert "circulation would depend on selector “supply”" in refused(data, tmp_path)["lines.dose.to"]


def test_no_organ_passes_a_selector(tmp_path: Path) -> None:
    data = wells()
    data["organs"] = {"gut": {"feed": "dose", "flow": "1 mL/min"}}
    del data["lines"]["dose"]["max_flow"]
    assert "which the verbs of the gut do not set" in refused(data, tmp_path)["organs.gut.feed"]


def test_what_never_may_happen_is_no_line_without_a_selector(tmp_path: Path) -> None:
    data = wells()
    data["lines"]["extra"] = {"from": "medium", "to": "w01", "pump": "reglo.extra"}
    data["devices"]["reglo"]["channels"]["3"] = {"point": "extra", "tubing": "0.76 mm"}
    data["safety"]["never"] = [["medium", "w01"]]
    assert "“safety: never” forbids medium to w01" in refused(data, tmp_path)["lines.extra"]
