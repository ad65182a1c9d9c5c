"""`choroid device talk`: words through the driver, bytes with their meaning, and nothing that moves without --raw."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from choroid.tools.meaning import meaning
from choroid.tools.talk import Talk
from controller.rig.loading import load_rig
from drivers.alicat_mfc import AlicatMfc
from drivers.atlas_ezo_pmp import AtlasEzoPmp
from drivers.ismatec_reglo_icc import IsmatecRegloIcc
from drivers.keller_x_line import KellerXLine
from sim.lab import SimulatedLab

RIG = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"


@asynccontextmanager
async def talking(name: str, *, raw: bool = False) -> AsyncIterator[tuple[Talk, list[str], SimulatedLab]]:
    rig = load_rig(RIG)
    lab = SimulatedLab(rig, seed=1)
    said: list[str] = []
    talk = Talk(name, rig.devices[name], lab.opener, said.append, raw=raw)
    await talk.begin()
    try:
        yield talk, said, lab
    finally:
        await talk.end()
        await lab.close()


@pytest.mark.virtual_time
async def test_words_ask_through_the_driver_and_every_byte_is_shown() -> None:
    async with talking("balance") as (talk, said, _):
        assert any(line.startswith("= Identity(model='MT-SICS balance'") for line in said)
        said.clear()
        assert await talk.line("read")
        assert any("> 53 49 0d 0a  SI<CR><LF>  — the current weight, stable or dynamic" in line for line in said)
        assert said[-1].startswith("= mass: ")
        assert said[-1].endswith(" g")
        await talk.line("read pressure")
        assert said[-1] == "! there is no pressure to ask; there is mass"
        await talk.line("status")
        await talk.line("id")
        assert said[-1].startswith("= Identity")
        assert not await talk.line("quit")


@pytest.mark.virtual_time
async def test_nothing_but_the_words_is_sent_without_raw() -> None:
    async with talking("dose_fresh") as (talk, said, _):
        before = talk.link.transactions
        await talk.line("D,5")
        assert said[-1].startswith("! “d,5” is none of")
        assert talk.link.transactions == before


@pytest.mark.virtual_time
async def test_A3_raw_lines_are_sent_and_the_outputs_are_off_afterwards() -> None:
    async with talking("dose_fresh", raw=True) as (talk, said, lab):
        await talk.line("D,50")
        assert any("44 2c 35 30 0d  D,50<CR>" in line for line in said)
        await talk.line("status")
        assert "running=True" in said[-1]
        await talk.end()
        assert "turning every output off" in said
        assert lab.devices["dose_fresh"].powered
        again = Talk("dose_fresh", lab.rig.devices["dose_fresh"], lab.opener, said.append, raw=False)
        await again.begin()
        await again.line("status")
        assert "running=False" in said[-1]
        await again.end()


@pytest.mark.virtual_time
async def test_raw_bytes_and_what_is_none() -> None:
    async with talking("balance", raw=True) as (talk, said, _):
        await talk.line("hex 53 49 0d 0a")
        assert any("< 53 20" in line for line in said)
        await talk.line("hex zz")
        assert said[-1] == "! that is not hexadecimal, or not ASCII"
        await talk.line("read")
        assert said[-1].startswith("= mass: ")


@pytest.mark.parametrize(
    ("driver", "sent", "told"),
    [
        (IsmatecRegloIcc, b"2xG\r", "the channel's own total (whole mL)"),
        (IsmatecRegloIcc, b"0#\r", "model text: identification; barrier against late replies"),
        (AlicatMfc, b"AS5.00\r", "set-point, before firmware 10v05; the frame that answers is compared"),
        (AlicatMfc, b"ALS 5.00\r", "set-point, from firmware 10v05 on; set-point and unit of the answer are compared"),
        (AtlasEzoPmp, b"DC,?\r", "maximum flow, which calibration changes"),
        (AtlasEzoPmp, b"D,5,1\r", "a dose at full speed, or over a time"),
        (KellerXLine, bytes.fromhex("01 03 00 02 00 02 65 CB"), "Modbus 1: read holding registers at 2, count 2"),
        (KellerXLine, b"nothing known", ""),
    ],
)
def test_the_meaning_of_what_is_sent(driver: type, sent: bytes, told: str) -> None:
    assert meaning(driver, ">", sent) == told


def test_the_meaning_of_modbus_answers() -> None:
    answer = bytes.fromhex("01 03 04 3F 7C D6 A1 A8 27")
    assert meaning(KellerXLine, "<", answer) == "Modbus 1: read holding registers, answer 3f 7c d6 a1"
    assert meaning(KellerXLine, "<", bytes.fromhex("01 83 02 C0 F1")).endswith("exception 2")


def test_on_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "choroid", "device", "talk", "balance", "--rig", str(RIG)],
        input="read\nquit\n",
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ},
    )
    assert done.returncode == 0, done.stderr
    assert "= mass: " in done.stdout
    done = subprocess.run(
        [sys.executable, "-m", "choroid", "device", "talk", "no_such", "--rig", str(RIG)],
        input="",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "has no device no_such" in done.stderr
