"""`choroid plan` of a Python protocol that never ends, blocks or fails: a clear message, never a command that hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

from choroid.common.failure import UserError
from choroid.simulation.isolation import isolated
from choroid.simulation.plan import as_text, plan
from tests.execution.world import BENCH

HEAD = 'import asyncio\nimport time\n\nNAME = "own"\nTITLE = "A test"\nPARAMS = ()\n\n\n'


def own(folder: Path, body: str) -> Path:
    path = folder / "own.py"
    path.write_text(f"{HEAD}async def protocol(lab, params):\n{body}", encoding="utf-8")
    return path


def planned(path: Path, *, patience_s: float = 3.0) -> str:
    keywords = {"path": BENCH, "protocol": str(path), "params": {}, "hours": 0.5, "seed": 1}
    return as_text(isolated(plan, keywords, protocol=path, patience_s=patience_s))


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("    while True:\n        pass\n", (10, 11)),
        ("    time.sleep(3600)\n", (10, 10)),
        ("    while True:\n        await asyncio.sleep(0)\n", (10, 11)),
        (
            "    while True:\n        try:\n            await lab.note('x', {})\n        except BaseException:\n"
            "            continue\n",
            (10, 14),
        ),
    ],
)
def test_a_protocol_that_never_gives_control_back_is_named_with_its_line(
    body: str, line: tuple[int, int], tmp_path: Path
) -> None:
    path = own(tmp_path, body)
    with pytest.raises(UserError, match=r"has not given control back for 3 s, at own\.py:") as caught:
        planned(path)
    found = int(str(caught.value).partition("own.py:")[2].partition(".")[0])
    assert line[0] <= found <= line[1]
    assert "Next: await a verb in the loop" in str(caught.value)


def test_a_protocol_named_by_a_link_in_the_working_directory_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link.py").symlink_to(own(tmp_path, "    time.sleep(3600)\n"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"has not given control back for 3 s, at link\.py:10"):
        planned(Path("link.py"))


def test_a_file_that_blocks_while_it_is_loaded_is_named(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text("while True:\n    pass\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"has not given control back for 3 s, at own\.py:"):
        planned(path)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "    while True:\n        await lab.note('x', {})\n",
            "10000 steps in 0 s. Likely cause: the protocol loops over steps",
        ),
        ("    while True:\n        await lab.sleep(0.0)\n", "10000 steps in 0 s"),
        ("    while True:\n        await asyncio.sleep(1.0)\n", "the protocol waits for something else than a verb"),
        ("    await asyncio.Event().wait()\n", "the protocol waits for something else than a verb"),
        ("    raise ValueError('no batch')\n", "the protocol stopped: no batch. Next: remove the cause and resume"),
    ],
)
def test_an_endless_waiting_or_failing_protocol_is_refused_by_the_plan(body: str, says: str, tmp_path: Path) -> None:
    text = planned(own(tmp_path, body), patience_s=20.0)
    assert f"REFUSED at {text.partition('REFUSED at ')[2].partition(':')[0]}" in text
    assert says in text
    assert "the run would be refused or harmed; see above" in text


def test_a_protocol_that_ends_the_process_or_is_not_sound_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="ended by itself"):
        planned(own(tmp_path, "    import os\n    os._exit(3)\n"))
    path = tmp_path / "own.py"
    path.write_text("1 / 0\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"ZeroDivisionError: division by zero \(own.py:1\)"):
        planned(path)


def test_a_sound_protocol_is_planned_as_without_isolation(tmp_path: Path) -> None:
    path = own(tmp_path, "    await lab.gut.feed(2000.0)\n    await lab.sleep(60.0)\n")
    assert planned(path, patience_s=20.0) == as_text(plan(BENCH, protocol=str(path), params={}, hours=0.5, seed=1))
