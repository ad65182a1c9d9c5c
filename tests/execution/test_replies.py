"""Photo and file answers, assays and approvals as steps: validation, record, replay after a restart, roles."""

from __future__ import annotations

import asyncio
import hashlib
import io
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from controller.attachments.store import Attachment, AttachmentStore, NoRoom
from controller.core.run_states import RunState
from controller.estimator.assays import AssayError, AssayRefused
from controller.recipes.answers import AnswerRefused, safe_name
from controller.recipes.file import RecipeError
from controller.runs.people import Person
from controller.runs.runner import RunnerError
from protocols.answers import AnswerForm
from tests.execution.test_recipes import notes, recipe_of, to_an_end
from tests.execution.world import Controller, World

PHOTO = AnswerForm(kind="photo", types=("jpg", "png"), max_bytes=200_000)
FILE = AnswerForm(kind="file", types=("csv", "json", "pdf"))


def image(kind: str = "PNG", size: tuple[int, int] = (64, 48)) -> bytes:
    content = io.BytesIO()
    Image.effect_noise(size, 40.0).save(content, kind)
    return content.getvalue()


async def test_an_upload_is_kept_by_its_hash_once_and_listed(tmp_path: Path) -> None:
    store = AttachmentStore(tmp_path, min_free_bytes=0)
    assert list(store.manifest()) == []
    assert not store.folder.exists()
    content = image()
    kept = await store.take(PHOTO, content, "C:\\fakepath\\../../etc/chamber 1.png")
    assert kept == Attachment(hashlib.sha256(content).hexdigest(), "chamber 1.png", "image/png", len(content))
    assert await store.take(PHOTO, content, "chamber 1.png") == kept
    assert list(store.manifest()) == [kept]
    path = store.path(kept.sha256)
    assert path is not None
    assert path.read_bytes() == content
    assert path.stat().st_mode & 0o777 == 0o600
    for other in ("../journal.db", kept.sha256[:-1], kept.sha256.upper(), "0" * 64):
        assert store.path(other) is None
    with (store.folder / "manifest.jsonl").open("a") as manifest:
        manifest.write('{"sha256": "cut o')
    table = await store.take(FILE, b"a,b\n1,2\n", "table.csv")
    assert [each.name for each in store.manifest()] == ["chamber 1.png", "table.csv"]
    assert table.media_type == "text/csv"
    path.write_bytes(b"damaged")
    await store.take(PHOTO, content, "chamber 1.png")
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("form", "content", "name", "why"),
    [
        (PHOTO, b"", "a.png", "is empty"),
        (PHOTO, image()[:500], "a.png", "does not decode"),
        (PHOTO, b"GIF89a" + bytes(100), "a.png", "of another type, or damaged"),
        (PHOTO, image("WEBP"), "a.png", "is of the type webp. Next: choose a photo"),
        (PHOTO, image(size=(800, 600)), "a.png", "MB. Likely cause: full resolution"),
        (PHOTO, b"<svg xmlns='http://www.w3.org/2000/svg'/>", "a.png", "of another type"),
        (FILE, b"\x00\x01", "a.csv", "of another type"),
        (FILE, b"a\xff", "a.csv", "of another type"),
    ],
)
async def test_an_upload_that_is_not_what_was_asked_for_is_refused(
    form: AnswerForm, content: bytes, name: str, why: str, tmp_path: Path
) -> None:
    store = AttachmentStore(tmp_path, min_free_bytes=0)
    with pytest.raises(AnswerRefused) as refused:
        await store.take(form, content, name)
    assert why in str(refused.value)
    assert not store.folder.exists()


@pytest.mark.parametrize("size", [(8_000, 8_000), (30_000, 30_000)])
async def test_an_image_that_would_unpack_into_gigabytes_is_refused(size: tuple[int, int], tmp_path: Path) -> None:
    content = io.BytesIO()
    Image.new("1", size).save(content, "PNG")
    assert len(content.getvalue()) < PHOTO.max_bytes
    with pytest.raises(AnswerRefused, match="at most 60 million pixels"):
        await AttachmentStore(tmp_path).take(PHOTO, content.getvalue(), "bomb.png")


async def test_the_quota_and_a_full_disk_refuse_an_upload(tmp_path: Path) -> None:
    content = image()
    with pytest.raises(NoRoom, match="at most"):
        await AttachmentStore(tmp_path, quota_bytes=len(content) - 1).take(PHOTO, content, "a.png")
    with pytest.raises(NoRoom, match="the journal needs them"):
        await AttachmentStore(tmp_path, min_free_bytes=10**18).take(PHOTO, content, "a.png")
    (tmp_path / "attachments" / f".{hashlib.sha256(content).hexdigest()}.part").symlink_to(tmp_path / "target")
    await AttachmentStore(tmp_path, min_free_bytes=0).take(PHOTO, content, "a.png")
    assert not (tmp_path / "target").exists()


def test_a_name_is_never_a_path() -> None:
    for name in ("../a", "/etc/passwd", "a\\b\\..", "\x00\n", "", "x" * 999):
        shown = safe_name(name)
        assert shown
        assert "/" not in shown
        assert len(shown) <= 100
        assert shown.isprintable()


