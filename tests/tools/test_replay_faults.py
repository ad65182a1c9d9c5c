"""`choroid driver replay` of captures in which lines and devices failed: the same calls still give the same bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from choroid.simulation.simulate import EPOCH
from choroid.tools.recording import recorded
from choroid.tools.replaying import as_text, replay
from controller.core.clock import Clock
from controller.links.connect import device_config
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.recipes.catalogue import find
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from drivers.errors import DeviceError
from drivers.mettler_sics import MettlerSics
from drivers.registry import build, open_link
from drivers.transport.opener import Opener, Streams
from drivers.transport.url import LineSettings, LinkUrl
from sim.faults.chance import draw_one
from sim.faults.injector import Injector
from sim.faults.kinds import KINDS
from sim.faults.schedule import Fault
from sim.faults.targets import targets
from sim.lab import SimulatedLab
from sim.virtual_time import run_virtual

RIGS = Path(__file__).resolve().parents[2] / "examples" / "rigs"
BENCH = load_rig(RIGS / "bench.yaml")
ON_WIRES = [name for name, kind in KINDS.items() if kind.group == "link"]
OF_DEVICES = [name for name, kind in KINDS.items() if kind.group == "device" and kind.target == "device"]
DRAWN = {"min_batch": "18 mL"}
BEGIN_S, LAST_S = 20.0, 20.0


def capture(path: Path, rig: Rig, faults: Sequence[Fault], for_s: float, seed: int = 1) -> None:
    """Capture `for_s` seconds of a controller on a simulated rig with `faults`."""

    async def live() -> None:
        lab = SimulatedLab(rig, seed=seed)
        with recorded(path, rig, lab.opener) as opener:
            clock = Clock(follow_system=False, epoch=EPOCH)
            controller = Controller(rig=rig, opener=opener, storage=Storage(path.parent, durable=False), clock=clock)
            injector = Injector(lab, faults, seed=seed)
            stop = asyncio.Event()
            await controller.start()
            running = [asyncio.create_task(controller.run(stop)), asyncio.create_task(injector.run())]
            await controller.runs.start(find("recycle"), DRAWN, user="test", reason="test")
            await asyncio.sleep(for_s)
            running[1].cancel()
            stop.set()
            await asyncio.gather(*running, return_exceptions=True)
            await controller.close()
            await lab.close()

    run_virtual(live())


def differences(path: Path) -> list[str]:
    return [f"{link['link']}: {link['difference']}" for link in replay(path)["links"] if not link["same"]]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("kind", [kind for kind in (*ON_WIRES, *OF_DEVICES) if targets(kind, BENCH)])
def test_a_capture_with_a_fault_replays(kind: str, tmp_path: Path) -> None:
    """Of drop, delay, garble, lost and doubled bytes and more, replay said that other bytes were sent."""
    rig = load_rig(RIGS / "bench.yaml")
    for_s = 0.0 if KINDS[kind].momentary else LAST_S
    faults = [Fault(kind, target, BEGIN_S + 3 * n, for_s) for n, target in enumerate(targets(kind, rig))]
    path = tmp_path / "capture.jsonl"
    capture(path, rig, faults, 90.0)
    assert faults
    assert differences(path) == []


@pytest.mark.parametrize(("name", "seed"), [("bench", 11), ("other_makers", 12)])
def test_a_capture_of_many_faults_at_once_replays(name: str, seed: int, tmp_path: Path) -> None:
    rig = load_rig(RIGS / f"{name}.yaml")
    rng = np.random.default_rng(seed)
    kinds = [kind for kind in (*ON_WIRES, *OF_DEVICES) if targets(kind, rig)]
    faults = []
    for at_s in rng.uniform(10.0, 800.0, 40):
        kind = str(rng.choice(kinds))
        drawn = draw_one(rng, KINDS[kind], str(rng.choice(targets(kind, rig))), float(at_s))
        faults.append(Fault(kind, drawn.target, drawn.at_s, min(drawn.for_s, 60.0), drawn.amount))
    path = tmp_path / "capture.jsonl"
    capture(path, rig, faults, 900.0, seed)
    captured = rows(path)
    assert sum("lost" in row for row in captured) > 5
    assert sum(row.get("open") is False for row in captured) > 2
    assert differences(path) == []


@pytest.fixture(scope="module")
def garbled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bench rig, with garbled bytes on all lines and one that is unplugged."""
    rig = load_rig(RIGS / "bench.yaml")
    faults = [Fault("garble", link, BEGIN_S, LAST_S) for link in targets("garble", rig)]
    path = tmp_path_factory.mktemp("capture") / "garbled.jsonl"
    capture(path, rig, [*faults, Fault("unplug", "sim:gas", 50.0, 10.0)], 80.0)
    return path


