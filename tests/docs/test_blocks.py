"""Every block of the pages is read as what it is: commands by their parser, YAML, JSON and Python by theirs.

Commands of the first pages are carried out (tests/docs/test_commands.py); recipes, rigs and programs that a page shows as a
whole are carried out by the tests of their subject. What is left is counted here.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from choroid.cli import _parser, main

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
FENCED = re.compile(r"^( *)```([a-z]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^    choroid .*\n)+", re.MULTILINE)
COMMENT = re.compile(r"\s#\s.*$")
SHELL = ("", "sh", "bash", "console")
MARKED = {
    "grid ": (1, "a drawing of which process dials which"),
    "writing-a-driver python": (2, "lines within a function"),
}
"""By page and language how many blocks are not read, and why."""
SIGNATURES = ("api", "python")
"""Written by tests/api/make_page.py from the code."""


class Block(NamedTuple):
    """One block of a page."""

    page: str
    language: str
    text: str


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for _, language, block in FENCED.findall(text):
            if (page.stem, language) != SIGNATURES:
                yield Block(page.stem, language, textwrap.dedent(block))
        for block in INDENTED.findall(FENCED.sub("", text)):
            yield Block(page.stem, "console", textwrap.dedent(block))


def commands(block: Block) -> Iterator[str]:
    """Yield the commands of this program, without what the shell does with them."""
    for line in block.text.replace("\\\n", " ").splitlines():
        command = COMMENT.sub("", line.strip().removeprefix("$ ")).replace(".venv/bin/", "")
        if command.startswith("choroid "):
            yield re.split(r" \| | && | > | &$|;$", command)[0]


def unread(block: Block) -> str:
    """Return why a block cannot be read; empty if it can."""
    try:
        if block.language in SHELL:
            for command in commands(block):
                _parser().parse_args(shlex.split(command)[1:])
        elif block.language == "yaml":
            list(yaml.safe_load_all(block.text))
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "python":
            compile(block.text, block.page, "exec", flags=0x2000)  # an await outside a function is one of a shell
    except SystemExit as ended:
        return "" if not ended.code else f"{command}: its parser refuses it"
    except (SyntaxError, ValueError, yaml.YAMLError) as error:
        return f"{error}"
    return ""


def test_every_block_is_read_but_for_those_that_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    every = list(blocks())
    assert len(every) > 130
    assert sum(1 for block in every if block.language in SHELL for _ in commands(block)) > 80
    found: dict[str, list[str]] = {}
    for block in every:
        if why := unread(block):
            found.setdefault(f"{block.page} {block.language}", []).append(f"{why}\n{block.text}")
    capsys.readouterr()
    new = {name: texts for name, texts in found.items() if name not in MARKED}
    assert not new, new
    assert {name: len(texts) for name, texts in found.items()} == {name: count for name, (count, _) in MARKED.items()}


def test_the_rigs_that_a_block_makes_are_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The comparison of docs/recycling.md runs rigs that are read more seldom."""
    block = next(block for block in blocks() if block.page == "recycling" and "sed -E" in block.text)
    makes = [line for line in block.text.splitlines() if line.startswith(("mkdir", "for "))]
    assert len(makes) == 2
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    subprocess.run(["bash", "-ec", "\n".join(makes)], cwd=tmp_path, check=True)
    rigs = sorted((tmp_path / "slow").iterdir())
    assert [rig.name for rig in rigs] == ["bench.yaml", "bench_dialysis.yaml"]
    for rig in rigs:
        assert rig.read_text(encoding="utf-8") != (ROOT / "examples" / "rigs" / rig.name).read_text(encoding="utf-8")
        assert main(["check", str(rig)]) == 0, capsys.readouterr().err
