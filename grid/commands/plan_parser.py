"""Parser of `choroid grid plan`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option, positive
from grid.commands.parts import FOLDER, part


def add_plan(verbs: Any) -> None:
    """Add the verb `plan`."""
    plan = command(
        verbs, "plan", _plan, "plan a training job: members, engine, micro-batch, local steps, time, traffic, memory"
    )
    plan.add_argument("job", type=Path, help="manifest of the job")
    plan.add_argument(
        "--probe",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="measurement of a member or of its links; the name of the file is the member's; repeatable",
    )
    plan.add_argument("--here", metavar="NAME", help="measure this machine as a candidate of this name (20 s)")
    plan.add_argument(
        "--keep", type=Path, metavar="FILE", help="write the measurement of --here, for --probe elsewhere"
    )
    plan.add_argument(
        "--micro-batch", type=positive, action="append", default=[], help="size to measure with --here; repeatable"
    )
    plan.add_argument("--memory", type=float, metavar="GB", help="plan as if each member had only so much free memory")
    plan.add_argument("--picture", type=Path, metavar="FILE", help="write the plan as a picture (SVG)")
    plan.add_argument("--data", type=Path, default=FOLDER, help=f"data folder of the member (default: {FOLDER})")
    json_option(plan)


def _plan(arguments: argparse.Namespace) -> int:
    plan = part("plan")
    answer = plan.planned(
        arguments.job,
        arguments.probe,
        plan.PlanSettings(
            arguments.data, arguments.here, arguments.keep, arguments.micro_batch, arguments.memory, arguments.picture
        ),
    )
    emit(answer, as_json=arguments.json, text=plan.text_of(answer))
    return 0 if answer["chosen"] else 1
