"""The part `alarms` of the rig file: mistakes are reported with place and fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.rig.loading import load_rig
from controller.rig.problems import RigError

BENCH = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"
HOOK = {"url_file": "/etc/choroid/hook"}


def load(folder: Path, notify: Any, **top: Any) -> Any:
    described = yaml.safe_load(BENCH.read_text(encoding="utf-8"))
    path = folder / "rig.yaml"
    path.write_text(yaml.safe_dump(described | {"alarms": {"notify": notify}} | top), encoding="utf-8")
    return load_rig(path)


def test_a_whole_one_is_read_and_its_secrets_are_elsewhere(tmp_path: Path) -> None:
    rig = load(
        tmp_path,
        {
            "channels": {"mail": HOOK | {"quiet": {"from": "22:00", "to": "07:00"}}, "sms": {"url_env": "SMS"}},
            "escalation": [["mail"], ["sms"]],
            "escalate_after": {"critical": "2 min"},
            "monitor": {"url_file": "/etc/choroid/monitor", "every": "2 min"},
        },
        time_zone="Europe/Zurich",
    )
    notify = rig.alarms.notify
    assert notify.steps == (("mail",), ("sms",))
    assert notify.escalate_after.of("critical") == 120.0
    assert notify.monitor.every_s == 120.0


@pytest.mark.parametrize(
    ("notify", "told"),
    [
        ({"channels": {}}, "channels"),
        ({"channels": {"a": {}}}, "exactly one of url_file, url_env"),
        ({"channels": {"a": {"url": "mailto://rig:secret@lab"}}}, "url"),
        ({"channels": {"a": HOOK | {"url_env": "X"}}}, "exactly one"),
        ({"channels": {"a": {"mqtt": True}}}, "MQTT broker"),
        ({"channels": {"a": HOOK}, "escalation": [["b"]]}, "“b”"),
        ({"channels": {"a": HOOK, "b": dict(HOOK)}, "escalation": [["a"]]}, "leaves out b"),
        ({"channels": {"a": HOOK}, "escalation": [[]]}, "escalation"),
        ({"channels": {"a": HOOK | {"quiet": {"from": 1320, "to": "07:00"}}}}, "in quotes"),
        ({"channels": {"a": HOOK}, "test_at": "25:00"}, "test_at"),
        ({"channels": {"a": HOOK}, "escalate_after": {"critical": "3 d"}}, "critical"),
        ({"channels": {"a": HOOK}, "monitor": {"every": "1 min"}}, "exactly one"),
    ],
)
def test_a_slip_is_told(tmp_path: Path, notify: Any, told: str) -> None:
    with pytest.raises(RigError) as caught:
        load(tmp_path, notify)
    assert told in str(caught.value)
    assert "mailto://rig:secret@lab" not in str(caught.value), "S4: what stands there may be a secret"


def test_a_zone_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RigError, match="IANA"):
        load(tmp_path, {"channels": {"a": HOOK}}, time_zone="Europe/Atlantis")
    with pytest.raises(RigError, match="IANA"):
        load(tmp_path, {"channels": {"a": HOOK}}, time_zone="../../etc/passwd")
