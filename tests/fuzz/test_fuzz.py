"""The fuzzer's harnesses in the suite: golden inputs, former findings, and a short random search on both sides (C2)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.registry import MODELS
from sim.devices.catalogue import DEVICES
from tests.fuzz import checksums
from tests.fuzz.__main__ import Score, main, table
from tests.fuzz.findings import Finding
from tests.fuzz.sides import FOUND, SIDES, Fuzzed, Side

EVERY = [("driver", model) for model in sorted(MODELS)] + [("device", model) for model in sorted(DEVICES)]
EACH = pytest.mark.parametrize(("side", "model"), EVERY, ids=lambda word: word)


@cache
def of(side: str, model: str) -> tuple[Side, list[bytes]]:
    made = SIDES[side](model)
    return made, list(made.seeds())


@EACH
def test_C2_golden_and_once_found_inputs_do_no_harm(side: str, model: str) -> None:
    one, seeds = of(side, model)
    found = [path.read_bytes() for path in sorted((FOUND / f"{side}-{model}").glob("*"))]
    for data in [*seeds, *found]:
        one.build()(data)


@EACH
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_C2_no_bytes_do_harm(side: str, model: str, data: st.DataObject) -> None:
    one, seeds = of(side, model)
    fuzzed = Fuzzed(one)
    for _ in range(data.draw(st.integers(1, 4))):
        golden = data.draw(st.sampled_from(seeds))
        at, until = sorted(data.draw(st.tuples(*[st.integers(0, len(golden))] * 2)))
        fuzzed(golden[:at] + data.draw(st.binary(max_size=12)) + golden[until:])


def test_C2_a_driver_that_takes_a_corrupted_frame_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    one, seeds = of("driver", "eurotherm-3200")
    monkeypatch.setattr("drivers.transport.modbus._checksum_right", lambda frame: True)
    flipped = [seed[:2] + bytes((1, 0, 0, 0, 1)) for seed in seeds]

    def feed_all() -> None:
        for data in flipped:
            one.build()(data)

    with pytest.raises(Finding, match="no checksum in it is right"):
        feed_all()


def test_C2_a_device_that_raises_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = of("device", "vici-actuator")  # its golden dialogue is recorded before it is broken
    monkeypatch.setattr("sim.devices.vici_actuator.ViciActuator.command", lambda self, text: int(text))
    with pytest.raises(ValueError, match="invalid literal"):
        one.build()(b"\0CP\r")


@pytest.mark.parametrize(
    ("model", "frame"),
    [
        ("eurotherm-3200", bytes.fromhex("01 03 02 01 72 39 F1")),
        ("keller-bus", bytes.fromhex("01 30 05 14 0C 28 08 01 CA C4")),
        ("longer-0xe9", bytes.fromhex("E9 01 02 57 4A 1E")),
        ("tecan-cavro", bytes.fromhex("02 30 60 33 30 30 03 62")),
    ],
)
def test_the_third_reading_of_checksums_agrees_with_golden_frames(model: str, frame: bytes) -> None:
    holds = checksums.of_replies(model, "1")
    assert holds is not None
    assert holds(b"\xff" + frame + b"\x00")
    for at in range(1, len(frame)):
        assert not holds(frame[:at] + bytes((frame[at] ^ 4,)) + frame[at + 1 :]), at


def test_the_table_adds_up() -> None:
    assert table([Score("driver/a", 5, 7, 2, 0), Score("device/a", 6, 8, 3, 1)]).endswith("| 2 parsers | 11 | | | 1 |")


def test_an_unknown_parser_is_named_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["driver/abacus"]) == 2
    assert "driver/julabo" in capsys.readouterr().err


@pytest.mark.needs_module("atheris", "fuzz")
def test_C2_the_command_fuzzes_a_parser_led_by_coverage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["driver/eurotherm-3200", "--runs", "300", "--keep", str(tmp_path)]) == 0
    assert "| driver/eurotherm-3200 | 300 |" in capsys.readouterr().out
    assert list((tmp_path / "driver-eurotherm-3200" / "corpus").iterdir())
