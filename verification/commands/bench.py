"""Parsers of `choroid verify bench` and `soak`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option, seconds, seed


def add(commands: Any) -> None:
    """Add the subcommands to `commands`."""
    bench = command(commands, "bench", _bench, "measure the performance figures on this machine")
    bench.add_argument("only", nargs="*", help="names of benchmarks (default: all)")
    trial = bench.add_argument_group("of the estimator")
    trial.add_argument("--seeds", type=int, help="number of cultures (default 20)")
    trial.add_argument("--days", type=float, help="simulated days of each (default 14)")
    trial.add_argument("--first", type=int, metavar="SEED", help="the first seed (default 201)")
    trial.add_argument("--jobs", type=int, help="processes (default: one for each processor)")
    trial.add_argument(
        "--whole", action="store_true", default=None, help="use the whole stack: much slower (default: light)"
    )
    trial.add_argument("--assays", choices=("daily", "weekly", "none", "all"), help="how often (default daily)")
    trial.add_argument(
        "--buffer",
        choices=("plain", "phosphate", "neurobasal", "hepes"),
        help="what buffers the medium, unknown to the estimator (default plain)",
    )
    trial.add_argument(
        "--wrong",
        choices=(
            "nothing",
            "label-lactate",
            "label-glucose",
            "label-ammonia",
            "method-lactate-high",
            "method-lactate-low",
            "method-glucose-high",
            "samples",
        ),
        help="what people believe and is not so; compared once an assay was entered (default nothing)",
    )
    trial.add_argument(
        "--told", action="store_true", default=None, help="the rig file states the width of the wrong label"
    )
    trial.add_argument("--rig", metavar="NAME", help="a shipped rig with a loop (default bench)")
    trial.add_argument(
        "--shift",
        type=float,
        metavar="SHARE",
        help="viability: uptake, yields and growth of the plants differ by this share, such as 0.3 (default 0)",
    )
    medium = bench.add_argument_group("of the medium (it takes --seeds, --days, --first and --jobs as well)")
    medium.add_argument(
        "--tissues",
        metavar="NAMES",
        help="kinds of tissue, with commas; drawn: each seed's own (default reference,chronic)",
    )
    medium.add_argument(
        "--arms",
        metavar="NAMES",
        help="with commas: sensor, requests, dialyser, dialyser-sensitive, exchange; with -blind: no retreat (default: all)",
    )
    watch = bench.add_argument_group("of the guard")
    watch.add_argument("--rounds", type=int, help="controllers lost per kind of failure (default 3)")
    watch.add_argument("--load-for", metavar="TIME", help="duration of the load (default 60 s)")
    recorded = bench.add_argument_group("of the recording")
    recorded.add_argument("--channels", type=int, help="channels at 25 kHz (default 256)")
    recorded.add_argument("--record-for", metavar="TIME", help="recorded time (default 20 s)")
    recorded.add_argument(
        "--unpaced", dest="paced", action="store_false", default=None, help="as fast as possible (default: real time)"
    )
    recorded.add_argument("--busy", type=int, metavar="N", help="processes that compute meanwhile (default 0)")
    recorded.add_argument("--folder", metavar="DIR", help="where the recording goes meanwhile")
    arrays = bench.add_argument_group("of the detection")
    arrays.add_argument(
        "--cells", type=int, metavar="SEED", help="choice of cells of dense and sparse arrays (default 4)"
    )
    arrays.add_argument("--templates", metavar="DIR", help="only these cells, with another generator's templates")
    json_option(bench)

    soak = command(commands, "soak", _soak, "long run: check for growth of memory, descriptors or tasks")
    soak.add_argument("rig", type=Path, help="the rig file")
    soak.add_argument("--hours", type=float, default=72.0, help="duration (default 72)")
    soak.add_argument("--real", action="store_true", help="real processes in real time (default: virtual time)")
    soak.add_argument("--seed", type=seed, default=1, help="seed of the simulated lab in virtual time (default 1)")
    json_option(soak)


def _soak(arguments: argparse.Namespace) -> int:
    from verification.bench.soak import as_text, soak_real, soak_virtual

    if arguments.real:
        answer = soak_real(arguments.rig, hours=arguments.hours)
    else:
        answer = soak_virtual(arguments.rig, hours=arguments.hours, seed=arguments.seed)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0 if answer["flat"] and not answer["violations"] else 1


def _bench(arguments: argparse.Namespace) -> int:
    from verification.bench.suite import as_text, bench

    options = {name: value for name, value in vars(arguments).items() if value is not None}
    options |= {name: value.split(",") for name, value in options.items() if name in ("tissues", "arms")}
    options |= {f"{name}_s": seconds(options[f"{name}_for"]) for name in ("load", "record") if f"{name}_for" in options}
    answer = bench(arguments.only, options)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0
