"""`choroid plan` of a Python protocol that never ends, blocks or fails: a clear message, never a command that hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

from choroid.common.failure import explain
from choroid.simulation.plan import as_text, plan
from tests.execution.world import BENCH

HEAD = 'import asyncio\nimport time\n\nNAME = "own"\nTITLE = "A test"\nPARAMS = ()\n\n\n'


def own(folder: Path, body: str) -> Path:
    path = folder / "own.py"
    path.write_text(f"{HEAD}async def protocol(lab, params):\n{body}", encoding="utf-8")
    return path


def planned(path: Path) -> str:
    return as_text(plan(BENCH, protocol=str(path), params={}, hours=0.5, seed=1))


@pytest.fixture
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.runs.python_process.PATIENCE_S", 2.0)


@pytest.mark.usefixtures("_short_patience")
@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("    while True:\n        pass\n", (10, 11)),
        ("    time.sleep(3600)\n", (10, 10)),
    ],
)
def test_a_protocol_that_never_gives_control_back_is_named_with_its_line(
    body: str, line: tuple[int, int], tmp_path: Path
) -> None:
    text = planned(own(tmp_path, body))
    refused = text.partition("REFUSED at ")[2]
    assert "the protocol has not asked for a verb for 2 s, at own.py:" in refused
    assert line[0] <= int(refused.partition("own.py:")[2].partition(" ")[0]) <= line[1]
    assert "Next: await a verb in the loop" in refused


@pytest.mark.usefixtures("_short_patience")
def test_a_protocol_named_by_a_link_in_the_working_directory_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link.py").symlink_to(own(tmp_path, "    time.sleep(3600)\n"))
    monkeypatch.chdir(tmp_path)
    assert "has not asked for a verb for 2 s, at own.py:10" in planned(Path("link.py"))


@pytest.mark.usefixtures("_short_patience")
def test_a_file_that_blocks_while_it_is_loaded_is_named(tmp_path: Path) -> None:
    path = own(tmp_path, "    pass\nwhile True:\n    pass\n")
    with pytest.raises(Exception, match=r"has not asked for a verb for 2 s, at own\.py:1[12] ") as caught:
        planned(path)
    assert "Next: await a verb in the loop" in str(explain(caught.value))


@pytest.mark.usefixtures("_short_patience")
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "    while True:\n        await lab.note('x', {})\n",
            "10000 steps in 0 s. Likely cause: the protocol loops over steps",
        ),
        (
            "    while True:\n        try:\n            await lab.note('x', {})\n        except BaseException:\n"
            "            continue\n",
            "10000 steps in 0 s",
        ),
        ("    while True:\n        await lab.sleep(0.0)\n", "10000 steps in 0 s"),
        ("    while True:\n        await asyncio.sleep(0)\n", "has not asked for a verb for 2 s"),
        ("    while True:\n        await asyncio.sleep(1.0)\n", "has not asked for a verb for 2 s"),
        ("    await asyncio.Event().wait()\n", "has not asked for a verb for 2 s"),
        ("    raise ValueError('no batch')\n", "ValueError: no batch (own.py:10)"),
        ("    import os\n    os._exit(3)\n", "the process of the protocol ended by itself. Likely cause:"),
    ],
)
def test_an_endless_waiting_or_failing_protocol_is_refused_by_the_plan(body: str, says: str, tmp_path: Path) -> None:
    text = planned(own(tmp_path, body))
    assert says in text.partition("REFUSED at ")[2]
    assert "the run would be refused or harmed; see above" in text


def test_a_file_that_fails_while_it_is_loaded_is_named_with_its_line(tmp_path: Path) -> None:
    path = own(tmp_path, "    pass\n1 / 0\n")
    with pytest.raises(Exception, match=r"ZeroDivisionError: division by zero \(own.py:11\)") as caught:
        planned(path)
    assert explain(caught.value) is not None


def test_a_sound_protocol_is_planned(tmp_path: Path) -> None:
    path = own(tmp_path, "    await lab.gut.feed(2000.0)\n    await lab.sleep(60.0)\n")
    assert "REFUSED" not in planned(path)
