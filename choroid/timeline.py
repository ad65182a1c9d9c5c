"""What a run did, told from its journal: the steps with volumes and grades, and what was refused."""

from __future__ import annotations

from typing import Any

from controller.process import Controller
from controller.rig.description import Rig

ML = 1000.0


def story(controller: Controller, rig: Rig) -> dict[str, Any]:
    """`timeline` (at_s, kind, text) and `volumes` (start and end, mL) of everything since the journal began."""
    timeline: list[dict[str, Any]] = []
    begun_s: float | None = None
    for row in controller.journal.entries():
        begun_s = row.at_s if begun_s is None else begun_s
        text: str | None = None
        kind = "step"
        body = row.body
        if row.kind == "moved":
            line = rig.lines[body["line"]]
            text = f"{body['line']}: {body['ul'] / ML:.2f} ± {3 * body['sd_ul'] / ML:.2f} mL, {line.from_} → {line.to}"
        elif row.kind == "note.grade":
            kind, text = "grade", f"grade {body['grade']}, limited by {body['limiting']}"
        elif row.kind == "act.refused" and str(body.get("by", "")).startswith("protocol"):
            kind, text = "refused", f"refused: {body['actuator']}: {'; '.join(body['reasons'])}"
        elif row.kind == "run.message":
            kind, text = "refused", body["text"]
        elif row.kind == "safety.trip":
            kind, text = "trip", f"interlock {body['interlock']}: {body['detail']}"
        if text is not None:
            timeline.append({"at_s": round(row.at_s - begun_s, 1), "kind": kind, "text": text})
    volumes = {
        name: {
            "start_ml": round(vessel.volume_ul / ML, 3),
            "end_ml": round(controller.ledger.volumes()[name].ul / ML, 3),
        }
        for name, vessel in rig.vessels.items()
    }
    return {"timeline": timeline, "volumes": volumes}
