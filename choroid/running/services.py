"""systemd units of a rig: guard and controller as two services that do not end each other.

Each has its own cgroup, so what ends the controller with all its children does not reach the guard. The guard
starts first. The controller wants it and is not bound to it. They meet at a socket in the data directory, which
both may write.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from choroid.common.child import HOME
from choroid.common.failure import UserError
from choroid.running.run import ENDED_BY_GUARD
from controller.hazards.loading import load_checked_rig
from drivers.registry import MODELS, load_third_party

SYSTEM_UNITS = Path("etc/systemd/system")
USER_UNITS = Path(".config/systemd/user")

_HARDENING = """\
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths={data} -/run/lock
RuntimeDirectory=choroid
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=yes
StateDirectory=choroid-audit
StateDirectoryMode=0700
PrivateTmp={private_tmp}
DevicePolicy=closed
DeviceAllow=char-ttyUSB rw
DeviceAllow=char-ttyACM rw
DeviceAllow=char-ttyS rw
SupplementaryGroups=dialout
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictNamespaces=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6{families}
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
KeyringMode=private
RemoveIPC=no
UMask=0077
"""
"""Claims of links are in /run/lock, where controller and guard must see each other's. They meet in /run/choroid
when the data folder cannot be used (:mod:`choroid.running.data_folder`). RemoveIPC would also remove what the
other service of the same account uses.
"""

_GUARD = """\
# Written by `choroid service install`.
[Unit]
Description=Choroid guard of rig {rig}: brings it to rest when its controller is lost
Documentation=https://github.com/choroid/choroid/tree/main/docs/safety.md
Before={controller}
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={python} -P -m choroid guard {path} --data {data}
Restart=always
RestartSec=500ms
WatchdogSec=5
WatchdogSignal=SIGKILL
TimeoutStartSec=60
TimeoutStopSec=100
KillMode=mixed
Slice={slice}-guard.slice
CPUWeight=10000
{privileges}{hardening}
[Install]
WantedBy={target}
"""
_GUARD_PRIVILEGES = """\
User={run_as}
OOMScoreAdjust=-1000
Nice=-10
IOSchedulingClass=realtime
IOSchedulingPriority=2
LimitMEMLOCK=infinity
LimitRTPRIO=2
AmbientCapabilities=CAP_SYS_NICE CAP_IPC_LOCK
CapabilityBoundingSet=CAP_SYS_NICE CAP_IPC_LOCK
"""
"""The guard raises its own priority, and for a moment that of a controller that is late."""

_CONTROLLER = """\
# Written by `choroid service install`.
[Unit]
Description=Choroid controller of rig {rig}
Documentation=https://github.com/choroid/choroid/tree/main/docs/safety.md
Wants={guard} network-online.target
After={guard} network-online.target
StartLimitIntervalSec=600
StartLimitBurst=30

[Service]
Type=notify
NotifyAccess=main
ExecStart={python} -P -m choroid run {path} --data {data}
Restart=always
RestartSec=2
RestartPreventExitStatus={ended_by_guard}
WatchdogSec=15
TimeoutStartSec=180
TimeoutStopSec=45
KillMode=mixed
Slice={slice}-controller.slice
CPUWeight=1000
MemoryMax={memory}
OOMPolicy=continue
{privileges}{hardening}
[Install]
WantedBy={target}
"""
_CONTROLLER_PRIVILEGES = """\
User={run_as}
OOMScoreAdjust=-500
Nice=-5
LimitRTPRIO=1
IOSchedulingClass=best-effort
IOSchedulingPriority=2
CapabilityBoundingSet=
"""


def units(rig: str, path: Path, data: Path, *, user: bool, run_as: str, memory: str) -> dict[str, str]:
    """Return the units by file name. `rig` is the rig's name; `path` and `data` are absolute."""
    slug = re.sub(r"[^a-z0-9]+", "_", rig.lower()).strip("_") or "rig"
    guard, controller = f"choroid-guard-{slug}.service", f"choroid-controller-{slug}.service"
    shared_tmp = any(str(each).startswith(("/tmp/", "/var/tmp/")) for each in (path, data))  # noqa: S108  (paths given)
    values = {
        "rig": rig,
        "path": _quoted(path),
        "data": _quoted(data),
        "python": _quoted(Path(sys.executable)),
        "guard": guard,
        "controller": controller,
        "slice": f"choroid-{slug}",
        "run_as": run_as,
        "memory": memory,
        "ended_by_guard": ENDED_BY_GUARD,
        "target": "default.target" if user else "multi-user.target",
    }
    made = {}
    for name, text, privileges, families in (
        (guard, _GUARD, _GUARD_PRIVILEGES, ""),
        (controller, _CONTROLLER, _CONTROLLER_PRIVILEGES, " AF_NETLINK"),
    ):
        hardening = _HARDENING.format(private_tmp="no" if shared_tmp else "yes", families=families, data=_quoted(data))
        made[name] = text.format(
            privileges="" if user else privileges.format(run_as=run_as),
            hardening="NoNewPrivileges=yes\nUMask=0077\n" if user else hardening,
            **values,
        )
    return made


def install(path: Path, *, data: Path, user: bool, root: Path, run_as: str, memory: str) -> dict[str, Any]:
    """Write the units below `root`.

    Returns:
        `wrote` (the files), `program` (its folder), `next` (the commands that start the services), and `stop` (the one that
        stops the rig while the guard goes on).

    Raises:
        UserError: The rig is simulated, or a path cannot be written into a unit.
    """
    load_third_party()
    rig = load_checked_rig(path, models=MODELS)
    if rig.simulated:
        raise UserError(f"every link of {path} is simulated (sim:), and a service cannot open these")
    folder = root / (Path.home().relative_to("/") / USER_UNITS if user else SYSTEM_UNITS)
    made = units(rig.name, path.resolve(), data.resolve(), user=user, run_as=run_as, memory=memory)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
    guard, controller = made
    scope = " --user" if user else ""
    prepare = (
        "loginctl enable-linger  # else they end when you log out"
        if user
        else f"useradd --system --groups dialout {run_as}; install -d -o {run_as} -m 0700 {data.resolve()}"
    )
    return {
        "wrote": [str(folder / name) for name in made],
        "program": str(HOME),
        "next": [prepare, f"systemctl{scope} daemon-reload", f"systemctl{scope} enable --now {guard} {controller}"],
        "stop": f"systemctl{scope} stop {controller}",
    }


def as_text(answer: Mapping[str, Any]) -> str:
    """Return the report with the next steps as text."""
    steps = "\n".join(f"  {step}" for step in answer["next"])
    return (
        f"wrote {' and '.join(answer['wrote'])} (program in {answer['program']})\nNext:\n{steps}\n"
        f"To stop the rig: {answer['stop']}  (the guard continues and keeps the rig at rest)"
    )


def _quoted(path: Path) -> str:
    """Return a path in the syntax of a unit file, for commands and for lists of paths."""
    text = str(path)
    if re.search(r"[\x00-\x1f\"'$\\]", text):
        raise UserError(f"{text!r} has a character that a unit file cannot hold safely. Next: use another folder")
    text = text.replace("%", "%%")
    return f'"{text}"' if " " in text else text
