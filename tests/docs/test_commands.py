"""Each command that the first pages show is carried out: README, first hour and safety.

Commands run as they stand, in the order of the pages, against the lab in software and one real controller. `ADAPTED` names
what is changed in them, so that a week of simulation takes a moment. `NOT_RUN` names what cannot run here, and why; of these
the words are still parsed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from choroid.cli import _parser, main
from choroid.operating.remote import call, endpoint_of
from tests.processes import children_of, until

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/first-hour.md", "docs/safety.md")
BLOCK = re.compile(r"^```(?:console|sh|bash)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"(?:^|\s\s+|\s)#\s.*$")

ADAPTED = {
    "--days 7": "--days 0.01",
    "choroid run lab.yaml": "choroid run lab.yaml --port 0",
    "plan examples/rigs/bench.yaml recycle": "plan examples/rigs/bench.yaml recycle --hours 0.5",
    "my-rig.yaml": "examples/rigs/bench.yaml",
    'lactate "8.2 mM"': 'lactate "0.1 mM" --sure',
    "--taken 10:40": "--taken NOW",
    "tcp://moxa:4001": "LAB",
    "rig.yaml --data /var/lib/choroid": "lab.yaml --data ./data",
    "service install lab.yaml": "service install lab.yaml --root ./root",
}
"""Times that are too long for a test, names of the reader's own things, and folders of the system."""
NOT_RUN = {
    "make demo": "it installs an environment; test_first_run.py runs the demo of the wheel",
    "make grid": "it installs an environment; tests/grid/test_demo.py runs its command",
    "make test": "it is this suite",
    "choroid fit": "it needs days of records; tests/fitting",
    "choroid commission": "it asks a person at the rig; tests/commissioning answers",
    "choroid verify conformance": "minutes; tests/conformance",
    "choroid validate": "half a minute; tests/sim/plant/test_validation.py",
    "choroid verify campaign": "minutes; tests/campaign",
    "choroid verify comparison": "minutes; tests/front/test_compare.py",
    "choroid verify sensitivity": "half a minute; tests/front/test_sensitivity.py",
    "choroid verify kills": "minutes; tests/crash",
    "choroid verify soak": "hours; tests/front/test_soak.py",
    "choroid verify bench": "minutes of an idle machine",
}
SERVICES = ("lab", "guard", "run")
FIRST = ("choroid lab serve", "choroid device probe", "choroid guard", "choroid run")
"""Services, which go on until they are ended, are begun before the others. A link is probed before a controller has it."""


def commands() -> list[tuple[str, str]]:
    """(page, command) of every line of every command block; what ends the rest comes last."""
    found: dict[str, str] = {}
    for page in PAGES:
        for block in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
            for line in block.splitlines():
                command = " ".join(COMMENT.sub("", line).replace(".venv/bin/", "").split())
                if command:
                    found.setdefault(command, page)
    rank = {word: place for place, word in enumerate(FIRST, -len(FIRST))}
    order = [
        (command.startswith("choroid stop"), next((at for first, at in rank.items() if command.startswith(first)), 0))
        for command in found
    ]
    return [
        (page, command) for _, (command, page) in sorted(zip(order, found.items(), strict=True), key=lambda x: x[0])
    ]


COMMANDS = commands()


