"""The card that a rig file names: opened, refused with the next step, listed, and served by the lab (C5, N5)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from choroid.cli import main
from choroid.rig_file.cards import CARDS
from choroid.running.card_process import CardProcess
from choroid.running.cards import open_card
from choroid.running.nerves_handle import card_config
from choroid.simulation.array_far_end import FAR_ENDS, serve_array
from choroid.simulation.lab import pointing_at
from controller.rig.card import CARD_FORMS, SIMULATED_HZ, CardOptions, channel_list
from controller.rig.description import Nerves
from controller.rig.loading import load_rig
from drivers.registry import MODELS
from nerves.cards.contract import CardRefused
from nerves.cards.rhx import RhxCard
from sim.neurons.array import SAMPLE_RATE_HZ, SimulatedArray
from sim.neurons.conditions import TissueConditions
from tests.browser.pages import free_port

BENCH = Path(__file__).parents[3] / "examples" / "rigs" / "bench.yaml"


def nerves(**keys: Any) -> Nerves:
    said = {"link": "sim:array", "electrodes": 4, "sample_rate": "25 kHz", "diameter": "30 um"} | keys
    return Nerves.model_validate(said)


def refused(**keys: Any) -> str:
    with pytest.raises(CardRefused) as caught:
        open_card(card_config(nerves(**keys), 1, Path()))
    return str(caught.value)


def test_C5_every_card_has_a_form_an_entry_and_a_far_end_for_a_simulated_link() -> None:
    assert set(CARD_FORMS) == {card.name for card in CARDS}
    assert {name for name, form in CARD_FORMS.items() if "sim" in form.schemes} == {"simulated", *FAR_ENDS}
    assert SIMULATED_HZ == SAMPLE_RATE_HZ


def test_the_blocks_of_the_simulated_card_are_as_long_as_the_rig_file_says() -> None:
    for keys, frames in (({}, 25), ({"options": {"block": "0.2 ms"}}, 5)):
        opened = open_card(card_config(nerves(**keys), 1, Path()))
        assert opened.card.info.block_frames == len(opened.card.read().samples) == frames
        opened.card.close()
        opened.close()


def test_N5_a_card_behind_a_simulated_link_reads_its_array() -> None:
    opened = open_card(card_config(nerves(card="intan-rhx"), 3, Path()))
    try:
        assert isinstance(opened.card, RhxCard)
        assert opened.card.info.simulated
        assert len(opened.card.read().samples)
        assert all(opened.card.impedances())
        opened.set_conditions(replace(TissueConditions(), temperature_c=20.0))
    finally:
        opened.card.close()
        opened.close()


def test_J3_a_card_that_is_not_the_described_one_is_refused_with_the_words_to_write() -> None:
    end = serve_array("intan-rhx", SimulatedArray(4, 3))
    try:
        options = CardOptions.model_validate(end.options)
        why = refused(card="intan-rhx", link=end.link, sample_rate="30 kHz", options=options)
        assert "write electrodes: 4 and sample_rate: 25000 Hz under nerves" in why
    finally:
        end.close()


def test_J3_the_card_process_passes_a_refusal_on() -> None:
    link = f"tcp://127.0.0.1:{free_port()}"
    config = card_config(nerves(card="intan-rhx", link=link, options={"channels": ["A-000:A-003"]}), 1, Path())
    with pytest.raises(CardRefused, match=r"press Connect in its Remote TCP Control window"):
        CardProcess(config)


def test_C5_ranges_of_channels_are_written_out() -> None:
    assert channel_list(["A-030:A-031", "B-000"]) == ("A-030", "A-031", "B-000")
    for wrong in ("A-003:A-001", "A-000:B-001"):
        with pytest.raises(ValueError, match="no range"):
            channel_list([wrong])


def test_the_command_lists_the_cards_with_their_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["card", "list"]) == 0
    text = capsys.readouterr().out
    assert main(["card", "list", "--json"]) == 0
    for card in json.loads(capsys.readouterr().out)["cards"]:
        assert card["name"] in text
        assert card["limits"] in text


def test_the_lab_serves_the_named_card_and_writes_a_rig_that_reaches_it(tmp_path: Path) -> None:
    rig = tmp_path / "rig.yaml"
    text = BENCH.read_text(encoding="utf-8").replace('link: "sim:array"', 'link: "sim:array"\n  card: intan-rhx')
    rig.write_text(text.replace("electrodes: 32", "electrodes: 4"), encoding="utf-8")
    links = {each["link"] for each in yaml.safe_load(text)["devices"].values()}
    devices = {link: f"tcp://127.0.0.1:{4001 + number}" for number, link in enumerate(sorted(links))}
    end = serve_array("intan-rhx", SimulatedArray(4, 3))
    try:
        rig.write_text(pointing_at(rig, devices, end), encoding="utf-8")
        served = load_rig(rig, models=MODELS).nerves
        assert served is not None
        assert served.link == end.link
        opened = open_card(card_config(served, 1, tmp_path))
        try:
            assert not opened.card.info.simulated
            assert len(opened.card.read().samples)
        finally:
            opened.card.close()
    finally:
        end.close()
