"""The library of uploaded protocols: states, roles, versions by hash, and runs that go on with their own version."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.core.run_states import RunState
from controller.journal.journal import Journal
from controller.recipes.file import RecipeError
from controller.rig.description import Rig
from controller.runs.library import LibraryError, ProtocolLibrary, VersionState
from controller.runs.people import Person
from controller.runs.python_conversation import described
from controller.runs.python_text import PythonText
from protocols.registry import Recipe, UnknownProtocol
from tests.execution.test_python_protocols import HEAD, scaled
from tests.execution.test_recipes import HEAD as RECIPE
from tests.execution.test_recipes import notes
from tests.execution.world import EPOCH, RIG, Controller, World

ANNA = Person("anna", "operator")
BEN = Person("ben", "engineer")
CLEO = Person("cleo", "admin")
SHELL = Person("command line", "admin")
TEXT = (RECIPE + "steps:\n  - ask_operator: Now\n  - note: {kind: seen, text: first}\n").encode()


OPENED: list[Journal] = []
"""Journals of the running test."""


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def library(tmp_path: Path) -> ProtocolLibrary:
    clock = Clock(follow_system=False, epoch=EPOCH)
    OPENED.append(Journal(tmp_path / "l.db", clock, durable=False))
    return ProtocolLibrary(tmp_path, rig=RIG, journal=OPENED[-1])


async def test_a_version_is_reviewed_and_released_by_others_and_every_state_is_kept(tmp_path: Path) -> None:
    books = library(tmp_path)
    version = books.submit("mine.yaml", TEXT, ANNA, "for the week")
    assert (version.name, version.state) == ("mine", VersionState.SUBMITTED)
    assert books.released() == {}
    short = version.sha256[:8]
    for person, why in ((ANNA, "takes the role engineer"), (SHELL, "does not tell which person acts")):
        with pytest.raises(LibraryError, match=why):
            books.review(short, accept=True, by=person, reason="")
    with pytest.raises(LibraryError, match="cannot review this version"):
        books.review(short, accept=True, by=Person("anna", "admin"), reason="")
    with pytest.raises(LibraryError, match="is submitted"):
        await books.release(short, CLEO, "")
    with pytest.raises(LibraryError, match="a rejection needs a reason"):
        books.review(short, accept=False, by=BEN, reason=" ")
    with pytest.raises(LibraryError, match="this text is submitted"):
        books.submit("other.yaml", TEXT, BEN, "")
    books.review(short, accept=True, by=BEN, reason="read it")
    with pytest.raises(LibraryError, match="anna cannot release this version: anna is the same person"):
        await books.release(short, Person("anna", "admin"), "")
    await books.release(short, BEN, "go")
    assert list(books.released()) == ["mine"]
    again = books.submit("mine.yml", TEXT.replace(b"first", b"second"), ANNA, "")
    books.review(again.sha256, accept=True, by=BEN, reason="")
    await books.release(again.sha256, CLEO, "")
    assert [each.state for each in books.versions()] == [VersionState.SUPERSEDED, VersionState.RELEASED]
    await books.release(short, CLEO, "back to the first")
    books.withdraw(short, BEN, "")
    assert [each.state for each in books.versions()] == [VersionState.WITHDRAWN, VersionState.SUPERSEDED]
    OPENED.pop().close()
    found = library(tmp_path)
    assert found.versions() == books.versions()
    assert found.text(found.versions()[0]) == TEXT
    assert [row.kind for row in OPENED[-1].entries()].count("protocol.released") == 3


def submitted(books: ProtocolLibrary, by: Person = ANNA) -> str:
    return books.submit("mine.yaml", TEXT, by, "").sha256


@pytest.mark.parametrize("name", ["Anna", " anna", "ＡＮＮＡ", "anna ", "аnnа", "an\u200bna"])
async def test_P1_another_spelling_of_a_name_is_the_same_person(name: str, tmp_path: Path) -> None:
    books = library(tmp_path)
    sha256 = submitted(books)
    with pytest.raises(LibraryError, match="is the same person"):
        books.review(sha256, accept=True, by=Person(name, "engineer"), reason="")


@pytest.mark.parametrize("name", ["command line", "page link", "admin", "Admin"])
async def test_an_account_of_several_people_neither_submits_nor_reviews_nor_releases(name: str, tmp_path: Path) -> None:
    books, shared = library(tmp_path), Person(name, "admin")
    with pytest.raises(LibraryError, match="does not tell which person submits"):
        submitted(books, shared)
    sha256 = submitted(books)
    with pytest.raises(LibraryError, match="does not tell which person acts"):
        books.review(sha256, accept=True, by=shared, reason="")
    books.review(sha256, accept=True, by=BEN, reason="")
    with pytest.raises(LibraryError, match="does not tell which person acts"):
        await books.release(sha256, shared, "")


async def test_who_has_submitted_a_text_once_does_not_review_it_when_another_submits_it_again(tmp_path: Path) -> None:
    books = library(tmp_path)
    sha256 = submitted(books)
    books.withdraw(sha256, BEN, "")
    assert submitted(books, BEN) == sha256
    for name in ("anna", "ben"):
        with pytest.raises(LibraryError, match="is the same person"):
            books.review(sha256, accept=True, by=Person(name, "engineer"), reason="")
    OPENED.pop().close()
    books = library(tmp_path)
    with pytest.raises(LibraryError, match="is the same person"):
        books.review(sha256, accept=True, by=Person("anna", "engineer"), reason="")
    assert books.review(sha256, accept=True, by=CLEO, reason="").state is VersionState.REVIEWED


@pytest.mark.parametrize("issuer", ["anna", "command line"])
async def test_a_submitter_does_not_review_with_an_account_issued_for_it(issuer: str, tmp_path: Path) -> None:
    books = library(tmp_path)
    OPENED[-1].append("users.issued", {"user": issuer, "name": "ben", "role": "engineer", "reason": ""})
    sha256 = submitted(books, Person("anna", "admin"))
    OPENED[-1].append("users.issued", {"user": issuer, "name": "cleo", "role": "engineer", "reason": ""})
    OPENED[-1].append("users.issued", {"user": "dora", "name": "emil", "role": "engineer", "reason": ""})
    with pytest.raises(LibraryError, match=r"was issued by “.*” after the submission"):
        books.review(sha256, accept=True, by=CLEO, reason="")
    books.review(sha256, accept=True, by=BEN, reason="")
    with pytest.raises(LibraryError, match="was issued by"):
        await books.release(sha256, CLEO, "")
    assert (await books.release(sha256, Person("emil", "engineer"), "")).state is VersionState.RELEASED


async def test_what_was_refused_is_not_released_even_after_it_was_withdrawn(tmp_path: Path) -> None:
    books = library(tmp_path)
    sha256 = books.submit("mine.yaml", TEXT, ANNA, "").sha256
    books.review(sha256, accept=False, by=BEN, reason="no")
    books.withdraw(sha256, BEN, "")
    with pytest.raises(LibraryError, match="is withdrawn"):
        await books.release(sha256, CLEO, "")
    assert books.submit("mine.yaml", TEXT, ANNA, "again").state is VersionState.SUBMITTED
    with pytest.raises(LibraryError, match="is submitted"):
        await books.release(sha256, CLEO, "")


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("mine.sh", b"rm -rf /", "is no protocol"),
        ("../../mine.yaml", b"", "is no protocol"),
        ("mine.yaml", b"x" * 60_001, "is no protocol"),
        ("mine.yaml", TEXT.replace(b"name: mine", b"name: recycle"), "name of a shipped protocol"),
        ("mine.yaml", TEXT + b"  - call: other.yaml\n", "cannot be read"),
        ("mine.py", b"def f(:", "is no Python"),
        ("mine.py", b"NAME = open('/etc/passwd').read()\n", "lacks NAME"),
        ("mine.py", HEAD.replace('"mine"', '"../x"').encode() + b"    pass\n", "lacks NAME"),
        ("mine.py", b"\x00", "is no Python"),
        ("mine.py", b"(" * 50_000, "is no Python"),
    ],
)
def test_a_text_that_is_no_protocol_is_not_kept(file: str, text: bytes, why: str, tmp_path: Path) -> None:
    async def work() -> None:
        books = library(tmp_path)
        with pytest.raises((LibraryError, RecipeError)) as refused:
            books.submit(file, text, ANNA, "")
        assert why in str(refused.value)
        assert books.versions() == []
        assert not books.folder.exists() or not list(books.folder.iterdir())

    asyncio.run(work())


def test_a_run_goes_on_with_its_own_version(tmp_path: Path) -> None:
    async def work() -> None:
        body = "    await lab.ask('Now')\n    await lab.note('seen', {'text': 'first'})\n"
        text = f"{HEAD}{body}".encode()
        world = World()
        first = Controller(world, tmp_path / "j.db")
        books = ProtocolLibrary(tmp_path, rig=RIG, journal=first.journal)
        first.runs._catalogue._library = books
        sha256 = books.submit("mine.py", text, ANNA, "").sha256
        with pytest.raises(UnknownProtocol, match="no protocol is called “mine”"):
            await first.runs.start("mine", {}, "anna", "")
        books.review(sha256, accept=True, by=BEN, reason="")
        await books.release(sha256, CLEO, "")
        assert [param.name for param in first.runs.catalogue["mine"].params] == ["volume"]
        run = await first.runs.start("mine", {"volume": "3 mL"}, "anna", "")
        await first.until(lambda: first.runs.get(run).state is RunState.HELD, 600.0)
        newer = books.submit("mine.py", text.replace(b"first", b"second"), ANNA, "").sha256
        books.review(newer, accept=True, by=BEN, reason="")
        await books.release(newer, CLEO, "")
        (start,) = first.journal.entries(kinds=("run.start",))
        assert start.body["version_sha256"] == sha256
        await first.gone()

        second = Controller(world, tmp_path / "j.db")
        books = ProtocolLibrary(tmp_path, rig=RIG, journal=second.journal)
        second.runs._catalogue._library = books
        await second.runs.recover()
        await second.runs.resume(run, "anna", "")
        await second.until(lambda: second.runs.get(run).state is RunState.COMPLETE, 600.0)
        assert notes(second, "seen")[0]["text"] == "first"
        (books.folder / f"{newer}.py").write_text("changed")
        with pytest.raises(UnknownProtocol):
            await second.runs.start("mine", {}, "anna", "")
        await second.gone()

    scaled(work())


async def test_P3_nothing_of_a_text_runs_before_the_row_of_its_release_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    OPENED.append(Journal(tmp_path / "d.db", Clock(follow_system=False, epoch=EPOCH), durable=True))
    books = ProtocolLibrary(tmp_path, rig=RIG, journal=OPENED[-1])
    rows: list[str] = []

    async def seen(source: PythonText, rig: Rig) -> Recipe:
        with closing(sqlite3.connect(f"file:{tmp_path / 'd.db'}?mode=ro", uri=True)) as disk:
            rows.extend(kind for (kind,) in disk.execute("SELECT kind FROM entries ORDER BY seq"))
        return await described(source, rig)

    monkeypatch.setattr("controller.runs.library.described", seen)
    sha256 = books.submit("mine.py", f"{HEAD}    pass\n".encode(), ANNA, "").sha256
    books.review(sha256, accept=True, by=BEN, reason="")
    assert rows == []
    version = await books.release(sha256, BEN, "go")
    assert rows[-1] == "protocol.released"
    assert version.state is VersionState.RELEASED
    assert [param["name"] for param in version.params] == ["volume"]


async def test_P3_a_text_that_does_not_load_leaves_the_released_version_in_force(tmp_path: Path) -> None:
    books = library(tmp_path)
    good = books.submit("mine.py", f"{HEAD}    pass\n".encode(), ANNA, "").sha256
    books.review(good, accept=True, by=BEN, reason="")
    await books.release(good, BEN, "")
    bad = books.submit("mine.py", f"{HEAD}    pass\nopen('/etc/hostname')\n".encode(), ANNA, "").sha256
    books.review(bad, accept=True, by=BEN, reason="")
    with pytest.raises(UnknownProtocol, match="a protocol is locked in"):
        await books.release(bad, BEN, "")
    assert [each.state for each in books.versions()] == [VersionState.RELEASED, VersionState.WITHDRAWN]
    assert "PermissionError" in books.version(bad).reason
    assert books.released()["mine"].sha256 == good


async def test_P3_a_release_that_was_cut_off_by_a_crash_starts_nothing_and_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(source: PythonText, rig: Rig) -> Recipe:
        raise asyncio.CancelledError

    books = library(tmp_path)
    sha256 = books.submit("mine.py", f"{HEAD}    pass\n".encode(), ANNA, "").sha256
    books.review(sha256, accept=True, by=BEN, reason="")
    with monkeypatch.context() as patched:
        patched.setattr("controller.runs.library.described", killed)
        with pytest.raises(asyncio.CancelledError):
            await books.release(sha256, BEN, "")
    OPENED.pop().close()
    again = library(tmp_path)
    assert again.version(sha256).state is VersionState.LOADING
    assert again.released() == {}
    await again.release(sha256, BEN, "")
    assert list(again.released()) == ["mine"]
