"""`choroid run` with a data folder that cannot be used: heart, temperature and gas run all the same (A11).

Root may write anywhere, so the folder is made read-only by a mount of its own, in a mount namespace of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from choroid.common.failure import UserError
from choroid.operating.remote import call, endpoint_of
from choroid.running import folder_probe
from choroid.running.data_folder import open_folder, spare_of
from choroid.running.guarding import stop
from controller.links.ownership import OWNER, holders
from tests.processes import Bench, until, waited_s

END_S = 120.0
"""Longest time in which a controller ends, on a machine that is busy with other tests (s)."""
HUNG = Path(__file__).with_name("hung_mount.py")
MOUNTS = {
    "read-only": "mount --bind {data} {data} && mount -o remount,ro,bind {data}",
    "full": "mount -t tmpfs -o size=4k,mode=0700 full {data}",
    "hung": f"{sys.executable} {HUNG} {{data}}",
}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    found = Bench(tmp_path, array=True)  # the engine keeps its ledger in the same folder
    found.data.mkdir()
    try:
        yield found
    finally:
        spare = spare_of(found.data)
        found.end()
        if spare is not None:
            _end_guard(spare)


def _end_guard(folder: Path) -> None:
    """End the guard that lives in a spare folder: its command line does not have the data folder in it."""
    for pid in holders(folder / "guard.lock"):
        os.kill(pid, signal.SIGKILL)


def _run_there(bench: Bench, mount: str) -> subprocess.Popen[bytes]:
    words = [
        sys.executable,
        "-m",
        "choroid",
        "run",
        str(bench.rig),
        "--data",
        str(bench.data),
        "--port",
        "0",
        "--no-restart",
    ]
    script = f'{mount.format(data=bench.data)} && exec "$@"'
    with (bench.data.parent / "run.log").open("ab") as log:
        process = subprocess.Popen(["unshare", "-m", "sh", "-c", script, "sh", *words], stdout=log, stderr=log)
    bench._processes.append(process)
    return process


def _get(bench: Bench, path: str) -> dict[str, Any]:
    return call(endpoint_of(bench.data), "GET", path)


def _answers(bench: Bench) -> bool:
    try:
        return bool(_get(bench, "/api/state")["actuators"])
    except (UserError, OSError, KeyError):
        return False


def _cared_for(bench: Bench) -> None:
    def running() -> bool:
        outputs = _get(bench, "/api/state")["actuators"]
        return all((outputs[name]["status"] or {}).get("on") for name in ("reglo.heart", "gas_co2.flow"))

    until(running, "the heart turns and gas flows")


def _said(bench: Bench) -> str:
    return (bench.data.parent / "run.log").read_text(encoding="utf-8")


@pytest.mark.parametrize("how", [pytest.param(how, marks=pytest.mark.long) if how != "full" else how for how in MOUNTS])
def test_A11_a_data_folder_that_cannot_be_written_stops_neither_heart_nor_gas_nor_guard(how: str, bench: Bench) -> None:
    process = _run_there(bench, MOUNTS[how])
    until(lambda: process.poll() is not None or _answers(bench), "the controller's page answers")
    assert process.poll() is None, _said(bench)
    _cared_for(bench)
    alarms = {alarm["kind"] for alarm in _get(bench, "/api/alarms")["alarms"]}
    assert {"data_folder_lost", "journal_lost"} <= alarms
    assert "cannot be used" in _said(bench)
    with pytest.raises(UserError, match="choroid repair"):
        call(endpoint_of(bench.data), "POST", "/api/runs", {"protocol": "recycle", "params": {}, "reason": "a test"})
    spare = spare_of(bench.data)
    assert spare is not None
    assert holders(spare / "guard.lock")
    assert holders(spare / OWNER) == (process.pid,)
    assert spare.stat().st_mode & 0o777 == 0o700
    if how == "hung":
        assert f"has not answered for {folder_probe.ANSWER_S:.0f} s" in _said(bench)
        assert "Whether an emergency stop stands is not known" in _said(bench)
        command = ["nsenter", "-t", str(process.pid), "-m", sys.executable, "-m", "choroid", "stop"]
        done = subprocess.run([*command, "--data", str(bench.data), "--reason", "a test"], timeout=END_S, check=False)
        assert done.returncode == 0, "where the data folder hangs, the stop uses the spare one"
    assert "stop" in stop(bench.data, reason="a test")
    if how == "full":
        return
    process.send_signal(signal.SIGTERM)
    assert process.wait(END_S) == 0, _said(bench)
    until(lambda: not holders(spare / "guard.lock"), "the guard ends with its controller")

    process = bench.start("run", str(bench.rig), "--data", str(bench.data), "--port", "0", "--no-restart")
    until(lambda: _answers(bench), "the controller's page answers")
    assert spare_of(bench.data) is None, "the records went home"
    assert list(bench.data.glob("degraded-*.jsonl"))
    assert (bench.data / "emergency-stop.json").exists(), "the stop stands"
    process.send_signal(signal.SIGTERM)
    assert process.wait(END_S) == 0, _said(bench)


def test_A11_a_folder_that_never_answers_is_given_up_and_no_process_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(folder_probe, "START_S", 0.5)
    monkeypatch.setattr(folder_probe, "python", lambda module: ["sleep", "12345.5"])
    data = tmp_path / "data"
    begun_s = time.monotonic() - waited_s()
    found = open_folder(data, "{}")
    assert time.monotonic() - waited_s() - begun_s < 10.0
    assert found.records == found.guard == spare_of(data)
    assert "has not answered" in found.problem
    with pytest.raises(UserError, match="no guard answers"):
        stop(data, reason="a test")
    assert not [
        about for about in Path("/proc").glob("[0-9]*/cmdline") if about.exists() and b"12345.5" in about.read_bytes()
    ]


EIO = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fsync(int fd) {
    char link[64], path[4096];
    const char *bad = getenv("BAD_DISK");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path);
    if (bad && size >= (ssize_t)strlen(bad) && !strncmp(path, bad, strlen(bad))) { errno = EIO; return -1; }
    return 0;
}
"""
"""A disk fails in the background: every write succeeds, and only fsync says that nothing arrived."""


