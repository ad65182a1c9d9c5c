"""Whether a controller uses a device: two masters on one line receive each other's answers, and one may undo the
other.
"""

from __future__ import annotations

from pathlib import Path

from choroid.common.failure import UserError
from controller.guard.plan import GuardPlan
from controller.links.ownership import OWNER, holders
from controller.rig.description import Rig

PLAN = "guard.json"
"""File of a controller for its guard: the rig, and the links of everything that it commands."""


def require_free(name: str, rig: Rig, data: Path) -> None:
    """Raise :class:`UserError` if a controller that keeps its journal in `data` uses device `name` of `rig`.

    It uses the device when it runs a rig of the same name, or one with an output on the same link, or when its rig
    is unknown. A simulated link is never occupied: each process has its own lab.
    """
    link = rig.devices[name].link
    pids = holders(data / OWNER)
    if link.startswith("sim:") or not pids:
        return
    why = _common(name, link, rig.name, data / PLAN)
    if why is None:
        return
    who = " and ".join(f"process {pid}" if pid else "a process of another container" for pid in pids)
    raise UserError(
        f"{name} ({link}) is in use: a controller runs with its data in {data} ({who}), and {why}. Likely cause:"
        " `choroid run` is at work; two masters on one line take each other's answers for their own. Next: look at the"
        " device on the controller's page, or stop the controller first; --read-only asks and sets nothing,"
        " --ignore-controller continues at your own risk"
    )


def _common(name: str, link: str, rig: str, plan_path: Path) -> str | None:
    """Return what the controller has in common with this device, as text; None if nothing."""
    try:
        plan = GuardPlan.from_json(plan_path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        return f"{plan_path} does not name its rig"
    if plan.rig == rig:
        return f"it runs this rig ({rig})"
    if shared := [device.name for device in plan.devices if device.link == link]:
        return f"its rig {plan.rig} has {', '.join(shared)} on the same link"
    return None