ASKS = """steps:
  - ask_operator: {message: Photograph it, answer: photo, types: [png], max_size: 1 MB, as: picture}
  - note: {kind: seen, text: "picture {picture}", values: {picture: picture}}
  - approve: {message: Go on, role: engineer, person: other_than_starter, as: decision}
  - note: {kind: decided, values: {decision: decision}}
"""


@pytest.mark.virtual_time
async def test_a_photo_and_an_approval_are_recorded_and_survive_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "recipes"
    folder.mkdir()
    recipe_of(folder, ASKS)
    world = World()
    store = AttachmentStore(tmp_path, min_free_bytes=0)
    first = Controller(world, tmp_path / "j.db", catalogue={}, recipes=folder)
    with pytest.raises(RunnerError, match="“command line” does not tell which person that is"):
        await first.runs.start("mine", {}, "command line", "a test")
    run = await first.runs.start("mine", {}, "anna", "a test")
    assert await to_an_end(first, run) is RunState.HELD
    with pytest.raises(AnswerRefused, match="a text is no photo"):
        await first.runs.answer(run, "here it is", "ben", "")
    with pytest.raises(AnswerRefused, match="is no answer here"):
        await first.runs.answer(run, await store.take(FILE, b"{}", "a.json"), "ben", "")
    kept = await store.take(PHOTO, image(), "a.png")
    with pytest.raises(RunnerError, match="asks step 1, not step 7"):
        await first.runs.answer(run, kept, "ben", "", step=7)
    await first.runs.answer(run, kept, "ben", "by phone")
    assert await to_an_end(first, run) is RunState.HELD
    (row,) = first.journal.entries(run=run, kinds=("step.answered",))
    assert row.body["value"] == kept.sha256
    assert row.body["file"] == {"name": "a.png", "media_type": "image/png"}
    assert notes(first, "seen")[0]["text"] == f"picture {kept.sha256}"
    await first.gone()

    second = Controller(world, tmp_path / "j.db", catalogue={}, recipes=folder)
    await second.runs.recover()
    await asyncio.sleep(60.0)
    question = second.runs.get(run).question
    assert question is not None
    assert question.answer is not None
    assert "the role engineer or above, by another person" in question.answer.wants
    for person, why in (
        (Person("ben", "operator"), "takes the role engineer"),
        (Person("ben", ""), "takes the role engineer"),
        (Person("ben", "viewer"), "takes the role engineer"),
        (Person("Anna ", "admin"), "who started the run: Anna  is the same person"),
        (Person("command line", "admin"), "does not tell which person acts"),
    ):
        with pytest.raises(AnswerRefused, match=why):
            await second.runs.answer(run, True, person, "")
    with pytest.raises(AnswerRefused, match="a rejection needs a reason"):
        await second.runs.answer(run, False, Person("ben", "engineer"), " ")
    with pytest.raises(AnswerRefused, match="a text is no decision"):
        await second.runs.answer(run, "approved", Person("ben", "engineer"), "")
    with pytest.raises(RunnerError, match="waits for an answer"):
        await second.runs.resume(run, "anna", "go on")
    await second.runs.answer(run, True, Person("ben", "engineer"), "looks well")
    assert await to_an_end(second, run) is RunState.COMPLETE
    assert notes(second, "decided")[0]["decision"] == "approved"
    row = list(second.journal.entries(run=run, kinds=("step.answered",)))[-1]
    assert {key: row.body[key] for key in ("value", "user", "role", "reason")} == {
        "value": "approved",
        "user": "ben",
        "role": "engineer",
        "reason": "looks well",
    }
    await second.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize(("on_reject", "state"), [("end", RunState.COMPLETE), ("ask", RunState.HELD), ("go_on", None)])
async def test_a_rejection_ends_asks_or_goes_on(on_reject: str, state: RunState | None, tmp_path: Path) -> None:
    body = f"steps:\n  - approve: {{message: Feed twice, on_reject: {on_reject}}}\n  - gut.feed: 2 mL\n"
    world = World()
    controller = Controller(world, tmp_path / "j.db")
    run = await controller.runs.start(recipe_of(tmp_path, body), {}, "anna", "a test")
    await to_an_end(controller, run)
    await controller.runs.answer(run, False, Person("ben", "engineer"), "too much")
    assert await to_an_end(controller, run) is (state or RunState.COMPLETE)
    assert (world.pumps["dose_fresh.pump"].moved_ul > 0.0) is (state is None)
    if state is RunState.HELD:
        assert "was rejected by ben: too much" in controller.runs.get(run).messages[-1]
    await controller.gone()


ASSAYS = """steps:
  - assay: {analyte: lactate, vessel: loop, as: lactate}
  - note: {kind: seen, values: {lactate: lactate, high: lactate > 5 mM}}
"""


