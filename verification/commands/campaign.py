"""Parser of `choroid verify campaign`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option, length, seed


def add(commands: Any) -> None:
    """Add the subcommand to `commands`."""
    parser = command(commands, "campaign", _campaign, "many trials of the whole stack with random faults")
    parser.add_argument("--runs", type=int, default=20, help="number of trials (default 20)")
    parser.add_argument("--rig", type=Path, help="a rig file whose links are all sim: (default: the bench rig)")
    parser.add_argument("--days", type=length, default=0.25, help="simulated days of each (default 0.25)")
    parser.add_argument("--seed", type=seed, default=1, help="seed of the random draws (default 1)")
    parser.add_argument("--jobs", type=int, help="processes (default: one for each processor)")
    parser.add_argument("--faults", type=Path, metavar="FILE", help="the same faults for every trial (JSON)")
    parser.add_argument(
        "--faults-a-day", type=float, default=60.0, help="mean number of faults per simulated day (default 60)"
    )
    parser.add_argument(
        "--without",
        metavar="INTERLOCK",
        help="remove interlocks (a,b) to see the campaign fail; each: one after the other, with the trial that detects it",
    )
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="keep finished trials here; continue an interrupted campaign"
    )
    parser.add_argument("--ray", metavar="ADDRESS", help="run the trials on this Ray cluster (local: on this machine)")
    parser.add_argument(
        "--drifts",
        action="store_true",
        help="each probe of --rig (default: of every shipped rig) drifts alone through its range in --days, up and down",
    )
    parser.add_argument("--replay", metavar="TEXT_OR_FILE", help="repeat one trial")
    json_option(parser)


def _campaign(arguments: argparse.Namespace) -> int:
    from verification.campaign import detection, drifts
    from verification.campaign.campaign import campaign, default_jobs, replay
    from verification.campaign.report import as_text

    jobs = default_jobs() if arguments.jobs is None else arguments.jobs
    if arguments.without == detection.EACH:
        answer = detection.detect(
            runs=arguments.runs, days=arguments.days, seed=arguments.seed, jobs=jobs, rig=arguments.rig
        )
        emit(answer, as_json=arguments.json, text=detection.as_text(answer))
        return 0 if answer["detected_all"] and not answer["violations"] else 1
    if arguments.drifts:
        answer = drifts.drifts(
            drifts.shipped_rigs() if arguments.rig is None else [arguments.rig],
            days=arguments.days,
            seed=arguments.seed,
            jobs=jobs,
            without=arguments.without,
            resume=arguments.resume,
        )
        emit(answer, as_json=arguments.json, text=drifts.text_of(answer))
        return 0 if not answer["violations"] else 1
    if arguments.replay is not None:
        answer = replay(arguments.replay)
    else:
        answer = campaign(
            runs=arguments.runs,
            days=arguments.days,
            seed=arguments.seed,
            jobs=jobs,
            faults=arguments.faults,
            faults_a_day=arguments.faults_a_day,
            without=arguments.without,
            resume=arguments.resume,
            ray=arguments.ray,
            rig=arguments.rig,
        )
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0 if not answer["violations"] else 1
