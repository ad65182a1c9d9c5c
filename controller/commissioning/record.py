"""The record of commissioning: valid for the wiring that was tested, and for half a year."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from controller.rig.description import Rig
from controller.rig.forms import hashed_organs

ROW = "commissioning"
"""Kind of the journal row."""
VALID = timedelta(days=180)
"""Validity: tubing and devices are exchanged over time, and not every exchange is recorded."""


class Rows(Protocol):
    """The part of the journal that is used here."""

    def last(self, kind: str) -> Any:
        """Return the latest row of a kind, or None."""


def wiring_hash(rig: Rig) -> str:
    """Return the sha256 of what commissioning confirms: devices with links, places and channels, lines, and roles.

    Set-points, limits, volumes and periods are not part of it.
    """
    organs = hashed_organs(rig.organs)
    hearts = organs.pop("hearts", {})
    roles = {
        organ: {key: value for key, value in keys.items() if isinstance(value, str)}
        for organ, keys in {**organs, **{f"hearts.{name}": heart for name, heart in hearts.items()}}.items()
        if keys
    }
    wiring: dict[str, Any] = {
        "devices": {
            name: {
                "model": device.model,
                "link": device.link,
                "address": device.address,
                "at": device.at,
                "gas": device.gas,
                "channels": {number: channel.point for number, channel in device.channels.items()},
            }
            for name, device in rig.devices.items()
        },
        "lines": {
            name: {
                "from": line.from_,
                "to": line.to,
                "pump": line.pump,
                "filter": line.filter,
                "valve": line.valve,
                "dialyser": line.dialyser,
            }
            | ({} if line.port is None else {"port": line.port})
            for name, line in rig.lines.items()
        },
        "organs": roles,
        "chamber": next(iter(rig.tissue)) if len(rig.tissue) == 1 else sorted(rig.tissue),
    }
    if rig.selectors:  # a rig without any keeps its hash
        wiring["selectors"] = {name: [each.valve, each.rest] for name, each in rig.selectors.items()}
    return hashlib.sha256(json.dumps(wiring, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def not_commissioned(rig: Rig, journal: Rows, now: datetime) -> str | None:
    """Return why a rig counts as not commissioned, or None if it is. A rig with simulated links needs none."""
    if rig.simulated:
        return None
    row = journal.last(ROW)
    how = "Run `choroid commission` before tissue goes in"
    if row is None:
        return f"no person has confirmed that it is wired and plumbed as its file says. {how}"
    if row.body["wiring"] != wiring_hash(rig):
        return f"devices, lines or their roles have changed in the rig file since it was commissioned. {how}"
    if not row.body["passed"]:
        failed = [check["subject"] for check in row.body["checks"] if not check["ok"]]
        return f"commissioning found otherwise than the file says: {', '.join(failed)}. Correct it. {how}"
    if now - datetime.fromisoformat(row.utc.replace("Z", "+00:00")).astimezone(UTC) > VALID:
        return f"it was commissioned more than {VALID.days} days ago. {how}"
    return None
