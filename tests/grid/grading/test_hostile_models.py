"""X6: hostile models on the whole way of a submission, graded in the real sandbox: each is refused with a reason."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from grid.boards.manifest import sign_manifest
from grid.grading.grader import ModelGrader
from grid.grading.sandbox import open_in_sandbox
from tests.grid.boards import hostile
from tests.grid.grading import toy
from tests.grid.grading.toy import TOY, ToyHub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ToyHub]:
    quota = TOY.quota.model_copy(update={"submissions_per_day": 1000})
    monkeypatch.setattr(toy, "TOY", TOY.model_copy(update={"quota": quota}))
    with toy.toy_tasks(monkeypatch):
        made = ToyHub(tmp_path / "hub")
        made.graders = [ModelGrader(made.service, key, open_in_sandbox, clock=made.clock) for key in made.keys]
        yield made
        made.store.close()


def test_X6_every_hostile_model_is_refused_and_the_next_good_one_is_graded(hub: ToyHub, tmp_path: Path) -> None:
    canary = tmp_path / "secret"
    canary.write_bytes(b"\x11\x22\x33\x44" * 4)
    children = _children()
    states = {}
    for number, (name, model) in enumerate(hostile.corpus(str(canary)).items()):
        large = len(model) > TOY.limits.model_kib * 1024
        assert not large, name
        submitted = hub.submit(model, nonce=number, name="hostile")
        states[name] = asyncio.run(hub.graded(submitted["submission"]))
    for name, state in states.items():
        assert state["state"] == "refused", (name, state, [grader.problem for grader in hub.graders])
        assert state["published"] is None
        assert "Next: " in state["reason"], (name, state)
        assert "Traceback" not in state["reason"]
        assert str(canary) not in state["reason"], name
    assert "did not answer within" in states["endless loop"]["reason"]
    assert "outputs are not finite: “y” has 1 of 1 values" in states["not a number"]["reason"]
    assert "two constants of a graph are named 'axes'" in states["two meanings"]["reason"]
    assert not Path(f"{canary}.new").exists()
    good = asyncio.run(hub.graded(hub.submit(hostile.good(), nonce=200)["submission"]))
    assert (good["state"], good["published"]) == ("graded", 1.0)
    assert _children() <= children


def test_X6_a_model_above_the_size_of_the_board_is_refused_before_it_is_stored(hub: ToyHub) -> None:
    model = b"\0" * (TOY.limits.model_kib * 1024 + 1)
    manifest = sign_manifest(hub.author.private, model, board=TOY.key, name="large", nonce=b"l" * 32)
    with pytest.raises(Exception, match="takes at most 65536"):
        hub.service.submit(hub.author.id, manifest.to_json(), model)
    assert not list(hub.store.models.iterdir())


def _children() -> set[int]:
    """Return the processes that this one has started and that still run."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid() and fields[0] != "Z":
                found.add(int(entry.name))
    return found
