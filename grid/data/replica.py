"""A replica of data sets in a folder: another disk, a file server. No key that opens them is there in the clear."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

from controller.core.whole_file import whole_file
from grid.data.data_sets import KEY, MANIFEST, DataSet, DataSets
from grid.data.listing import ROWS, FileRow
from grid.data.manifest import DataManifest, Sharing
from grid.data.objects import MIN_FREE_BYTES, ObjectStore
from grid.errors import GridError

SETS = "sets"


class Replica:
    """The replica in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.objects = ObjectStore(folder / "objects")

    @property
    def is_there(self) -> bool:
        """Whether its folder exists; the disk may have been removed."""
        return (self.folder / SETS).is_dir()

    def object(self, row: FileRow) -> bytes:
        """Return the object of a file. Raises :class:`GridError` when it is absent."""
        return self.objects.get(row.object)

    def has(self, which: str) -> bool:
        """Return whether the data set of an id came here whole; objects may be damaged since."""
        return (self.folder / SETS / which / MANIFEST).exists()

    def fill(
        self,
        data: DataSet,
        bring: Callable[[int], Iterable[bytes]],
        *,
        is_here: Callable[[str], bool] | None = None,
        quota_bytes: float = math.inf,
        other_bytes: int = 0,
        min_free_bytes: int = MIN_FREE_BYTES,
        progress: Callable[[int, int], None] = lambda done, of: None,
    ) -> int:
        """Bring a data set here: what is missing or damaged; return how many objects that was.

        Args:
            data: The data set.
            bring: Gives the object of a file, by its index: the author's (:meth:`DataSet.objects`), or a peer's.
            is_here: Whether an object need not be brought; by default it is read to see whether it is whole.
            quota_bytes: Most that objects and listings may take here.
            other_bytes: What counts towards the quota elsewhere.
            min_free_bytes: Bytes that stay free on the disk.
            progress: Called after each file with the files so far and of all.

        Raises:
            GridError: The data stay in the laboratory, a file cannot be had, or there is no room. What came before stays.
        """
        manifest = data.manifest
        if manifest.sharing is Sharing.NO:
            raise GridError(
                f"“{manifest.name}” stays in its laboratory. Next: add it again with --share members, if its people agree"
            )
        brought, is_here = 0, is_here or self.objects.is_whole
        place = self.folder / SETS / manifest.id
        listed = [
            data.folder / file for file in (ROWS, KEY, MANIFEST)
        ]  # the manifest last: then the data set is complete
        own = sum(each.stat().st_size for each in listed if each.exists()) - _bytes_of([place])
        other_bytes += own + _bytes_of((self.folder / SETS).glob("*"))
        with self.objects.filling(quota_bytes, min_free_bytes, other_bytes=other_bytes):
            for index in range(len(data.listing)):
                name = data.row(index).object
                if not is_here(name):
                    self.objects.remove(name)
                    self.objects.put(name, bring(index))
                    brought += 1
                progress(index + 1, len(data.listing))
            place.mkdir(parents=True, exist_ok=True)
            for each in listed:
                if each.exists():
                    with whole_file(place / each.name) as part:
                        part.write_bytes(each.read_bytes())
        return brought

    def used_bytes(self) -> int:
        """Return what objects and listings take here."""
        return self.objects.used_bytes() + _bytes_of((self.folder / SETS).glob("*"))

    def take(self, sets: DataSets, which: str = "") -> list[DataManifest]:
        """Let a member know the data sets that are here (or that of an id), and that this replica has them.

        Raises:
            GridError: There is none, or one is not as its author signed it.
        """
        places = sorted((self.folder / SETS).glob(f"*/{MANIFEST}"))
        found = [each.parent for each in places if each.parent.name.startswith(which)]
        if not found:
            raise GridError(f"{self.folder} holds no data set {which}. Next: `choroid grid data replicate` there")
        taken = []
        for place in found:
            try:
                plain = json.loads((place / MANIFEST).read_bytes())
                envelope = (place / KEY).read_bytes() if (place / KEY).exists() else b""
                manifest = sets.take(plain, (place / ROWS).read_bytes(), envelope)
            except (OSError, ValueError) as error:
                raise GridError(f"{place} cannot be read ({error}). Next: replicate it again") from None
            with closing(sets.open(manifest.id)) as data:
                data.note_replica(self.folder)
            taken.append(manifest)
        return taken

    def lacking(self, data: DataSet) -> Iterator[str]:
        """Read the objects of a data set; yield the paths of the files whose object is missing or damaged."""
        for index in range(len(data.listing)):
            row = data.row(index)
            try:
                whole = self.objects.is_whole(row.object)
            except OSError as error:
                raise GridError(
                    f"{self.objects.path(row.object)} cannot be read ({error.strerror or error}). Next: look at the disk"
                ) from None
            if not whole:
                yield row.path


def _bytes_of(folders: Iterable[Path]) -> int:
    return sum(each.stat().st_size for folder in folders for each in folder.glob("*"))
