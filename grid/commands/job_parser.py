"""Parser of `choroid grid job` and `choroid grid prepare`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from choroid.commands.options import command, emit, json_option, subject
from grid.commands.parts import FOLDER, part


def add_jobs(verbs: Any) -> None:
    """Add the subjects `job` and `prepare`."""
    prepares = subject(verbs, "prepare", "environments that the grid uses: train, federated")
    for name, what in (("train", "the training environment"), ("federated", "the environment of federated jobs")):
        one = command(prepares, name, _prepare, f"make {what}, once, from pinned hashes")
        one.set_defaults(environment=name)
        where = f"where it is made (default: choroid-{name} in the cache of this user)"
        one.add_argument("--folder", type=Path, help=where)
        one.add_argument("--python", default="", help="the Python that makes it (default: this one)")
        one.add_argument("--check", action="store_true", help="only check it")
        json_option(one)
    jobs = subject(verbs, "job", "training jobs: check, run, submit, allow, list, show, remove")
    check = command(jobs, "check", _check, "check the manifest of a job: keys, code, data sets, environment")
    run = command(jobs, "run", _run, "run all ranks of a job on this machine; again: go on at the last checkpoint")
    submit = command(jobs, "submit", _submit, "sign a job, and hold a work lease of its members until it has ended")
    submit.add_argument(
        "--member", action="append", default=[], metavar="NAME", help="a member, in the order of ranks; repeatable"
    )
    for parser in (check, run, submit):
        parser.add_argument("file", type=Path, help="manifest of the job (YAML; docs/training.md)")
    allow = command(jobs, "allow", _allow, "allow a code package that you have read to run here; print its hash")
    allow.add_argument("folder", type=Path, help="folder of the package")
    command(jobs, "list", _list, "list the jobs of this folder")
    show = command(jobs, "show", _show, "show a job with the last events of its ranks")
    show.add_argument("job", help="its name, or the start of its hash")
    show.add_argument("--limit", type=int, default=5, help="events of each rank (default 5)")
    remove = command(jobs, "remove", _remove, "remove a job; its models stay, and its checkpoints until it has ended")
    remove.add_argument("job", help="its name, or the start of its hash")
    remove.add_argument("--everything", action="store_true", help="models and events as well")
    for parser in jobs.choices.values():
        parser.add_argument("--data", type=Path, default=FOLDER, help=f"data folder of the member (default: {FOLDER})")
        json_option(parser)


def _prepare(arguments: argparse.Namespace) -> int:
    say = _silent if arguments.json else _say
    answer = part("job").prepare(
        arguments.environment, arguments.folder, arguments.python, say, only_check=arguments.check
    )
    return _answer(arguments, answer)


def _check(arguments: argparse.Namespace) -> int:
    return _answer(arguments, part("job").check(arguments.data, arguments.file))


def _run(arguments: argparse.Namespace) -> int:
    return _answer(arguments, part("job").run(arguments.data, arguments.file, _silent if arguments.json else _say))


def _submit(arguments: argparse.Namespace) -> int:
    say = _silent if arguments.json else _say
    return _answer(arguments, part("job").submit(arguments.data, arguments.file, arguments.member, say))


def _allow(arguments: argparse.Namespace) -> int:
    return _answer(arguments, part("job").allow(arguments.data, arguments.folder))


def _list(arguments: argparse.Namespace) -> int:
    return _answer(arguments, part("job").every(arguments.data))


def _show(arguments: argparse.Namespace) -> int:
    return _answer(arguments, part("job").show(arguments.data, arguments.job, limit=arguments.limit))


def _remove(arguments: argparse.Namespace) -> int:
    return _answer(arguments, part("job").remove(arguments.data, arguments.job, everything=arguments.everything))


def _answer(arguments: argparse.Namespace, answer: dict[str, Any]) -> int:
    emit(answer, as_json=arguments.json, text=part("job").text_of(answer))
    return 0


def _say(text: str) -> None:
    print(text, flush=True)


def _silent(_: str) -> None:
    """Say nothing: only the JSON object is printed."""
