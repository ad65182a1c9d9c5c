"""`python -m tests.fuzz`: every parser on both sides of the wire under libFuzzer, a table, and status 1 on a finding.

What was learnt (the corpus) and how many inputs each parser has had are kept between calls, so that a million inputs can
be reached in several sittings; `--fresh` begins again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from drivers.registry import MODELS
from sim.devices.catalogue import DEVICES
from tests.fuzz.sides import FOUND, SIDES

KEPT = Path("build") / "fuzz"
_PROGRESS = re.compile(r"^#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+) corp: (\d+)/", re.MULTILINE)


@dataclass
class Score:
    """What one parser has had: inputs in all, branches reached, inputs kept, findings."""

    parser: str
    inputs: int = 0
    edges: int = 0
    kept: int = 0
    findings: int = 0


def main(words: list[str] | None = None) -> int:
    """Fuzz what was asked for and print the table."""
    asked = _arguments(words)
    every = [f"{side}/{model}" for side in SIDES for model in sorted(MODELS if side == "driver" else DEVICES)]
    chosen = [name for name in every if not asked.only or any(part in name for part in asked.only)]
    if not chosen:
        print(f"no parser's name contains {' or '.join(asked.only)}; they are {', '.join(every)}", file=sys.stderr)
        return 2
    if asked.fresh:
        shutil.rmtree(asked.keep, ignore_errors=True)
    rounds = -(-asked.runs // asked.round)
    for number in range(1, rounds + 1):
        most = min(asked.runs, number * asked.round)
        with ThreadPoolExecutor(asked.jobs) as pool:
            scores = list(pool.map(lambda name, most=most: fuzz(name, most, asked.keep), chosen))
        if any(score.findings for score in scores):
            break
    print(table(scores))
    return int(any(score.findings for score in scores))


def fuzz(name: str, runs: int, keep: Path) -> Score:
    """Bring the parser `side/model` to `runs` inputs in all; at a finding it stays where it is."""
    side, model = name.split("/")
    folder = keep / f"{side}-{model}"
    corpus = folder / "corpus"
    found = FOUND / f"{side}-{model}"
    corpus.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    score = _load(folder, name)
    score.findings = 0
    left = runs - score.inputs
    if left > 0:
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.target", side, model, f"-runs={left}", f"-seed={score.inputs + 1}"]
            + [str(corpus), str(found)],  # what was found once is tried again first
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        (folder / "log").write_text(done.stderr, encoding="utf-8")
        if progress := _PROGRESS.findall(done.stderr):
            executed, edges, _, kept = map(int, progress[-1])
            score = Score(name, score.inputs + executed, edges, kept)
        score.findings = len(list(found.iterdir())) if done.returncode else 0
        (folder / "score.json").write_text(json.dumps(asdict(score)), encoding="utf-8")
        print(f"{name}: {score.inputs:,} inputs, {score.edges} edges", file=sys.stderr, flush=True)
        if done.returncode and not score.findings:
            raise RuntimeError(f"{name} could not be fuzzed; see {folder / 'log'}:\n{done.stderr[-2000:]}")
    if not any(found.iterdir()):
        found.rmdir()
    return score


def table(scores: list[Score]) -> str:
    """As Markdown, for docs/fuzzing.md."""
    lines = ["| parser | inputs | edges reached | inputs kept | findings |", "|---|---:|---:|---:|---:|"]
    lines += [f"| {s.parser} | {s.inputs:,} | {s.edges} | {s.kept} | {s.findings} |" for s in scores]
    total = sum(score.inputs for score in scores)
    lines.append(f"| {len(scores)} parsers | {total:,} | | | {sum(score.findings for score in scores)} |")
    return "\n".join(lines)


def _load(folder: Path, name: str) -> Score:
    path = folder / "score.json"
    return Score(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else Score(name)


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz every parser, led by coverage.")
    parser.add_argument("only", nargs="*", help="parsers whose name contains this, such as driver/julabo or device/")
    parser.add_argument("--runs", type=int, default=1_000_000, help="inputs a parser in all (default 1,000,000)")
    parser.add_argument("--round", type=int, default=50_000, help="inputs a parser before the next one's turn")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="how many at once")
    parser.add_argument("--keep", type=Path, default=KEPT, help="where corpus and counts are kept")
    parser.add_argument("--fresh", action="store_true", help="forget what was kept")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
