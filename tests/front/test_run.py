"""`choroid run`, the part that starts things: guard, controller, page."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from choroid.running import run
from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.journal.terms import JournalError
from controller.links.ownership import OWNER, holders
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from drivers.transport.opener import Streams
from drivers.transport.url import LineSettings, LinkUrl

RIG = load_rig(Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml")


async def test_a_second_run_on_one_data_directory_starts_no_guard_and_leaves_the_rig_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guards: list[Path] = []
    opened: list[str] = []

    def find_guard(rig: Rig, data: Path) -> None:
        guards.append(data)

    async def opener(url: LinkUrl, line: LineSettings) -> Streams:
        opened.append(str(url))
        raise ConnectionRefusedError

    monkeypatch.setattr(run, "GuardFinder", find_guard)
    clock = Clock(follow_system=True)
    first = Journal(tmp_path / "journal.db", clock, durable=True)
    before = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(JournalError, match="another controller of this rig is running"):
        await run.keep(RIG, tmp_path, "127.0.0.1", 0, opener, clock=clock)
    assert guards == []
    assert opened == []
    assert {path.name for path in tmp_path.iterdir()} == before
    assert holders(tmp_path / OWNER) == (os.getpid(),), "the first still has it"
    first.close()
