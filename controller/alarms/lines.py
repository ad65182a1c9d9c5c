"""Announce a lost line once: when no device of a shared line answers, one alarm names the line and its devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from controller.rig.description import Rig

LOST = "device_lost"
"""Kind of the alarm for a device that does not answer."""

Cause = tuple[str, str]
"""Kind of alarm and its source."""


def shared_lines(rig: Rig) -> dict[str, tuple[str, ...]]:
    """Return the devices of each line that has more than one, by the source that the line has in alarms."""
    lines: dict[str, list[str]] = {}
    for name, spec in rig.devices.items():
        lines.setdefault(spec.link, []).append(name)
    return {f"line of {devices[0]}": tuple(devices) for devices in lines.values() if len(devices) > 1}


def merge_lost_lines(
    lines: Mapping[str, tuple[str, ...]],
    causes: dict[Cause, str],
    unseen: Sequence[Cause],
    suppressed: Set[str] = frozenset(),
) -> list[Cause]:
    """Replace the losses of all devices of a line by the loss of the line, in `causes`.

    Args:
        lines: The result of :func:`shared_lines`.
        causes: Detail by (alarm kind, source); changed.
        unseen: Causes whose presence is unknown.
        suppressed: Ids of the suppressed alarms. A line of which every device is suppressed gives no alarm either.

    Returns:
        `unseen` and the losses that were replaced: an alarm that is announced already stays, a further one does not come.
    """
    kept = list(unseen)
    for line, devices in lines.items():
        lost = [(LOST, device) for device in devices]
        if all(cause in causes for cause in lost) and not suppressed >= {f"{LOST}:{device}" for device in devices}:
            details = [causes.pop(cause) for cause in lost]
            causes[LOST, line] = f"none of its {len(devices)} devices answers ({', '.join(devices)}): {details[0]}"
            kept += lost
    return kept