def adapted(command: str, place: Place | None) -> list[str]:
    for shown, run in ADAPTED.items():
        command = command.replace(shown, run)
    if place is not None:
        command = command.replace("NOW", f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
        if "LAB" in command.split():
            command = command.replace("LAB", place.lab_link())
    return shlex.split(command)


class Place:
    """A folder like a checkout, with the services that were begun there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "examples").symlink_to(ROOT / "examples")
        self.services: dict[str, subprocess.Popen[bytes]] = {}

    def begin(self, words: list[str]) -> subprocess.Popen[bytes]:
        """Begin a service, and wait until it does its work."""
        name = words[1]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "choroid", *words[1:]], cwd=self.folder, stdout=log, stderr=log
            )
        self.services.setdefault(name, process)
        sign = {"lab": "lab.yaml", "guard": "data/guard.sock", "run": "data/endpoint.json"}[name]
        until((self.folder / sign).exists, f"{' '.join(words)} has begun", seconds=120.0)
        assert process.poll() is None, (self.folder / f"{name}.log").read_text()
        return process

    def begin_all(self) -> None:
        """Begin the services that the pages show and that do not run here: another worker may have run those commands."""
        for _, command in COMMANDS:
            if command.split()[1] in SERVICES and command.split()[1] not in self.services:
                self.begin(adapted(command, self))

    def lab_link(self) -> str:
        """A link of the lab that another program may have."""
        lines = (self.folder / "lab.log").read_text(encoding="utf-8").splitlines()
        return next(line.split()[0] for line in lines if "balance" in line)

    def end(self) -> None:
        """End every process that this place began, and the guard that the controller began.

        A child that is left is the resource tracker of multiprocessing, which the tests that follow need.
        """
        for process in reversed(self.services.values()):
            process.kill()
            process.wait()
        own = {os.getpid(), *children_of(os.getpid())}
        for about in Path("/proc").glob("[0-9]*"):
            try:
                if (about / "cwd").readlink() == self.folder and int(about.name) not in own:
                    os.kill(int(about.name), signal.SIGKILL)
            except OSError:
                continue


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("checkout").resolve())
    try:
        yield made
    finally:
        made.end()


def left_out(command: str) -> str | None:
    """Why a command is not run here."""
    return next((why for start, why in NOT_RUN.items() if f"{command} ".startswith(f"{start} ")), None)


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=[command for _, command in COMMANDS])
def test_the_command_works_as_shown(
    page: str, command: str, place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = adapted(command, place)
    if left_out(command) is not None:
        assert_understood(words)
        return
    assert words[0] == "choroid", f"{page} shows a command that this test cannot run: {command}"
    monkeypatch.chdir(place.folder)
    if words[1] in SERVICES:
        if words[1] not in place.services:  # a page may show the same service again
            place.begin(words)
        return
    if "--help" in words:
        with pytest.raises(SystemExit) as ended:
            main(words[1:])
        assert ended.value.code == 0
        return
    if words[1:3] != ["device", "probe"]:  # a link is probed before a controller has it
        place.begin_all()
    if words[1:3] == ["protocol", "start"]:
        no_run_under_way()
    status = main(words[1:])
    said = capsys.readouterr()
    assert status == 0, said.out + said.err
    assert "Traceback" not in said.err


def no_run_under_way() -> None:
    """Two pages start a run, and a rig has one at a time."""
    endpoint = endpoint_of(Path("data"))

    def ended() -> bool:
        return all(
            run["state"] in ("aborted", "complete", "stopped") for run in call(endpoint, "GET", "/api/runs")["runs"]
        )

    if not ended():
        assert main(["protocol", "abort", "--data", "./data", "--reason", "another page begins one"]) == 0
        until(ended, "the run has ended")


def assert_understood(words: list[str]) -> None:
    """The words of a command that is not run are those that its parser knows; a target of make exists."""
    if words[0] == "make":
        done = subprocess.run(["make", "--dry-run", *words[1:]], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return
    assert callable(_parser().parse_args(words[1:]).handler)


def test_the_list_of_what_is_not_run_is_short_and_in_use() -> None:
    every = [command for _, command in COMMANDS]
    assert len(every) > 30
    for start in NOT_RUN:
        assert any(left_out(command) == NOT_RUN[start] for command in every), start
    for shown in ADAPTED:
        texts = every
        for before, after in ADAPTED.items():
            if before == shown:
                break
            texts = [text.replace(before, after) for text in texts]
        assert any(shown in text for text in texts), shown
    run = [command for command in every if left_out(command) is None]
    assert len(run) > len(every) / 2


def test_the_services_of_the_pages_were_those_that_answered(place: Place) -> None:
    endpoint = json.loads((place.folder / "data" / "endpoint.json").read_text(encoding="utf-8"))
    parent = Path(f"/proc/{endpoint['pid']}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1]
    assert int(parent) == place.services["run"].pid, "the controller is the child of `choroid run`"
    assert place.services["lab"].poll() is None
    assert (place.folder / "data" / "emergency-stop.json").exists(), "`choroid stop` comes last, and was obeyed"
    assert (place.folder / "week.html").stat().st_size > 10_000
    place.services["run"].send_signal(signal.SIGTERM)
    assert place.services["run"].wait(120) == 0
