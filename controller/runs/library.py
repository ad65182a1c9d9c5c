"""The library of uploaded protocols: submitted, reviewed by another person, released; every version kept by its hash.

Only released versions start. The text of a version is a file named by its sha256 in the data folder; its states are rows of
the journal. Nothing of a Python protocol runs before the row of its release is on the disk: its name is read from the source,
and its parameters after that row, in a locked process of its own. A run goes on with the version with
which it began, whatever is released later.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from controller.core.disk import remedy
from controller.journal.journal import Journal
from controller.journal.terms import Entry
from controller.recipes.catalogue import find, names
from controller.recipes.file import read_recipe
from controller.recipes.readings_on_rig import refuse_wrong_readings
from controller.rig.description import Rig
from controller.runs.people import Person, is_shared, objection, same_person
from controller.runs.python_conversation import described, known_recipe
from controller.runs.python_text import PythonText
from protocols.answers import ROLES
from protocols.parameters import Param, ParamError
from protocols.registry import Recipe, UnknownProtocol
from protocols.table import VERBS

FOLDER = "protocols"
MAX_BYTES = 60_000
"""Maximum size of an uploaded text."""
MAX_VERSIONS = 2_000
KINDS = (
    "protocol.submitted",
    "protocol.reviewed",
    "protocol.released",
    "protocol.described",
    "protocol.failed",
    "protocol.withdrawn",
)
SUFFIXES = (".yaml", ".py")


class VersionState(StrEnum):
    """State of a version."""

    SUBMITTED = "submitted"
    REJECTED = "rejected"
    REVIEWED = "reviewed"
    LOADING = "loading"
    """Released, but its parameters are not read yet; it does not start."""
    RELEASED = "released"
    SUPERSEDED = "superseded"
    """Another version of this name was released later."""
    WITHDRAWN = "withdrawn"


class LibraryError(Exception):
    """A change of the library that is not possible: what, likely cause, next action."""


class UnknownVersion(LibraryError):
    """The library has no such version, or several."""


@dataclass(frozen=True, slots=True)
class ProtocolVersion:
    """One version of an uploaded protocol."""

    sha256: str
    name: str
    title: str
    suffix: str
    """`.yaml` or `.py`."""
    state: VersionState
    submitted_utc: str
    submitted_by: str
    reviewed_by: str = ""
    accepted: bool = False
    """Whether the reviewer has accepted it."""
    released_by: str = ""
    reason: str = ""
    """What the person wrote who changed its state last."""
    params: tuple[Mapping[str, Any], ...] = ()
    """Parameters of a released Python protocol, as plain data."""
    verbs: tuple[str, ...] = ()
    source_sha256: str = ""


@dataclass(frozen=True, slots=True)
class Submission:
    """One submission of a text: number of its row, and who submitted it."""

    seq: int
    user: str


class ProtocolLibrary:
    """The uploaded protocols of one data folder."""

    def __init__(self, data: Path, *, rig: Rig, journal: Journal) -> None:
        self.folder = data / FOLDER
        self._rig = rig
        self._journal = journal
        self._versions: dict[str, ProtocolVersion] = {}
        self._submissions: dict[str, list[Submission]] = {}
        """Of each text, the oldest first."""
        for row in journal.entries(kinds=KINDS):
            self._take(row)

    def versions(self) -> list[ProtocolVersion]:
        """Return every version, oldest first."""
        return list(self._versions.values())

    def version(self, sha256: str) -> ProtocolVersion:
        """Return a version by its hash, or by the beginning of it; raise :class:`UnknownVersion` if there is not one."""
        found = [each for key, each in self._versions.items() if key.startswith(sha256)] if len(sha256) >= 6 else []
        if len(found) != 1:
            raise UnknownVersion(
                f"{len(found)} versions have the hash “{sha256[:64]}”. Likely cause: a slip, or fewer than 6 characters."
                " Next: choose among those of the list"
            )
        return found[0]

    def text(self, version: ProtocolVersion) -> bytes:
        """Return the text of a version; raise :class:`LibraryError` if the file is not what was submitted."""
        try:
            text = self._path(version).read_bytes()
        except OSError as error:
            raise LibraryError(
                f"{self._path(version)} cannot be read ({error.strerror}). Next: submit it again"
            ) from None
        if hashlib.sha256(text).hexdigest() != version.sha256:
            raise LibraryError(
                f"{self._path(version)} is not what was submitted. Likely cause: the file was edited or damaged. Next: put"
                " the old text back, or submit the new one"
            )
        return text

    # --- changes of state -------------------------------------------------------------------------------

    def submit(self, file: str, text: bytes, by: Person, reason: str) -> ProtocolVersion:
        """Check a text as far as possible without running it, and keep it as a new version.

        Raises:
            LibraryError: The same text was submitted before, its name is taken, or it is no protocol.
            RecipeError: The recipe has problems.
        """
        _require(by, "operator", "submit a protocol")
        if by.shared:
            raise LibraryError(
                f"“{by.name}” does not tell which person submits, and another person has to review. Next: use a token of your"
                " own (in CHOROID_TOKEN for the command line)"
            )
        suffix = Path(file).suffix.lower().replace(".yml", ".yaml")
        if suffix not in SUFFIXES or not 0 < len(text) <= MAX_BYTES:
            raise LibraryError(
                f"“{file[:100]}” is no protocol: a recipe (.yaml) or a Python file (.py) of at most {MAX_BYTES // 1000} kB."
                " Next: choose another file"
            )
        sha256 = hashlib.sha256(text).hexdigest()
        known = self._versions.get(sha256)
        if known is not None and known.state not in (VersionState.REJECTED, VersionState.WITHDRAWN):
            raise LibraryError(f"this text is {known.state} as “{known.name}” already. Next: see the library")
        if len(self._versions) >= MAX_VERSIONS:
            raise LibraryError(
                f"the library has {MAX_VERSIONS} versions, the maximum. Next: use `choroid protocol start FILE`"
            )
        path = self.folder / f"{sha256}{suffix}"
        self._keep(path, text)
        try:
            name, title = self._named(path, text)
            if name in names():
                raise LibraryError(f"“{name}” is the name of a shipped protocol. Next: give yours another name")
        except (LibraryError, ParamError):
            if known is None:
                path.unlink(missing_ok=True)
            raise
        told = {"name": name, "title": title, "suffix": suffix, "bytes": len(text)}
        return self._record("protocol.submitted", sha256, by, reason, told)

    def review(self, sha256: str, *, accept: bool, by: Person, reason: str) -> ProtocolVersion:
        """Accept or reject a submitted version, as another person than the one who submitted it."""
        version = self.version(sha256)
        _require(by, "engineer", "review a protocol")
        self._require_state(version, VersionState.SUBMITTED)
        self._require_other(version, by, "review")
        if not accept and not reason.strip():
            raise LibraryError("a rejection needs a reason. Next: write why")
        self.text(version)
        return self._record("protocol.reviewed", version.sha256, by, reason, {"accepted": accept})

    async def release(self, sha256: str, by: Person, reason: str) -> ProtocolVersion:
        """Let a reviewed version start from now on, instead of the released one of its name.

        Raises:
            LibraryError: It was not reviewed, or the person submitted it.
            RecipeError: The rig lacks a sensor that the recipe reads, or it is in another unit.
            UnknownProtocol: The Python file does not load; it is withdrawn.
            JournalUnwritten: The row of the release cannot be written; nothing of the text has run.
        """
        version = self.version(sha256)
        _require(by, "engineer", "release a protocol")
        again = (VersionState.SUPERSEDED, VersionState.WITHDRAWN) if version.accepted else ()
        self._require_state(version, VersionState.REVIEWED, VersionState.LOADING, *again)
        self._require_other(version, by, "release")
        text = self.text(version)
        if version.suffix == ".yaml":
            refuse_wrong_readings(self.recipe(version), self._rig)
        released = self._record("protocol.released", version.sha256, by, reason, {})
        if version.suffix != ".py":
            return released
        await self._journal.commit()  # nothing of the text runs before
        try:
            found = await described(PythonText(self._path(version), text), self._rig)
        except UnknownProtocol as error:
            if self.version(version.sha256).state is VersionState.LOADING:
                self._record("protocol.failed", version.sha256, by, str(error), {})
            raise
        self._require_state(self.version(version.sha256), VersionState.LOADING)  # it may have been withdrawn meanwhile
        told = {
            "params": [asdict(param) for param in found.params],
            "verbs": [verb.name for verb in found.verbs],
            "source_sha256": found.source_sha256,
        }
        return self._record("protocol.described", version.sha256, by, reason, told)

    def withdraw(self, sha256: str, by: Person, reason: str) -> ProtocolVersion:
        """Let a version start no more; a run of it that is under way goes on."""
        version = self.version(sha256)
        _require(by, "engineer", "withdraw a protocol")
        if version.state is VersionState.WITHDRAWN:
            raise LibraryError("it is withdrawn already. Next: see the library")
        return self._record("protocol.withdrawn", version.sha256, by, reason, {})

    # --- recipes ----------------------------------------------------------------------------------------

    def released(self) -> dict[str, ProtocolVersion]:
        """Return the released version of each name."""
        return {each.name: each for each in self._versions.values() if each.state is VersionState.RELEASED}

    def recipe(self, version: ProtocolVersion) -> Recipe:
        """Return what a run of a version needs.

        Raises:
            LibraryError: Its file is not what was submitted.
            RecipeError: The recipe does not fit this release of Choroid.
        """
        text, path = self.text(version), self._path(version)
        if version.suffix == ".yaml":
            return replace(read_recipe(path, find=find), version_sha256=version.sha256)
        recipe = known_recipe(PythonText(path, text), self._rig, version.name, version.source_sha256)
        params = tuple(Param(**each) for each in version.params)
        verbs = tuple(VERBS[name] for name in version.verbs)
        return replace(recipe, title=version.title, params=params, verbs=verbs, version_sha256=version.sha256)

    # --- inside -----------------------------------------------------------------------------------------

    def _path(self, version: ProtocolVersion) -> Path:
        return self.folder / f"{version.sha256}{version.suffix}"

    def _named(self, path: Path, text: bytes) -> tuple[str, str]:
        """Return name and title of a text; nothing of it is run."""
        if path.suffix == ".yaml":
            recipe = read_recipe(path, find=find)
            called = [watched for watched, _ in recipe.watched if watched != path.resolve()]
            if called:
                raise LibraryError(
                    "the recipe calls another file. Next: call shipped recipes only, or write its steps here"
                )
            return recipe.name, recipe.title
        try:
            return PythonText(path, text).declared()
        except UnknownProtocol as error:
            raise LibraryError(str(error)) from None

    def _keep(self, path: Path, text: bytes) -> None:
        """Write the text of a version, whole or not at all."""
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            part = self.folder / f".{path.name}.part"
            part.unlink(missing_ok=True)
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(descriptor)
            part.replace(path)
        except OSError as error:
            raise LibraryError(
                f"the text cannot be kept in {self.folder} ({error.strerror}). {remedy(error)}; then submit it again"
            ) from error

    def _record(self, kind: str, sha256: str, by: Person, reason: str, told: Mapping[str, Any]) -> ProtocolVersion:
        body = {"sha256": sha256, **told, "user": by.name, "role": by.role, "reason": reason}
        seq = self._journal.append(kind, body)
        row = self._journal.last(kind)
        self._change(seq, kind, body, "" if row is None else row.utc)
        return self._versions[sha256]

    def _take(self, row: Entry) -> None:
        self._change(row.seq, row.kind, row.body, row.utc)

    def _change(self, seq: int, kind: str, body: Mapping[str, Any], utc: str) -> None:
        sha256, user, reason = str(body["sha256"]), str(body["user"]), str(body["reason"])
        if kind == "protocol.submitted":
            state = VersionState.SUBMITTED
            self._submissions.setdefault(sha256, []).append(Submission(seq, user))
            name, title, suffix = str(body["name"]), str(body["title"]), str(body["suffix"])
            self._versions[sha256] = ProtocolVersion(sha256, name, title, suffix, state, utc, user, reason=reason)
            return
        version = replace(self._versions[sha256], reason=reason)
        if kind == "protocol.reviewed":
            state = VersionState.REVIEWED if body["accepted"] else VersionState.REJECTED
            version = replace(version, state=state, reviewed_by=user, accepted=bool(body["accepted"]))
        elif kind == "protocol.released" and version.suffix == ".py" and "source_sha256" not in body:
            version = replace(version, state=VersionState.LOADING, released_by=user)
        elif kind in ("protocol.released", "protocol.described"):
            for other in self.released().values():
                if other.name == version.name and other.sha256 != sha256:
                    self._versions[other.sha256] = replace(other, state=VersionState.SUPERSEDED)
            params, verbs = tuple(body.get("params", ())), tuple(body.get("verbs", ()))
            version = replace(version, state=VersionState.RELEASED, released_by=user, params=params, verbs=verbs)
            version = replace(version, source_sha256=str(body.get("source_sha256", "")))
        else:
            version = replace(version, state=VersionState.WITHDRAWN)
        self._versions[sha256] = version

    def _require_other(self, version: ProtocolVersion, by: Person, what: str) -> None:
        """Require another person than those who submitted this text.

        An account that a submitter, or a shared account, has issued since the submission counts as the submitter's.
        """
        submissions = self._submissions[version.sha256]
        why = objection(by, [submission.user for submission in submissions])
        latest = submissions[-1]
        for row in self._journal.entries(kinds=("users.issued",), after=latest.seq):
            issuer = str(row.body["user"])
            own = is_shared(issuer) or same_person(issuer, latest.user)
            if own and same_person(str(row.body["name"]), by.name):
                why = why or (
                    f"the token of {by.name} was issued by “{issuer}” after the submission. Next: a person whose account is"
                    " older decides, or withdraw the version and submit it again"
                )
        if why:
            raise LibraryError(f"{by.name} cannot {what} this version: {why}")

    def _require_state(self, version: ProtocolVersion, *states: VersionState) -> None:
        if version.state not in states:
            raise LibraryError(
                f"“{version.name}” ({version.sha256[:12]}) is {version.state}. Likely cause: a step was left out, or another"
                f" person was faster. Next: it has to be {' or '.join(states)}"
            )


def _require(by: Person, role: str, what: str) -> None:
    if by.role not in ROLES or ROLES.index(by.role) < ROLES.index(role):
        raise LibraryError(
            f"{by.name} may not {what}. Likely cause: it takes the role {role}. Next: ask a person with it"
        )
