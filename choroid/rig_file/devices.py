"""`choroid device list`: the supported devices, from the drivers' catalogue."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drivers.registry import catalogue, load_third_party


def devices() -> dict[str, Any]:
    """Return `{"devices": [...]}`, one entry per model, in the catalogue's order."""
    load_third_party()
    return {"devices": [{**asdict(model), "guarantee": model.guarantee.value} for model in catalogue()]}


def as_text(answer: dict[str, Any]) -> str:
    """Return the catalogue as a text table."""
    lines = [f"{'model':<20}{'device':<44}{'guarantee':<11}transports"]
    for entry in answer["devices"]:
        device = f"{entry['vendor']} {entry['name']}"
        lines.append(f"{entry['id']:<20}{device:<44}{entry['guarantee']:<11}{', '.join(entry['transports'])}")
    lines.append("")
    lines.append(
        "Each is verified against the manual and an independent simulator; none has been tested on hardware yet."
    )
    return "\n".join(lines)
