"""The culture as a data source of cl-sdk's simulator: what it gives, and the real cl-sdk on it, application packages too.

cl-sdk runs in an environment of its own, from Python 3.12 on. It is not a dependency.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import choroid.client.cl as cl
from choroid.client.cl.data_streams import DataStream
from choroid.client.cl.recording_file import write_recording
from choroid.simulation.cl_source import DelayedCulture, culture
from sim.neurons.twins import Twin
from tests.clients.environments import environment, python_from

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "cl_programs"
PULSE = [(160.0, -1.0), (160.0, 1.0)]


def test_frames_and_spikes_do_not_depend_on_how_they_are_read() -> None:
    one, other = DelayedCulture(16, 3, Twin.PLASTIC), DelayedCulture(16, 3, Twin.PLASTIC)
    frames, spikes = one.read(1000, 25_000)
    parts = [other.read(1000 + at, 1000) for at in range(0, 25_000, 1000)]
    assert np.array_equal(np.concatenate([part[0] for part in parts]), frames)
    assert [spike[:2] for part in parts for spike in part[1]] == [spike[:2] for spike in spikes]
    assert len(spikes) > 10
    for timestamp, channel, samples, mean in spikes:
        at = timestamp - 1000
        if 25 <= at < 24_950:
            assert np.allclose(samples + mean, frames[at - 25 : at + 50, channel] * 0.195, atol=1e-3)
    skipped, _ = one.read(30_000, 10)
    other.read(26_000, 4000)
    assert np.array_equal(other.read(30_000, 10)[0], skipped)
    with pytest.raises(ValueError, match="has passed"):
        one.read(1000, 10)


def stimulated(twin: Twin) -> list[tuple[int, int]]:
    """The spikes of 12 s in which five pairs of pulses a second are given."""
    tissue, found = DelayedCulture(16, 3, twin), []
    for at in range(0, 12 * 25_000, 5000):
        for channel, delay in ((4, 100), (5, 350)):
            tissue.stimulate(at + delay, channel, PULSE)
        found += [spike[:2] for spike in tissue.read(at, 5000)[1]]
    return found


def test_the_culture_learns_from_pulses_and_its_frozen_control_does_not() -> None:
    learning, frozen = stimulated(Twin.PLASTIC), stimulated(Twin.FROZEN)
    assert stimulated(Twin.PLASTIC) == learning
    assert stimulated(Twin.FROZEN) == frozen
    assert learning != frozen


def test_pulses_evoke_spikes() -> None:
    tissue = DelayedCulture(16, 3, Twin.FROZEN)
    before = after = 0
    for at in range(0, 5 * 25_000, 5000):
        for channel in (4, 5):
            tissue.stimulate(at + 2500, channel, PULSE)
        found = [spike[0] - at for spike in tissue.read(at, 5000)[1]]
        before += sum(1900 <= frame < 2500 for frame in found)
        after += sum(2600 <= frame < 3200 for frame in found)
    assert after > 3 * before


def test_without_cl_sdk_there_is_no_source() -> None:
    with pytest.raises(ImportError, match="cl"):
        culture()


@pytest.fixture(scope="module")
def sdk() -> Path:
    """The Python of an environment with cl-sdk."""
    base = python_from(12)
    if base is None:
        pytest.skip("cl-sdk needs Python 3.12 or newer, which is not on this machine")
    return environment("cl-sdk>=1.0,<2", "numba>=0.68,<1", base=base)


STARTS = 5
"""cl-sdk gives its own process 15 s to start, which a busy machine may need to import numba."""


def run_sdk(python: Path, folder: Path, *words: str, source: str = "culture") -> str:
    own = {
        "CL_SDK_DATA_SOURCE": f"choroid.simulation.cl_source:{source}",
        "CL_SDK_VISUALISATION": "0",
        "PYTHONPATH": str(ROOT),
    }
    for _ in range(STARTS):
        done = subprocess.run([python, "-P", *words], cwd=folder, env=os.environ | own, capture_output=True, text=True)
        if "Producer did not start within timeout" not in done.stderr:
            break
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("source", ["culture", "frozen_culture"])
def test_an_application_package_of_cl_sdk_runs_on_the_culture_by_one_setting(
    sdk: Path, tmp_path: Path, source: str
) -> None:
    run_sdk(sdk, tmp_path, "-m", "cl.app.init", "evoked")
    package = tmp_path / "evoked"
    (package / "src" / "app.py").write_text((PROGRAMS / "tissue_app.py").read_text())
    (package / "src" / "__init__.py").write_text("from .app import Evoked\n\napplication = Evoked()\n")
    run_sdk(sdk, tmp_path, "-m", "cl.app.pack", "evoked")
    with zipfile.ZipFile(tmp_path / "evoked.zip") as packed:
        assert any(name.endswith("src/app.py") for name in packed.namelist())
    said = run_sdk(sdk, tmp_path, "-m", "cl.app.run", "evoked", "evoked/default.json", "out", source=source)
    found = re.search(r"'data': (\{[^}]*\})", said)
    assert found, said
    summary = json.loads(found[1].replace("'", '"'))
    assert summary["stims"] == 120
    assert summary["after"] > 1.5 * summary["before"]
    assert summary["troughs"] > 0.8 * summary["spikes"] > 0
    (file,) = (tmp_path / "out").glob("*.h5")
    with cl.RecordingView(file) as recorded:  # a file of cl-sdk, read by our view
        assert recorded.attributes["channel_count"] == 64
        assert len(recorded.stims) == 120
        assert len(recorded.spikes) >= 0.9 * summary["spikes"]
        assert recorded.samples.shape[1] == 64


GROUND = [0, 7, 56, 63]
"""Channels on which cl-sdk's analysis wants to see nothing. It also leaves out channel 4, a reference."""
READ = """
import cl, json, sys
with cl.RecordingView(sys.argv[1]) as view:
    stream = view.data_streams["game"]
    found = {
        "attributes": {name: view.attributes[name] for name in ("channel_count", "application", "file_format")},
        "shape": [int(n) for n in view.samples.shape],
        "spikes": len(view.spikes),
        "fields": list(view.spikes.colnames),
        "stream": stream.attributes.application,
        "entries": [[int(at), data if isinstance(data, (str, dict)) else data.tolist()] for at, data in stream.items()],
    }
    for name, limits in (("whole", ()), ("part", (10_000, 90_000))):
        view.analysis_timestamp_limit(*limits)
        firing, bursts = view.analyse_firing_stats(0.5), view.analyse_network_bursts(0.02, 5.0, 2.5)
        graph = view.analyse_functional_connectivity(0.02, 0.3)
        found[name] = {
            "counts": firing.firing_counts.tolist(),
            "variance": firing.culture_var_firing_rates,
            "intervals": [firing.culture_ISI_mean, firing.culture_ISI_var, *firing.channel_ISI_mean],
            "entropy": view.analyse_information_entropy(0.1, log_base=2).information_entropy_per_time_bin.tolist(),
            "bursts": [[each.start_frame, each.end_frame] for each in bursts.bursts],
            "in bursts": bursts.network_burst_spike_counts,
            "edges": [graph.total_edge_weights, graph.average_edge_weights, graph.clustering_coefficient],
            "matrix": graph.adjacency_matrix.tolist(),
            "betweenness": graph.max_betweenness_centrality,
        }
    view.analysis_timestamp_limit()
    triggered = view.analyse_spike_triggered_histogram(0.005, 0.05, 0.05, 64)
    found["histograms"] = {f"{a} {b}": counts.tolist() for (a, b), counts in triggered.histograms.items()}
print(json.dumps(found))
"""


