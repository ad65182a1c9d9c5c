"""Read what the page shows from a hub's database, in one read transaction."""

from __future__ import annotations

import contextlib
import json
import math
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from controller.signed_log.notes import ED25519, NoteKey
from grid.clock import UtcSeconds, as_text, utc_s
from grid.hub.leases import LeaseBook
from grid.hub.members import SEEN_S, Members
from grid.hub.store import Store, reading_error
from grid.hub.work import WorkBook
from grid.jobs.manifest import read_signed
from grid.log.tiles import tile
from grid.log.witness import Witness
from grid.log.witnesses import LogWitnesses
from grid.page.models import (
    FigureModel,
    HeadModel,
    HubModel,
    MemberModel,
    OfferedTissueModel,
    RankingModel,
    RecordModel,
    RefusalModel,
    TissueLeaseModel,
    WatchedLogModel,
    WitnessModel,
    WorkLeaseModel,
    WorkRankModel,
)
from grid.page.rankings import rankings
from grid.policy.policy import load_policy
from grid.policy.standing import MemberStanding
from grid.wire import grid_pb2 as pb

FIGURES = {
    "cores": ("cores", ""),
    "core_hash_hz": ("hashes of a core", "Hz"),
    "all_cores_hash_hz": ("hashes of all cores", "Hz"),
    "gemm_flop_s": ("matrix products", "flop/s"),
    "memory_bytes_s": ("memory bandwidth", "B/s"),
    "memory_bytes": ("memory", "B"),
    "gpus": ("GPUs", ""),
    "accelerator_flop_s": ("accelerator", "flop/s"),
    "gpu_memory_bytes": ("GPU memory", "B"),
    "pcie_lanes": ("PCIe lanes", ""),
    "gpu_power_w": ("GPU power", "W"),
    "disk_write_bytes_s": ("disk write", "B/s"),
    "disk_read_bytes_s": ("disk read", "B/s"),
    "disk_free_bytes": ("free disk", "B"),
    "downlink_bit_s": ("downlink", "bit/s"),
    "uplink_bit_s": ("uplink", "bit/s"),
    "round_trip_s": ("round trip", "s"),
}
MAX_MEMBERS = 200
LAST_ROWS = 12
LAST_WORK = 3
MAX_ABOUT = 300
IDENTITY = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{56}\b")
Names = Mapping[str, str]


