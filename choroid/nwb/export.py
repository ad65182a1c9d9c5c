"""Write a recording as an NWB file: samples, spikes, stimulation, electrodes and environment, all on the array's clock.

Times count from the first frame; the clock model of the recording turns the UTC of the rig's readings into them. Samples stay
int16: volts are sample × `conversion`. Neo knows no factor that is no power of ten, and refuses every ElectricalSeries of the
acquisition: in the form for Neo samples are microvolts, and the acquisition has them as plain series.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from hdmf.backends.hdf5.h5_utils import H5DataIO
from hdmf.data_utils import GenericDataChunkIterator
from numpy.typing import NDArray
from pynwb import NWBHDF5IO, NWBFile, ProcessingModule, TimeSeries
from pynwb.ecephys import ElectricalSeries
from pynwb.epoch import TimeIntervals
from pynwb.file import Subject
from pynwb.misc import AnnotationSeries, Units

from choroid.export.tables import utc_text
from choroid.nwb.environment import Environment, EnvironmentSeries, environment
from choroid.sorting.stored import SortedUnits, read_units
from controller.core.whole_file import whole_file
from nerves.cards.geometry import ArrayGeometry
from nerves.recording.layout import NO_FRAME, FateCode, GapCause
from nerves.recording.recorded import ArrayRecording, RecordedSegment

FATES = {int(fate): fate.name.lower() for fate in FateCode}
MICROVOLT = 1e-6
REGULAR_S = 1e-9


@dataclass(frozen=True, slots=True)
class NwbHeader:
    """What people say of the file. `species` in Latin; `experimenter` as “Last, First”."""

    species: str = "Homo sapiens"
    experimenter: str = ""
    institution: str = ""
    lab: str = ""


class _Samples(GenericDataChunkIterator):  # type: ignore[misc]
    """The samples of a segment, read piece by piece: as they are, or as float32 times `scale`."""

    def __init__(self, segment: RecordedSegment, scale: float | None) -> None:
        self._segment = segment
        self._scale = None if scale is None else np.float32(scale)
        rows, electrodes = segment.traces.shape
        chunk = (min(segment.traces.chunk_rows, rows), min(64, electrodes))
        buffer = (min(-(-50_000 // chunk[0]) * chunk[0], rows), electrodes)
        super().__init__(buffer_shape=buffer, chunk_shape=chunk)

    def _get_data(self, selection: tuple[slice, ...]) -> NDArray[Any]:
        rows, electrodes = selection
        samples: NDArray[Any] = self._segment.traces.read(rows.start, rows.stop)[:, electrodes]
        return samples if self._scale is None else samples * self._scale

    def _get_maxshape(self) -> tuple[int, ...]:
        return self._segment.traces.shape

    def _get_dtype(self) -> np.dtype[Any]:
        return self._segment.traces.dtype if self._scale is None else np.dtype(np.float32)


def export_nwb(
    recording: ArrayRecording, data: Path, out: Path, header: NwbHeader, *, for_neo: bool = False
) -> dict[str, Any]:
    """Write a recording as an NWB file; `out` appears when it is complete.

    Args:
        recording: The recording.
        data: The data folder with the rig's history and journal.
        out: The file to make.
        header: What people say of the file.
        for_neo: Whether it is in the form that Neo reads as it is; about twice as large.

    Returns:
        What was written, for people.

    Raises:
        ValueError: The recording has no frames or no clock, or is damaged.
        FileExistsError: There is such a file.
    """
    if out.exists():
        raise FileExistsError(f"{out} exists. Likely cause: an earlier export. Next: name another file, or remove it")
    writer = _Writer(recording, data, header, for_neo)
    with whole_file(out) as partial:
        written = writer.write(partial)
    return {"file": str(out), "bytes": out.stat().st_size, **written}


class _Writer:
    """One export."""

    def __init__(self, recording: ArrayRecording, data: Path, header: NwbHeader, for_neo: bool) -> None:
        self._recording = recording
        self._for_neo = for_neo
        self._data = data
        self._header = header
        self._sorted = read_units(recording)
        self._clock = recording.clock
        self._rate = recording.sample_rate_hz
        self._segments = [segment for segment in recording.segments if len(segment.traces)]
        self._first, self._end = recording.extent

    def _at_s(self, frame: float) -> float:
        """Return the time of a frame, rounded to a nanosecond."""
        return round((frame - self._first) / self._rate, 9)

    def _utc_to_s(self, utc_s: float) -> float:
        return max(self._at_s(self._clock.frame_at(utc_s * 1e6)), 0.0)

    def write(self, path: Path) -> dict[str, Any]:
        begin, end = (self._clock.utc_us_at(frame) / 1e6 for frame in (self._first, self._end))
        found = environment(self._data, begin, end, self._utc_to_s, utc_text)
        file = self._file(found)
        self._electrodes(file)
        for number, segment in enumerate(self._segments):
            self._series(file, number, segment)
        spikes = self._spikes(file)
        sorted_units = self._units(file)
        pulses = self._stimulation(file)
        self._gaps(file)
        self._environment(file, found)
        # By its path HDF5 cannot open a file without a name (:mod:`controller.core.whole_file`).
        with path.open("w+b") as bytes_, h5py.File(bytes_, "w") as store, NWBHDF5IO(file=store, mode="w") as io:
            io.write(file)
        return {
            "segments": len(self._segments),
            "frames": self._recording.frames,
            "spikes": spikes,
            "sorted_units": sorted_units,
            "pulses": pulses,
            "environment_series": len(found.series),
            "transfers": len(found.transfers),
            "without_environment": found.problem,
        }

    def _file(self, found: Environment) -> NWBFile:
        said, header = self._recording.attributes, self._header
        began = self._clock.utc_at(self._first)
        notes: dict[str, Any] = {
            "recording": said,
            "clock": {"drift_ppm": self._clock.drift_ppm, "residual_us": self._clock.residual_us},
        }
        if found.problem:
            notes["environment"] = found.problem
        file = NWBFile(
            session_description=f"Electrode recording of {self._identity('rig')}: {said['reason'] or said['trigger']}",
            identifier="/".join((*self._rig, self._recording.name, str(said["started_utc"]))),
            session_start_time=began,
            session_id=self._recording.name,
            experimenter=[header.experimenter] if header.experimenter else None,
            institution=header.institution or None,
            lab=header.lab or None,
            experiment_description=str(self._recording.attributes["identity"].get("description") or "") or None,
            notes=json.dumps(notes, ensure_ascii=False),
            source_script=str(said["software"]),
            source_script_file_name="choroid recording export",
        )
        file.subject = self._subject(began)
        return file

    @property
    def _rig(self) -> tuple[str, ...]:
        """Name and identity of the rig; a recording without a controller has no identity."""
        rig_id = self._recording.attributes["identity"].get("rig_id")
        return (self._identity("rig"), *([str(rig_id)] if rig_id else []))

    def _identity(self, key: str) -> str:
        return str(self._recording.attributes["identity"].get(key, "rig"))

    def _subject(self, began: datetime) -> Subject:
        """Return the tissue; several chambers are named in its description."""
        tissues: dict[str, dict[str, Any]] = self._recording.attributes["identity"].get("tissue", {})
        ages = [_age_d(each, began) for each in tissues.values()]
        said = "; ".join(
            f"{chamber}: {each.get('count', '?')} organoids, batch {each.get('batch') or 'not stated'}, cell line"
            f" {each.get('cell_line') or 'not stated'}"
            for chamber, each in tissues.items()
        )
        names = "-".join(tissues) or "tissue"
        return Subject(
            subject_id="-".join((*self._rig, names)).replace("/", "-")[:200],
            description=said or "brain organoids; the rig file has no tissue",
            species=self._header.species,
            age=f"P{max(ages, default=0)}D",
            sex="U",
        )

    def _electrodes(self, file: NWBFile) -> None:
        array = self._recording.attributes["array"]
        geometry = self._recording.geometry
        said = f"{array['name']}; {array['material']} electrodes of {array['diameter_um']:g} um"
        module = "" if geometry is None or not geometry.module else f"{geometry.module}: "
        device = file.create_device(name="array", description=f"{module}{said}")
        where = "positions are not known" if geometry is None else f"positions: {geometry.source}"
        group = file.create_electrode_group(
            name="array", description=f"{array['name']}; {where}", location="brain organoid", device=device
        )
        for name, text in _ELECTRODE_COLUMNS.items():
            if geometry is not None or name == "channel_name":
                file.add_electrode_column(name, text)
        for number, kohm in enumerate(self._recording.attributes["impedance_kohm"]):
            file.add_electrode(
                group=group,
                location="brain organoid",
                imp=float("nan") if kohm is None else kohm * 1e3,
                filtering="none: raw samples of the converter",
                channel_name=f"e{number}",
                **({} if geometry is None else _placed(geometry, number)),
            )

    def _series(self, file: NWBFile, number: int, segment: RecordedSegment) -> None:
        """Add a segment: to the acquisition; for Neo to a processing module, with a plain view of it in the acquisition."""
        gain_uv = self._recording.uv_per_unit
        scale = gain_uv if self._for_neo else None
        conversion = MICROVOLT * (1.0 if self._for_neo else gain_uv)
        timing = {"rate": self._rate, "starting_time": self._at_s(segment.first_frame)}
        series = ElectricalSeries(
            name=f"ElectricalSeries{number or ''}",
            description="raw samples; volts are sample x conversion",
            data=H5DataIO(_Samples(segment, scale), compression="gzip", compression_opts=1, shuffle=True),
            electrodes=file.create_electrode_table_region(list(range(self._recording.electrodes)), "all electrodes"),
            conversion=conversion,
            **timing,
        )
        if not self._for_neo:
            file.add_acquisition(series)
            return
        self._module(file).add(series)
        told = {"probegroup": self._recording.attributes.get("probegroup")}
        file.add_acquisition(
            TimeSeries(
                name=f"voltage{number or ''}",
                description=json.dumps({"of": f"processing/ecephys/{series.name}", **told}),
                data=series,
                unit="volts",
                conversion=conversion,
                **timing,
            )
        )

    def _spikes(self, file: NWBFile) -> int:
        """Add the detected spikes: one unit for each electrode that has any; apart from the units of a sorter."""
        spikes = self._recording.table("spikes")
        spikes = spikes[(spikes["frame"] >= self._first) & (spikes["frame"] < self._end)]
        trains = {
            f"e{electrode}": ([int(electrode)], np.sort(spikes["frame"][spikes["electrode"] == electrode]))
            for electrode in np.unique(spikes["electrode"])
        }
        if self._sorted is None and trains:
            file.units = self._table(file, "units", "detected spikes of each electrode, not sorted", trains)
        elif trains:
            table = self._table(file, "detected_spikes", "detected spikes of each electrode, not sorted", trains)
            self._module(file).add(table)
        return len(spikes)

    def _units(self, file: NWBFile) -> int:
        """Add the units of a sorter with their quality metrics; return how many there are."""
        found = self._sorted
        if found is None:
            return 0
        trains = {f"unit {each.unit}": ([each.electrode], found.train(each.unit)) for each in found.units}
        said = f"units by {found.said['sorter']} of SpikeInterface {found.said['spikeinterface']}"
        if not trains:
            return 0
        table = file.units = self._table(file, "units", said, trains, int(found.said["end_frame"]))
        for name, text in _unit_columns(found).items():
            values = [each.metrics.get(name, getattr(each, name, None)) for each in found.units]
            if any(value is not None for value in values):
                table.add_column(name, text, data=[float("nan") if value is None else value for value in values])
        return len(found.units)

    def _table(
        self,
        file: NWBFile,
        name: str,
        text: str,
        trains: Mapping[str, tuple[list[int], NDArray[np.int64]]],
        until: int | None = None,
    ) -> Units:
        """Return spike times by unit: electrodes and frames by the name of each; those from `until` on were not looked at."""
        table = Units(name=name, description=text, electrode_table=file.electrodes)
        table.add_column("unit_name", "name of the unit; of spikes that are not sorted, of the electrode")
        intervals = [[self._at_s(first), self._at_s(end)] for first, end in self._observed(until)]
        if self._for_neo:  # it takes one only; the gaps are among the invalid times
            intervals = [[intervals[0][0], intervals[-1][1]]]
        for unit, (electrodes, frames) in trains.items():
            times = np.round((frames - self._first) / self._rate, 9)
            table.add_unit(spike_times=times, obs_intervals=intervals, electrodes=electrodes, unit_name=unit)
        table.resolution = 1.0 / self._rate
        return table

    def _observed(self, until: int | None) -> list[tuple[int, int]]:
        """Return the stretches in which spikes were looked for: the segments; without samples, all but the gaps."""
        found = [(each.first_frame, each.end_frame) for each in self._segments]
        if not found:
            gaps = self._recording.table("gaps")
            starts = [self._first, *map(int, np.sort(gaps["end_frame"]))]
            found = list(zip(starts, [*map(int, np.sort(gaps["first_frame"])), self._end], strict=True))
        end = self._end if until is None else until
        return [(first, min(last, end)) for first, last in found if first < min(last, end)]

    def _module(self, file: NWBFile) -> ProcessingModule:
        """Return the processing module of electrophysiology, which is made when it is needed."""
        return file.processing.get("ecephys") or file.create_processing_module("ecephys", "samples and spikes")

    def _stimulation(self, file: NWBFile) -> int:
        """Add each pulse that was planned: who asked for it, its waveform, and what became of it."""
        pulses = self._recording.table("pulses")
        if not len(pulses):
            return 0
        asked = {each["decision"]: each for each in self._recording.log("stimulation")}
        last = {int(row["pulse"]): row for row in self._recording.table("fates")}
        table = TimeIntervals(
            name="electrical_stimulation", description="each pulse, on one electrode or on several at the same time"
        )
        table.add_column("electrodes_stimulated", "numbers of the electrodes in the table of electrodes", index=True)
        for name, text in _PULSE_COLUMNS.items():
            table.add_column(name, text)
        at_once: dict[tuple[Any, ...], tuple[dict[str, Any], list[int]]] = {}
        for row in pulses:
            pulse = self._pulse(row, asked, last.get(int(row["pulse"])))
            key = (pulse["start_time"], pulse["decision"], pulse["fate"])
            at_once.setdefault(key, (pulse, []))[1].append(int(row["electrode"]))
        for pulse, electrodes in sorted(at_once.values(), key=lambda each: float(each[0]["start_time"])):
            table.add_row(electrodes_stimulated=sorted(electrodes), **pulse)
        file.add_time_intervals(table)
        _add_each_pulse(file, at_once.values())
        return len(pulses)

    def _pulse(self, row: Any, asked: dict[int, dict[str, Any]], fate: Any) -> dict[str, Any]:
        request = asked.get(int(row["decision"]), {})
        phases = [(float(us), float(ua)) for us, ua in request.get("phases", [])]
        delivered = fate is not None and int(fate["frame"]) != NO_FRAME
        frame = int(fate["frame"]) if delivered else int(row["at_frame"])
        begin = self._at_s(frame)
        return {
            "start_time": begin,
            "stop_time": begin + sum(us for us, _ in phases) * 1e-6,
            "fate": "planned" if fate is None else FATES[int(fate["fate"])],
            "planned_time": self._at_s(int(row["at_frame"])),
            "sample_index": frame - self._first,
            "decision": int(row["decision"]),
            "requester": str(request.get("requester", "unknown")),
            "purpose": str(request.get("purpose") or "not stated"),
            "phases": json.dumps(phases),
            "charge_nc": float(request.get("charge_nc", float("nan"))),
            "net_charge_pc": sum(us * ua for us, ua in phases),
        }

    def _gaps(self, file: NWBFile) -> None:
        gaps = self._recording.table("gaps")
        if not len(gaps):
            return
        for name, text in (("cause", "array: lost by the array; writer: lost by the recording"),):
            file.add_invalid_times_column(name, text)
        for row in sorted(gaps, key=lambda each: int(each["first_frame"])):
            file.add_invalid_time_interval(
                start_time=max(self._at_s(int(row["first_frame"])), 0.0),
                stop_time=max(self._at_s(int(row["end_frame"])), 0.0),
                cause=GapCause(int(row["cause"])).name.lower(),
            )

    def _environment(self, file: NWBFile, found: Environment) -> None:
        for series in found.series:
            file.add_acquisition(_time_series(series))
        if not found.transfers:
            return
        table = TimeIntervals(name="medium_transfers", description="transfers of medium that the rig's ledger booked")
        for name, text in (("line", "name in the rig file"), ("ul", "volume (uL)"), ("sd_ul", "its standard deviation (uL)"),
                           ("source", "what measured it")):  # fmt: skip
            table.add_column(name, text)
        for each in sorted(found.transfers, key=lambda one: one.begin_s):
            table.add_row(
                start_time=each.begin_s,
                stop_time=each.end_s,
                line=each.line,
                ul=each.ul,
                sd_ul=each.sd_ul,
                source=each.source,
            )
        file.add_time_intervals(table)


def _add_each_pulse(file: NWBFile, at_once: Iterable[tuple[dict[str, Any], list[int]]]) -> None:
    """Add one event for each pulse of each electrode: intervals that overlap become one in some readers, events do not."""
    events = sorted(
        (pulse["start_time"], electrode, f"electrode {electrode} {pulse['fate']}: decision {pulse['decision']}")
        for pulse, electrodes in at_once
        for electrode in electrodes
    )
    file.add_stimulus(
        AnnotationSeries(
            name="stimulation_pulses",
            description="each pulse of each electrode, with its fate and its decision in electrical_stimulation",
            data=[text for _, _, text in events],
            timestamps=[at for at, _, _ in events],
        )
    )


def _unit_columns(found: SortedUnits) -> dict[str, str]:
    """Return the columns of sorted units with what they mean: places, and metrics of SpikeInterface."""
    places = {name: f"{name[0]} of the unit, as rel_{name[0]} of electrodes" for name in ("x_um", "y_um")}
    return places | {name: f"{name}, as SpikeInterface defines it" for each in found.units for name in each.metrics}


_ELECTRODE_COLUMNS = {
    "channel_name": "name of the electrode",
    "contact_id": "name of the electrode on the chip",
    "shank_id": "name of the shank, or of one chip among several; empty for the only one",
    "contact_shape": "circle, square or rect",
    "contact_width_um": "diameter of a circle, else the width (um)",
    "contact_height_um": "diameter of a circle, else the height (um)",
}


def _placed(geometry: ArrayGeometry, number: int) -> dict[str, Any]:
    """Return where an electrode is, and of which form; um, x to the right and y up."""
    return {
        "rel_x": geometry.x_um[number],
        "rel_y": geometry.y_um[number],
        "reference": geometry.reference or "not stated",
        "contact_id": geometry.pad[number],
        "shank_id": geometry.shank[number],
        "contact_shape": geometry.shape[number],
        "contact_width_um": geometry.width_um[number],
        "contact_height_um": geometry.height_um[number],
    }


_PULSE_COLUMNS = {
    "fate": "delivered, dropped, cancelled, unknown, handed or planned; start_time is planned if it was not delivered",
    "planned_time": "time at which it was planned (s)",
    "sample_index": "frame of the begin after the first frame of the recording",
    "decision": "number in the stimulation ledger",
    "requester": "agent that asked for it",
    "purpose": "what the agent said it was for",
    "phases": "JSON: duration (us) and current (uA) of each phase",
    "charge_nc": "charge that it moves on each electrode: sum of the magnitudes of its phases (nC)",
    "net_charge_pc": "net charge (pC)",
}


def _age_d(tissue: dict[str, Any], began: datetime) -> int:
    """Return the age of a tissue at the recording in whole days."""
    age = float(tissue.get("age_d", 0.0))
    on = tissue.get("age_on")
    if on:
        age += max((began - datetime.fromisoformat(on).replace(tzinfo=UTC)).total_seconds() / 86_400, 0.0)
    return round(age)


def _time_series(each: EnvironmentSeries) -> TimeSeries:
    """Return a point's readings; such at regular times with a rate."""
    times = np.round(each.times_s, 9)
    steps = np.diff(times)
    timing: dict[str, Any] = {"timestamps": times}
    if len(steps) > 1 and np.ptp(steps) <= REGULAR_S and steps[0] > 0:
        timing = {"starting_time": float(times[0]), "rate": float(1 / steps[0])}
    held = (
        f"; the first was read {each.held_s:.1f} s before the recording and stands at its begin" if each.held_s else ""
    )
    return TimeSeries(
        name=each.point.replace("/", "_"),
        description=f"readings of {each.point} of good quality{held}",
        data=each.values,
        unit=each.unit or "1",
        **timing,
    )
