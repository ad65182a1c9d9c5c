"""What a fit reads from a data folder: the period and its begin, and whether its records can be used."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import numpy as np

from choroid.common.failure import UserError
from choroid.fitting.body_transfers import BodyTransfers
from choroid.fitting.observations import Observation, enough, observations
from choroid.fitting.series import DAY_S, F8, means, seconds
from choroid.fitting.steps import InputCourses, laid_out
from choroid.report.period import Asked, asked, zone_of
from controller.core.clock import Clock
from controller.figures.records import Records
from controller.journal.journal import Journal
from controller.journal.reader import JournalReader
from controller.journal.terms import Entry, JournalError
from controller.memory.history_reader import HistoryUnreadable
from controller.rig.description import Rig
from controller.rig.loading import effective_hash
from controller.rig.perfusion import circulating
from controller.rig.probes import loop_ph
from controller.tissue.record import KINDS as TISSUE_ROWS
from controller.tissue.record import TissueRecord
from protocols.interval import Interval

MIN_DAYS = 1.0
LATE_S = 1800.0
"""A later begin than asked for is reported from here on."""
TAKEN_OVER = "handover.taken"
"""Kind of the row of a culture that came from another rig, with its medium."""


@dataclass(slots=True)
class FitRecords:
    """The records of a period, as a fit needs them."""

    rig: Rig
    begin: float
    """UTC seconds."""
    days: float
    media: list[str]
    """Their places, plus :data:`BODIES`, are the sources of transfers."""
    volumes_ul: tuple[float, float]
    """Of the two bodies at the begin."""
    start: dict[str, tuple[float, float]] | None
    """Medium of the loop at the begin by an estimate: value and standard deviation; None at the journal's begin."""
    first_ph: float
    steps: F8
    """Shape (steps, fields of InputColumn)."""
    moves: F8
    observations: list[Observation]
    place: F8
    """Step at whose end each observation is."""
    warnings: list[str] = field(default_factory=list)


def recorded(
    rig: Rig, data: Path, *, begin: str | None = None, end: str | None = None, zone: str | None = None
) -> FitRecords:
    """Read the records of a period.

    Raises:
        UserError: They cannot be used: what, where, likely cause, next action.
    """
    folder = data.parent if data.name == "journal.db" else data
    if not circulating(rig):
        raise UserError(
            f"{rig.name} has no loop that a heart leads through its chambers, so there is no circulating medium to fit."
            " Next: fit a rig with a loop"
        )
    try:
        with closing(Records(folder)) as records:
            days = None if zone is None else zone_of(zone)
            extent = records.extent()
            period = asked(begin, end, now=extent[1] + 0.001 if extent else 0.0, recorded=extent, zone=days)
            return _read(rig, records, period)
    except (HistoryUnreadable, JournalError) as error:  # both say what, where, why and what next
        raise UserError(str(error)) from None


def _read(rig: Rig, records: Records, period: Asked) -> FitRecords:
    journal, history = records.journal, records.history
    warnings = _same_rig(rig, journal)
    opened = next(iter(journal.entries(kinds=("ledger.opened",), limit=1)), None)
    if opened is None:
        raise UserError(
            "the journal has no ledger, so the volumes of medium are not known. Likely cause: no controller of this release"
            " ran with it. Next: name the data folder of `choroid run`"
        )
    begin, start = max(period.begin, seconds(opened)), None
    one_tissue(journal, begin, period.end)
    if begin > seconds(opened) + 600.0:
        estimated, start = _first_estimate(journal, begin, period.end)
        if estimated > begin + LATE_S:
            warnings.append(
                f"the fit begins {(estimated - begin) / 3600:.1f} h after the begin of the period, with the first estimate of"
                " the medium in it"
            )
        begin = estimated
    days = round((period.end - begin) / DAY_S, 2)  # a run of a day ends before the day does
    if days < MIN_DAYS:
        known_from = (
            f" from the first estimate of the medium in it on ({datetime.fromtimestamp(begin, UTC):%Y-%m-%d %H:%M} UTC)"
        )
        raise UserError(
            f"the period has {days:g} days of records{'' if start is None else known_from}; a fit needs {MIN_DAYS:g} or more."
            " Next: record longer, or give another --from and --to"
        )
    rig = _with_tissue(rig, records, begin)
    media = list(rig.media)
    volumes = _volumes(rig, records, begin, opened)
    if sum(volumes[name] for name in circulating(rig)) <= 0.0:
        raise UserError(
            f"{' and '.join(circulating(rig))} were empty at the begin of the period (ledger). Likely cause: the loop was"
            " filled later. Next: --from a time after it was filled"
        )
    found = observations(rig, journal, history, begin, period.end)
    enough(found)
    moved = list(BodyTransfers(rig, volumes, begin, period.end).read(journal))
    steps, moves, place = laid_out(period.end - begin, moved, found)
    inputs = InputCourses(rig, history, steps, begin)
    inputs.fill()
    warnings += inputs.assumed
    ph_point = loop_ph(rig)
    first: F8 = np.empty(0) if ph_point is None else means(history, ph_point, begin, begin + 6 * 3600.0)[1]
    return FitRecords(
        rig, begin, (period.end - begin) / DAY_S, media,
        (sum(volumes[name] for name in circulating(rig)), _spent_ul(rig, volumes)),
        start,
        float(first[0]) if len(first) else 7.4, steps, moves, found, place, warnings,
    )  # fmt: skip


