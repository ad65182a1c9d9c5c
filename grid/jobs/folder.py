"""The folder of a job at a member: manifest, programs, data that had to be decrypted, and a folder for each rank."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from controller.core.whole_file import whole_file, whole_folder
from grid.data.allowing import require_allowed
from grid.data.data_sets import DataSets
from grid.data.exchange import DataPeer
from grid.data.exporting import export_files
from grid.errors import GridError
from grid.identity.keys import IdentityKey
from grid.jobs.code import allowed, code_hash, engines, federated
from grid.jobs.environment import FEDERATED
from grid.jobs.environment import interpreter as interpreter_of
from grid.jobs.manifest import JobManifest
from grid.jobs.node_keys import KEYS

JOBS, MANIFEST = "jobs", "manifest.json"
PROGRAMS, CODE, DATA = "programs", "code_package", "data"
SHOWN = 16
"""Digits of the hash of a job in the name of its folder."""


@dataclass(frozen=True, slots=True)
class JobFolder:
    """A job that can start here.

    Attributes:
        path: The folder.
        manifest: What is trained.
        splits: Folders of the data sets by split.
        interpreter: Python of the training environment.
        flower: Python of the environment of federated jobs; None: it is no such job.
    """

    path: Path
    manifest: JobManifest
    splits: Mapping[str, Sequence[Path]]
    interpreter: Path
    flower: Path | None = None

    def rank(self, number: int) -> Path:
        """Return the folder of a rank."""
        return rank_folder(self.path, number)

    def settings(
        self, rank: int, addresses: Sequence[str], threads: int, left_s: float | None, nodes: Sequence[str] = ()
    ) -> Path:
        """Write what the process of a rank is given; return the file.

        Args:
            rank: Its number.
            addresses: Of all ranks.
            threads: Of its computation.
            left_s: Time until the latest end of the job (s).
            nodes: Public keys of all ranks (PEM), of a federated job.

        Raises:
            GridError: The disk is full.
        """
        about = {
            "job": self.manifest.id,
            "manifest": json.loads(self.manifest.plain),
            "min_ranks": self.manifest.ranks.required,
            "rank": rank,
            "addresses": list(addresses),
            "package": str(self.path / PROGRAMS / CODE),
            "data": {split: [str(each) for each in folders] for split, folders in self.splits.items()},
            "folder": str(self.rank(rank)),
            "threads": threads,
            "left_s": left_s,
            "federated": {"keys": str(self.rank(rank) / KEYS), "nodes": list(nodes), "trainer": str(self.interpreter)},
        }
        path = self.rank(rank) / "settings.json"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as part:
                part.write_text(json.dumps(about))
        except OSError as error:
            raise GridError(f"{path} cannot be written ({error.strerror or error}). Next: free space") from None
        return path


def rank_folder(job: Path, number: int) -> Path:
    """Return the folder of a rank in that of its job."""
    return job / f"rank-{number}"


def flower_of(manifest: JobManifest) -> Path | None:
    """Return the Python of the environment of federated jobs; None for another job. Raises :class:`GridError`."""
    return interpreter_of(kind=FEDERATED) if manifest.engine == "federated" else None


def job_folder(data: Path, manifest: JobManifest) -> Path:
    """Return where a job is kept at a member."""
    return data.resolve() / JOBS / manifest.id[:SHOWN]


def pinned(data: Path, manifest: JobManifest) -> JobManifest:
    """Return a manifest that names its code package by hash. Raises :class:`GridError` when it may not run here."""
    return manifest.with_code(code_hash(allowed(data, manifest.code)))


def require_data(data: Path, manifest: JobManifest, submitter: str = "") -> None:
    """Check that all data sets of a job are known at a member, and allowed for the job of another one.

    Of a federated job, at least one to train on; each rank uses what its member has, and none asks for more.

    Args:
        data: Data folder of the member.
        manifest: The job.
        submitter: Identity of the member whose job it is; empty: of this one.

    Raises:
        GridError: With the first data set that is not there.
        GridRefused: With the first that is not allowed.
    """
    known = {each.id for each in DataSets(data).every()}
    apart = manifest.engine == "federated"
    if apart and not known & set(manifest.data["train"]):
        raise GridError(
            f"{data} has none of the data sets of the split train. Next: `choroid grid data add` this member's own, and name"
            " its id in the manifest"
        )
    for split, sets in manifest.data.items():
        for each in sets:
            if each not in known:
                if apart:
                    continue  # another rank has it, and trains on it
                raise GridError(
                    f"the data set {each[:16]} (split {split}) is not in {data}. Next: `choroid grid data take` it from a"
                    " replica, or correct the manifest"
                )
            if submitter:
                with closing(DataSets(data).open(each)) as found:
                    require_allowed(found, submitter, IdentityKey.in_folder(data).id)


def make_ready(
    data: Path, manifest: JobManifest, interpreter: Path, peers: Sequence[DataPeer] = (), flower: Path | None = None
) -> JobFolder:
    """Bring programs and data of a job into its folder; what is there already is kept.

    Args:
        data: Data folder of the member.
        manifest: The job, which names its code package by hash.
        interpreter: Python of the training environment.
        peers: Other ranks, which may have what neither the author's files nor a replica here has.
        flower: Python of the environment of federated jobs, for one of them.

    Raises:
        GridError: The code may not run here, a data set is absent or not as signed, or the disk is full.
    """
    path, package = job_folder(data, manifest), allowed(data, manifest.code)
    require_data(data, manifest)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.rmtree(path / PROGRAMS, ignore_errors=True)
        with whole_folder(path / PROGRAMS) as part:
            only = shutil.ignore_patterns("__pycache__")
            shutil.copytree(engines(), part / "engines", ignore=only)
            if flower is not None:
                shutil.copytree(federated(), part / "federated", ignore=only)
            shutil.copytree(package, part / CODE, ignore=only)
        with whole_file(path / MANIFEST) as part:
            part.write_bytes(manifest.plain)
    except OSError as error:
        raise GridError(f"{path} cannot be written ({error.strerror or error}). Next: free space") from None
    known = {each.id for each in DataSets(data).every()}  # of a federated job, what stays elsewhere is not asked for
    wanted = {split: [each for each in sets if each in known] for split, sets in manifest.data.items()}
    splits = {split: [_files_of(data, path, each, peers) for each in sets] for split, sets in wanted.items() if sets}
    return JobFolder(path, manifest, splits, interpreter, flower)


def _files_of(data: Path, job: Path, which: str, peers: Sequence[DataPeer]) -> Path:
    """Return a folder with the files of a data set: the author's own, or a copy from a replica or a peer."""
    with closing(DataSets(data).open(which)) as found:
        if found.source is not None:
            changed = next(found.changed(), None)
            if changed is not None:
                raise GridError(
                    f"{found.source / changed} is not as it was when “{found.manifest.name}” was made. Next: restore it, or"
                    " add the folder again as a new data set and name that in the manifest"
                )
            return found.source.resolve()
        copy = job / DATA / which
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            export_files(found, IdentityKey.in_folder(data), copy, [each.fetch(which) for each in peers])
        return copy
