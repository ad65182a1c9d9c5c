"""Parser of `choroid fit`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option, seed
from choroid.report.period import FORMS


def add(commands: Any) -> None:
    """Add `fit` to `commands`."""
    words = "estimate plant parameters from a rig's own records, and say how well the twin predicts them"
    parser = command(commands, "fit", _fit, words)
    parser.add_argument("data", type=Path, help="data folder of `choroid run`, or its journal; only read")
    parser.add_argument("--rig", type=Path, required=True, help="the rig file")
    parser.add_argument("--from", dest="begin", metavar="TIME", help=f"{FORMS} (default: the first record)")
    parser.add_argument("--to", dest="end", metavar="TIME", help="the same (default: the last record)")
    parser.add_argument("--zone", metavar="NAME", help="time zone of the options (default UTC)")
    parser.add_argument(
        "--parameters",
        type=lambda text: tuple(name.strip() for name in text.split(",")),
        default=(),
        metavar="A,B",
        help="fit these only; the others keep the published value (default: all)",
    )
    parser.add_argument(
        "--holdout", type=float, default=0.3, metavar="SHARE", help="share that is predicted, at the end (default 0.3)"
    )
    parser.add_argument("--seed", type=seed, default=1, help="seed of the sampler (default 1)")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the parameters, for `choroid simulate --tissue`"
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write a figure of the prediction (needs matplotlib)")
    json_option(parser)


def _fit(arguments: argparse.Namespace) -> int:
    from choroid.fitting.fit import fit
    from choroid.fitting.text import as_text

    answer = fit(
        arguments.rig,
        arguments.data,
        begin=arguments.begin,
        end=arguments.end,
        zone=arguments.zone,
        names=arguments.parameters,
        holdout=arguments.holdout,
        seed=arguments.seed,
        out=arguments.out,
        svg=arguments.svg,
        progress=True,
    )
    emit(answer, as_json=arguments.json, text=as_text(answer))
    written = all(name in answer for name in ("out", "svg") if getattr(arguments, name) is not None)
    return 0 if answer["converged"] and answer["describes"] and written else 1
