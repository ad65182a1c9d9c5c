"""Each command block of the other pages is carried out: in a folder with the examples, records, and one real controller.

What cannot run in a test stands in `NOT_RUN` with its reason. `ADAPTED` names what is changed in a command that runs: a
reader's own names, and what would take hours. A block that takes longer than some seconds is marked `long`.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from choroid.cli import _parser, main
from choroid.simulation.simulate import simulate
from tests.docs.test_blocks import SHELL, Block, blocks
from tests.docs.test_commands import COMMENT, PAGES, ROOT, Place
from tests.execution.world import BENCH
from tests.processes import until

FIRST = {Path(page).stem for page in PAGES}
"""Pages whose commands tests/docs/test_commands.py carries out."""

FIRST_TOKEN = "$(choroid user list --data data --json | grep -oE '[0-9a-f]{12}' | head -1)"
ADAPTED = {
    "/mnt/archive/choroid": "archive",
    "ID.checkpoints": "*.checkpoints",
    '"bench/…+…+…"': '"$(cat bundle/audit.key.pub)"',
    " DATA": " data",
    "--from 2026-03-01 --to 2026-04-01": "--data choroid-data --from 2026-01-01 --to 2026-01-02",
    "--from yesterday": "--data choroid-data --from 1h --to end",
    "--from 7d": "--from 7d --to end",
    'lactate "8.2 mM" --vessel spent --taken 10:40': 'lactate "0.1 mM" --vessel spent --taken NOW --sure --data data',
    '"312 mg/dL" --vessel loop --taken 2026-05-04T22:15': '"380 mg/dL" --vessel loop --taken NOW --sure --data data',
    '"0.31 mM" --vessel loop --taken 08:15': '"0.02 mM" --vessel loop --taken NOW --sure --data data',
    '"12 U/L" --vessel loop --taken 10:40': '"12 U/L" --vessel loop --taken NOW --data data',
    "look.yaml --set volume=8.4": "look.yaml --set volume=8.4 --data data",
    "choroid agent add": "choroid agent add --data data",
    "choroid agent list": "choroid agent list --data data",
    "choroid agent renew": "choroid agent renew --data data",
    "choroid agent remove": "choroid agent remove --data data",
    "choroid agent certify-engine": "choroid agent certify-engine --data data",
    "choroid agent certify pong": "choroid agent certify pong --data data",
    "recording start": "recording start --data data",
    "recording status": "recording status --data data",
    "recording stop": "recording stop --data data",
    "recording list": "recording list --data data",
    "recording export": "recording export --data data",
    "user revoke 3f9c0a51d2e7": f"user add Ada --role viewer --data data && choroid user revoke {FIRST_TOKEN}",
    "create --output my-rig.yaml": "create --defaults --output my-rig.yaml",
    "--days 28": "--days 0.02",
    "--specimen 7 --minutes 5": "--specimen 7 --minutes 0.5",
    "simulate laboratories": "simulate laboratories --laboratories 2 --organoids 2 --minutes 0.5",
    "--days 60 --seeds 20 --jobs 4": "--days 0.02 --seeds 2 --jobs 1",
    "--runs 200 --days 0.25 --seed 1 --jobs 4": "--runs 1 --days 0.02 --seed 1 --jobs 1",
}
"""By text: what takes its place, one after the other."""
LONG = (
    "choroid verify comparison",
    "choroid verify campaign --runs 1 ",
    "choroid verify campaign --replay",
    "choroid recording st",
    "choroid recording export",
)
"""An export waits up to a minute for the readings."""


FINDS = "choroid verify campaign --replay"
"""It replays a trial in which a fault was found, so it finds it again and ends with 1."""


class NotRun(NamedTuple):
    """Why commands are not run here; `fails`: they fail at once, as what they need is not there (which is tested)."""

    why: str
    fails: bool = False


SUITE = NotRun("it is a part of this suite, or writes pages of the documents")
HUB = NotRun("it needs a hub; tests/grid/test_commands.py and test_demo.py", fails=True)
HOURS = NotRun("minutes or hours")
SERVICE = NotRun("it goes on until it is ended; the fixture and tests/grid begin such services")
NOT_RUN = {
    "python -m tests.": SUITE,
    "pytest ": SUITE,
    "make fuzz": SUITE,
    "pip install": NotRun("it changes the environment; tests/front/test_packaging.py"),
    "python decoder.py": NotRun("its program is that of the page; tests/grid/test_demo.py"),
    "choroid driver test acme": NotRun("a driver that the reader writes", fails=True),
    "choroid verify conformance acme": NotRun("a driver that the reader writes", fails=True),
    "choroid audit verify bundle --key \"$(cat bundle/audit.key.pub)\" --witness": HUB,
    "choroid audit renew": NotRun("for a journal that was repaired; tests/front/test_audit.py", fails=True),
    "choroid commission": NotRun("it asks a person at the rig; tests/commissioning answers"),
    "choroid sort": NotRun("minutes; tests/sorting"),
    "choroid recording psth": NotRun("it needs a recording with pulses; tests/nwb", fails=True),
    "choroid fit": NotRun("it needs days of records; tests/fitting", fails=True),
    "choroid simulate rig.yaml --tissue twin.yaml": NotRun("it needs the result of `choroid fit`", fails=True),
    "choroid comparison simulate plan.yaml --pilot": NotRun("it needs the plan of a pilot; tests/comparison", fails=True),
    "choroid comparison evaluate": NotRun("it needs timelines of weeks; tests/comparison", fails=True),
    "choroid lab serve": SERVICE,
    "choroid run": SERVICE,
    "choroid grid demo": SERVICE,
    "choroid grid hub run": SERVICE,
    "choroid grid page serve": SERVICE,
    "choroid grid hub measure": HOURS,
    "choroid grid board play": HOURS,
    "choroid grid tune": NotRun("it trains for a minute; tests/grid/test_organoid_lm.py", fails=True),
    "choroid grid prepare train": NotRun("it fetches torch; tests/grid/test_jobs.py"),
    "choroid grid": HUB,
    "choroid verify bench": HOURS,
    "choroid verify kills": HOURS,
    "choroid verify campaign": HOURS,
    "choroid verify sensitivity": NotRun("half a minute each; tests/front/test_sensitivity.py"),
}  # fmt: skip
"""By the begin of a command, the first that fits."""
RUN = ("choroid grid data make", "choroid grid data simulate", "choroid grid data list", *LONG)
"""Commands that run although a shorter beginning is in NOT_RUN."""
PLAIN = re.compile(r"choroid [^$*|&;<>]*")
"""A command without anything that a shell does."""


def lines(block: Block) -> list[str]:
    """The commands of a block as they are run."""
    found = []
    for line in block.text.replace("\\\n", " ").splitlines():
        command = COMMENT.sub("", line.strip().removeprefix("$ ")).replace(".venv/bin/", "").strip()
        for shown, run in ADAPTED.items():
            command = command.replace(shown, run)
        found += [command] if command else []
    return found


def left_out(command: str) -> NotRun | None:
    if command.startswith(RUN):
        return None
    return next((why for start, why in NOT_RUN.items() if command.startswith(start)), None)


def is_commands(block: Block) -> bool:
    """Whether a block without a language holds commands: some hold drawings or what a program prints."""
    return block.language in SHELL[1:] or (
        (
            block.language == ""
            and re.search(r"^(?:\$ )?(?:choroid|mkdir|for|make) ", block.text, re.MULTILINE) is not None
        )
        and "──" not in block.text
    )


EVERY = [(block, lines(block)) for block in blocks() if block.page not in FIRST and is_commands(block)]
COMMANDS = [command for _, commands in EVERY for command in commands]
CASES = [
    pytest.param(
        commands,
        id=f"{block.page}-{number}",
        marks=[pytest.mark.long] if any(command.startswith(LONG) for command in commands) else [],
    )
    for number, (block, commands) in enumerate(EVERY)
    if any(left_out(command) is None for command in commands)
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A folder with the examples, records of an hour, and a controller on the lab in software."""
    made = Place(tmp_path_factory.mktemp("pages").resolve())
    try:
        shutil.copyfile(BENCH, made.folder / "rig.yaml")
        (made.folder / "archive").mkdir()
        plan = next(block.text for block in blocks() if block.page == "statistics" and block.language == "yaml")
        (made.folder / "plan.yaml").write_text(plan, encoding="utf-8")
        simulate(
            BENCH, protocol="exchange", params={}, days=0.05, seed=1, data=made.folder / "choroid-data", progress=False
        )
        made.begin(["choroid", "lab", "serve", "rig.yaml", "--write", "lab.yaml"])
        made.begin(["choroid", "run", "lab.yaml", "--data", "data", "--port", "0"])
        until((made.folder / "data" / "nerves.json").exists, "the electrode engine has begun", seconds=120.0)
        yield made
    finally:
        made.end()


