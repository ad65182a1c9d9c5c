"""The plan against every way that the release runs: `python -m tests.grid.best_plans [NUMBER…]` (root, minutes).

In each setting all ways are trained one after the other, and the samples per second of the best are divided by those of the
plan. Times are those of ranks on machines of their own (tests/grid/planned_cases.py).
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from grid.planning.options import TrainingOption, options
from grid.planning.plan import PlanRequest, plan
from tests.grid.planned_cases import PlannedCase, alone_s, manifest, probed
from tests.grid.shaped_ranks import Wire, shaped

MAX_LOCAL = 40
"""More local steps take the time of the measurement and change little."""
OUTER = 3


@dataclass(frozen=True)
class Setting:
    """Ranks, their links, the preset, samples of a step, and the sizes of micro-batch to try."""

    preset: str
    batch: int
    micro_batches: tuple[int, ...]
    ranks: int
    wire: Wire


SETTINGS = (
    Setting("tiny", 16, (16,), 2, Wire(1000)),
    Setting("tiny", 16, (16,), 3, Wire(100)),
    Setting("tiny", 16, (16,), 3, Wire(10)),
    Setting("tiny", 16, (16,), 2, Wire(None, 20)),
    Setting("small", 4, (4,), 2, Wire(1000)),
    Setting("small", 8, (2, 8), 1, Wire()),
)


def case_of(way: TrainingOption, setting: Setting) -> PlannedCase:
    local = (
        1 if way.engine == "ddp" else min(way.local_steps, MAX_LOCAL)
    )  # so that each wait of a rank is seen by itself
    return PlannedCase(
        setting.preset, setting.batch, way.micro_batch, setting.ranks, setting.wire, way.engine, way.codec, local, OUTER,
        way.recompute,
    )  # fmt: skip


def compared(setting: Setting) -> tuple[str, str, float]:
    """Return the chosen way, the best way, and the ratio of their samples per second."""
    member = probed(setting.preset, setting.micro_batches)
    group = [member.model_copy(update={"name": str(rank)}) for rank in range(setting.ranks)]
    with tempfile.TemporaryDirectory() as folder, shaped(setting.ranks, setting.wire, Path(folder)) as ranks:
        links = ranks.links()
        ways = [each for each in options(group, links, setting.batch, OUTER) if each.is_run and not each.recompute]
        request = PlanRequest(setting.batch, ranks=(setting.ranks, setting.ranks), checkpoint_every=OUTER)
        chosen = plan(request, group, links).chosen
        assert chosen is not None
        found: dict[str, float] = {}
        for way in ways:
            case = case_of(way, setting)
            found[kind(way)] = setting.ranks * setting.batch * case.local / alone_s(ranks.train(manifest(case)))
    best = max(found, key=lambda each: found[each])
    return kind(chosen), best, found[best] / found[kind(chosen)]


def kind(way: TrainingOption) -> str:
    return f"{way.engine} {way.codec}, micro-batch {way.micro_batch}"


def main() -> None:
    for number in [int(each) for each in sys.argv[1:]] or range(len(SETTINGS)):
        chosen, best, ratio = compared(SETTINGS[number])
        setting = SETTINGS[number]
        print(f"{number} {setting.preset}, {setting.ranks} × {setting.wire}: plan {chosen}; best {best}; {ratio:.2f}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
