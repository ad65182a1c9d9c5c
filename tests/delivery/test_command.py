"""`choroid alarm` with a lab, a controller and an HTTP receiver: from a lost device to a person, and back."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.delivery.test_channels import SECRET, Receiver, secret_file
from tests.processes import Bench, until

NOTIFY = """
time_zone: Europe/Zurich
alarms:
  notify:
    channels:
      hook: {{url_file: {file}}}
"""


@pytest.mark.long
def test_L5_an_alarm_of_a_running_rig_reaches_a_person_who_acknowledges_it(receiver: Receiver, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    file = secret_file(tmp_path, f"json://127.0.0.1:{receiver.port}/hook/{SECRET}")
    text = bench.rig.read_text(encoding="utf-8") + NOTIFY.format(file=file)
    # One device that no process serves: its alarm is raised without further action. The port is taken and refuses, so that no
    # other controller of this machine can claim the same link.
    unserved = socket.socket()
    unserved.bind(("127.0.0.1", 0))
    port = unserved.getsockname()[1]
    text = re.sub(r"(balance:\n(?:.*\n)*?\s+link: tcp://127\.0\.0\.1:)\d+", rf"\g<1>{port}", text, count=1)
    bench.rig.write_text(text, encoding="utf-8")

    def alarms(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "choroid", "alarm", *words, "--data", str(bench.data)]
        return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)

    def told() -> list[str]:
        return [json.loads(body)["message"] for _, body in list(receiver.got)]

    try:
        bench.run()
        tested = alarms("test-channels", "--json")
        assert tested.returncode == 0, tested.stderr
        assert json.loads(tested.stdout)["channels"] == [
            {"name": "hook", "ok": True, "detail": "confirmed by the channel"}
        ]  # fmt: skip
        until(
            lambda: any("device lost · balance" in each for each in told()), "the alarm reaches the person", seconds=90
        )
        (message,) = [each for each in told() if "device lost · balance" in each]
        assert re.search(r"\d\d:\d\d:\d\d CES?T", message)
        assert "choroid alarm acknowledge device_lost:balance" in message
        listed = alarms("list")
        assert re.search(r"high +device_lost:balance +unacknowledged +since 20\d\d-.* CES?T", listed.stdout)
        assert alarms("acknowledge", "device_lost:balance").stdout.strip() == "device_lost:balance: acknowledged"
        shelved = alarms("shelve", "device_lost:balance", "--for", "30min", "--reason", "it is being cleaned")
        assert "not announced  device_lost:balance  shelved until" in shelved.stdout
        assert alarms("shelve", "device_lost:balance", "--for", "9 d", "--reason", "x").returncode == 1
        assert alarms("return", "device_lost:balance").returncode == 0
        assert alarms("return", "device_lost:balance").returncode == 1
        receiver.status = 500
        failed = alarms("test-channels")
        assert failed.returncode == 1
        assert "FAILED" in failed.stdout
        assert "Next:" in failed.stderr
        assert "FAILED" in alarms("list-channels").stdout
        everything = "".join(
            path.read_text(encoding="utf-8", errors="replace")
            for path in tmp_path.rglob("*")
            if path.is_file() and path != Path(file)
        )
        assert SECRET not in everything + failed.stdout + failed.stderr, "S4: no secret in log, journal or answer"
    finally:
        unserved.close()
        bench.end()
