"""Write the files of a data set into a new folder: those of its author, or of the first replica that has each whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from controller.core.whole_file import whole_folder
from grid.data.data_sets import DataSet, Fetch
from grid.data.replica import Replica
from grid.errors import GridError
from grid.identity.keys import IdentityKey


def export_files(found: DataSet, key: IdentityKey, folder: Path, more: Sequence[Fetch] = ()) -> None:
    """Write the files of a data set that an identity can read.

    Args:
        found: The data set.
        key: Of the reader.
        folder: A folder that does not exist; it appears when all files are in it.
        more: Give objects that neither the author's files nor a replica here have.

    Raises:
        GridError: The folder exists or cannot be written, or none of them has a file as its author signed it.
    """
    if folder.exists():
        raise GridError(f"{folder} exists. Next: give a folder that does not")
    seal = found.seal(key)
    replicas = [*(Replica(each).object for each in found.replicas), *more]
    try:
        with whole_folder(folder) as part:
            for index in range(len(found.listing)):
                own = [lambda _, index=index: b"".join(found.objects(index, key))] if found.source else []
                contents = found.read(index, [*own, *replicas], seal)
                place = part / found.row(index).path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(contents)
    except OSError as error:
        raise GridError(f"{folder} cannot be written ({error.strerror or error}). Next: free space") from None
