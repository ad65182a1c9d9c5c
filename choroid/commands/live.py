"""Parsers of the real-time commands: `demo`, `run`, `lab`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from choroid.commands.options import command, host_and_port, json_option, port, seconds, seed, speed, subject
from choroid.common.child import python
from choroid.common.parent import LINK
from choroid.common.private import keep_files_private


def add(commands: Any) -> None:
    """Add `demo`, `run` and `lab` to `commands`."""
    demo = command(commands, "demo", _demo, "show a simulated rig live in the browser")
    demo.add_argument(
        "--port", type=port, default=8090, help="port of the page on 127.0.0.1 (default 8090; 0 = any free port)"
    )
    demo.add_argument("--for", dest="duration", metavar="TIME", help="end after this time, such as 60s or 5min")
    demo.add_argument("--speed", type=speed, default=60.0, help="speed factor, 1 to 600 (default 60)")
    demo.add_argument("--seed", type=seed, default=1, help="the simulated lab's seed (default 1)")
    demo.add_argument("--rig", type=Path, help="a rig file whose links are all sim: (default: the bench rig)")
    demo.add_argument(
        "--tissue",
        default="reference",
        metavar="KIND_OR_FILE",
        help="kind of the simulated tissue, drawn-N, or the file that `choroid fit --out` wrote (default reference)",
    )
    demo.add_argument("--data", type=Path, help="directory of journal and history (default: a temporary one)")

    run = command(commands, "run", _run, "run a rig: controller, web page and electrode engine")
    run.add_argument("rig", type=Path, help="the rig file")
    run.add_argument(
        "--data",
        type=Path,
        default=Path("choroid-data"),
        help="directory of journal and history (default ./choroid-data)",
    )
    run.add_argument("--host", default="127.0.0.1", help="address of the page (default 127.0.0.1)")
    run.add_argument("--port", type=port, default=8090, help="port of the page (default 8090; 0 = any free port)")
    run.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="HOST",
        help="a host name by which browsers open the page; repeatable",
    )
    run.add_argument(
        "--certificate", type=Path, metavar="FILE", help="serve the page by TLS: certificate with its chain (PEM)"
    )
    run.add_argument("--key", type=Path, metavar="FILE", help="key of the certificate (PEM, not encrypted)")
    run.add_argument(
        "--trusted-proxy",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="address of an HTTPS proxy whose X-Forwarded headers are believed; repeatable",
    )
    run.add_argument("--plain-http", action="store_true", help="allow plain HTTP beyond this machine")
    run.add_argument(
        "--health-port",
        type=port,
        default=0,
        help="port on 127.0.0.1 that answers monitors with 200 or 503 (default: any free port, written to endpoint.json)",
    )
    run.add_argument(
        "--capture", type=Path, metavar="FILE", help="record every byte of every link (see choroid driver replay)"
    )

    run.add_argument(
        "--restart",
        action=argparse.BooleanOptionalAction,
        default=not os.environ.get("NOTIFY_SOCKET"),
        help="a small parent process starts a lost controller again (default: on, except under systemd, which does it)",
    )
    run.add_argument(
        "--agents",
        type=host_and_port,
        metavar="ADDRESS:PORT",
        help="accept agents on other machines here, with mutual TLS (see choroid agent certify-engine)",
    )

    labs = subject(commands, "lab", "the simulated laboratory: serve a rig's devices in real time")
    lab = command(labs, "serve", _lab, "serve a rig's simulated devices over TCP or pseudo-terminals in real time")
    lab.add_argument("rig", type=Path, help="the rig file")
    lab.add_argument("--host", default="127.0.0.1", help="address to serve on (default 127.0.0.1)")
    lab.add_argument("--base-port", type=port, default=0, help="first TCP port (default: any free ports)")
    lab.add_argument("--pty", action="store_true", help="serve pseudo-terminals instead of TCP")
    lab.add_argument("--speed", type=speed, default=1.0, help="speed factor, 1 to 600 (default 1)")
    lab.add_argument("--seed", type=seed, default=1, help="seed of the simulated lab (default 1)")
    lab.add_argument("--write", type=Path, metavar="FILE", help="write a rig file with the endpoints as links")
    lab.add_argument("--faults", type=Path, metavar="FILE", help="faults to inject, at given or random times (YAML)")
    lab.add_argument("--by-hand", action="store_true", help="accept typed faults, such as: unplug sim:gas for 30 s")
    lab.add_argument("--for", dest="duration", metavar="TIME", help="end after this time")
    json_option(lab)


def _demo(arguments: argparse.Namespace) -> int:
    from choroid.demo.demo import demo

    keep_files_private()
    return demo(
        rig_path=arguments.rig,
        port=arguments.port,
        duration_s=seconds(arguments.duration),
        speed=arguments.speed,
        seed=arguments.seed,
        data=arguments.data,
        tissue=arguments.tissue,
    )


def _run(arguments: argparse.Namespace) -> int:
    keep_files_private()
    if arguments.restart and LINK not in os.environ:
        words = python("choroid.running.parent", *arguments.words)
        sys.stderr.flush()
        os.execv(words[0], words)  # noqa: S606  (our own module: a small process that outlives the controller)
    from choroid.running.run import run
    from dashboards.outside import Outside

    return run(
        arguments.rig,
        data=arguments.data,
        host=arguments.host,
        port=arguments.port,
        health_port=arguments.health_port,
        capture=arguments.capture,
        agents=arguments.agents,
        outside=Outside(
            tuple(arguments.name),
            arguments.certificate,
            arguments.key,
            tuple(arguments.trusted_proxy),
            arguments.plain_http,
        ),
    )


def _lab(arguments: argparse.Namespace) -> int:
    from choroid.simulation.lab import lab

    return lab(
        arguments.rig,
        host=arguments.host,
        base_port=arguments.base_port,
        pty=arguments.pty,
        speed=arguments.speed,
        seed=arguments.seed,
        write=arguments.write,
        duration_s=seconds(arguments.duration),
        as_json=arguments.json,
        faults=arguments.faults,
        by_hand=arguments.by_hand,
    )
