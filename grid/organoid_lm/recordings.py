"""Read a recording of spikes and pulses from a file: `.npz`, `.safetensors` or `.parquet`.

Arrays of `.npz` and `.safetensors`: `electrode` and `at_s` of each spike, `pulse_electrode` and `pulse_at_s` of each pulse,
`place_um` of each electrode (E, 2), `seconds`. Rows of `.parquet`: `electrode`, `at_s` and `pulse` (true: a pulse, false: a
spike). `organoid` is an array of one text in `.npz`, and metadata of the file in the two others; so are `place_um` and
`seconds` in Parquet (JSON).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SUFFIXES = (".npz", ".safetensors", ".parquet")
ARRAYS = ("electrode", "at_s", "pulse_electrode", "pulse_at_s", "place_um", "seconds")


class RecordingError(Exception):
    """A recording that cannot be read. The message says what to do."""


@dataclass(frozen=True, slots=True)
class OrganoidRecording:
    """Spikes and pulses of one organoid, each in the order of time. Times are seconds from its begin."""

    organoid: str
    seconds: float
    place_um: NDArray[np.float64]
    electrode: NDArray[np.int64]
    at_s: NDArray[np.float64]
    pulse_electrode: NDArray[np.int64]
    pulse_at_s: NDArray[np.float64]

    @property
    def electrodes(self) -> int:
        """Return the number of electrodes."""
        return len(self.place_um)

    def between(self, begin_s: float, end_s: float) -> OrganoidRecording:
        """Return what it holds from one time to another, as a recording of its own."""
        end_s = min(end_s, self.seconds)
        spikes = slice(*np.searchsorted(self.at_s, (begin_s, end_s)))
        pulses = slice(*np.searchsorted(self.pulse_at_s, (begin_s, end_s)))
        return OrganoidRecording(
            self.organoid,
            end_s - begin_s,
            self.place_um,
            self.electrode[spikes],
            self.at_s[spikes] - begin_s,
            self.pulse_electrode[pulses],
            self.pulse_at_s[pulses] - begin_s,
        )


def recordings_of(folder: Path) -> list[Path]:
    """Return the files of the recordings in a folder, by name."""
    return sorted(each for each in folder.iterdir() if each.suffix in SUFFIXES) if folder.is_dir() else []


def read_recording(path: Path) -> OrganoidRecording:
    """Return the recording in a file.

    Raises:
        RecordingError: It is no such file, or its arrays do not fit together.
    """
    readers = {".npz": _npz, ".safetensors": _safetensors, ".parquet": _parquet}
    reader = readers.get(path.suffix)
    if reader is None:
        raise RecordingError(f"{path}: unknown format. Next: give a file that ends with {', '.join(SUFFIXES)}")
    try:
        organoid, arrays = reader(path)
    except Exception as error:
        raise RecordingError(
            f"{path}: it cannot be read ({type(error).__name__}: {error}). Likely cause: it is incomplete, or something else"
            f" than a recording. Next: write it again with the arrays {', '.join(ARRAYS)}"
        ) from error
    return _checked(path, organoid, arrays)


def _npz(path: Path) -> tuple[str, dict[str, Any]]:
    with np.load(path, allow_pickle=False) as file:
        return str(file["organoid"]), {name: file[name] for name in ARRAYS}


def _safetensors(path: Path) -> tuple[str, dict[str, Any]]:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        return str((file.metadata() or {})["organoid"]), {name: file.get_tensor(name) for name in ARRAYS}


def _parquet(path: Path) -> tuple[str, dict[str, Any]]:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    about = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    electrode, at_s, pulse = (table[name].to_numpy() for name in ("electrode", "at_s", "pulse"))
    return about["organoid"], {
        "electrode": electrode[~pulse],
        "at_s": at_s[~pulse],
        "pulse_electrode": electrode[pulse],
        "pulse_at_s": at_s[pulse],
        "place_um": np.array(json.loads(about["place_um"])),
        "seconds": np.array(json.loads(about["seconds"])),
    }


def _checked(path: Path, organoid: str, arrays: Mapping[str, Any]) -> OrganoidRecording:
    place_um = np.asarray(arrays["place_um"], np.float64)
    seconds = float(np.asarray(arrays["seconds"], np.float64).reshape(()))
    wrong = list(_faults(place_um, seconds, arrays))
    if not organoid:
        wrong.append("`organoid` is empty")
    if wrong:
        raise RecordingError(f"{path}: {'; '.join(wrong)}. Next: correct the program that wrote it")
    spikes, pulses = (np.argsort(arrays[name], kind="stable") for name in ("at_s", "pulse_at_s"))
    return OrganoidRecording(
        organoid,
        seconds,
        place_um,
        np.asarray(arrays["electrode"], np.int64)[spikes],
        np.asarray(arrays["at_s"], np.float64)[spikes],
        np.asarray(arrays["pulse_electrode"], np.int64)[pulses],
        np.asarray(arrays["pulse_at_s"], np.float64)[pulses],
    )


def _faults(place_um: NDArray[np.float64], seconds: float, arrays: Mapping[str, Any]) -> Iterator[str]:
    if place_um.ndim != 2 or place_um.shape[1:] != (2,) or not len(place_um) or not np.isfinite(place_um).all():
        yield "`place_um` is not a finite array of shape (electrodes, 2)"
        return
    if not 0.0 < seconds < 1e9:
        yield f"`seconds` is {seconds:g}"
    for electrode, at_s in (("electrode", "at_s"), ("pulse_electrode", "pulse_at_s")):
        which, when = np.asarray(arrays[electrode]), np.asarray(arrays[at_s])
        if which.ndim != 1 or which.shape != when.shape or which.dtype.kind not in "iu" or when.dtype.kind != "f":
            yield f"`{electrode}` and `{at_s}` are not whole and real numbers of the same length"
        elif len(which) and not (which.min() >= 0 and which.max() < len(place_um)):
            yield f"`{electrode}` names an electrode that `place_um` does not have"
        elif len(when) and not (when.min() >= 0.0 and when.max() <= seconds):
            yield f"`{at_s}` lies outside 0 to {seconds:g} s"
