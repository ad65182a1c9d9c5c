"""Reading of data sets of the grid and plain reading of the same files, and the verification of one of many chunks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numcodecs import Blosc

from grid.clock import perf_s
from grid.data.data_sets import DataSet, DataSets
from grid.data.listing import FileRow, Listing, write_listing
from grid.data.loader import DataReader
from grid.data.manifest import Provenance, Sharing
from grid.data.objects import ObjectStore
from grid.identity.keys import IdentityKey

ROWS = 1_000_000
TRIED_ROWS = 500
CHUNKS, FRAMES, CHANNELS = 40, 12_500, 64
ROUNDS = 5


def bench_data() -> dict[str, Any]:
    """Measure both. Keys carry the unit."""
    with tempfile.TemporaryDirectory(prefix="choroid-bench-") as folder:
        return {**_verified(Path(folder)), **_read(Path(folder))}


def _verified(folder: Path) -> dict[str, Any]:
    begin = perf_s()
    root = write_listing(folder, (FileRow(f"a/{n:07d}", n, f"{n:064x}", f"{n:064x}") for n in range(ROWS)))
    made_s, times = perf_s() - begin, []
    with closing(Listing(folder)) as listing:
        for index in np.random.default_rng(1).integers(0, ROWS, TRIED_ROWS).tolist():
            begin = perf_s()
            listing.verified(listing.find(f"a/{index:07d}"), root)
            times.append(1000.0 * (perf_s() - begin))
    return {
        "listing_rows": ROWS,
        "listing_made_s": made_s,
        "row_verified_p50_ms": median(times),
        "row_verified_max_ms (goal 10)": max(times),
    }


def _read(folder: Path) -> dict[str, Any]:
    codec, random = Blosc("zstd", 1, Blosc.BITSHUFFLE), np.random.default_rng(1)
    source = folder / "recording"
    source.mkdir()
    for number in range(CHUNKS):
        samples = random.normal(0.0, 12.0, (FRAMES, CHANNELS)).astype(np.int16)
        (source / f"{number}.0").write_bytes(codec.encode(samples))
    key, sets = IdentityKey.generate(), DataSets(folder / "lab")
    sets.add(source, key, name="bench", sharing=Sharing.MEMBERS, provenance=Provenance())
    store = ObjectStore(folder / "objects")
    with closing(sets.open("bench")) as data:
        with store.filling(1e11, 0):
            kept = sum(store.put(data.row(index).object, data.objects(index, key)) for index in range(CHUNKS))
        ways: dict[str, Callable[[], None]] = {
            "plain": lambda: _plain(source, codec),
            "reader": lambda: _reader(data, store, key, codec),
        }
        rates: dict[str, list[float]] = {name: [] for name in ways}
        megabytes = CHUNKS * FRAMES * CHANNELS * 2 / 1e6
        for _ in range(ROUNDS):
            for name, way in ways.items():
                begin = perf_s()
                way()
                rates[name].append(megabytes / (perf_s() - begin))
    plain, reader = median(rates["plain"]), median(rates["reader"])
    return {
        "plain_mb_per_s": plain,
        "reader_mb_per_s": reader,
        "reader_share_of_plain (goal 0.8)": reader / plain,
        "object_bytes_per_sample_byte": kept / (megabytes * 1e6),
    }


def _plain(source: Path, codec: Blosc) -> None:
    for number in range(CHUNKS):
        codec.decode((source / f"{number}.0").read_bytes())


def _reader(data: DataSet, store: ObjectStore, key: IdentityKey, codec: Blosc) -> None:
    for _, contents in DataReader(data, [lambda row: store.get(row.object)], data.seal(key), seed=1):
        codec.decode(contents)
