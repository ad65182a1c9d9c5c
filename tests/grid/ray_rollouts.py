"""A program of test_rollouts: the same plan and the same grading over Ray with two processes, of which one is killed once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

from grid.boards.loading import load_board
from grid.grading.spread import grade_spread
from grid.tasks.rollouts import RolloutPlan, executor_of, rollouts


def main(plan: RolloutPlan, marker: Path) -> dict[str, object]:
    def killed_once(value: int) -> int:
        if not marker.exists():
            marker.write_text("killed")
            os.kill(os.getpid(), signal.SIGKILL)
        return value * value

    def fails(value: int) -> int:
        marker.with_name(f"attempt-{len(list(marker.parent.glob('attempt-*')))}").touch()
        raise ValueError(f"no square of {value}")

    def slow(value: int) -> None:
        marker.with_name(f"begun-{value}").touch()
        time.sleep(300.0)  # on a busy machine the second process begins half a minute after the first
        marker.with_name(f"ended-{value}").touch()

    def found(name: str) -> int:
        return len(list(marker.parent.glob(f"{name}-*")))

    steps: list[int] = []
    with executor_of(2, "local") as executor:
        answer = rollouts(plan, executor, lambda finished, wanted: steps.append(finished))
        answer["retried"] = executor.submit(killed_once, 7).result()
        board, model = load_board(marker.parent / "boards" / "small.yaml"), (marker.parent / "model.onnx").read_bytes()
        answer["grade"] = asyncio.run(grade_spread(board, model, [3], executor)).to_json()
        error = executor.submit(fails, 7).exception()
        answer["error"] = str(error)
        given_up = [executor.submit(slow, value) for value in range(4)]
        while found("begun") < 2:
            time.sleep(0.05)
        answer["cancelled"] = [future.cancel() for future in given_up]
        answer["next"] = executor.submit(lambda: 7).result()
        answer["ended"] = found("ended")
    return answer | {"steps": steps, "attempts": found("attempt")}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    given |= {
        "variants": tuple(given["variants"]),
        "seeds": tuple(given["seeds"]),
        "controls": tuple(given["controls"]),
    }
    print(json.dumps(main(RolloutPlan(**given), Path(sys.argv[2]))))
