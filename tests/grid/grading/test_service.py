"""X6, X7: the way of a submission from the manifest to the board, and all that must not pass."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grid.boards.board import Board
from grid.boards.manifest import ModelManifest, sign_manifest
from grid.errors import GridError, GridRefused
from grid.grading.agreement import disagreement, sign_verdict
from grid.grading.frames import Tensors
from grid.grading.grader import RETRY_S
from grid.grading.grading import ModelGrade, grade_model
from grid.grading.model import ModelRejected
from grid.grading.rotation import DAY_S, Rotation, is_committed
from grid.grading.service import BoardService
from grid.grading.task import TaskFailed
from grid.identity.keys import IdentityKey
from tests.grid.grading import toy
from tests.grid.grading.toy import MODELS, TOY, ToyHub, ToyProcess, numbers, opener


@pytest.fixture(autouse=True)
def _toy_tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with toy.toy_tasks(monkeypatch):
        yield


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ToyHub]:
    made = ToyHub(tmp_path)
    yield made
    made.store.close()


def test_X6_a_model_is_graded_twice_and_published(hub: ToyHub) -> None:
    first = hub.submit(b"roughly")
    assert first["state"] == "queued"
    found = asyncio.run(hub.graded(first["submission"]))
    assert (found["state"], found["published"]) == ("graded", 0.7)
    standing = hub.service.standings("toy")
    assert [(row["name"], row["published"]) for row in standing["rows"]] == [("mine", 0.7)]
    kinds = [kind for kind, _ in hub.log]
    assert kinds == ["board.rotation", "board.submission", "board.result"]
    assert len(hub.log[-1][1]["verdicts"]) == 2


def test_X7_the_log_and_the_board_hold_no_exact_score_before_the_end_of_the_rotation(hub: ToyHub) -> None:
    submission = hub.submit(b"roughly")["submission"]
    asyncio.run(hub.graded(submission))
    exact = hub.store.verdicts(submission, 1)[0].grade
    assert exact is not None
    assert exact.mean != 0.7
    public = json.dumps([hub.log, hub.service.standings("toy"), hub.service.state(hub.author.id, submission)])
    for score in exact.scores:
        assert repr(score) not in public
    assert hub.store.rotation(TOY.key).secret.hex() not in public  # type: ignore[union-attr]


def test_X7_after_a_rotation_the_secret_is_published_and_every_score_can_be_computed_again(hub: ToyHub) -> None:
    submission = hub.submit(b"roughly")["submission"]
    asyncio.run(hub.graded(submission))
    hub.clock.now_s += 7 * DAY_S
    assert hub.service.rotate_due() == [TOY.key]
    (body,) = (body for kind, body in hub.log if kind == "board.rotation" and "ended" in body)
    ended = Rotation(TOY.key, 1, bytes.fromhex(body["ended"]["secret"]), 0.0)
    assert is_committed(ended, hub.log[0][1]["commitment"])
    grade = asyncio.run(grade_model(TOY, b"roughly", ended.seeds(TOY.rotation.episodes), opener()))
    verdicts = [body["verdict"] for kind, body in hub.log if kind == "board.verdict"]
    assert [ModelGrade.from_json(each["grade"]) for each in verdicts] == [grade, grade]
    assert [each["rotation"] for each in verdicts] == [1, 1]
    assert hub.service.best(TOY).published == 0.7  # the last rotation's best can be called until the new one is graded
    again = asyncio.run(hub.graded(submission))
    assert (again["rotation"], again["state"]) == (2, "graded")
    assert hub.service.rotate_due() == []


def test_X6_the_end_of_a_rotation_with_many_verdicts_fits_into_rows_that_independent_tools_can_read(
    hub: ToyHub,
) -> None:
    score = 0.123456789012345678
    grade = ModelGrade((score,) * 32, dict.fromkeys(("zero", "shuffled", "random", "frozen"), (score,) * 32))
    hub.clock.now_s += 1.0
    for number in range(20):
        hub.clock.now_s += DAY_S / 2
        submission = hub.submit(b"adds" + bytes([number]), nonce=number)["submission"]
        for key in hub.keys:
            hub.store.claim(key.public.hex(), hub.clock.now_s, hub.clock.now_s + 60.0, 2)
            hub.service.take_verdict(
                sign_verdict(key.private, submission=submission, rotation=1, platform="test", grade=grade)
            )
    before = len(hub.log)
    last = hub.store.rotation(TOY.key)
    hub.service._rotate(TOY, last)
    assert [kind for kind, _ in hub.log[before:]] == ["board.rotation"] + 40 * ["board.verdict"]
    assert max(len(json.dumps(body)) for _, body in hub.log) < 60_000


def test_X5_a_grader_goes_on_when_the_database_could_not_be_read_for_a_while(hub: ToyHub) -> None:
    submission = hub.submit(b"roughly")["submission"]
    grader = hub.graders[0]
    kept = hub.store.manifest_of

    def failing(submission: str) -> ModelManifest:
        raise sqlite3.OperationalError("disk I/O error")

    hub.store.manifest_of = failing  # type: ignore[method-assign]
    assert asyncio.run(grader.step()) is False
    assert "disk I/O error" in grader.problem
    hub.store.manifest_of = kept  # type: ignore[method-assign]
    hub.clock.now_s += RETRY_S + 1.0
    assert asyncio.run(hub.graded(submission))["state"] == "graded"


def test_X6_a_score_without_the_inputs_is_void(hub: ToyHub) -> None:
    found = asyncio.run(hub.graded(hub.submit(b"two")["submission"]))
    assert found["state"] == "void"
    assert "control zero" in found["reason"]
    with pytest.raises(GridRefused, match="no graded model yet"):
        hub.service.best(TOY)


@pytest.mark.parametrize("other", ["roughly", "two"])
def test_X6_graders_that_disagree_hold_the_entry_with_a_reason(tmp_path: Path, other: str) -> None:
    hub = ToyHub(tmp_path, other=dict(MODELS) | {b"adds": MODELS[other.encode()]})
    submission = hub.submit(b"adds")["submission"]
    found = asyncio.run(hub.graded(submission))
    assert (found["state"], found["published"]) == ("held", None)
    assert "two graders disagree" in found["reason"]
    assert "episode 0" in hub.store.result(submission, 1)["detail"]
    hub.store.close()


def test_X6_graders_that_differ_only_in_outputs_disagree(tmp_path: Path) -> None:
    def adds_otherwise(given: Tensors) -> Tensors:
        return dict(toy.adds(given)) | {"y": numbers(float(given["x"].sum()) + 0.0)}

    def changes_later(given: Tensors) -> Tensors:
        wrong = 9.0 if float(given["memory"][0]) == 2.0 and not given["x"].any() else 0.0
        return dict(toy.adds(given)) | {"y": numbers(float(given["x"].sum()) + 50.0 + wrong)}

    base = dict(MODELS) | {
        b"adds": lambda given: dict(toy.adds(given)) | {"y": numbers(float(given["x"].sum()) + 50.0)}
    }
    hub = ToyHub(tmp_path, models=base, other=dict(MODELS) | {b"adds": changes_later})
    submission = hub.submit(b"adds")["submission"]
    assert asyncio.run(hub.graded(submission))["state"] == "held"
    assert "outputs of the model differ" in hub.store.result(submission, 1)["detail"]
    hub.store.close()


def test_X6_a_copied_a_changed_and_a_repeated_submission(hub: ToyHub, tmp_path: Path) -> None:
    thief = IdentityKey.in_folder(tmp_path / "thief")
    manifest = sign_manifest(hub.author.private, b"adds", board=TOY.key, name="mine", nonce=b"\0" * 32).to_json()
    with pytest.raises(GridRefused, match="signed by another member"):
        hub.service.submit(thief.id, manifest, b"adds")
    with pytest.raises(GridRefused, match="not the one of the manifest"):
        hub.service.submit(hub.author.id, manifest, b"other")
    first = hub.service.submit(hub.author.id, manifest, b"adds")
    rows = len(hub.log)
    assert hub.service.submit(hub.author.id, manifest, b"adds") == first
    assert len(hub.log) == rows
    with pytest.raises(GridRefused, match="on toy@2 already"):
        hub.submit(b"adds", nonce=1)
    with pytest.raises(GridRefused, match="on toy@2 already"):
        hub.submit(b"adds", author=thief)
    with pytest.raises(GridRefused, match="no such submission of yours"):
        hub.service.state(thief.id, first["submission"])


def test_X6_the_quota_of_submissions_is_per_member_and_day(hub: ToyHub) -> None:
    for n in range(3):
        hub.submit(b"model %d" % n, nonce=n)
    with pytest.raises(GridRefused, match="3 submissions to toy@2 within a day"):
        hub.submit(b"model 3", nonce=3)
    hub.clock.now_s += DAY_S
    hub.submit(b"model 3", nonce=3)


def test_X6_an_old_version_and_an_unknown_board_are_refused(hub: ToyHub) -> None:
    for board, says in (("toy@1", "has no toy@1"), ("other@1", "has no other@1"), ("x" * 100 + "@1", "has no xxx")):
        manifest = sign_manifest(hub.author.private, b"adds", board=board, name="mine", nonce=b"\0" * 32).to_json()
        with pytest.raises(GridRefused, match=says):
            hub.service.submit(hub.author.id, manifest, b"adds")


def test_X6_verdicts_of_unlisted_graders_and_forged_ones_are_refused(hub: ToyHub, tmp_path: Path) -> None:
    submission = hub.submit(b"roughly")["submission"]
    unlisted = IdentityKey.in_folder(tmp_path / "unlisted")
    grade = ModelGrade((1.0, 1.0, 1.0), {"zero": (0.0, 0.0, 0.0)}, "00")
    made: dict[str, Any] = {"submission": submission, "rotation": 1, "platform": "here", "grade": grade}
    with pytest.raises(GridError, match="not signed by a grader"):
        hub.service.take_verdict(sign_verdict(unlisted.private, **made))
    genuine = sign_verdict(hub.keys[0].private, **made)
    with pytest.raises(GridError, match="not signed by a grader"):
        hub.service.take_verdict(replace(genuine, grade=replace(grade, scores=(2.0, 1.0, 1.0))))
    with pytest.raises(GridError, match="longer than its claim"):
        hub.service.take_verdict(genuine)  # nothing was claimed
    assert disagreement(genuine, genuine) == "both verdicts are of the same grader"


def test_X6_a_throttled_grader_loses_its_claim_and_another_grades(hub: ToyHub) -> None:
    submission = hub.submit(b"roughly")["submission"]
    slow = hub.keys[0].public.hex()
    assert hub.store.claim(slow, hub.clock(), hub.clock() + 120.0, 2) == (submission, 1)
    assert hub.store.claim(slow, hub.clock(), hub.clock() + 120.0, 2) is None
    hub.clock.now_s += 121.0
    late = sign_verdict(hub.keys[0].private, submission=submission, rotation=1, platform="slow", refused="?")
    with pytest.raises(GridError, match="longer than its claim"):
        hub.service.take_verdict(late)
    assert asyncio.run(hub.graded(submission))["state"] == "graded"


def test_X6_a_refused_model_tells_its_author_why(tmp_path: Path) -> None:
    def wrong_shape(given: Tensors) -> Tensors:
        return {"y": np.zeros((2, 2), np.float32), "memory_next": given["memory"]}

    hub = ToyHub(tmp_path, models={b"wrong": wrong_shape})
    found = asyncio.run(hub.graded(hub.submit(b"wrong")["submission"]))
    assert found["state"] == "refused"
    assert "output “y” is float32 of shape [2, 2]; the board has float32 of shape [1]" in found["reason"]
    hub.store.close()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"z": numbers(1.0)}, "“z” is not in the interface"),
        ({"y": np.zeros(1, np.float64)}, "float64"),
        ({"memory_next": numbers(1.0)}, "“memory_next” is float32 of shape"),
    ],
)
def test_X6_outputs_that_do_not_fit_are_refused(change: dict[str, Any], says: str) -> None:
    models = {b"m": lambda given: dict(toy.adds(given)) | change}
    with pytest.raises(ModelRejected, match=says):
        asyncio.run(grade_model(TOY, b"m", [1], opener(models), task=ToyProcess()))


def test_X6_memory_is_passed_on_and_begins_again_with_each_episode() -> None:
    seen: list[float] = []

    def remembers(given: Tensors) -> Tensors:
        seen.append(float(given["memory"][0]))
        return toy.adds(given)

    asyncio.run(grade_model(TOY, b"m", [1, 2], opener({b"m": remembers}), task=ToyProcess()))
    assert seen == [0.0, 1.0, 2.0] * 4


def test_X6_results_survive_a_restart_and_a_claim_of_a_killed_grader_ends(hub: ToyHub, tmp_path: Path) -> None:
    submission = hub.submit(b"roughly")["submission"]
    hub.store.claim(hub.keys[1].public.hex(), hub.clock(), hub.clock() + 60.0, 2)
    hub.store.close()
    again = ToyHub(tmp_path)
    again.clock.now_s += 61.0
    assert again.service.standings("toy")["rotation"] == 1
    assert asyncio.run(again.graded(submission))["published"] == 0.7
    again.store.close()


def test_X6_the_best_model_is_called_by_name_within_a_quota(hub: ToyHub) -> None:
    asyncio.run(hub.graded(hub.submit(b"roughly")["submission"]))
    asyncio.run(hub.graded(hub.submit(b"adds", nonce=1)["submission"]))

    async def call(key: str, inputs: Tensors) -> Tensors:
        return await hub.service.call("caller", key, inputs)

    x = {"x": numbers(1.0, 2.0, 3.0, 4.0)}
    assert float(asyncio.run(call("toy@best", x))["y"][0]) == 10.0
    with pytest.raises(GridRefused, match="float32 of shape"):
        asyncio.run(call("toy@best", {"x": numbers(1.0)}))
    with pytest.raises(GridRefused, match="2 times within a minute"):
        asyncio.run(call("toy@best", x))
    hub.clock.now_s += 61.0
    asyncio.run(call("toy@best", x))
    for key, says in (("toy@7", "cannot be called"), ("toy", "BOARD@best"), ("other@best", "no board “other”")):
        with pytest.raises(GridRefused, match=says):
            asyncio.run(call(key, x))


def test_X6_what_is_queued_for_a_board_that_is_gone_is_refused_and_holds_up_nothing(tmp_path: Path) -> None:
    hub = ToyHub(tmp_path)
    old = TOY.model_copy(update={"version": 1})
    hub.service.boards[old.key] = old
    hub.service._rotation_of(old)
    manifest = sign_manifest(hub.author.private, b"adds", board=old.key, name="mine", nonce=b"0" * 32)
    with hub.store.writing():
        hub.store.add(manifest, b"adds", member=hub.author.id, now_s=hub.clock(), rotation=1)
    hub.store.close()
    again = ToyHub(tmp_path)
    found = again.service.state(again.author.id, manifest.id)
    assert found["state"] == "refused"
    assert "is closed. Next: " in found["reason"]
    assert asyncio.run(again.graded(again.submit(b"roughly")["submission"]))["state"] == "graded"
    again.store.close()


def test_X7_the_last_rotation_of_a_board_that_is_closed_is_published_and_another_begins_when_it_is_back(
    hub: ToyHub,
) -> None:
    def service(*boards: Board) -> BoardService:
        return BoardService(
            {each.key: each for each in boards},
            hub.store,
            graders=frozenset(key.public.hex() for key in hub.keys),
            append=lambda kind, body: hub.log.append((kind, dict(body))),
            open_model=opener(),
            clock=hub.clock,
        )

    submission = hub.submit(b"roughly")["submission"]
    asyncio.run(hub.graded(submission))
    before = len(hub.log)
    service()
    assert [kind for kind, _ in hub.log[before:]] == ["board.closed", "board.verdict", "board.verdict"]
    ended = hub.log[before][1]["ended"]
    first = Rotation(TOY.key, ended["rotation"], bytes.fromhex(ended["secret"]), 0.0)
    assert is_committed(first, hub.log[0][1]["commitment"])
    service()
    assert len(hub.log) == before + 3, "it is published once"
    back = service(TOY)
    assert [(kind, body["rotation"], "ended" in body) for kind, body in hub.log[before + 3 :]] == [
        ("board.rotation", 2, False)
    ]
    assert back.standings("toy")["published_secrets"] == {"1": ended["secret"]}
    assert hub.store.rotation(TOY.key).secret != first.secret  # type: ignore[union-attr]
    assert back.state(hub.author.id, submission)["state"] == "queued"  # the best are graded again
    assert back.best(TOY).published == 0.7


def test_X6_what_waits_at_the_end_of_a_rotation_is_graded_in_the_next_and_stands_on_the_board(hub: ToyHub) -> None:
    graded, waiting = (
        hub.submit(model, nonce=number)["submission"] for number, model in enumerate((b"roughly", b"adds"))
    )
    first = hub.graders[0]
    assert asyncio.run(first.step())
    assert asyncio.run(hub.graders[1].step())
    hub.store.claim(first._key.public.hex(), hub.clock(), hub.clock() + 9e9, 2)
    hub.clock.now_s += 7 * DAY_S
    assert hub.service.rotate_due() == [TOY.key]
    assert hub.service.state(hub.author.id, waiting)["rotation"] == 2
    assert hub.store.submissions_in(TOY.key, 1) == 2
    assert hub.store.submissions_in(TOY.key, 2) == 0, "it does not end the next one"
    grade = asyncio.run(grade_model(TOY, b"adds", [1], opener()))
    late = sign_verdict(first._key.private, submission=waiting, rotation=1, platform="test", grade=grade)
    hub.service.take_verdict(late)  # of a grader that was at it when the rotation ended
    found = asyncio.run(hub.graded(waiting))
    assert (found["state"], found["rotation"], found["published"]) == ("graded", 2, 1.0)
    assert [row.submission for row in hub.store.rows(TOY.key, 2)] == [waiting, graded]


def test_X6_a_board_whose_task_is_unknown_does_not_hold_up_the_baselines_of_others(hub: ToyHub) -> None:
    broken = TOY.model_copy(update={"board": "broken", "task": TOY.task.model_copy(update={"name": "gone"})})
    hub.service.boards = {broken.key: broken, TOY.key: TOY}
    hub.service._rotation_of(broken)
    with pytest.raises(TaskFailed, match=rf"{broken.key}: .*gone"):
        asyncio.run(hub.graders[0].measure_baselines())
    assert list(hub.store.baselines(TOY.key, 1) or {}) == TOY.baselines
    assert hub.store.baselines(broken.key, 1) is None


def test_X6_a_submission_that_cannot_be_graded_now_lets_others_pass_and_is_tried_again(hub: ToyHub) -> None:
    first = hub.submit(b"adds")["submission"]
    path = hub.store.model_path(hub.store.manifest_of(first).model_sha256)
    kept = path.rename(path.with_suffix(".away"))
    assert asyncio.run(hub.graded(first))["state"] == "queued"
    assert "No such file" in hub.graders[0].problem
    assert asyncio.run(hub.graded(hub.submit(b"roughly", nonce=1)["submission"]))["state"] == "graded"
    kept.rename(path)
    hub.clock.now_s += 61.0
    assert asyncio.run(hub.graded(first))["published"] == 1.0
