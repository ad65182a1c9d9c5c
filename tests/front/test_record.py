"""`choroid recording` and /api/recordings: an operator begins and ends recordings of a running rig; anyone lists them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient

from choroid.cli import main
from choroid.operating.recordings import as_text
from choroid.running.recording_plan import recording_plan
from controller.rig.loading import load_rig
from dashboards.app import create_app
from dashboards.auth import Auth, Role
from nerves.recording.access import RecordingAccess
from nerves.recording.layout import RecordingPlan
from nerves.recording.quota import RecordingRefused
from tests.dashboards.fake_rig import FakeController
from tests.nerves.recording.record import recorded_bench
from tests.processes import Bench, until

BENCH = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"


class Engine:
    """An engine that records nothing but what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.refusal = ""

    async def record(self, verb: str, **body: str) -> dict[str, Any]:
        self.asked.append((verb, body))
        if self.refusal:
            raise RecordingRefused(self.refusal)
        name = body.get("name", "")
        return {
            "name": name, "frames": 5, "bytes": 7, "lost_frames": 0, "trouble": "", "last": "", "feeding": name,
            "buffer_fill": 0.0,
        }  # fmt: skip


@asynccontextmanager
async def page(access: RecordingAccess | None, role: Role) -> AsyncIterator[AsyncClient]:
    controller = FakeController()
    auth = Auth(demo=False, utc=controller.clock.utc)
    app = create_app(controller.as_controller(), auth, recordings=access)
    async with AsyncClient(transport=ASGITransport(app), base_url="http://127.0.0.1") as client:
        client.headers["authorization"] = f"Bearer {auth.issue('ada', role)}"
        yield client


async def test_S2_an_operator_begins_and_ends_recordings_and_a_viewer_lists_them(tmp_path: Path) -> None:
    with recorded_bench(tmp_path / "r") as lab:
        lab.begin("first")
        lab.run(0.2)
        lab.end()
    engine = Engine()
    access = RecordingAccess(RecordingPlan(str(tmp_path / "r")), lambda: engine)
    async with page(access, Role.OPERATOR) as client:
        begun = await client.post("/api/recordings", json={"name": "second", "reason": "a test"})
        assert begun.status_code == 201, begun.text
        assert (await client.post("/api/recordings/stop", json={"reason": "enough"})).status_code == 200
        assert engine.asked == [
            ("start", {"name": "second", "requester": "ada", "reason": "a test"}),
            ("stop", {"reason": "ada: enough"}),
        ]
        engine.refusal = "no room. Likely cause: earlier recordings. Next: remove some"
        refused = await client.post("/api/recordings", json={})
        assert refused.status_code == 409
        assert refused.json()["error"]["action"] == "remove some"
    async with page(access, Role.VIEWER) as client:
        engine.refusal = ""
        listed = (await client.get("/api/recordings")).json()
        assert [(each["name"], each["electrodes"]) for each in listed["recordings"]] == [("first", 4)]
        assert listed["recordings"][0]["seconds"] == pytest.approx(0.2)
        assert listed["quota_gb"] == 100.0
        assert (await client.post("/api/recordings", json={})).status_code == 403
        text = as_text("list", listed)
        assert "first" in text
        assert "it is enough" in text


async def test_without_an_engine_or_a_data_folder_the_refusal_says_so(tmp_path: Path) -> None:
    async with page(None, Role.OPERATOR) as client:
        assert (await client.get("/api/recordings")).status_code == 404
    async with page(RecordingAccess(RecordingPlan(str(tmp_path)), lambda: None), Role.OPERATOR) as client:
        refused = await client.post("/api/recordings", json={})
        assert "does not run" in refused.json()["error"]["what"]
        assert (await client.get("/api/recordings")).json()["status"] is None
    async with page(RecordingAccess(None, Engine), Role.OPERATOR) as client:
        assert "spare folder" in (await client.post("/api/recordings", json={})).text


def test_F6_the_rig_file_says_what_is_recorded_and_how_much_room_it_may_take(tmp_path: Path) -> None:
    text = BENCH.read_text(encoding="utf-8").replace(
        "  diameter: 30 um\n",
        "  diameter: 30 um\n  recording: {automatic: leases, quota: 2 TB, min_free: 500 MB, folder: /srv/r, frames: false}\n",
    )
    (tmp_path / "rig.yaml").write_text(text, encoding="utf-8")
    plan = recording_plan(load_rig(tmp_path / "rig.yaml"), tmp_path)
    assert plan is not None
    assert (plan.automatic, plan.quota_bytes, plan.min_free_bytes) == ("leases", 2e12, 5e8)
    assert (plan.folder, plan.frames) == ("/srv/r", False)
    usual = recording_plan(load_rig(BENCH), tmp_path)
    assert usual is not None
    assert usual.folder == str(tmp_path / "recordings")
    assert usual.identity["tissue"]["chamber"]["count"] == 16


def test_a_running_rig_is_recorded_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rig = Bench(tmp_path, array=True)
    try:
        rig.run()
        data = str(rig.data)
        until((rig.data / "nerves.json").exists, "the electrode engine runs")
        assert main(["recording", "start", "first", "--data", data, "--reason", "a test"]) == 0
        assert main(["recording", "status", "--data", data]) == 0
        assert "recording first: " in capsys.readouterr().out
        assert main(["recording", "start", "second", "--data", data]) == 1
        assert "first runs already" in capsys.readouterr().err
        assert main(["recording", "stop", "--data", data]) == 0
        assert main(["recording", "list", "--data", data]) == 0
        assert "ended by" in capsys.readouterr().out
        assert main(["recording", "status", "--data", data]) == 0
        assert "nothing is recorded; the last one was first" in capsys.readouterr().out
    finally:
        rig.end()
