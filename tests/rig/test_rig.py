"""A sound rig: what is read, its hash, and the graph that the page draws."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from controller.rig.forms import hashed_form
from controller.rig.loading import effective_hash, load_rig
from controller.rig.problems import RigError
from controller.rig.schematic import describe
from drivers.registry import MODELS

BENCH = Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml"


def test_the_bench_rig_is_sound_and_in_inner_units() -> None:
    rig = load_rig(BENCH, models=MODELS)
    assert rig.simulated
    assert not rig.mixed
    assert rig.vessels["loop"].volume_ul == 40_000
    assert rig.vessels["loop"].limit_ul == 50_000
    assert rig.organs.hearts["heart"].flow_ul_min == 2000
    assert rig.filters["sterile"].bubble_point_kpa == 345
    assert rig.tissue["chamber"].age_d == 60
    assert rig.devices["reglo"].channels["3"].point == "return"


def test_D7_the_hash_is_of_the_meaning_not_of_the_text(tmp_path: Path) -> None:
    text = BENCH.read_text(encoding="utf-8")
    same = tmp_path / "same.yaml"
    same.write_text("# moved\n\n" + text.replace("volume: 40 mL", "volume: 0.04 L").replace("5 s", "5000 ms"))
    other = tmp_path / "other.yaml"
    other.write_text(text.replace("volume: 40 mL", "volume: 41 mL"))
    first = effective_hash(load_rig(BENCH))
    assert effective_hash(load_rig(same)) == first
    assert effective_hash(load_rig(other)) != first


def test_the_keys_of_the_artefact_rule_are_read_with_their_units_and_leave_the_usual_hash(tmp_path: Path) -> None:
    text = BENCH.read_text(encoding="utf-8")
    usual, other = tmp_path / "usual.yaml", tmp_path / "other.yaml"
    usual.write_text(text.replace("  electrodes: 32\n", "  electrodes: 32\n  artefact_share: 60 %\n"))
    other.write_text(text.replace("  electrodes: 32\n", "  electrodes: 32\n  artefact_share: 0.4\n  pitch: 0.2 mm\n"))
    assert effective_hash(load_rig(usual)) == effective_hash(load_rig(BENCH))
    with pytest.raises(RigError, match="artefact_share"):
        load_rig(other)
    other.write_text(other.read_text().replace("artefact_share: 0.4", "artefact_share: 40 %"))
    rig = load_rig(other)
    assert rig.nerves is not None
    assert (rig.nerves.artefact_share_pct, rig.nerves.pitch_um) == (40.0, 200.0)
    assert effective_hash(rig) != effective_hash(load_rig(BENCH))


def test_the_keys_of_fast_loops_are_read_with_their_units_and_leave_the_usual_hash(tmp_path: Path) -> None:
    text = BENCH.read_text(encoding="utf-8")
    usual, other = tmp_path / "usual.yaml", tmp_path / "other.yaml"
    keys = "  electrodes: 32\n  reflex_filter: {}\n  stimulation_artefacts: blank\n  options: {{block: {}}}\n"
    usual.write_text(text.replace("  electrodes: 32\n", keys.format("linear-phase", "1 ms")))
    other.write_text(text.replace("  electrodes: 32\n", keys.format("low-delay", "200 us")))
    hashed = hashed_form(load_rig(usual))["nerves"]
    assert "block" not in hashed.pop("options")
    assert hashed == hashed_form(load_rig(BENCH))["nerves"]
    rig = load_rig(other)
    assert rig.nerves is not None
    assert rig.nerves.options is not None
    assert (rig.nerves.reflex_filter, rig.nerves.options.block_s) == ("low-delay", 0.0002)
    assert effective_hash(rig) != effective_hash(load_rig(BENCH))
    usual.write_text(usual.read_text(encoding="utf-8").replace("artefacts: blank", "artefacts: subtract"))
    assert effective_hash(load_rig(usual)) != effective_hash(load_rig(BENCH))
    other.write_text(text.replace("  electrodes: 32\n", keys.format("low-delay", "5 ms")))
    with pytest.raises(RigError, match="block"):
        load_rig(other)


def test_the_schematic_has_the_zones_with_their_conditions() -> None:
    graph = describe(load_rig(BENCH.with_name("incubator.yaml")))
    assert json.loads(json.dumps(graph)) == graph
    zones = {zone["name"]: zone for zone in graph["zones"]}
    assert zones["incubator"] == {"name": "incubator", "temperature_c": 37.0, "co2_pct": 5.0, "oxygen_pct": 18.6}
    inside = {vessel["name"] for vessel in graph["vessels"] if vessel["zone"] == "incubator"}
    assert inside == {"loop", "chamber", "spent"}


def test_the_schematic_is_a_closed_graph() -> None:
    rig = load_rig(BENCH)
    graph = describe(rig)
    assert json.loads(json.dumps(graph)) == graph
    vessels = {vessel["name"] for vessel in graph["vessels"]}
    lines = {line["name"]: line for line in graph["lines"]}
    assert vessels == set(rig.vessels)
    for line in lines.values():
        assert {line["from"], line["to"]} <= vessels
        assert bool(line["pump"]) != line["passive"]
        assert line["filter"] is None or line["filter"] in graph["filters"]
    assert [zone["name"] for zone in graph["zones"]] == ["fridge"]
    assert (lines["return"]["valve"], lines["return"]["organ"]) == ("relay.return_valve", "immune")
    assert lines["overflow"]["organ"] is None
    probes = {probe["point"]: probe for probe in graph["probes"]}
    assert set(probes) == {
        "ph_loop.ph",
        "ph_spent.ph",
        "do_loop.oxygen",
        "t_chamber.temperature",
        "p_heart.pressure",
        "p_filter.pressure",
        "balance.mass",
    }
    assert all(probe["at"] in vessels or probe["at"] in lines for probe in probes.values())
    assert (probes["p_heart.pressure"]["unit"], probes["p_heart.pressure"]["at"]) == ("kPa", "heart")
    assert [vessel["name"] for vessel in graph["vessels"] if vessel["organoid"]] == ["chamber"]


@pytest.mark.parametrize(("addressing", "sound"), [(("channels", "legacy"), False), (("legacy", "legacy"), True)])
def test_two_reglo_pumps_share_a_line_only_in_legacy_addressing(
    addressing: tuple[str, str], sound: bool, tmp_path: Path
) -> None:
    data = yaml.safe_load(BENCH.read_text(encoding="utf-8"))
    first = data["devices"]["reglo"]
    second = {**first, "address": "2", "channels": {"1": {"point": "more", "tubing": "1.02 mm"}}}
    data["devices"]["reglo2"] = second | {"settings": {"addressing": addressing[1]}}
    data["devices"]["reglo"] = first | {"settings": {"addressing": addressing[0]}}
    path = tmp_path / "rig.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    with pytest.raises(RigError) as caught:  # the second pump is on no line, in either case
        load_rig(path)
    shares = [problem for problem in caught.value.problems if "shares its link" in problem.what]
    assert (not shares) is sound
