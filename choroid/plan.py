"""`choroid plan`: the dry run is a run. The protocol runs on the twin in virtual time, and its journal is the plan.

The twin starts from the rig file's volumes. Everything the gate would refuse is found here first (E5).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from choroid.simulate import simulate


def plan(path: Path, *, protocol: str, params: dict[str, str], hours: float, seed: int) -> dict[str, Any]:
    """Return `{feasible, refusals, timeline, volumes_ul, …}` of the next `hours` of `protocol`."""
    answer = simulate(path, protocol=protocol, params=params, days=hours / 24, seed=seed, progress=False, timeline=True)
    refusals = [entry for entry in answer["timeline"] if entry["kind"] == "refused"]
    return {
        "feasible": not refusals and not answer["violations"],
        "rig": answer["rig"],
        "protocol": protocol,
        "params": answer["params"],
        "hours": hours,
        "refusals": refusals,
        "timeline": answer["timeline"],
        "volumes": answer["volumes"],
        "grade_counts": answer["grade_counts"],
        "fresh_medium_ml": answer["fresh_medium_ml"],
        "recycled_fraction": answer["recycled_fraction"],
        "violations": answer["violations"],
    }


def as_text(answer: dict[str, Any]) -> str:
    """The plan for people: the timeline, then where the volumes go."""
    lines = [f"{answer['protocol']} on {answer['rig']}, the next {answer['hours']:g} h on the twin"]
    for entry in answer["timeline"]:
        lines.append(f"  {_clock(entry['at_s'])}  {entry['text']}")
    lines.append("vessel            start        end   (mL)")
    for name, vessel in answer["volumes"].items():
        lines.append(f"  {name:<12}{vessel['start_ml']:>9.2f}  {vessel['end_ml']:>9.2f}")
    lines.append(
        f"fresh medium {answer['fresh_medium_ml']:.1f} mL, recycled fraction {answer['recycled_fraction']:.2f}"
    )
    verdict = "nothing would be refused" if answer["feasible"] else "the run would be refused or harmed; see above"
    lines.append(verdict)
    return "\n".join(lines)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:>3}:{minutes:02}:{rest:02}"
