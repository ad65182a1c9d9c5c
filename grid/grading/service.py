"""What members do with boards: submit a model, read a board, call the best model. No answer contains a model."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

from controller.signed_log.public import fingerprint
from grid.boards.board import Board, split_key
from grid.boards.loading import UnknownBoard, board_hash, newest
from grid.boards.manifest import ManifestError, ModelManifest, read_manifest, verify
from grid.clock import UtcSeconds, utc_s
from grid.errors import GridError, GridRefused
from grid.grading.agreement import GraderVerdict, disagreement, is_genuine
from grid.grading.frames import Tensors
from grid.grading.ladder import Ladder
from grid.grading.model import BoardModel, ModelRejected, OpenModel
from grid.grading.rotation import DAY_S, SECRET_BYTES, Rotation, is_over
from grid.grading.store import BoardRow, BoardStore

GRADERS = 2
"""Verdicts that must be equal before a score counts."""
MINUTE_S = 60.0
REGRADED = 20
"""How many of the best models are graded again when a rotation begins."""

AppendLog = Callable[[str, Mapping[str, Any]], None]
"""Appends a row to the hub's log, in the transaction of the change that it is about: its kind, its content."""


class BoardService:
    """The boards of one hub.

    Args:
        boards: By `name@version`.
        store: The durable state.
        graders: Public keys (hex) of the graders whose verdicts count.
        append: Appends to the hub's log.
        open_model: Opens a model in a sandbox.
        clock: UTC in seconds.
        entropy: Source of the rotations' secrets.
    """

    def __init__(
        self,
        boards: Mapping[str, Board],
        store: BoardStore,
        *,
        graders: frozenset[str],
        append: AppendLog,
        open_model: OpenModel,
        clock: UtcSeconds = utc_s,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self.boards = dict(boards)
        self.store = store
        self._graders = graders
        self._append = append
        self._open_model = open_model
        self._clock = clock
        self._entropy = entropy
        for board in self.boards.values():
            self._rotation_of(board)
        for key in sorted(set(store.boards()) - set(self.boards)):
            self._close(key)

    # --- for members ------------------------------------------------------------------------------------

    def submit(self, member: str, plain_manifest: object, model: bytes) -> dict[str, Any]:
        """Take a submission of a member and queue it for grading; a repeat is answered as the first.

        Args:
            member: Identity of the caller: the SHA-256 of its public key.
            plain_manifest: The manifest as plain data.
            model: The ONNX file.

        Raises:
            GridRefused: The manifest is malformed or not the caller's, the board is unknown or old, the model is on the board
                already, or the quota is used up.
        """
        try:
            manifest = read_manifest(plain_manifest)
            board = self._current(manifest.board)
            verify(manifest, model, board=board.key, max_bytes=board.limits.model_kib * 1024)
        except (ManifestError, UnknownBoard) as error:
            raise GridRefused(str(error)) from None
        if fingerprint(bytes.fromhex(manifest.author)) != member:
            raise GridRefused(
                "the manifest is signed by another member. Likely cause: a copied submission. Next: sign it with your own key"
            )
        if self.store.manifest(manifest.id) is not None:
            return self.state(member, manifest.id)
        self._admit(member, board, manifest)
        rotation = self._rotation_of(board)
        with self.store.writing():
            self.store.add(manifest, model, member=member, now_s=self._clock(), rotation=rotation.number)
            body = {
                "submission": manifest.id,
                "member": member,
                "manifest": manifest.to_json(),
                "rotation": rotation.number,
            }
            self._append("board.submission", body)
        return self.state(member, manifest.id)

    def state(self, member: str, submission: str) -> dict[str, Any]:
        """Return the state of a submission to the member who made it.

        Raises:
            GridRefused: There is no such submission of this member.
        """
        manifest, rotation = self.store.manifest(submission), self.store.newest_rotation_of(submission)
        if manifest is None or rotation is None or self.store.member_of(submission) != member:
            raise GridRefused(
                "there is no such submission of yours. Next: give the id that `choroid grid model submit` printed"
            )
        result = self.store.result(submission, rotation)
        return {
            "submission": submission,
            "board": manifest.board,
            "rotation": rotation,
            "state": result["state"],
            "published": result["published"],
            "reason": result["reason"],
        }

    def standings(self, name: str) -> dict[str, Any]:
        """Return a board for everyone: its description, baselines and published scores.

        Raises:
            GridRefused: There is no such board.
        """
        board = self.board(name)
        rotation = self._rotation_of(board)
        ladder = Ladder(board.ladder_step)
        measured = self.store.baselines(board.key, rotation.number) or {}
        ended = self.store.ended_rotations(board.key)
        return {
            "board": board.model_dump(),
            "sha256": board_hash(board),
            "rotation": rotation.number,
            "commitment": rotation.commitment,
            "began_s": rotation.began_s,
            "baselines": {each: ladder.rounded(fmean(scores)) for each, scores in measured.items()},
            "rows": [row.to_json() for row in self.store.rows(board.key, rotation.number)],
            "published_secrets": {str(each.number): each.secret.hex() for each in ended},
        }

    async def call(self, member: str, key: str, inputs: Tensors) -> Tensors:
        """Return the outputs of a board's best model (`BOARD@best`) for the inputs of a member.

        Raises:
            GridRefused: No such board, no graded model, tensors that do not fit, or the quota is used up.
        """
        try:
            name, selector = split_key(key)
        except ValueError as error:
            raise GridRefused(str(error)) from None
        board = self.board(name)
        if selector != "best":
            raise GridRefused(f"“{selector}” cannot be called. Next: write {name}@best")
        best = self.best(board)
        now_s = self._clock()
        used = self.store.call_counted(board.key, member, now_s, now_s - MINUTE_S)
        if used > board.quota.calls_per_minute:
            most = board.quota.calls_per_minute
            raise GridRefused(
                f"{board.key} was called {most} times within a minute, which is the quota. Next: wait a minute"
            )
        manifest = self.store.manifest_of(best.submission)
        model = self.store.model_path(manifest.model_sha256).read_bytes()
        try:
            async with self._open_model(model, board) as called:
                return await BoardModel(called, board.interface)(inputs)
        except ModelRejected as error:
            raise GridRefused(str(error)) from None

    def board(self, name: str) -> Board:
        """Return the newest version of a board; raise :class:`GridRefused`."""
        try:
            return newest(self.boards, name)
        except UnknownBoard as error:
            raise GridRefused(str(error)) from None

    def best(self, board: Board) -> BoardRow:
        """Return the best graded model; while a new rotation is graded, that of the one before."""
        number = self._rotation_of(board).number
        for rotation in (number, number - 1):
            rows = [row for row in self.store.rows(board.key, rotation) if row.state == "graded"]
            if rows:
                return rows[0]
        raise GridRefused(
            f"{board.key} has no graded model yet. Next: submit one with `choroid grid model submit {board.board}`"
        )

    # --- for graders ------------------------------------------------------------------------------------

    def take_verdict(self, verdict: GraderVerdict) -> None:
        """Take the verdict of a grader; with the second one the submission is settled.

        Raises:
            GridError: The grader is not one of this hub, the signature is not its own, or its claim has ended.
        """
        if verdict.grader not in self._graders or not is_genuine(verdict):
            raise GridError(
                "the verdict is not signed by a grader of this hub. Next: start the grader from the hub's folder"
            )
        until_s = self.store.claimed_until(verdict.submission, verdict.rotation, verdict.grader)
        if until_s is None or until_s < self._clock():
            raise GridError(
                "the grader took longer than its claim. Likely cause: a slow machine. The submission is graded again"
            )
        with self.store.writing():
            self.store.keep_verdict(verdict)
            self._settle(verdict.submission, verdict.rotation)

    def _settle(self, submission: str, rotation: int) -> None:
        verdicts, manifest = self.store.verdicts(submission, rotation), self.store.manifest_of(submission)
        result = self.store.result(submission, rotation)
        if len(verdicts) < GRADERS or result["state"] != "queued":
            return
        differ = disagreement(verdicts[0], verdicts[1])
        state, published, reason = "held", None, "two graders disagree; the operator of the hub decides"
        grade = verdicts[0].grade
        if not differ:
            if grade is None:
                state, reason = "refused", verdicts[0].refused
            elif grade.void:
                state, reason = "void", grade.void
            else:
                state, published, reason = "graded", self._climb(manifest, rotation, grade.mean), ""
        now_s = self._clock()
        self.store.settle(
            submission, rotation, state=state, published=published, reason=reason, detail=differ, now_s=now_s
        )
        body = {
            "submission": submission,
            "board": manifest.board,
            "rotation": rotation,
            "state": state,
            "published": published,
            "reason": reason,
            "verdicts": [{"grader": each.grader, "signature_sha256": _digest(each)} for each in verdicts],
        }
        self._append("board.result", body)

    def _climb(self, manifest: ModelManifest, rotation: int, score: float) -> float:
        board = self.boards[manifest.board]
        best = self.store.ladder_best(board.key, rotation, manifest.author)
        published = Ladder(board.ladder_step, best).published(score)
        self.store.set_ladder(board.key, rotation, manifest.author, published)
        return published

    # --- rotations --------------------------------------------------------------------------------------

    def rotate_due(self) -> list[str]:
        """Begin the next rotation of every board where it is due; return their keys."""
        due = []
        for board in self.boards.values():
            rotation = self._rotation_of(board)
            used = self.store.submissions_in(board.key, rotation.number)
            if is_over(board, rotation, submissions=used, now_s=self._clock()):
                self._rotate(board, rotation)
                due.append(board.key)
        return due

    def _rotation_of(self, board: Board) -> Rotation:
        rotation = self.store.rotation(board.key)
        if rotation is None or self.store.is_ended(rotation):  # it has ended when the board was closed for a time
            return self._rotate(board, rotation)
        return rotation

    def _close(self, key: str) -> None:
        """Refuse what waits for a board whose file is gone, and publish its last rotation."""
        reason = f"the board {key} is closed. Next: submit to a board that `choroid grid board list` shows"
        with self.store.writing():
            refused = self.store.close_board(key, reason, self._clock())
            last = self.store.rotation(key)
            ended = None if last is None or self.store.is_ended(last) else last
            if not refused and ended is None:
                return
            body: dict[str, Any] = {"board": key, "refused": refused, "reason": reason}
            if ended is not None:
                self.store.end_rotation(ended, self._clock())
                body["ended"] = _published(ended)
            self._append("board.closed", body)
            self._append_verdicts(ended)

    def _rotate(self, board: Board, last: Rotation | None) -> Rotation:
        """Begin a rotation: log its commitment and publish the last one's secret and verdicts; grade the best again.

        What still waited in the last one is graded in this one: its seeds are not public.
        """
        number = 1 if last is None else last.number + 1
        rotation = Rotation(board.key, number, self._entropy(SECRET_BYTES), self._clock())
        rows = [] if last is None else self.store.rows(board.key, last.number)
        best = [row for row in rows if row.state == "graded"]
        with self.store.writing():
            ended = None if last is None or self.store.is_ended(last) else last
            self.store.begin_rotation(rotation)
            for row in best[:REGRADED]:
                self.store.queue(row.submission, number)
            for row in rows:
                if row.state == "queued":
                    self.store.put_off(row.submission, number - 1, number, rotation.began_s)
            self._append("board.rotation", self._rotated(board, rotation, ended))
            self._append_verdicts(ended)
        return rotation

    def _rotated(self, board: Board, rotation: Rotation, ended: Rotation | None) -> dict[str, Any]:
        body: dict[str, Any] = {
            "board": board.key,
            "sha256": board_hash(board),
            "rotation": rotation.number,
            "commitment": rotation.commitment,
        }
        return body if ended is None else body | {"ended": _published(ended)}

    def _append_verdicts(self, rotation: Rotation | None) -> None:
        """Append all verdicts of an ended rotation, each in a row: one has at most 65,535 bytes (C2SP tlog-tiles)."""
        if rotation is None:
            return
        for row in self.store.rows(rotation.board, rotation.number):
            for verdict in self.store.verdicts(row.submission, rotation.number):
                self._append("board.verdict", {"board": rotation.board, "verdict": verdict.to_json()})

    def _current(self, key: str) -> Board:
        board = self.boards.get(key)
        if board is None:
            raise UnknownBoard(
                f"this hub has no {key:.80}; it has {', '.join(sorted(self.boards))}. Next: choose one of these"
            )
        latest = newest(self.boards, board.board)
        if latest.version != board.version:
            raise UnknownBoard(f"{key} is closed; its newest version is {latest.key}. Next: submit to that")
        return board

    def _admit(self, member: str, board: Board, manifest: ModelManifest) -> None:
        if self.store.has_model(board.key, manifest.model_sha256):
            raise GridRefused(f"this model is on {board.key} already. Next: submit another one")
        most = board.quota.submissions_per_day
        if self.store.submitted_since(board.key, member, self._clock() - DAY_S) >= most:
            raise GridRefused(
                f"{most} submissions to {board.key} within a day are the quota. Next: submit again tomorrow"
            )


def _published(rotation: Rotation) -> dict[str, Any]:
    return {"rotation": rotation.number, "secret": rotation.secret.hex()}


def _digest(verdict: GraderVerdict) -> str:
    """Return a hash that binds the log to a verdict and tells nothing of its scores: signatures cannot be guessed."""
    return hashlib.sha256(bytes.fromhex(verdict.signature)).hexdigest()