def test_A11_a_disk_that_fails_only_at_fsync_is_not_used(tmp_path: Path) -> None:
    source, library = tmp_path / "eio.c", tmp_path / "eio.so"
    source.write_text(EIO, encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    data, spares = tmp_path / "data", tmp_path / "spares"
    spares.mkdir()
    data.mkdir()
    (data / "emergency-stop.json").write_text("{}")
    environment = {"LD_PRELOAD": str(library), "BAD_DISK": str(data), "XDG_RUNTIME_DIR": str(spares)}
    words = "from choroid.running.data_folder import open_folder; from pathlib import Path; import sys;"
    words += "found = open_folder(Path(sys.argv[1]), '{}'); print(found.records); print(found.problem)"
    done = subprocess.run(
        [sys.executable, "-c", words, str(data)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    records, problem = done.stdout.splitlines()
    assert Path(records).is_relative_to(spares)
    assert "Input/output error" in problem
    assert (Path(records) / "emergency-stop.json").exists(), "a stop that stands is carried along"
    assert [path.name for path in data.iterdir()] == ["emergency-stop.json"], "the trial leaves no file"


@pytest.mark.long
def test_A11_a_disk_that_turns_read_only_under_a_run_lets_a_controller_start_next_to_the_former_guard(
    bench: Bench,
) -> None:
    first = _run_there(bench, "true")
    until(lambda: _answers(bench), "the controller's page answers")
    before = endpoint_of(bench.data)["url"]
    inside = ["nsenter", "-t", str(first.pid), "-m"]
    namespace = subprocess.Popen([*inside, "sleep", "600"])  # keeps it when the controller is dead
    bench._processes.append(namespace)
    inside[2] = str(namespace.pid)
    there = os.readlink(f"/proc/{first.pid}/ns/mnt")
    until(lambda: os.readlink(f"/proc/{namespace.pid}/ns/mnt") == there, "it is in the namespace")
    subprocess.run([*inside, "sh", "-c", MOUNTS["read-only"].format(data=bench.data)], check=True)
    first.kill()
    first.wait()
    with (bench.data.parent / "run.log").open("ab") as log:
        words = [
            sys.executable,
            "-m",
            "choroid",
            "run",
            str(bench.rig),
            "--data",
            str(bench.data),
            "--port",
            "0",
            "--no-restart",
        ]
        second = subprocess.Popen([*inside, *words], stdout=log, stderr=log)
    bench._processes.append(second)

    def answers() -> bool:
        return endpoint_of(bench.data)["url"] != before and _answers(bench)

    until(lambda: second.poll() is not None or answers(), "the second controller's page answers")
    assert second.poll() is None, _said(bench)
    _cared_for(bench)
    assert "stop" in stop(bench.data, reason="a test")
    second.send_signal(signal.SIGTERM)
    assert second.wait(END_S) == 0, _said(bench)


def test_A11_a_guard_that_is_lost_after_the_disk_turned_read_only_is_replaced_in_the_spare_folder(bench: Bench) -> None:
    first = _run_there(bench, "true")
    until(lambda: _answers(bench), "the controller's page answers")
    (guard,) = holders(bench.data / "guard.lock")
    mount = MOUNTS["read-only"].format(data=bench.data)
    subprocess.run(["nsenter", "-t", str(first.pid), "-m", "sh", "-c", mount], check=True)
    os.kill(guard, signal.SIGKILL)

    def replaced() -> bool:
        spare = spare_of(bench.data)
        return spare is not None and bool(holders(spare / "guard.lock"))

    until(lambda: first.poll() is not None or replaced(), "another guard starts in the spare folder")
    assert first.poll() is None, _said(bench)
    _cared_for(bench)

    def stopped() -> bool:
        try:
            return "stop" in stop(bench.data, reason="a test")
        except UserError:
            return False

    until(lambda: "another guard watches this controller" in _said(bench), "the controller takes the new guard")
    until(stopped, "the new guard takes orders")
    first.send_signal(signal.SIGTERM)
    # A controller that cannot confirm a stop within half a second is killed: on a busy machine a healthy one may be.
    assert first.wait(END_S) in (0, -signal.SIGKILL), _said(bench)
