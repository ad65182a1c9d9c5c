"""The month's recipe against `choroid lab` at a speed factor, with a kill in the middle of a half-change.

In the suite: one half-change and one assay of month.yaml on the morning after the change of the clocks. On demand, the
whole month, also of month.py:
`python -m tests.crash.test_month month.yaml --changes 13 --assays 5 --speed 300 --folder DIR` (some three hours).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from choroid.client.transport import Address, ApiCall, Transport
from choroid.common.failure import UserError
from choroid.kills.trial import _awake, _Bench
from choroid.operating.remote import call
from choroid.simulation.simulate import EPOCH
from controller.journal.reader import JournalReader
from tests.execution.test_replies import image
from tests.execution.world import BENCH

MORNING = datetime(2026, 3, 30, 6, 40, tzinfo=UTC)
"""A Monday in Berlin: 08:40 of daylight saving time, which began the day before."""
FRIDAY = datetime(2026, 3, 13, 7, 55, tzinfo=UTC)
NAMES = {"month.yaml": "month", "month.py": "month-python"}


class Month:
    """One run of the recipe on a lab over TCP."""

    def __init__(self, file: str, folder: Path, *, begin: datetime, speed: float, stack: contextlib.ExitStack) -> None:
        self.bench = _Bench(BENCH, folder, speed, stack)
        self.bench._begun_s = time.time() - (begin - EPOCH).total_seconds() / speed
        recipes = self.bench.data / "recipes"
        recipes.mkdir(parents=True)
        source = BENCH.parents[1] / "protocols" / file
        shutil.copy(source, recipes / f"{NAMES[file]}{source.suffix}")
        self.endpoint = self.bench._control(None)
        self.bench._until(lambda: _awake(self.endpoint), "every device is answered", 60.0)
        self.name = NAMES[file]
        self.killed = 0

    def run(self, changes: int, assays: int, *, within_s: float) -> dict[str, Any]:
        """Run to the end, answer questions, kill the controller in the first draw; return the run."""
        body = {"protocol": self.name, "params": {"changes": str(changes), "assays": str(assays)}}
        run = str(call(self.endpoint, "POST", "/api/runs", body, timeout_s=300.0)["id"])
        deadline_s = time.monotonic() + within_s
        while time.monotonic() < deadline_s:
            time.sleep(0.1)
            try:
                view = call(self.endpoint, "GET", f"/api/runs/{run}")
            except UserError:  # the controller is busy
                continue
            if view["ended"]:
                return view
            last = view["progress"][-1] if view["progress"] else {}
            if not self.killed and last.get("verb") == "kidney.draw" and last["state"] == "running":
                time.sleep(0.5)
                self.kill()
            elif view["state"] == "held":
                self.answer(run, view)
        raise AssertionError(f"the run did not end: {view['state']}, {view['messages'][-3:]}")

    def kill(self) -> None:
        """Kill the controller and start it again."""
        host = self.bench._host
        assert host is not None
        assert host.pid is not None
        os.kill(host.pid, signal.SIGKILL)
        self.bench._until(lambda: host.returncode is not None, "the controller is dead", 10.0)
        self.killed += 1
        self.endpoint = self.bench._control(None)

    def answer(self, run: str, view: dict[str, Any]) -> None:
        """Do what the run asks for."""
        question = view["question"]
        kind = "" if question is None else question["kind"]
        if kind == "photo":
            query = urlencode({"name": "chamber.jpg", "step": question["step"]})
            upload = ApiCall("POST", f"/api/runs/{run}/upload?{query}", dict, content=image("JPEG", (640, 480)))
            Transport(Address.parse(self.endpoint["url"])[0], self.endpoint["token"]).do(upload)
        elif kind == "assay":
            body = {"answer": "1 mM", "step": question["step"], "sure": True}
            call(self.endpoint, "POST", f"/api/runs/{run}/answer", body)
        else:
            raise AssertionError(view["messages"][-3:])


def a_month(
    file: str, folder: Path, *, begin: datetime, speed: float, changes: int, assays: int, within_s: float
) -> None:
    with contextlib.ExitStack() as stack:
        month = Month(file, folder, begin=begin, speed=speed, stack=stack)
        view = month.run(changes, assays, within_s=within_s)
        month.bench._settle()
        truth = month.bench.truth()
        assert view["state"] == "complete", view["messages"]
        assert month.killed == 1
        journal = JournalReader(month.bench.data / "journal.db")
        notes = [row.body for row in journal.entries(kinds=("note.half_change",))]
        photos = [row.body["value"] for row in journal.entries(kinds=("step.answered",)) if "file" in row.body]
        used = [row for row in journal.entries(kinds=("assay",)) if row.body["used"]]
        journal.close()
        assert len(notes) == len(photos) == changes
        assert len(used) == assays
        assert all((month.bench.data / "attachments" / photo).is_file() for photo in photos)
        replaced_ml = sum(note["replaced"] for note in notes) / 1000.0
        assert replaced_ml == pytest.approx(20.0 * changes, rel=0.1)
        assert 500.0 - truth["volumes_ul"]["reservoir"] / 1000.0 == pytest.approx(replaced_ml, rel=0.05)


def test_a_morning_of_the_month_survives_a_kill_on_a_lab_over_tcp(tmp_path: Path) -> None:
    a_month("month.yaml", tmp_path, begin=MORNING, speed=60.0, changes=1, assays=1, within_s=600.0)


def main() -> None:
    """Run the whole month."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", choices=list(NAMES))
    parser.add_argument("--changes", type=int, default=13)
    parser.add_argument("--assays", type=int, default=5)
    parser.add_argument("--speed", type=float, default=300.0)
    parser.add_argument("--folder", type=Path, required=True)
    words = parser.parse_args()
    words.folder.mkdir(parents=True)
    a_month(
        words.file,
        words.folder,
        begin=FRIDAY,
        speed=words.speed,
        changes=words.changes,
        assays=words.assays,
        within_s=40 * 86_400.0 / words.speed,
    )


if __name__ == "__main__":
    main()
