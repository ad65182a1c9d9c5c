"""libyaml reads a file where it gives the same result as PyYAML; PyYAML reads the others. The result never differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.rig.document import DEEPEST, read_document
from controller.rig.problems import RigError

ROOT = Path(__file__).parents[2]
SHIPPED = sorted([*ROOT.glob("examples/**/*.yaml"), *ROOT.glob("protocols/**/*.yaml")])
ODD = (
    "key:\tvalue\n",
    "\tkey: value\n",
    "a: {from: x, to?: y}\n",
    "a: {from: x, t?o: y} # a comment\n",
    "a: [b#c?, d]\n",
    "a: 1 # or 2?\n",
    "a: #1\n\ufeffname: x\n",
    "a: &x 1\nb: *x\n",
    "a: !!python/object:os.system 1\n",
    "a: b: c\n",
    "a: [1, 2\n",
    "a: 'x\n",
    "a: @x\n",
    "a: \x00\n",
    "a: 1\n---\nb: 2\n",
    "a: 1\na: 2\n",
    "%YAML 1.3\n---\na: 1\n",
    "a: {x:}\n",
    "a: 2026-13-45\n",
    "a: " + "[" * (DEEPEST + 1) + "\n",
    "- a\nb: 1\n",
    "",
)


def _read(path: Path) -> Any:
    try:
        document = read_document(path, deepest=DEEPEST)
    except RigError as error:
        return [str(problem) for problem in error.problems]
    return document.data, document.lines, [str(problem) for problem in document.problems]


@pytest.mark.parametrize("text", [*ODD, *(path.read_text() for path in SHIPPED)], ids=range(len(ODD) + len(SHIPPED)))
def test_both_readers_give_the_same_data_lines_and_problems(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text, encoding="utf-8", newline="")
    usual = _read(path)
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    assert usual == _read(path)


def test_the_shipped_rigs_are_read_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object, **__: object) -> None:
        raise AssertionError("PyYAML's own reader was asked")

    monkeypatch.setattr(yaml, "SafeLoader", slow)
    for path in sorted((ROOT / "examples/rigs").glob("*.yaml")):
        assert read_document(path).data["choroid"] == 1