def test_a_change_is_found_in_a_capture_with_faults(garbled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = MettlerSics.weigh
    asked = 0

    async def weigh(self: MettlerSics) -> Any:
        nonlocal asked
        asked += 1
        return await (self._conversation.ask(b"S\r\n", self.weight) if asked == 30 else plain(self))

    monkeypatch.setattr(MettlerSics, "weigh", weigh)
    assert [text.split(" was ")[1] for text in differences(garbled)] == [
        "53 49 0d 0a (SI<CR><LF>) and is now 53 0d 0a (S<CR><LF>)"
    ]


def test_a_capture_that_breaks_off_anywhere_replays_up_to_there(garbled: Path, tmp_path: Path) -> None:
    """A killed program leaves a capture that ends within a line, or between a call and its result."""
    whole = garbled.read_bytes()
    cut = tmp_path / "cut.jsonl"
    assert replay(garbled)["whole"]
    for length in range(len(whole) - 1, len(whole) // 2, -len(whole) // 40):
        cut.write_bytes(whole[:length])
        assert differences(cut) == [], length
    assert not replay(cut)["whole"]
    assert "breaks off" in as_text(replay(cut))
    lines = whole.splitlines(keepends=True)
    calls = [n for n, line in enumerate(lines) if b'"call"' in line and b'">"' in lines[n + 1]]
    for n in calls[-12:]:
        cut.write_bytes(b"".join(lines[: n + 1]))
        assert differences(cut) == [], n


def test_a_request_too_many_at_the_end_of_a_whole_capture_is_found(garbled: Path, tmp_path: Path) -> None:
    """What a capture lacks because it breaks off is no difference; what one that was ended lacks is one."""
    head, *rest = rows(garbled)
    of_one = [n for n, row in enumerate(rest) if row.get("link") == 10]
    pairs = pairwise(of_one)
    call = max(n for n, m in pairs if "call" in rest[n] and ">" in rest[m] and rest[n]["t"] == rest[m]["t"])
    left = [head, *rest[: call + 1]]
    spoilt = tmp_path / "spoilt.jsonl"
    spoilt.write_text("\n".join(map(json.dumps, left)))
    assert differences(spoilt) == []
    spoilt.write_text("\n".join(map(json.dumps, [*left, {"t": rest[call]["t"], "end": True}])))
    assert [text.split(": request")[0] for text in differences(spoilt)] == ["sim:balance"]


# --- lines that open late, or break with an error --------------------------------------------------------------


def one_balance(path: Path, opener: Callable[[SimulatedLab], Opener], for_s: float) -> list[dict[str, Any]]:
    """Capture a balance that is read twice a second on a line that `opener` opens."""
    rig = load_rig(RIGS / "bench.yaml")
    spec = rig.devices["balance"]

    async def live() -> None:
        lab = SimulatedLab(rig, seed=1)
        with recorded(path, rig, opener(lab)) as opening:
            link = open_link(spec.link, [spec.model], opening)
            sensor = build(spec.model, link, device_config("balance", spec)).sensors["mass"]
            starting = asyncio.create_task(link.start())
            for _ in range(int(2 * for_s)):
                await asyncio.sleep(0.5)
                try:
                    await sensor.read()
                except DeviceError:
                    continue
            await starting
            await link.close()
        await lab.close()

    run_virtual(live())
    return rows(path)


def test_a_line_that_opens_slowly_or_not_in_time_replays(tmp_path: Path) -> None:
    def slow(lab: SimulatedLab) -> Opener:
        waits = iter([2.0, 100.0, 3.0, *[0.7] * 99])

        async def opening(url: LinkUrl, line: LineSettings) -> Streams:
            await asyncio.sleep(next(waits))
            reader, writer = await lab.opener(url, line)
            asyncio.get_running_loop().call_later(6.0, writer.close)
            return reader, writer

        return opening

    path = tmp_path / "slow.jsonl"
    captured = one_balance(path, slow, 60.0)
    assert [row["open"] for row in captured if "open" in row][:3] == [True, False, True]
    assert differences(path) == []


def test_a_line_that_breaks_with_an_error_is_captured_as_lost_and_replays(tmp_path: Path) -> None:
    def breaking(lab: SimulatedLab) -> Opener:
        async def opening(url: LinkUrl, line: LineSettings) -> Streams:
            reader, writer = await lab.opener(url, line)
            asyncio.get_running_loop().call_later(5.0, reader.set_exception, ConnectionResetError("pulled"))
            return reader, writer

        return opening

    path = tmp_path / "broken.jsonl"
    captured = one_balance(path, breaking, 30.0)
    assert sum("lost" in row for row in captured) >= 3
    assert differences(path) == []


def test_a_write_that_fails_is_captured_as_a_lost_line_and_replays(tmp_path: Path) -> None:
    def failing(lab: SimulatedLab) -> Opener:
        async def opening(url: LinkUrl, line: LineSettings) -> Streams:
            reader, writer = await lab.opener(url, line)
            plain, left = writer.write, [12]

            def write(data: bytes | bytearray | memoryview) -> None:
                left[0] -= 1
                if left[0] < 0:
                    writer.close()
                    raise OSError("the adapter is gone")
                plain(data)

            writer.write = write  # type: ignore[method-assign]
            return reader, writer

        return opening

    path = tmp_path / "failing.jsonl"
    captured = one_balance(path, failing, 30.0)
    assert sum("lost" in row for row in captured) >= 2
    assert differences(path) == []
