"""The data sets of an identity: add a folder of files, list, verify, read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from controller.core.whole_file import scratch_folder
from grid.data.listing import ROWS, FileRow, Listing, checked_path, write_listing
from grid.data.manifest import DataManifest, Provenance, Sharing, checked_terms, read_manifest
from grid.data.sealing import CHUNK_BYTES, KEY_BYTES, DataSeal, unwrapped, wrapped
from grid.errors import GridError
from grid.identity.keys import KEY_FILE, IdentityKey, write_private

MANIFEST, KEY, SOURCE, REPLICAS, JOBS = "manifest.json", "key.age", "source.json", "replicas.json", "jobs.json"
ID = re.compile(r"[0-9a-f]{64}")
Fetch = Callable[[FileRow], bytes]
"""Returns the object of a file."""


class DataSet:
    """A data set in its folder: manifest, listing, the wrapped key, and where the author has its files.

    Attributes:
        manifest: The manifest, which is verified.
        listing: The listing.
    """

    def __init__(self, folder: Path, manifest: DataManifest) -> None:
        """Open a data set. Raises :class:`GridError` when its listing is missing or damaged.

        Args:
            folder: Where it is.
            manifest: Its manifest, which was verified.
        """
        self.folder = folder
        self.manifest = manifest
        self.listing = Listing(folder)
        if len(self.listing) != self.manifest.files:
            self.close()
            raise GridError(
                f"the listing of “{self.manifest.name}” has {len(self.listing)} files, its manifest {self.manifest.files}."
                " Likely cause: it was cut short. Next: fetch it again"
            )

    def close(self) -> None:
        """Close the listing."""
        self.listing.close()

    @property
    def source(self) -> Path | None:
        """The author's folder of the files; None for others."""
        try:
            return Path(json.loads((self.folder / SOURCE).read_bytes())["folder"])
        except FileNotFoundError:
            return None

    @property
    def replicas(self) -> list[Path]:
        """The folders of replicas that are known to hold it."""
        try:
            return [Path(each) for each in json.loads((self.folder / REPLICAS).read_bytes())]
        except FileNotFoundError:
            return []

    def note_replica(self, folder: Path) -> None:
        """Remember a folder with a replica of it."""
        known = dict.fromkeys([*map(str, self.replicas), str(folder.resolve())])
        write_private(self.folder / REPLICAS, json.dumps(list(known)).encode())

    def seal(self, key: IdentityKey) -> DataSeal | None:
        """Return what encrypts its files; None for public data. Raises :class:`GridError` when `key` is no reader's."""
        if not self.manifest.is_sealed:
            return None
        envelope = (self.folder / KEY).read_bytes()
        return DataSeal(unwrapped(envelope, key), bytes.fromhex(self.manifest.nonce))

    def row(self, index: int) -> FileRow:
        """Return a row of the listing after verifying it against the manifest."""
        return self.listing.verified(index, bytes.fromhex(self.manifest.root))

    def objects(self, index: int, key: IdentityKey) -> Iterator[bytes]:
        """Yield the bytes of the object of a file, which the author makes of the file itself.

        Raises:
            GridError: The file cannot be read.
        """
        row, source = self.row(index), self.source
        if source is None:
            raise GridError(f"the files of “{self.manifest.name}” are not on this machine. Next: fetch them")
        seal = self.seal(key)
        # Of a file that was changed nothing may leave: with other contents the same key and nonces would be used again.
        with TemporaryFile(dir=self.folder) as kept:
            digest = hashlib.sha256()
            for chunk in _chunks(source / row.path):
                digest.update(chunk)
                kept.write(chunk)
            if digest.hexdigest() != row.sha256:
                raise GridError(
                    f"{source / row.path} has changed since it was added. Next: add its folder again as a new data set, or"
                    " restore the file"
                )
            kept.seek(0)
            chunks = iter(lambda: kept.read(CHUNK_BYTES), b"")
            yield from chunks if seal is None else seal.sealed(row.path, chunks)

    def read(self, index: int, replicas: Iterable[Fetch], seal: DataSeal | None) -> bytes:
        """Return the contents of a file, of the first replica that has its object whole.

        Args:
            index: The file.
            replicas: Each gives the object of a file, or raises :class:`GridError`.
            seal: What decrypts (:meth:`seal`).

        Raises:
            GridError: No replica has it.
        """
        row, reasons = self.row(index), list[str]()
        for fetch in replicas:
            try:
                found = fetch(row)
            except GridError as error:
                reasons.append(str(error))
                continue
            if hashlib.sha256(found).hexdigest() == row.object:
                return found if seal is None else seal.opened(row.path, found)
            reasons.append("a replica gave other bytes than the author signed")
        raise GridError(
            f"no replica gave “{row.path}” of “{self.manifest.name}”: {'; '.join(reasons) or 'there is none'}. Next: wait"
            " until it is repaired, or ask the author"
        )

    def changed(self) -> Iterator[str]:
        """Read all files of the author; yield the paths of those that are missing or not as they were signed."""
        source = self.source
        if self.listing.root().hex() != self.manifest.root:
            raise GridError(
                f"the listing of “{self.manifest.name}” is not the one that its author signed. Next: fetch it again"
            )
        for row in self.listing if source is not None else ():
            try:
                digest = hashlib.sha256()
                for chunk in _chunks(source / row.path) if source else ():
                    digest.update(chunk)
                if digest.hexdigest() != row.sha256:
                    yield row.path
            except GridError:
                yield row.path


