"""`choroid grid data`: the data sets of a member or laboratory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from grid.commands.stopping import until_stopped
from grid.data import keeping
from grid.data.allowing import allow_jobs, allowed_jobs
from grid.data.data_sets import DataSets
from grid.data.exchange import DataPeer, http_client, peers_of
from grid.data.exporting import export_files
from grid.data.manifest import DataManifest, Provenance, Sharing, read_manifest
from grid.data.replica import Replica
from grid.data.sealing import reader_key
from grid.errors import GridError
from grid.identity.keys import IdentityKey
from grid.work.served import lease_of

RECORDING_ATTRIBUTES = ".zattrs"
NOT_THERE = "the replica"
"""What is missing where the folder of a replica does not exist."""


def add(
    data: Path,
    source: Path,
    *,
    name: str,
    sharing: str,
    stated: dict[str, str],
    readers: Sequence[str],
    progress: Callable[[int, int], None],
) -> dict[str, Any]:
    """Make a data set of a folder of files, which stay where they are.

    Args:
        data: Data folder of the member or laboratory.
        source: The folder.
        name: Name of the data set; empty takes the folder's.
        sharing: no, members or public.
        stated: Fields of the provenance that a person has given; a recording states others itself.
        readers: Keys (:func:`grid.data.sealing.reader_key`) of those who can decrypt it, in addition to this identity.
        progress: Called with the bytes so far and of all.

    Raises:
        GridError: A field is malformed, or a file cannot be part of it.
    """
    provenance = Provenance(**_of_recording(source) | {field: value for field, value in stated.items() if value})
    manifest = DataSets(data).add(
        source,
        IdentityKey.in_folder(data),
        name=name or source.resolve().name,
        sharing=Sharing(sharing),
        provenance=provenance,
        readers=[reader_key(reader) for reader in readers],
        progress=progress,
    )
    return described(manifest)


def every(data: Path) -> dict[str, Any]:
    """Return the data sets of a data folder."""
    return {"data_sets": [described(manifest) for manifest in DataSets(data).every()]}


def show(data: Path, which: str, *, limit: int) -> dict[str, Any]:
    """Return a data set with the first rows of its listing. Raises :class:`GridError` when it is unknown."""
    with closing(DataSets(data).open(which)) as found:
        count = min(limit, len(found.listing))
        rows = [{"path": row.path, "size": row.size} for row in map(found.row, range(count))]
        return {**described(found.manifest), "jobs_of": allowed_jobs(found), "rows": rows}


def allow(data: Path, which: str, whose: Sequence[str]) -> dict[str, Any]:
    """Keep whose jobs may read a data set here (:func:`grid.data.allowing.allow_jobs`)."""
    with closing(DataSets(data).open(which)) as found:
        allow_jobs(found, whose)
        return {**described(found.manifest), "jobs_of": allowed_jobs(found)}


def verify(data: Path, which: str) -> dict[str, Any]:
    """Read a data set, here and in its replicas; return what is not as its author signed it."""
    with closing(DataSets(data).open(which)) as found:
        changed = {str(found.source): list(found.changed())} if found.source else {}
        for folder in found.replicas:
            replica = Replica(folder)
            changed[str(folder)] = list(replica.lacking(found)) if replica.is_there else [NOT_THERE]
        return {**described(found.manifest), "changed": changed}


def replicate(
    data: Path, which: str, folder: Path, *, quota_bytes: float, progress: Callable[[int, int], None]
) -> dict[str, Any]:
    """Bring a data set into the replica in a folder: what it lacks, and what is damaged there."""
    with closing(DataSets(data).open(which)) as found:
        key = IdentityKey.in_folder(data)
        brought = Replica(folder).fill(
            found, partial(found.objects, key=key), quota_bytes=quota_bytes, progress=progress
        )
        found.note_replica(folder)
        return {**described(found.manifest), "folder": str(folder), "brought": brought}


def keep(
    data: Path,
    which: Sequence[str],
    *,
    replicas: int,
    on: Sequence[str],
    until_complete: bool,
    say: Callable[[str], None],
) -> None:
    """Have storage members keep replicas until SIGINT or SIGTERM, or until they are complete."""
    until_stopped(keeping.keep(data, which, say, replicas=replicas, on=on, until_complete=until_complete))


def take(data: Path, folder: Path | None, which: str) -> dict[str, Any]:
    """Take the listings of the data sets in a replica, or of the members of the work lease that runs here."""
    sets = DataSets(data)
    if folder is not None:
        return {"data_sets": [described(manifest) for manifest in Replica(folder).take(sets, which)]}
    taken = {}
    with peers(data) as found:
        if not found:
            raise GridError("no work lease runs here. Next: give the folder of a replica, or join a job")
        for peer in found:
            for each in peer.sets():
                manifest = read_manifest(each["manifest"])
                if manifest.id.startswith(which) and manifest.id not in taken:
                    peer.take(sets, each["manifest"], manifest.id, sealed=manifest.is_sealed)
                    taken[manifest.id] = described(manifest)
    return {"data_sets": list(taken.values())}


@contextmanager
def peers(data: Path) -> Iterator[list[DataPeer]]:
    """Yield the other ranks of the work lease that runs here; none when there is none."""
    with http_client() as client:
        try:
            addresses, rank = lease_of(data)
        except GridError:
            addresses, rank = [], 0
        yield peers_of(addresses, rank, client)


def export(data: Path, which: str, folder: Path) -> dict[str, Any]:
    """Write the files of a data set that this identity can read into a new folder.

    Raises:
        GridError: The folder exists, or neither the author's files, a replica nor a member of a job that runs here has a file
            as its author signed it.
    """
    with closing(DataSets(data).open(which)) as found:
        with peers(data) as others:
            more = [peer.fetch(found.manifest.id) for peer in others]
            export_files(found, IdentityKey.in_folder(data), folder, more)
        return {**described(found.manifest), "folder": str(folder)}


def remove(data: Path, which: str) -> dict[str, Any]:
    """Forget a data set; the files stay where they are."""
    return {"removed": DataSets(data).remove(which)}


def described(manifest: DataManifest) -> dict[str, Any]:
    """Return a data set as the commands print it."""
    return {"id": manifest.id, **{name: value for name, value in manifest.to_json().items() if name != "format"}}


def text_of(answer: dict[str, Any]) -> str:
    """Return the answer of a command for people."""
    if "removed" in answer:
        return f"forgotten: {answer['removed']}"
    if "data_sets" in answer:
        return "\n".join(map(_line, answer["data_sets"])) or "no data sets. Next: `choroid grid data add FOLDER`"
    lines = [_line(answer)]
    lines += [f"{field}: {value}" for field, value in answer["provenance"].items() if value]
    if "jobs_of" in answer:
        lines.append(f"jobs of {', '.join(answer['jobs_of']) or 'no others'} may read it here")
    lines += [f"{row['size']:>14,} {row['path']}" for row in answer.get("rows", ())]
    for place, paths in answer.get("changed", {}).items():
        lines += [f"{place}: {path} is missing or changed" for path in paths] or [f"{place}: all as signed"]
    if answer.get("changed") == {}:
        lines.append("neither files nor a replica are known here. Next: `choroid grid data take FOLDER`")
    if "brought" in answer:
        lines.append(f"{answer['brought']:,} objects brought to {answer['folder']}")
    return "\n".join(lines)


def _line(one: dict[str, Any]) -> str:
    return (
        f"{one['id'][:16]} {one['name']}: {one['files']:,} files, {one['size'] / 1e6:,.1f} MB, shared: {one['sharing']}"
    )


def _of_recording(source: Path) -> dict[str, str]:
    """Return what a recording of Choroid states of its origin; empty for other folders."""
    try:
        attributes = json.loads((source / RECORDING_ATTRIBUTES).read_bytes())
        identity = attributes["identity"]
        taken = {
            "rig": identity["rig"],
            "organoid": ", ".join(identity["tissue"]),
            "day": attributes["started_utc"][:10],
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return {field: value for field, value in taken.items() if isinstance(value, str)}
