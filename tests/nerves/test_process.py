"""The engine as the front door starts it: spawned, told the tissue's health, and ended with its parent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from choroid.nerves_process import spawn_engine
from controller.nerves.client import GatewayNerves
from controller.rig.loading import load_rig
from tests.nerves.test_gateway import settled

BENCH = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"


async def test_health_of_the_tissue_reaches_the_electrodes(tmp_path: Path) -> None:
    engine = await spawn_engine(load_rig(BENCH), tmp_path, 3)
    nerves = GatewayNerves(engine.address, engine.token)
    try:
        while len(nerves.recent_spikes()) < 30:
            await asyncio.sleep(0.05)
        engine.set_health(0.0)
        await asyncio.sleep(0.3)
        before = len(nerves.recent_spikes())
        await asyncio.sleep(1.0)
        after = nerves.recent_spikes()
        assert len(after) <= before + 5  # noise alone crosses now and then
    finally:
        await nerves.close()
        await settled()
        await engine.close()
    engine.set_health(1.0)  # a dead engine is no concern of the tissue
    assert not (tmp_path / "nerves.json").exists()


async def test_a_rig_without_a_simulated_array_is_an_error(tmp_path: Path) -> None:
    rig = load_rig(BENCH)
    with pytest.raises(ValueError, match="no simulated electrode array"):
        await spawn_engine(rig.model_copy(update={"nerves": None}), tmp_path, 1)


async def test_an_engine_that_cannot_start_says_so(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(RuntimeError, match="before it was ready"):
        await spawn_engine(load_rig(BENCH), blocked, 1)