class DataSets:
    """The data sets in the folder `data` of a member or laboratory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "data"
        self._verified: dict[Path, tuple[tuple[int, ...], DataManifest]] = {}
        """The manifests that were verified, each with what tells that its file has changed since."""

    def every(self) -> list[DataManifest]:
        """Return the manifests of all that can be read, by name."""
        found = {}
        for place in self._folder.glob(f"*/{MANIFEST}"):
            with suppress(GridError, OSError, ValueError):
                found[place] = self._read(place)
        for gone in [place for place in list(self._verified) if place not in found]:
            self._verified.pop(gone, None)
        return sorted(found.values(), key=lambda each: each.name)

    def open(self, which: str) -> DataSet:
        """Open a data set by its name or the beginning of its id. Raises :class:`GridError` when there is not one."""
        place = self._place(which)
        try:
            return DataSet(place, self._read(place / MANIFEST))
        except (OSError, ValueError) as error:
            raise GridError(f"{place} holds no data set ({error}). Next: `choroid grid data list`") from None

    def has(self, which: str) -> bool:
        """Return whether the data set of an id is here."""
        return (self._folder / which / MANIFEST).exists()

    def is_author(self, which: str) -> bool:
        """Return whether the data set of an id was made here, of files of this machine."""
        return (self._folder / which / SOURCE).exists()

    def taken_bytes(self) -> int:
        """Return what the listings of data sets of others take here."""
        taken = [place for place in self._folder.glob("*") if not (place / SOURCE).exists()]
        return sum(each.stat().st_size for place in taken for each in place.glob("*"))

    def _read(self, place: Path) -> DataManifest:
        """Return a manifest, verified when it is new. Raises what :func:`read_manifest` does, OSError, ValueError."""
        about = place.stat()
        stamp = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        known = self._verified.get(place)
        if known is None or known[0] != stamp:
            known = self._verified[place] = (stamp, read_manifest(json.loads(place.read_bytes())))
        return known[1]

    def _place(self, which: str) -> Path:
        if ID.fullmatch(which) and (self._folder / which / MANIFEST).exists():
            return self._folder / which  # whatever names others have
        names = {each.id for each in self.every() if each.name == which}
        ids = {each.name for each in self._folder.glob("*") if len(which) >= 8 and each.name.startswith(which)}
        if len(found := names | ids) != 1:
            what = "several data sets are" if found else "no data set is"
            raise GridError(f"{what} called “{which[:100]}”. Next: choose an id of `choroid grid data list`")
        return self._folder / found.pop()

    def add(
        self,
        source: Path,
        key: IdentityKey,
        *,
        name: str,
        sharing: Sharing,
        provenance: Provenance,
        readers: Iterable[bytes] = (),
        progress: Callable[[int, int], None] = lambda done, of: None,
    ) -> DataManifest:
        """Make a data set of a folder of files, which stay where they are.

        Args:
            source: The folder.
            key: The author's.
            name: The name of the data set.
            sharing: Who may have it.
            provenance: Where it comes from.
            readers: Public keys of those who can decrypt it, in addition to the author.
            progress: Called after each file with the bytes so far and of all.

        Raises:
            GridError: A file cannot be part of it or changed meanwhile, or the disk is full. Nothing is kept then.
        """
        checked_terms(name, provenance)
        nonce, secret = secrets.token_bytes(32), secrets.token_bytes(KEY_BYTES)
        seal = None if sharing is Sharing.PUBLIC else DataSeal(secret, nonce)
        files = files_of(source, self._folder.parent)
        with self._making(str(source)) as partial:
            root = write_listing(partial, _rows(source, files, seal, progress)).hex()
            size, author = sum(files.values()), key.public.hex()
            manifest = DataManifest(name, len(files), size, root, sharing, provenance, author, nonce.hex()).signed_by(
                key
            )
            if seal is not None:
                (partial / KEY).write_bytes(wrapped(secret, [key.public, *readers]))
            (partial / SOURCE).write_text(json.dumps({"folder": str(source.resolve())}), encoding="utf-8")
            self._keep(partial, manifest)
        return manifest

    def take(self, manifest: object, rows: bytes, envelope: bytes) -> DataManifest:
        """Keep a data set of another author: manifest, rows of its listing, and the wrapped key.

        What is here of it already is replaced, but for the author's own.

        Raises:
            GridError: Something is not as the author signed it, or the disk is full. Nothing is kept then.
        """
        known = read_manifest(manifest)
        place = self._folder / known.id
        if (place / SOURCE).exists():
            return known
        with self._making(known.name) as partial:
            root = write_listing(partial, (FileRow.from_bytes(leaf) for leaf in rows.split(b"\n")[:-1]))
            if root.hex() != known.root or (partial / ROWS).read_bytes() != rows or rows.count(b"\n") != known.files:
                raise GridError(
                    f"the listing of “{known.name}” is not the one that its author signed. Likely cause: it was cut short"
                    " or changed on its way. Next: fetch it again"
                )
            if known.is_sealed:
                (partial / KEY).write_bytes(envelope)
            for kept in (REPLICAS, JOBS):
                if (place / kept).exists():
                    shutil.copyfile(place / kept, partial / kept)
            self._keep(partial, known)
        return known

    def remove(self, which: str) -> str:
        """Forget a data set, also a damaged one; the author's files stay. Return its id."""
        place = self._place(which)
        shutil.rmtree(place)
        return place.name

    @contextmanager
    def _making(self, what: str) -> Iterator[Path]:
        """Yield a folder for a new data set, which vanishes unless it is kept. Raises :class:`GridError` for a full disk."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with scratch_folder(self._folder, "new-") as scratch:
                (scratch / "set").mkdir()
                yield scratch / "set"
        except OSError as error:
            raise GridError(
                f"the data set of {what} cannot be made ({error.strerror or error}). Likely cause: a file cannot be read,"
                " or the disk is full. Next: correct that, and try again"
            ) from None

    def _keep(self, partial: Path, manifest: DataManifest) -> None:
        (partial / MANIFEST).write_text(json.dumps(manifest.to_json(), indent=1), encoding="utf-8")
        for each in partial.iterdir():
            _sync(each)
        place = self._folder / manifest.id
        if place.exists():
            place.replace(partial.parent / "former")
        partial.replace(place)


def files_of(source: Path, own: Path) -> dict[str, int]:
    """Return path and size of every file below a folder, in the order of the paths' bytes.

    Args:
        source: The folder.
        own: The data folder of the member, whose keys must not be among the files.

    Raises:
        GridError: There is none, a folder cannot be read, one is a link or no plain file (what it points to may not belong to
            the data), or there are keys of a member.
    """
    here, keys = source.resolve(), own.resolve()
    if here.is_relative_to(keys) or keys.is_relative_to(here):
        raise GridError(
            f"{source} contains {own}, or lies in it, where the keys are. Next: give a folder of data alone"
        )
    found: dict[str, int] = {}
    for folder, folders, names in os.walk(source, onerror=_unreadable):
        for name in (*folders, *names):
            path = Path(folder) / name
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise GridError(f"{path} is a link, or no plain file. Next: replace it by the file, or move it away")
            if name == KEY_FILE:
                raise GridError(f"{path} is the key of a member. Next: move it away")
        for name in names:
            path = Path(folder) / name
            found[checked_path(path.relative_to(source).as_posix())] = path.stat().st_size
    if not found:
        raise GridError(f"{source} has no files. Next: give the folder of a recording, or of other data")
    return dict(sorted(found.items(), key=lambda each: each[0].encode()))


def _unreadable(error: OSError) -> None:
    raise GridError(f"{error.filename} cannot be read ({error.strerror}). Next: correct its permissions") from None


def _rows(
    source: Path, files: dict[str, int], seal: DataSeal | None, progress: Callable[[int, int], None]
) -> Iterator[FileRow]:
    done, whole = 0, sum(files.values())
    for path, size in files.items():
        plain, sealed, read = hashlib.sha256(), hashlib.sha256(), 0

        def chunks(path: str = path, plain: Any = plain) -> Iterator[bytes]:
            nonlocal read
            for chunk in _chunks(source / path):
                plain.update(chunk)
                read += len(chunk)
                yield chunk

        for chunk in chunks() if seal is None else seal.sealed(path, chunks()):
            sealed.update(chunk)
        if read != size:
            raise GridError(
                f"{source / path} changed while it was read. Likely cause: it is still being recorded. Next: end that first"
            )
        done += size
        progress(done, whole)
        yield FileRow(path, size, plain.hexdigest(), sealed.hexdigest())


def _chunks(path: Path) -> Iterator[bytes]:
    """Yield a file in chunks. Raises :class:`GridError` when it cannot be read."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    except OSError as error:
        raise GridError(
            f"{path} cannot be read ({error.strerror or error}). Likely cause: it was moved or removed after it was added."
            " Next: put it back, or remove the data set"
        ) from None


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