@pytest.mark.long
def test_the_public_reader_opens_and_analyses_a_recording_of_this_client_as_we_do(sdk: Path, tmp_path: Path) -> None:
    tissue = DelayedCulture(64, 3, Twin.PLASTIC)
    frames, spikes = tissue.read(500, 100_000)
    stream = DataStream("game", {"score": 2})
    for at, value in ((600, {"x": 1.5}), (601, np.arange(3)), (602, "text")):
        stream.append(at, value)
    attributes = {
        "application": {"subject": "µ"}, "channel_count": 64, "sampling_frequency": 25_000, "frames_per_second": 25_000,
        "uV_per_sample_unit": 0.195, "start_timestamp": 500, "end_timestamp": 100_500, "duration_frames": 100_000,
        "duration_seconds": 4.0, "file_format": {"stim_and_spike_timestamps_relative_to_start": True},
    }  # fmt: skip
    every = dict.fromkeys(("raw_samples", "spikes", "stims", "data_streams"), True)
    shown = [spike[:2] for spike in spikes if spike[1] not in GROUND]
    frames[:, GROUND] = 0
    write_recording(tmp_path / "own.h5", attributes, frames, every, shown, [(700, 3)], [stream])
    (tmp_path / "read.py").write_text(READ)
    public = json.loads(run_sdk(sdk, tmp_path, "read.py", "own.h5").splitlines()[-1])
    assert public["attributes"]["application"] == {"subject": "µ"}
    assert public["attributes"]["file_format"] == {"stim_and_spike_timestamps_relative_to_start": True}
    assert public["shape"] == [100_000, 64]
    assert public["spikes"] == len(shown)
    assert public["fields"] == ["timestamp", "channel", "samples"]
    assert public["stream"] == {"score": 2}
    assert public["entries"] == [[600, {"x": 1.5}], [601, [0, 1, 2]], [602, "text"]]
    (tmp_path / "own.py").write_text(READ.replace("import cl,", "import choroid.client.cl as cl,"))
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-P", "own.py", "own.h5"], cwd=tmp_path, env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    own = json.loads(done.stdout)
    assert own["whole"]["bursts"]
    assert sum(map(sum, own["whole"]["counts"])) == len(shown) > sum(map(sum, own["part"]["counts"]))
    own["histograms"] = {pair: counts for pair, counts in own["histograms"].items() if "4" not in pair.split()}
    assert len(public["histograms"]) > 100
    compare(own, public, "")


def compare(own: Any, public: Any, where: str) -> None:
    """Compare two results, numbers to a rounding error."""
    if isinstance(own, dict):
        assert own.keys() == public.keys(), where
        for key in own:
            compare(own[key], public[key], f"{where} {key}")
    elif isinstance(own, list) and own and not isinstance(own[0], (str, dict)) and where not in (" entries",):
        assert np.allclose(np.array(own, float), np.array(public, float), equal_nan=True), where
    elif isinstance(own, float):
        assert own == pytest.approx(public), where
    else:
        assert own == public, where
