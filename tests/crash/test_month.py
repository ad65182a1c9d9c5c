"""The month's recipe against `choroid lab serve` at a speed factor, with a kill of the controller in a dose.

In the suite: one change and one assay on the morning after the change of the clocks, of month.yaml and, a week later on the
same lab, of month.py. On demand, the whole month of one of them:
`python -m tests.crash.test_month month.py --speed 300 --folder DIR` (some three hours).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from choroid.client.transport import Address, ApiCall, Transport
from choroid.common.failure import UserError
from choroid.operating.remote import call
from choroid.simulation.simulate import EPOCH
from controller.journal.reader import JournalReader
from controller.journal.terms import Entry
from tests.execution.test_replies import image
from tests.execution.world import BENCH
from verification.kills.trial import _awake, _Bench

MORNING = datetime(2026, 3, 30, 6, 43, tzinfo=UTC)
"""A Monday in Berlin: 08:43 of daylight saving time, which began the day before."""
FRIDAY = datetime(2026, 3, 13, 7, 43, tzinfo=UTC)
NAMES = {"month.yaml": "month", "month.py": "month-python"}
DOSES = ("kidney.draw", "kidney.discard", "gut.feed", "kidney.give_back")


class Month:
    """A lab over TCP, and the controller that runs the recipes."""

    def __init__(self, folder: Path, *, begin: datetime, speed: float, stack: contextlib.ExitStack) -> None:
        self._speed = speed
        self.bench = _Bench(BENCH, folder, speed, stack)
        recipes = self.bench.data / "recipes"
        recipes.mkdir(parents=True)
        for file, name in NAMES.items():
            source = BENCH.parents[1] / "protocols" / file
            shutil.copy(source, recipes / f"{name}{source.suffix}")
        self.start(begin)

    def start(self, begin: datetime) -> None:
        """Start the controller at a time of its clock."""
        self.bench._begun_s = time.time() - (begin - EPOCH).total_seconds() / self._speed
        self.endpoint = self.bench._control(None)
        self.bench._until(lambda: _awake(self.endpoint), "every device is answered", 60.0)

    def run(self, name: str, params: dict[str, str], *, within_s: float) -> str:
        """Run a recipe to its end, answer its questions, kill the controller in its first dose; return the run's id."""
        body = {"protocol": name, "params": params}
        run = str(call(self.endpoint, "POST", "/api/runs", body, timeout_s=300.0)["id"])
        killed = False
        deadline_s = time.monotonic() + within_s
        view: dict[str, Any] = {}
        while time.monotonic() < deadline_s:
            time.sleep(0.1)
            try:
                view = call(self.endpoint, "GET", f"/api/runs/{run}")
            except UserError:  # the controller is busy
                continue
            if view["ended"]:
                assert view["state"] == "complete", view["messages"]
                assert killed
                return run
            last = view["progress"][-1] if view["progress"] else {}
            if not killed and last.get("verb") in DOSES and last["state"] == "running":
                self.kill()
                killed = True
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

    def reservoir_ul(self) -> float:
        """Return what is really in the reservoir (µL)."""
        return float(self.bench.truth()["volumes_ul"]["reservoir"])

    def rows(self, run: str) -> list[Entry]:
        """Return the journal's rows of a run."""
        journal = JournalReader(self.bench.data / "journal.db")
        try:
            return list(journal.entries(run=run))
        finally:
            journal.close()


def a_month(month: Month, name: str, params: dict[str, str], *, within_s: float) -> None:
    """Run a recipe; its bookings, its requests and the truth of the lab agree, and each step is on record once."""
    before_ul = month.reservoir_ul()
    run = month.run(name, params, within_s=within_s)
    given_ul = before_ul - month.reservoir_ul()
    rows = month.rows(run)
    notes = [row.body for row in rows if row.kind == "note.change"]
    photos = [row.body["value"] for row in rows if row.kind == "step.answered" and "file" in row.body]
    assays = [row for row in rows if row.kind == "assay" and row.body["used"]]
    assert len(notes) == len(photos) == int(params["changes"])
    assert len(assays) == int(params["assays"])
    assert all((month.bench.data / "attachments" / photo).is_file() for photo in photos)
    wanted_ul = sum(note["wanted"] for note in notes)
    assert sum(note["replaced"] for note in notes) == pytest.approx(wanted_ul, rel=0.1)
    assert given_ul == pytest.approx(wanted_ul, rel=0.1)
    booked_ul = sum(row.body["ul"] for row in rows if row.kind == "moved" and row.body["line"] == "feed")
    assert booked_ul == pytest.approx(given_ul, rel=0.05)
    steps = [row.body["at"] for row in rows if row.kind == "step"]
    assert len(steps) == len(set(steps))
    assert sum(row.kind == "run.state" and row.body["event"] == "recover" for row in rows) == 1


@pytest.mark.long
def test_a_morning_of_the_month_survives_a_kill_on_a_lab_over_tcp(tmp_path: Path) -> None:
    params = {"changes": "1", "assays": "1", "share": "20 %"}
    with contextlib.ExitStack() as stack:
        month = Month(tmp_path, begin=MORNING, speed=60.0, stack=stack)
        a_month(month, "month", params, within_s=300.0)
        month.bench._settle()
        month.start(MORNING + timedelta(days=7))
        a_month(month, "month-python", params, within_s=300.0)


def main() -> None:
    """Run the whole month."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", choices=list(NAMES))
    parser.add_argument("--changes", default="13")
    parser.add_argument("--assays", default="5")
    parser.add_argument("--speed", type=float, default=300.0)
    parser.add_argument("--folder", type=Path, required=True)
    words = parser.parse_args()
    words.folder.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        month = Month(words.folder, begin=FRIDAY, speed=words.speed, stack=stack)
        params = {"changes": words.changes, "assays": words.assays}
        a_month(month, NAMES[words.file], params, within_s=40 * 86_400.0 / words.speed)


if __name__ == "__main__":
    main()
