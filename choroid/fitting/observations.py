"""What was measured of the medium in a period: assays, probes on line, levels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from choroid.common.failure import UserError
from choroid.fitting.series import means, seconds
from controller.journal.reader import JournalReader
from controller.memory.history_reader import HistoryReader
from controller.rig.description import Rig
from controller.rig.families import points_of
from controller.rig.perfusion import circulating
from controller.rig.probes import culture_places
from sim.plant.circulating import LOOP, SPENT, SeenColumn

READ_EVERY_S = 6 * 3600.0
"""Readings are thinned to this: errors of a probe last longer, so that more of them would say no more."""
NEAR_S = 7200.0
"""Readings so near count as one."""
MIN_SAMPLES = 3
"""Moments at which lactate or glucose was measured."""
ANALYTE_COLUMNS = {
    "lactate": SeenColumn.LACTATE,
    "glucose": SeenColumn.GLUCOSE,
    "ammonia": SeenColumn.AMMONIA,
    "glutamine": SeenColumn.GLUTAMINE,
    "osmolality": SeenColumn.OSMOLALITY,
    "bicarbonate": SeenColumn.BICARBONATE,
}
PROBES = {
    "lactate": SeenColumn.LACTATE,
    "glucose": SeenColumn.GLUCOSE,
    "ammonia": SeenColumn.AMMONIA,
    "oxygen": SeenColumn.OXYGEN,
    "pH": SeenColumn.PH,
}
"""Quantities of probes in the medium."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured value: `signal` is what it is of, for people; `source` what errors it shares with others."""

    at_s: float
    """From the begin."""
    signal: str
    source: str
    kind: str
    """`assay`, `probe` or `level`."""
    body: int
    column: int
    value: float
    sd: float
    """Of this value alone."""


def observations(
    rig: Rig, journal: JournalReader, history: HistoryReader, begin: float, end: float
) -> list[Observation]:
    """Return what was measured between two times (UTC s), in order."""
    found = [*_assays(journal, begin, end), *_readings(rig, history, begin, end), *_levels(rig, journal, begin, end)]
    return sorted(found, key=lambda each: each.at_s)


def _assays(journal: JournalReader, begin: float, end: float) -> Iterator[Observation]:
    for row in journal.entries(kinds=("assay",)):
        body = row.body
        taken = datetime.fromisoformat(body["taken_utc"]).timestamp()
        if not begin < taken < end or not body["used"] or body["analyte"] not in ANALYTE_COLUMNS:
            continue
        spent = body["where"] == "spent"
        yield Observation(
            taken - begin, f"{body['analyte']}{' (spent)' if spent else ''}", f"assays of {body['analyte']}", "assay",
            SPENT if spent else LOOP, ANALYTE_COLUMNS[body["analyte"]], float(body["value"]), float(body["sd"]),
        )  # fmt: skip


def _readings(rig: Rig, history: HistoryReader, begin: float, end: float) -> Iterator[Observation]:
    """Yield the readings of probes in the circulating medium, thinned; those of oxygen in a chamber are of the chambers."""
    chambers = {name for name in circulating(rig) if rig.vessels[name].kind == "chamber"}
    for point, kind in points_of(rig).items():
        place = rig.devices[point.partition(".")[0]].at
        if kind.quantity not in PROBES or place not in culture_places(rig):
            continue
        times, values = means(history, point, begin, end)
        column = PROBES[kind.quantity]
        body = SPENT if column is SeenColumn.OXYGEN and place in chambers else LOOP
        signal = f"{kind.quantity} {'of the chambers' if body == SPENT else 'on line'}"
        for number in range(1, int((end - begin) / READ_EVERY_S) + 1):
            at = number * READ_EVERY_S
            near = np.abs(times - begin - at) <= NEAR_S
            if near.any():
                yield Observation(at, signal, point, "probe", body, column, float(values[near].mean()), 0.0)


def _levels(rig: Rig, journal: JournalReader, begin: float, end: float) -> Iterator[Observation]:
    """Yield the readings of the loop's level; the chambers behind it are as full as the rig file says."""
    loop = rig.loop
    chambers_ul = sum(rig.vessels[name].volume_ul for name in circulating(rig) if name != loop)
    for row in journal.entries(kinds=("ledger.level",)):
        at = seconds(row)
        if row.body["vessel"] == loop and begin < at < end:
            ul = float(row.body["ul"]) + chambers_ul
            yield Observation(
                at - begin, "volume", "level", "level", LOOP, SeenColumn.VOLUME, ul, max(float(row.body["sd_ul"]), 10.0)
            )


def enough(found: Sequence[Observation]) -> None:
    """Raise UserError unless metabolites were measured often enough."""
    metabolic = {each.at_s for each in found if each.column in (SeenColumn.LACTATE, SeenColumn.GLUCOSE)}
    if not metabolic:
        raise UserError(
            "lactate and glucose were never measured in the period: no assay and no sensor on line. Next: enter assays with"
            ' `choroid assay enter lactate "8.2 mM" --vessel loop`'
        )
    if len(metabolic) < MIN_SAMPLES:
        raise UserError(
            f"lactate and glucose were measured at {len(metabolic)} moments only; a fit needs {MIN_SAMPLES} or more. Next:"
            " enter more assays, or give a longer period"
        )
