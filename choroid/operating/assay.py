"""`choroid assay enter …`: enter a laboratory result of a running rig's medium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from choroid.operating.remote import call, endpoint_of


def assay(
    analyte: str,
    value: str,
    *,
    vessel: str,
    taken: str,
    sd: str,
    volume: str,
    method: str,
    zone: str,
    sure: bool,
    reason: str,
    data: Path,
) -> dict[str, Any]:
    """Enter one assay; return its effect on the estimate. Raise :class:`UserError` with the API's message."""
    body = {
        "analyte": analyte,
        "value": value,
        "vessel": vessel,
        "taken": taken,
        "sd": sd,
        "volume": volume,
        "method": method,
        "zone": zone,
        "sure": sure,
        "reason": reason,
    }
    return call(endpoint_of(data), "POST", "/api/assays", body)


def as_text(answer: dict[str, Any]) -> str:
    """Return the effect as text."""
    unit, off_sd = answer["unit"], answer["off_sd"]
    off = ", evidence of the tissue (`/api/viability`)" if off_sd is None else f", {off_sd:.1f} standard deviations off"
    lines = [
        f"{answer['analyte']} in {answer['vessel']}, taken {answer['taken_utc']}:"
        f" {answer['value']:.4g} ± {answer['sd']:.2g} {unit}{off}",
    ]
    if answer["run"] is not None:
        lines.append(f"  answers step {answer['step']} of {answer['run']}")
    for name, label in (("before", "believed then"), ("after", "with the assay"), ("now", "now")):
        if (found := answer[name]) is None:
            continue
        lines.append(f"  {label:<16}{found['value']:>8.4g}  ({found['low']:.4g} to {found['high']:.4g}) {unit}")
    return "\n".join(lines)
