"""`check` is a judge: each systematic spoiling of a shipped rig is rejected, or listed here with why it is harmless (J1)."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from controller.hazards.loading import load_checked_rig
from controller.rig.loading import load_rig
from controller.rig.problems import RigError
from drivers.registry import MODELS
from tests.hazards.files import SHIPPED, problems
from tests.hazards.spoil import spoilings

HARMLESS = {
    r".* also trips (reglo2?\.(draw|return|discard|dialysate)|dose_\w+\.pump)": "a transfer that stops is held and resumed",
    r"(ph|do)_loop at (chamber|heart)": "the heart carries the medium of the loop there: the same pH and oxygen",
    r"(ec|liquid) at .*|(ec|liquid|co2) every (10 min|1 h)|remove (ec|liquid|co2)": "no interlock or regulator reads it",
    r"swap co2 and o2 undeclared": "nothing in the file tells them apart: shown as residual, and by commissioning",
    r"organs\.heart\.lease x 10": "the oxygen in the chamber lasts longer than that lease",
    r"organs\.(kidney|gut|liver)\.flow x 0\.1": "a slower transfer; one that takes too long is refused",
    r"organs\.skin\.power x 0\.1": "a weak heater cooks nothing; the alarm temperature tells that it is cold",
    r"organs\.skin\.lease x 0\.1": "shorter pulses of heat",
    r"filters\.sterile\.max_pressure x 10": "a statement of the maker; the interlock's limit stays where it was",
    r"gas_o2\.full_scale x 0\.1": "less oxygen can be added; air alone feeds the tissue",
    r"(reservoir|bottle|feed_bag) in the room|fridge with .*": "a warmer bottle ages faster: its limit of use shrinks with"
    " it, and bottle_over tells",
}


HARMLESS_IN = {
    "incubator": {
        r"delete temperature|safety\.temperature\.stale x 10": "an incubator drifts for minutes; without limits the list of"
        " functions says that its failure is not seen",
        r"temperature stale (10 min|1 h)": "the alarm device_lost comes before",
        r"temperature trips (reglo\.(draw|return|discard)|dose_\w+\.pump)": "a transfer that stops is held and resumed",
        r"t_chamber at (loop|spent)": "it shows the incubator as well from there; the table says so",
        r"(ph|do)_loop at .*|remove (ph|do)_loop": "nothing depends on it: the list of functions says that it is not seen",
        r"relay every (10 min|1 h)": "only a valve, which is read back when it is commanded",
    },
    "straw_vial": {
        r"temperature also trips (feeder|extractor)\.pump": "a transfer that stops is held and resumed",
        r"(ph_vial|balance) .*|remove (ph_vial|balance)": "nothing depends on it: the functions say what is not seen",
        r"cabinet with 24 degC temperature": "it is that temperature",
        r"safety\.temperature\.stale x 10|organs\.skin\.(power|lease) x 10": "the thermostat regulates its own block",
        r"(extractor|relay) every (10 min|1 h)": "the straw keeps the level; a stirrer is read back when it is commanded",
        r"vial without floor|no overflow line": "the straw keeps what is below it",
        r"no filter": "it has none: medium is fed only",
    },
    "bench_monitored": {
        r"(do_chamber|six) (at|every) .*|remove (do_chamber|six)": "the estimator reads it, no interlock and no regulator; a"
        " sensor that contradicts the estimate raises sensor_doubtful",
        r"organs\.lung\.oxygen do_chamber\.oxygen": "the outlet has less oxygen than the loop: the tissue gets a little more",
    },
    "perfusion_tank": {
        r".* also trips (feeder|dialysate)\.pump": "a transfer that stops is held and resumed",
        r"(ph|do)_tank at (basket|cell_loop)": "the cell loop carries the medium of the tank there",
        r"feed_scale .*|remove feed_scale": "it corrects the book of the feed bag; no interlock or regulator reads it",
        r"safety\.temperature\.stale x 10|organs\.skin\.(power|lease) x 10": "the thermostat regulates its own bath, which is"
        " never set above the limit of the chamber",
    },
}
"""The same for one rig."""
HARMLESS_IN["bench_camera"] = HARMLESS_IN["bench_monitored"]  # the same rig; a camera moves nothing
HARMLESS_IN["sixteen_chambers"] = HARMLESS_IN["incubator"]  # an incubator gives gas and warmth there as well


SPOILT = [path for path in SHIPPED if path.stem not in ("monitored_plates", "skimmed_plates", "selector_wells")]
"""Rigs that are spoilt. Where no heart, heater or gas acts, there is nothing to spoil but the thermometer of an alarm."""
SHARE = {"perfusion_tank": 0.3, "sixteen_chambers": 0.03}
"""Share of the spoilings that is tried, drawn with a seed: there are thousands with sixteen equal chambers."""
MIN_TRIED = {"perfusion_tank": 100, "straw_vial": 90, "sixteen_chambers": 60}
"""Minimum number of tried spoilings where it is less than 250."""


@pytest.mark.parametrize("path", SPOILT, ids=[path.stem for path in SPOILT])
def test_J1_check_rejects_every_harmful_spoiling(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "rig.yaml"
    accepted, count = [], 0
    share, draw = SHARE.get(path.stem, 1.0), random.Random(16)
    for spoiling in spoilings(path, load_checked_rig(path, models=MODELS)):
        if draw.random() >= share:
            continue
        file.write_text(json.dumps(spoiling.data), encoding="utf-8")
        count += 1
        if not problems(file):
            accepted.append(spoiling.name)
    harmless = HARMLESS | HARMLESS_IN.get(path.stem, {})
    missed = [name for name in accepted if not any(re.fullmatch(pattern, name) for pattern in harmless)]
    assert not missed, f"{len(missed)} of {count} spoilings pass unseen: {missed}"
    assert count > MIN_TRIED.get(path.stem, 250)
    if path.stem == "other_makers":  # it has every device that the others have, and more
        idle = [pattern for pattern in HARMLESS if not any(re.fullmatch(pattern, name) for name in accepted)]
        assert not idle, f"nothing that is accepted is called so: {idle}"


def test_J1_a_check_without_its_hazard_table_is_found_out(tmp_path: Path) -> None:
    """The spoilings are no straw men: the description's own rules alone let a hundred of them pass."""
    path, file, passed = SHIPPED[0], tmp_path / "rig.yaml", 0
    for spoiling in spoilings(path, load_checked_rig(path, models=MODELS)):
        file.write_text(json.dumps(spoiling.data), encoding="utf-8")
        try:
            load_rig(file, models=MODELS)
        except RigError:
            continue
        passed += not any(re.fullmatch(pattern, spoiling.name) for pattern in HARMLESS)
    assert passed > 100
