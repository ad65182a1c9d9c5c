"""The uploads of an export: photos and files that answered questions in the period."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from choroid.export.tables import utc_text
from choroid.export.writers import sha256_of
from controller.attachments.store import FOLDER
from controller.figures.records import Records
from protocols.answers import MEDIA_TYPES

_EXTENSIONS = {kind: name for name, kind in MEDIA_TYPES.items()}


def uploads(data: Path, records: Records, begin: float, end: float, out: Path) -> list[dict[str, Any]]:
    """Copy what answered questions in [begin, end) (UTC s); return what the manifest says of each answer.

    A file that is missing or whose content is not that of its hash is listed with the problem, and not copied.
    """
    found = []
    for row in records.journal.between(utc_text(begin), utc_text(end), ("step.answered",)):
        body = row.body
        if "file" not in body:
            continue
        sha256 = str(body["value"])
        told: dict[str, Any] = {
            "journal_row": row.seq,
            "utc": row.utc,
            "run": row.run,
            "step": body["n"],
            "original_name": body["file"]["name"],
            "media_type": body["file"]["media_type"],
            "sha256": sha256,
        }
        source = data / FOLDER / sha256
        if not source.is_file():
            found.append({**told, "name": None, "problem": "the file is not in the data folder"})
        elif sha256_of(source) != sha256:
            found.append({**told, "name": None, "problem": "the content of the file was changed"})
        else:
            target = out / FOLDER / f"{sha256}.{_EXTENSIONS.get(told['media_type'], 'bin')}"
            target.parent.mkdir(exist_ok=True)
            if not target.exists():
                shutil.copyfile(source, target)
            found.append({**told, "name": f"{FOLDER}/{target.name}", "problem": None})
    return found
