"""The pages on the Python API: the reference is current, and every example runs as it stands, against a real controller."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import choroid
from tests.api.make_page import GROUPS, PAGE, page
from tests.processes import BENCH, Bench, until

GUIDE = PAGE.with_name("python.md")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_reference_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs` and commit docs/api.md"


def test_the_reference_has_every_public_name() -> None:
    homes = [home for group in GROUPS.values() for home in group]
    assert sorted(homes) == sorted(set(choroid._HOMES.values()))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Path]:
    """The folder in which the guide's commands run: a rig file, a served lab, and its controller."""
    shutil.copy(BENCH, tmp_path / "rig.yaml")
    bench = Bench(tmp_path, array=True)
    try:
        bench.run()
        until((bench.data / "nerves.json").exists, "the electrode engine is there")
        client = choroid.connect(data=bench.data)
        until(lambda: read(client, "ph_loop.ph"), "the pH is read")
        yield tmp_path
    finally:
        bench.end()


def read(client: choroid.ControllerClient, point: str) -> bool:
    reading = client.state().readings.get(point)
    return reading is not None and reading.value is not None


@pytest.mark.long
def test_every_example_of_the_guide_runs(rig: Path) -> None:
    blocks = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    assert len(blocks) >= 12
    (rig / "guide.py").write_text("\n\n".join(blocks), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, "guide.py"], cwd=rig, env=environment, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "bench admin"
    assert lines[-1] == "True", "the chain of the exported journal ends where the manifest says"
    assert any(line.startswith("404 ") for line in lines)
    assert sorted(path.name for path in (rig / "week").iterdir())[0] == "history.csv"
