"""Recordings as other programs write them: NWB through pynwb; Intan and SpikeGLX by writers after the published formats.

Sources: “RHD2000 Application Note: Data File Formats” and “RHS2000 Data File Formats” (Intan Technologies); “SpikeGLX
Metadata” (Janelia). Nothing here is shared with the readers.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pynwb import NWBHDF5IO, NWBFile
from pynwb.ecephys import ElectricalSeries

Samples = NDArray[np.int16]
FRAMES_IN_BLOCK = 128


def _text(text: str) -> bytes:
    data = text.encode("utf-16-le")
    return struct.pack("<I", len(data)) + data


def _channel(number: int, *, rhs: bool) -> bytes:
    name = f"A-{number:03d}"
    streams = (number, 0, 0) if rhs else (number, 0)
    numbers = struct.pack(f"<{4 + len(streams)}h", number, number, 0, 1, *streams)
    return _text(name) + _text(name) + numbers + struct.pack("<4h2f", 1, 0, 0, 0, 50_000.0, -70.0)


def write_intan(path: Path, samples: Samples, rate: float) -> None:
    """Write a file .rhd (version 3.0) or .rhs (1.0) whose amplifiers gave `samples`, in units of 0.195 µV."""
    rhs = path.suffix == ".rhs"
    count = samples.shape[1]
    head = struct.pack("<Ihhf", 0xD69127AC if rhs else 0xC6912702, 1 if rhs else 3, 0, rate)
    if rhs:
        head += struct.pack("<h8fh2f", 1, 1.0, 1.0, 1000.0, 7500.0, 1.0, 1.0, 1000.0, 7500.0, 0, 1000.0, 1000.0)
        head += struct.pack("<hh3f", 0, 0, 1e-6, 1e-8, 0.0)
    else:
        head += struct.pack("<h6fh2f", 1, 1.0, 0.1, 7500.0, 1.0, 0.1, 7500.0, 0, 1000.0, 1000.0)
    head += _text("") * 3
    head += struct.pack("<hh", 0, 0)  # .rhs: no DC amplifier data, board mode; .rhd: no temperature sensors, board mode
    head += _text("") + struct.pack("<h", 1)
    head += _text("Port A") + _text("A") + struct.pack("<hhh", 1, count, count)
    head += b"".join(_channel(number, rhs=rhs) for number in range(count))
    words = (samples.astype(np.int32) + 32_768).astype("<u2")
    blocks = []
    for first in range(0, len(samples), FRAMES_IN_BLOCK):
        stamps = np.arange(first, first + FRAMES_IN_BLOCK, dtype="<i4")
        block = stamps.tobytes() + words[first : first + FRAMES_IN_BLOCK].T.tobytes()
        blocks.append(block + bytes(2 * FRAMES_IN_BLOCK * count * rhs))
    path.write_bytes(head + b"".join(blocks))


def write_spikeglx(folder: Path, samples: Samples, rate: float) -> Path:
    """Write a run of a Neuropixels 1.0 probe with its sync channel, at gain 500 (2.34 µV); return its .bin file."""
    count = samples.shape[1]
    path = folder / "run_g0_t0.imec0.ap.bin"
    whole = np.concatenate([samples, np.zeros((len(samples), 1), np.int16)], axis=1).astype("<i2")
    path.write_bytes(whole.tobytes())
    meta = {
        "typeThis": "imec", "fileName": f"D:/{path.name}", "fileSizeBytes": whole.nbytes, "firstSample": 0,
        "fileTimeSecs": len(samples) / rate, "imSampRate": rate, "imAiRangeMax": 0.6, "imAiRangeMin": -0.6,
        "imDatPrb_pn": "NP1000", "imDatPrb_type": 0, "imDatPrb_port": 1, "imDatPrb_slot": 2,
        "nSavedChans": count + 1, "snsApLfSy": f"{count},0,1", "snsSaveChanSubset": f"0:{count}",
        "~imroTbl": f"(0,{count})" + "".join(f"({number} 0 0 500 250 1)" for number in range(count)),
        "~snsChanMap": f"({count},0,1)" + "".join(f"(AP{n};{n}:{n})" for n in range(count)) + f"(SY0;{count}:{count})",
    }  # fmt: skip
    text = "".join(f"{key}={value}\n" for key, value in meta.items())
    path.with_suffix(".meta").write_text(text)
    return path


def write_nwb(
    path: Path, samples: NDArray[np.generic], rate: float, conversion: float, gap_at: int = 0, **columns: Any
) -> None:
    """Write an NWB file; with `gap_at` its timestamps jump by 100 frames there. `columns` are those of its electrodes."""
    began = datetime(2026, 1, 1, tzinfo=UTC)
    nwb = NWBFile(session_description="noise", identifier="noise-1", session_start_time=began)
    group = nwb.create_electrode_group(
        name="array", description="array", location="cortex", device=nwb.create_device(name="array")
    )
    for name in columns.keys() - {"rel_x", "rel_y"}:
        nwb.add_electrode_column(name, name)
    for number in range(samples.shape[1]):
        nwb.add_electrode(group=group, location="cortex", **{name: values[number] for name, values in columns.items()})
    region = nwb.create_electrode_table_region(region=list(range(samples.shape[1])), description="all")
    times = np.arange(len(samples)) / rate
    times[gap_at:] += 100 / rate if gap_at else 0.0
    when = {"timestamps": times} if gap_at else {"rate": rate}
    nwb.add_acquisition(ElectricalSeries(name="raw", data=samples, electrodes=region, conversion=conversion, **when))
    with NWBHDF5IO(str(path), "w") as file:
        file.write(nwb)