def _same_rig(rig: Rig, journal: JournalReader) -> list[str]:
    """Raise UserError for the journal of another rig; return a warning if the rig file has changed since."""
    started = [row.body for row in journal.entries(kinds=("controller.started",))]
    names = {row["rig"] for row in started}
    if names - {rig.name}:
        raise UserError(
            f"the journal is of the rig {', '.join(sorted(names))}, and the rig file describes {rig.name}. Likely cause:"
            " another rig file or data folder. Next: name those that belong together"
        )
    if any(row["rig_hash"] != effective_hash(rig) for row in started):
        return ["the rig file has changed since some of the records; volumes and media are taken from the present file"]
    return []


def one_tissue(journal: JournalReader, begin: float, end: float) -> None:
    """Raise UserError when people changed the tissue within the period, or a culture came from another rig."""
    for row in journal.entries(kinds=(*TISSUE_ROWS, TAKEN_OVER)):
        at = datetime.fromisoformat(row.utc)
        if begin < at.timestamp() < end:
            after = at + timedelta(minutes=1)  # the options have minutes, and the row has to be before
            raise UserError(
                f"the tissue was changed on {at:%Y-%m-%d %H:%M} UTC ({row.kind}), so the period has the data of two tissues."
                f" Next: --from {after:%Y-%m-%dT%H:%MZ} for the later one, or --to {at:%Y-%m-%dT%H:%MZ} for the earlier one"
            )


def _with_tissue(rig: Rig, records: Records, begin: float) -> Rig:
    """Return the rig with the tissue that lived in it at the begin, by the rig file and what people entered since.

    Raises:
        UserError: None lived in the circulating medium.
    """
    moment = datetime.fromtimestamp(begin, UTC) + timedelta(milliseconds=1)  # so that the first row counts
    with closing(records.journal.until(moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"))) as rows:
        known = TissueRecord(rig, cast(Journal, rows), _Moment(moment)).specs  # it is only read
    living = {name: spec for name, spec in known.items() if name in circulating(rig)}
    if not living:
        raise UserError(
            f"no tissue was in the circulating medium ({', '.join(circulating(rig))}) at the begin of the period, so there"
            " is nothing to fit. Likely cause: it was removed. Next: give a period with tissue by --from and --to"
        )
    return rig.model_copy(update={"tissue": living})


class _Moment(Clock):
    """A clock that stands at one moment."""

    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def now_s(self) -> float:
        return 0.0

    def utc(self) -> datetime:
        return self._moment


def _volumes(rig: Rig, records: Records, begin: float, opened: Entry) -> dict[str, float]:
    """Return the volume of each vessel at the begin (µL), by the ledger."""
    if begin <= seconds(opened) + 600.0:
        return {**{name: vessel.volume_ul for name, vessel in rig.vessels.items()}, **opened.body}
    booked = records.booked(rig, begin)
    if booked is None:
        return {name: vessel.volume_ul for name, vessel in rig.vessels.items()}
    return {name: booked.volumes[name].ul for name in rig.vessels}


def _spent_ul(rig: Rig, volumes: dict[str, float]) -> float:
    kidney = rig.organs.kidney
    return 0.0 if kidney is None else volumes[kidney.vessel]


def _first_estimate(journal: JournalReader, begin: float, end: float) -> tuple[float, dict[str, tuple[float, float]]]:
    """Return the time (UTC s) of the first estimate in a period, and the medium of the loop: value and standard deviation.

    One from before would miss what was moved since.
    """
    for row in journal.entries(kinds=("estimate",)):
        at = datetime.fromisoformat(row.body["as_of"]).timestamp()
        if begin <= at < end:
            loop = {name: Interval.from_json(each) for name, each in row.body["estimate"]["loop"].items()}
            return at, {name: (each.value, max(each.sd, 1e-3)) for name, each in loop.items()}
    raise UserError(
        "the medium at the begin of the period is not known: there is no estimate of it. Next: leave --from out, so that the"
        " fit begins with the fresh medium of the rig file"
    )
