"""In a notebook: the one in examples/ reads three weeks of pH, and a simulation runs although a loop runs already."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from datetime import UTC, datetime
from pathlib import Path

import choroid
from controller.memory.history import History
from dashboards.auth import Role
from tests.api.strays import strew
from tests.dashboards.test_server import serving

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples" / "notebooks" / "three_weeks_of_ph.ipynb"
BENCH = ROOT / "examples" / "rigs" / "bench.yaml"
WEEKS_S = 21 * 86_400


async def test_the_notebook_reads_three_weeks_of_ph(tmp_path: Path) -> None:
    strew(tmp_path)  # a user's files next to the notebook
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert not any(cell.get("outputs") for cell in notebook["cells"]), "commit it without outputs"
    async with serving() as (w, port):
        end = int(w.controller.clock.utc().timestamp())
        history = History(tmp_path / "history.db", w.controller.clock)
        readings = ((at, 7.35 + 0.1 * math.sin(at / 9000)) for at in range(end - WEEKS_S, end, 60))
        history.insert("ph_loop.ph", "pH", readings)
        history.insert("ph_loop.ph", "pH", [(end - 9 * 86_400 + 0.5, 6.9)])
        w.controller.history = history  # type: ignore[assignment]
        (tmp_path / "choroid-data").mkdir()
        endpoint = {"url": f"http://127.0.0.1:{port}", "token": w.tokens[Role.VIEWER]}
        (tmp_path / "choroid-data" / "endpoint.json").write_text(json.dumps(endpoint))
        words = "-m", "tests.api.execute_notebook", str(NOTEBOOK), str(tmp_path / "out.ipynb"), str(tmp_path)
        process = await asyncio.create_subprocess_exec(sys.executable, *words, cwd=ROOT)
        assert await process.wait() == 0
        history.close()
    notebook = json.loads((tmp_path / "out.ipynb").read_text(encoding="utf-8"))
    told = [
        "".join(output.get("text") or output["data"]["text/plain"])
        for cell in notebook["cells"]
        for output in cell.get("outputs", ())
    ]
    assert len(told) == 5
    assert told[0] == "'bench'"
    assert told[1].endswith("rows, unit pH\n")
    assert 2500 < int(told[1].split()[0]) <= 4000
    dip = datetime.fromtimestamp(end - 9 * 86_400, UTC)
    (line,) = told[4].splitlines()
    assert line.startswith(f"{dip:%Y-%m-%d}")
    assert "pH 6.90 to" in line


async def test_a_simulation_in_a_running_loop_is_the_same(tmp_path: Path) -> None:
    def journal() -> object:
        return choroid.simulate(BENCH, days=0.002, seed=7)["journal_sha256"]

    assert journal() == await asyncio.to_thread(journal)