@pytest.mark.virtual_time
async def test_an_assay_step_enters_the_result_by_the_path_of_all_assays(tmp_path: Path) -> None:
    world = World()
    controller = Controller(world, tmp_path / "j.db")
    run = await controller.runs.start(recipe_of(tmp_path, ASSAYS), {}, "anna", "a test")
    assert await to_an_end(controller, run) is RunState.HELD
    question = controller.runs.get(run).question
    assert question is not None
    assert question.message == "Assay lactate in loop"
    for wrong, error in (("8", AssayError), ("80 mM", AssayError), ("8 mL", AssayError), ("30 mM", AssayRefused)):
        with pytest.raises(error):
            await controller.runs.answer(run, wrong, "ben", "")
        assert controller.runs.get(run).state is RunState.HELD
    with pytest.raises(AssayError, match="still to come"):
        await controller.runs.answer(run, "8 mM", "ben", "", taken="2030-01-01T10:00Z")
    await controller.runs.answer(run, "0.2 mM", "ben", "by kit")
    assert await to_an_end(controller, run) is RunState.COMPLETE
    used = [row for row in controller.journal.entries(kinds=("assay",)) if row.body["used"]]
    (row,) = used
    assert (row.run, row.body["step"], row.body["user"], row.body["reason"]) == (run, 1, "ben", "by kit")
    assert notes(controller, "seen")[0]["lactate"] == pytest.approx(0.2)
    assert notes(controller, "seen")[0]["high"] is False
    await controller.gone()


@pytest.mark.virtual_time
async def test_an_assay_that_was_entered_by_hand_answers_the_step_and_counts_once(tmp_path: Path) -> None:
    controller = Controller(World(), tmp_path / "j.db")
    run = await controller.runs.start(recipe_of(tmp_path, ASSAYS), {}, "anna", "a test")
    await to_an_end(controller, run)
    taken = controller.clock.utc_text()
    controller.runs.assays.enter("lactate", "0.2 mM", vessel="loop", taken=taken, user="cleo")
    await controller.runs.answer(run, "0.2 mM", "ben", "", taken=taken)
    assert await to_an_end(controller, run) is RunState.COMPLETE
    assert len(list(controller.journal.entries(kinds=("assay",)))) == 1
    await controller.gone()


@pytest.mark.virtual_time
async def test_an_assay_that_is_entered_while_a_run_waits_for_it_answers_the_run(tmp_path: Path) -> None:
    controller = Controller(World(), tmp_path / "j.db")
    before = controller.clock.utc_text()
    await asyncio.sleep(60.0)
    run = await controller.runs.start(recipe_of(tmp_path, ASSAYS), {}, "anna", "a test")
    enter = partial(controller.runs.enter_assay, user="cleo", reason="the usual")
    await to_an_end(controller, run)
    await asyncio.sleep(60.0)
    now = controller.clock.utc_text()
    for analyte, value, vessel, taken in (
        ("lactate", "0.2 mM", "loop", before),
        ("glucose", "21 mM", "loop", now),
        ("lactate", "0.2 mM", "spent", now),
    ):
        assert enter(analyte, value, vessel=vessel, taken=taken)["run"] is None, (analyte, vessel, taken)
    with pytest.raises(AssayRefused):
        enter("lactate", "30 mM", vessel="loop", taken=now)
    assert controller.runs.get(run).state is RunState.HELD
    row = enter("Lactate", "0.3 mM", vessel=controller.runs.assays.place("loop"), taken=now)
    assert (row["run"], row["step"]) == (run, 1)
    assert await to_an_end(controller, run) is RunState.COMPLETE
    assert notes(controller, "seen")[0]["lactate"] == pytest.approx(0.3)
    (answered,) = controller.journal.entries(run=run, kinds=("step.answered",))
    assert {key: answered.body[key] for key in ("user", "reason", "assay")} == {
        "user": "cleo",
        "reason": "the usual",
        "assay": row["id"],
    }
    assert enter("lactate", "0.4 mM", vessel="loop", taken=controller.clock.utc_text())["run"] is None
    await controller.gone()


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("ask_operator: {message: A, answer: photo, types: [exe]}", "are no types of a photo"),
        ("ask_operator: {message: A, answer: photo, types: [pdf]}", "are no types of a photo"),
        ("ask_operator: {message: A, answer: file, max_size: 1 GB}", "is no size of an upload"),
        ("ask_operator: {message: A, answer: file, max_size: 5 mL}", "5 mL"),
        ("ask_operator: {message: A, answer: photo, default: ../x.png}", "is no name of a file"),
        ("ask_operator: {message: A, answer: text, types: [png]}", "has no “types”"),
        ("assay: {analyte: gold, vessel: loop}", "is no choice"),
        ("assay: {analyte: lactate, vessel: loop, default: 900 mM}", "out of range"),
        ("approve: {message: A, role: viewer}", "is no choice"),
        ("approve: {message: A, person: three}", "is no choice"),
        ("note: {kind: seen, text: A, values: {text: 1}}", "cannot be a name here"),
    ],
)
def test_a_wrong_question_is_found_before_anything_moves(step: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as wrong:
        recipe_of(tmp_path, f"steps:\n  - {step}\n")
    assert why in str(wrong.value)