class HubReader:
    """Reads the database of one hub; it cannot change it."""

    def __init__(self, data: Path, *, utc: UtcSeconds = utc_s) -> None:
        """Open it. Raises :class:`GridError` when there is no hub in `data`."""
        self._store = Store(data, utc=utc)
        self._data = data
        self._members = Members(self._store)
        policy = load_policy()
        self._book = LeaseBook(self._store, self._members, policy.leases)
        self._work = WorkBook(self._store, self._members, policy.work)
        self._witnesses = LogWitnesses(self._store.database, self._store.log)
        self._witness = Witness(self._store.database, self._store.log, utc)

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    def read(self) -> HubModel:
        """Return the present state. Raises :class:`GridError` when the database cannot be read."""
        with self._snapshot():
            boards = rankings(self._data, {row["id"]: row["name"] for row in self._members.every()}, self._store)
            return self._state(boards)

    def checkpoint(self) -> str:
        """Return the latest checkpoint. Raises :class:`GridError` as :meth:`read`, or without a signed one."""
        with self._snapshot():
            return self._store.log.checkpoint()

    def tile(self, path: str) -> bytes | None:
        """Return a tile of the log (C2SP tlog-tiles), or None when there is none.

        Raises:
            GridError: As :meth:`read`, or a row is too long for this form.
        """
        with self._snapshot():
            return tile(self._store.log, path)

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Let everything that is read in the block be of the same moment."""
        try:
            self._store.database.execute("BEGIN")
            try:
                yield
            finally:
                self._store.database.execute("COMMIT")
        except sqlite3.Error as error:
            raise reading_error(error) from None

    def _state(self, boards: list[RankingModel]) -> HubModel:
        rows, now = self._members.every(), self._store.utc()
        names = {row["id"]: row["name"] for row in rows}
        leases = self._book.living()
        work = defaultdict(list)
        for lease in leases:
            if lease["state"] != "queued":
                where = f"{lease['organoid']} of {names.get(lease['lab'], lease['lab'][:8])}"
                work[lease["member"]].append(f"{_verb(lease['mode'])} {where}: {lease['purpose']}")
        members = [_member(row, now, work[row["id"]]) for row in rows]
        members.sort(key=lambda each: (each.state != "pending", not each.connected, each.name))
        return HubModel(
            hub=self._store.name,
            utc=as_text(now),
            members_count=len(members),
            connected_count=sum(each.connected for each in members),
            members=members[:MAX_MEMBERS],
            tissues=self._tissues(leases, names, {each.id for each in members if each.connected}),
            work=[_work(self._work.info(row), names) for row in (*self._work.living(), *self._work.ended(LAST_WORK))],
            boards=boards,
            log=self._head(),
        )

    def _tissues(self, leases: list[sqlite3.Row], names: Names, connected: set[str]) -> list[OfferedTissueModel]:
        found = []
        for row in self._store.query("SELECT * FROM tissues ORDER BY lab, organoid"):
            offer = pb.TissueOffer.FromString(row["offer"])
            here = [
                self._lease(each, names)
                for each in leases
                if (each["lab"], each["organoid"]) == (row["lab"], row["organoid"])
            ]
            queue = [each for each in here if each.state == "queued"]
            found.append(
                OfferedTissueModel(
                    lab=names.get(row["lab"], row["lab"][:8]),
                    organoid=offer.organoid,
                    connected=row["lab"] in connected,
                    simulated=offer.simulated,
                    electrodes=offer.electrodes,
                    sample_rate_hz=offer.sample_rate_hz,
                    stimulation=offer.stimulation,
                    reason=offer.reason,
                    holders=[each for each in here if each.state != "queued"],
                    queue=sorted(queue, key=lambda each: each.position),
                )
            )
        return found

    def _lease(self, row: sqlite3.Row, names: Names) -> TissueLeaseModel:
        info = self._book.info(row)
        return TissueLeaseModel(
            lease=info.lease,
            state=row["state"],
            member=names.get(info.member, info.member[:8]),
            mode=info.mode,
            electrodes=spans(list(info.electrodes)),
            purpose=info.purpose,
            fence=info.fence,
            position=info.position,
            until_utc=as_text(info.until_utc_s),
            charge_nc=info.charge_nc,
            pulses=info.pulses,
            reason=info.reason,
        )

    def _head(self) -> HeadModel:
        log = self._store.log
        size = log.size
        return HeadModel(
            rows=size,
            key=str(NoteKey(self._store.name, ED25519, self._store.public_key)),
            checkpoint=log.checkpoint(size),
            confirmed_rows=log.cosigned_size(),
            witnesses=[
                WitnessModel(
                    name=each.key.name,
                    rows=each.rows,
                    utc=as_text(each.confirmed_utc_s) if each.rows else "",
                    trouble=each.trouble,
                )
                for each in self._witnesses.every()
            ],
            watched=[
                WatchedLogModel(
                    name=each.key.name,
                    rows=each.size,
                    utc=as_text(each.confirmed_utc_s) if each.size else "",
                    trouble=each.words,
                )
                for each in self._witness.every()
            ],
            last=[_record(body) for _, body in reversed(log.rows(max(size - LAST_ROWS, 0), LAST_ROWS))],
        )


def _work(info: pb.WorkInfo, names: Names) -> WorkLeaseModel:
    manifest = read_signed(info.manifest)[0] if info.manifest else None
    reports = {each.rank: each for each in info.reports}
    ranks = []
    for number, rank in enumerate(info.ranks):
        said = reports.get(number)
        ranks.append(
            WorkRankModel(
                member=rank.name or names.get(rank.member, rank.member[:8]),
                state=said.state if said else "",
                outer=said.outer if said else 0,
                loss=said.loss if said and said.outer and math.isfinite(said.loss) else None,
                sent_bytes=said.sent if said else 0,
                scores={name: value for name, value in said.scores.items() if math.isfinite(value)} if said else {},
                reason=said.reason if said else "",
            )
        )
    return WorkLeaseModel(
        lease=info.lease,
        job=info.job,
        holder=names.get(info.member, info.member[:8]),
        state=pb.LeaseInfo.State.Name(info.state).lower(),
        reason=info.reason,
        engine=manifest.engine if manifest else "",
        preset=manifest.preset if manifest else "",
        outer_steps=manifest.outer_steps if manifest else 0,
        ranks=ranks,
    )


def _member(row: sqlite3.Row, now: float, work: list[str]) -> MemberModel:
    standing = MemberStanding(**json.loads(row["standing"]))
    figures = {**dict.fromkeys(FIGURES), **standing.figures}
    return MemberModel(
        id=row["id"],
        name=row["name"],
        kind=row["kind"],
        state=row["state"],
        reason=row["reason"],
        connected=row["state"] == "approved" and abs(now - row["seen_s"]) < 3 * SEEN_S,
        seen_utc=as_text(row["seen_s"]) if row["seen_s"] else "",
        measured_utc=as_text(standing.measured_utc_s) if standing.measured_utc_s else "",
        roles=list(standing.roles),
        refusals=[RefusalModel(role=role, reasons=list(why)) for role, why in standing.reasons.items() if why],
        figures=[
            FigureModel(label=FIGURES.get(name, (name, ""))[0], value=value, unit=FIGURES.get(name, (name, ""))[1])
            for name, value in figures.items()
            if value is not None
        ],
        work=[*([row["working_on"]] if row["working_on"] else []), *work],
    )


def _record(body: bytes) -> RecordModel:
    """Return a row of the log in short: identities by their beginning, without empty and nested values and further times."""
    row = json.loads(body)
    shown = {
        name: value
        for name, value in row["about"].items()
        if value not in ("", None) and not isinstance(value, dict) and not name.endswith("_utc_s")
    }
    about = IDENTITY.sub(r"\1…", ", ".join(f"{name}: {value}" for name, value in shown.items()))
    return RecordModel(number=row["number"], utc=row["utc"], kind=row["kind"], about=about[:MAX_ABOUT])


def _verb(mode: str) -> str:
    return "stimulates" if mode == "stimulate" else "reads"


def spans(numbers: list[int]) -> str:
    """Return sorted numbers as text with ranges, such as 0–3, 7."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}–{last}" for first, last in found)
