"""`choroid device talk --read-only` writes nothing: of every model, only queries leave (A12)."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from choroid.common.failure import UserError
from choroid.tools.conformance.benches import all_benches
from choroid.tools.talk import Talk
from controller.rig.loading import load_rig
from drivers.commands import Stop
from drivers.conformance.bench import Bench
from drivers.conformance.stage import Stage
from drivers.device import Identity
from drivers.errors import DeviceError
from drivers.ismatec_reglo_icc import IsmatecRegloIcc
from drivers.registry import MODELS
from drivers.transport.opener import open_real
from sim.lab import SimulatedLab
from tests.drivers.facts import all_facts

BENCH = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"


def is_query(model: str, request: bytes) -> bool:
    """Whether the maker calls `request` a question."""
    facts = all_facts()[model]
    if facts.functions is not None:
        at, reading = facts.functions
        return request[at] in reading
    return request.decode("ascii").rstrip("\r\n") in facts.queries


async def asked(stage: Stage) -> list[str]:
    """Verify, read every sensor and ask every output; returns what failed."""
    failures = [str(error) for error in (await stage.link.start()).values()]
    works = [sensor.read for sensor in stage.device.sensors.values()]
    for work in (*works, *(actuator.status for actuator in stage.device.actuators.values())):
        try:
            await work()
        except DeviceError as error:
            failures.append(str(error))
    return failures


def read_only(bench: Bench, stage: Stage) -> None:
    stage.link.only_asks = bench.driver.queries


@pytest.mark.virtual_time
@pytest.mark.parametrize("bench", all_benches(), ids=str)
async def test_A12_read_only_sends_nothing_but_queries_to_a_device_that_was_not_set_up(bench: Bench) -> None:
    stage = Stage(bench)
    await asyncio.sleep(2.0)
    read_only(bench, stage)
    writes = stage.far.memory_writes()
    await asked(stage)
    sent = [frame.data for frame in stage.link.capture.frames() if frame.direction == ">"]
    await stage.link.close()
    assert sent
    assert [request for request in sent if not is_query(bench.model, request)] == []
    assert stage.far.memory_writes() == writes
    assert not stage.moved


@pytest.mark.virtual_time
@pytest.mark.parametrize("bench", all_benches(), ids=str)
async def test_A12_read_only_reads_everything_of_a_device_that_a_controller_has_set_up(bench: Bench) -> None:
    stage = Stage(bench)
    await asyncio.sleep(2.0)
    assert await asked(stage) == []
    before = len(stage.link.capture.frames())
    read_only(bench, stage)
    await stage.device.verify()
    assert await asked(stage) == []
    sent = [frame.data for frame in stage.link.capture.frames()[before:] if frame.direction == ">"]
    for actuator in stage.device.actuators.values():
        at_stop = len(stage.link.capture.frames())
        with suppress(DeviceError):  # one at rest may have nothing to send
            await actuator.apply(Stop())
        later = [frame.data for frame in stage.link.capture.frames()[at_stop:] if frame.direction == ">"]
        assert [request for request in later if not is_query(bench.model, request)] == []
    await stage.link.close()
    assert [request for request in sent if not is_query(bench.model, request)] == []


class AsksForItsNumber(IsmatecRegloIcc):
    """A spoiled driver: `xS` is a query of its pump, and with anything behind it a command that writes the number."""

    queries = re.compile(rb"[0-9]xS\r|(?:%s)" % (IsmatecRegloIcc.queries or re.compile(rb"")).pattern)

    async def _identify(self) -> Identity:
        found = await super()._identify()
        return replace(found, serial=(await self._wire.get(b"0xS")).decode())


async def changed_by_spoiled_queries(bench: Bench) -> list[str]:
    """Cut each query of a driver off, before another one, and double each of its bytes; returns what changed."""
    stage = Stage(bench)
    await asyncio.sleep(2.0)
    assert await asked(stage) == []
    assert bench.driver.queries is not None
    sent = [frame.data for frame in stage.link.capture.frames() if frame.direction == ">"]
    queries = list(dict.fromkeys(data for data in sent if bench.driver.queries.fullmatch(data)))
    assert queries
    before, writes = stage.device.identity, stage.far.memory_writes()
    changed = []
    for query in queries:
        cut = [query[:at] + after for at in range(1, len(query)) for after in (query, sent[0])]
        doubled = [query[: at + 1] + query[at:] for at in range(len(query))]
        for spoiled in cut + doubled:
            stage.far.receive(spoiled)
            await asyncio.sleep(0.5)
        if stage.moved or stage.far.memory_writes() != writes:
            changed.append(f"{query!r} moves or writes")
        stage.device.identity = None
        for _ in range(3):  # what is left of a spoiled query may spoil one more
            with suppress(DeviceError):
                await stage.device.verify()
                break
        if stage.device.identity != before:
            changed.append(f"{query!r} makes {before} {stage.device.identity}")
    await stage.link.close()
    return changed


@pytest.mark.virtual_time
@pytest.mark.parametrize("bench", all_benches(), ids=str)
async def test_A12_no_query_becomes_a_command_when_it_is_cut_off_or_a_byte_is_doubled(bench: Bench) -> None:
    assert await changed_by_spoiled_queries(bench) == []


@pytest.mark.virtual_time
async def test_A12_a_query_that_becomes_a_command_is_found() -> None:
    (bench,) = (each for each in all_benches() if each.driver is IsmatecRegloIcc)
    changed = await changed_by_spoiled_queries(replace(bench, driver=AsksForItsNumber))
    assert any("xS" in each for each in changed), changed


def test_every_model_declares_its_queries() -> None:
    assert [model for model, driver in MODELS.items() if driver.queries is None] == []
    assert [model for model, facts in all_facts().items() if not facts.queries and facts.functions is None] == []


@pytest.mark.virtual_time
async def test_A12_talk_read_only_sends_no_C0_to_an_atlas_circuit() -> None:
    """The reproduction: `C,0` left during verification."""
    rig = load_rig(BENCH)
    lab = SimulatedLab(rig, seed=1)
    name = next(name for name, spec in rig.devices.items() if spec.model == "atlas-ezo-ph")
    said: list[str] = []
    talk = Talk(name, rig.devices[name], lab.opener, said.append, raw=False, read_only=True)
    try:
        await talk.begin()
        for line in ("id", "read", "status", "stop"):
            await talk.line(line)
    finally:
        await talk.end()
        await lab.close()
    sent = [bytes.fromhex(line.split(" > ")[1].split("  ")[0]) for line in said if " > " in line]
    assert sent
    assert {request for request in sent if not is_query("atlas-ezo-ph", request)} == set()
    assert any(line.startswith("= ph:") for line in said), said


def test_a_driver_that_declares_no_queries_is_not_talked_with_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = load_rig(BENCH)
    name, spec = next(iter(rig.devices.items()))
    monkeypatch.setattr(MODELS[spec.model], "queries", None)
    with pytest.raises(UserError, match="does not declare its queries"):
        Talk(name, spec, open_real, print, raw=False, read_only=True)


@pytest.mark.parametrize(
    ("model", "question", "setting"),
    [
        ("ismatec-reglo-icc", b"1xv3000+2|1500+1\r", b"1xV3000+2\r"),
        ("ismatec-reglo-icc", b"1xw3000+2|001230\r", b"1xW00000030\r"),
        ("ismatec-reglo-icc", b"1V\r", b"1VM030\r"),
        ("ismatec-reglo-icc", b"1f\r", b"1f2000+3\r"),
        ("ismatec-reglo-icc", b"1xD\r", b"1K\r"),
        ("ismatec-reglo-icc", b"1r\r", b"1r5000+4\r"),
        ("ismatec-reglo-icc", b"1u\r", b"1U00016\r"),
        ("ismatec-reglo-digital", b"1T\r", b"1TM045\r"),
        ("ismatec-reglo-digital", b"1U\r", b"1U0200\r"),
        ("alicat-mfc", b"ALV\r", b"ALV 37\r"),
        ("alicat-mfc", b"AFPF 5\r", b"AL\r"),
    ],
)
def test_A12_a_person_may_ask_what_only_tells_and_not_send_what_sets(
    model: str, question: bytes, setting: bytes
) -> None:
    queries = MODELS[model].queries
    assert queries is not None
    assert queries.fullmatch(question)
    assert not queries.fullmatch(setting)