@pytest.mark.parametrize("commands", CASES)
def test_the_block_works_as_shown(
    commands: list[str], place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place.folder)
    for command in commands:
        if left_out(command) is None:
            status, said = carried_out(command, place.folder, capsys)
            assert status == int(command.startswith(FINDS)), f"{command}\n{said}"
            assert "Traceback" not in said


def carried_out(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run a command; return its status and what it said."""
    command = command.replace("NOW", f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
    if PLAIN.fullmatch(command):
        try:
            status = main(shlex.split(command)[1:])
        except SystemExit as ended:
            status = int(ended.code or 0)
        said = capsys.readouterr()
        return status, said.out + said.err
    function = f'choroid() {{ {shlex.quote(sys.executable)} -P -m choroid "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-ec", function + command],
        cwd=folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout + done.stderr


def test_what_is_not_run_is_parsed_and_each_entry_is_in_use() -> None:
    assert len(COMMANDS) > 90
    kept = [command for command in COMMANDS if left_out(command) is None]
    assert len(kept) >= 30
    parser = _parser()
    for command in COMMANDS:
        if left_out(command) is not None and PLAIN.fullmatch(command):
            assert callable(parser.parse_args(shlex.split(command)[1:]).handler)
    for start in NOT_RUN:
        assert any(command.startswith(start) and left_out(command) is NOT_RUN[start] for command in COMMANDS), (
            f"no page shows “{start}”"
        )
    shown = "\n".join(command for block, _ in EVERY for command in block.text.replace("\\\n", " ").splitlines())
    for text in ADAPTED:
        assert text in " ".join(shown.split("\n")) or any(text in other for other in ADAPTED.values()), (
            f"no page shows “{text}”"
        )


FAILING = [
    command for command in COMMANDS if (why := left_out(command)) is not None and why.fails and PLAIN.fullmatch(command)
]


@pytest.mark.parametrize("command", FAILING)
def test_what_needs_something_that_is_not_here_fails_and_says_so(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the command can run, and its entry in NOT_RUN must go."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    shutil.copyfile(BENCH, tmp_path / "rig.yaml")
    status, said = carried_out(command, tmp_path, capsys)
    assert status != 0, f"{command} can be run"
    assert "Traceback" not in said
