"""`choroid protocol start my-recipe.yaml`: checked here, linked into the data directory, started by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from choroid.common.failure import UserError
from choroid.operating import remote
from choroid.running.data_folder import ENDPOINT
from controller.recipes.catalogue import find
from controller.recipes.file import RecipeError
from protocols.registry import UnknownProtocol

TEXT = "recipe: 1\nname: mine\ntitle: A test\nsteps:\n  - wait: 1 min\n"


class Api:
    """What the controller was asked."""

    def __init__(self, runs: list[dict[str, str]]) -> None:
        self.runs = runs
        self.posted: list[Any] = []

    def __call__(self, endpoint: object, method: str, path: str, body: object = None, **_: float) -> dict[str, Any]:
        if method == "GET":
            return {"runs": self.runs}
        self.posted.append(body)
        return {"id": "run-1"}


def start(data: Path, file: Path) -> dict[str, Any]:
    return remote.act("start", data=data, run=None, protocol=str(file), params={}, reason="a test")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / ENDPOINT).write_text(json.dumps({"url": "http://127.0.0.1:1", "token": "t"}), encoding="utf-8")
    return folder


def test_a_file_is_started_by_its_name_and_stays_where_it_is(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api([{"id": "run-0", "protocol": "mine", "state": "complete"}])
    monkeypatch.setattr(remote, "call", api)
    file = tmp_path / "anything.yaml"
    file.write_text(TEXT, encoding="utf-8")
    for _ in range(2):  # the second time the link is there already
        assert start(data, file) == {"id": "run-1"}
    assert [body["protocol"] for body in api.posted] == ["mine", "mine"]
    recipe = find("mine", own=data / "recipes")
    assert recipe.watched[0][0] == file.resolve()
    file.write_text(TEXT.replace("1 min", "2 min"), encoding="utf-8")
    assert recipe.altered() == file.resolve()


def test_a_file_with_errors_reaches_no_controller(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api([])
    monkeypatch.setattr(remote, "call", api)
    file = tmp_path / "mine.yaml"
    for text, kind in (
        (TEXT.replace("wait", "wiat"), RecipeError),
        (TEXT.replace("mine", "recycle"), UnknownProtocol),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(kind):
            start(data, file)
    assert api.posted == []
    assert not (data / "recipes").exists()


def test_the_recipe_of_a_run_under_way_is_not_exchanged(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "call", Api([{"id": "run-7", "protocol": "mine", "state": "running"}]))
    file = tmp_path / "mine.yaml"
    file.write_text(TEXT, encoding="utf-8")
    with pytest.raises(UserError, match=r"run-7 \(mine\) is running"):
        start(data, file)
    assert not (data / "recipes" / "mine.yaml").exists()
