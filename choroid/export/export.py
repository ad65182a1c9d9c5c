"""Write an export: every table in every format, then the manifest. A running controller is neither waited for nor held up."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from choroid.export.tables import Cell, Table, tables, utc_text
from choroid.export.timeline import timeline_table
from choroid.export.writers import CHUNK_ROWS, WRITERS, sha256_of
from choroid.report.period import asked, zone_of
from controller.attachments.store import FOLDER
from controller.core.version import software_version
from controller.core.whole_file import whole_folder
from controller.figures.records import Records
from controller.journal.terms import JournalError
from controller.memory.history_reader import HistoryUnreadable
from controller.rig.loading import effective_hash, load_rig
from drivers.registry import MODELS, load_third_party
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


MANIFEST = "manifest.json"
FORMAT = 1
"""Version of the form of manifest and tables."""


def export_records(
    rig: Path | str,
    data: Path | str,
    out: Path | str,
    *,
    begin: str | None = None,
    end: str | None = None,
    zone: str | None = None,
    formats: Sequence[str] = ("csv", "parquet"),
) -> dict[str, Any]:
    """Write history, journal and ledger of a period as files with units, and a manifest with their hashes.

    The files are read as they were when the export began; a controller that runs on them goes on undisturbed. Its last minute
    of readings is in its memory and not in the export. `out` appears when it is complete.

    Args:
        rig: The rig file.
        data: The data folder of `choroid run` or `choroid simulate --data`; it is only read.
        out: The folder to make; it must not exist, or be empty.
        begin: Begin of the period: an ISO 8601 time, or `7d`, `36h`, `yesterday` counted back from the last record; by
            default the first record.
        end: Its end; by default the last record.
        zone: Time zone of days and times without one, such as Europe/Zurich.
        formats: `csv`, `parquet` or both. Parquet needs pyarrow (the extra `data`).

    Returns:
        The manifest, as it is in `manifest.json`.

    Raises:
        UserError: The period, the folder or a record cannot be used.
        MissingPackage: pyarrow is not installed.
        RigError: The rig file is not sound.
        OSError: The files cannot be written.
    """
    load_third_party()
    described = load_rig(Path(rig), models=MODELS)
    folder = Path(out)
    _refuse_occupied(folder)
    try:
        with whole_folder(folder) as part:
            with closing(Records(Path(data))) as records:
                extent = records.extent()
                days = None if zone is None else zone_of(zone)
                period = asked(begin, end, now=extent[1] + 0.001 if extent else 0.0, recorded=extent, zone=days)
                content = tables(described, records, period.begin, period.end)
                content.append(timeline_table(described, records, Path(data), period.begin, period.end))
                files = [file for table in content for file in _written(table, part, formats)]
                manifest = {
                    "format": FORMAT,
                    "release": software_version(),
                    "rig": described.name,
                    "rig_sha256": effective_hash(described),
                    "from_utc": utc_text(period.begin),
                    "to_utc": utc_text(period.end),
                    "series": records.history.series,
                    "journal": _chain(records),
                    "files": files,
                    "uploads": uploads(Path(data), records, period.begin, period.end, part),
                }
            (part / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except (HistoryUnreadable, JournalError) as error:  # both say what, where, why and what next
        raise UserError(str(error)) from None
    return manifest


def as_text(manifest: dict[str, Any], out: Path) -> str:
    """Return the manifest for people: one line a file."""
    lines = [f"{manifest['rig']}: {manifest['from_utc']} to {manifest['to_utc']}, written to {out}"]
    lines += [f"  {file['name']:<26}{file['rows']:>12,} rows {file['bytes']:>14,} bytes" for file in manifest["files"]]
    kept = manifest["uploads"]
    if kept:
        lost = [each for each in kept if each["problem"] is not None]
        lines.append(
            f"  {'attachments/':<26}{len(kept) - len(lost):>12,} uploads" + (f", {len(lost)} missing" if lost else "")
        )
    journal = manifest["journal"]
    state = f"{journal['rows']:,} rows verified" if journal["problem"] is None else journal["problem"]
    return "\n".join([*lines, f"  {MANIFEST:<26} units, hashes; journal chain: {state}"])


def _written(table: Table, folder: Path, formats: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Write one table in each format, in one pass over its rows; yield what the manifest says of each file."""
    rows = 0
    with ExitStack() as stack:
        paths = [folder / f"{table.name}.{name}" for name in formats]
        writers = [
            stack.enter_context(closing(WRITERS[name](path, table))) for name, path in zip(formats, paths, strict=True)
        ]
        for chunk in _chunks(table.rows):
            rows += len(chunk)
            for writer in writers:
                writer.write(chunk)
    for name, path in zip(formats, paths, strict=True):
        yield {
            "name": path.name,
            "table": table.name,
            "format": name,
            "rows": rows,
            "bytes": path.stat().st_size,
            "sha256": sha256_of(path),
            "columns": [column.to_json() for column in table.columns],
        }


def _chunks(rows: Iterable[tuple[Cell, ...]]) -> Iterator[list[tuple[Cell, ...]]]:
    left = iter(rows)
    while chunk := list(islice(left, CHUNK_ROWS)):
        yield chunk


def _chain(records: Records) -> dict[str, Any]:
    """Return whether the hash chain of the whole journal holds, and its head."""
    try:
        return {"rows": records.journal.verify(), "head_sha256": records.journal.sha256(), "problem": None}
    except JournalError as error:
        return {"rows": None, "head_sha256": records.journal.sha256(), "problem": str(error)}


def _refuse_occupied(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(
            f"{folder} exists and is not empty, and an export replaces nothing. Next: name a folder that does not exist yet"
        )
