"""The tutorial notebook on electrodes, executed against a running engine."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.nerves.test_gateway import ROOT, start, stop

NOTEBOOK = ROOT / "examples" / "notebooks" / "electrodes.ipynb"


def test_the_notebook_records_stimulates_and_ends_with_an_agent_that_learns(tmp_path: Path) -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert not any(cell.get("outputs") for cell in notebook["cells"]), "commit it without outputs"
    data = tmp_path / "choroid-data"
    data.mkdir()
    engine = start(data)
    try:
        words = "-m", "tests.api.execute_notebook", str(NOTEBOOK), str(tmp_path / "out.ipynb"), str(tmp_path)
        done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
    finally:
        assert stop(engine) == 0
    executed = json.loads((tmp_path / "out.ipynb").read_text(encoding="utf-8"))
    said = [
        "".join(text for output in cell["outputs"] if output.get("name") == "stdout" for text in output["text"])
        for cell in executed["cells"]
        if cell["cell_type"] == "code"
    ]
    assert said[0] == "32 electrodes at 25000 frames a second\n"
    assert int(said[1].split()[0]) > 0
    assert re.match(r"\[Stim\(timestamp=\d+, channel=0\)\] \[\]", said[2]), said[2]
    trials, learned, best = re.match(r"(\d+) trials; .* (\{.*\}); best (\d)", said[3]).groups()  # type: ignore[union-attr]
    means = {int(key): float(mean) for key, mean in re.findall(r"(\d): ([\d.]+)", learned)}
    assert int(trials) >= 24
    assert len(means) == 4
    assert means[int(best)] == max(means.values()) > 0
    # Which electrode is the best in the end depends on the bursts; that the agent acts on what it has counted does not.
    first, last = map(float, re.findall(r"(?:first 12 trials|later) (\d\.\d+)", said[3]))
    assert first <= 0.7
    assert last >= 0.7
