"""G4, G8: `choroid grid demo --train`: members train one model, one of them is killed and comes back, a board judges it."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import pytest

from tests.grid.demo_process import demo_process
from tests.grid.training_environment import torch_python


@pytest.mark.long
@pytest.mark.within_s(3600)
def test_G8_members_train_one_model_though_one_is_killed_and_it_ends_on_a_board(tmp_path: Path) -> None:
    torch_python()
    with demo_process(tmp_path / "my-grid", "--train") as demo:
        url = demo.until("Open ").split()[1]
        submitted = demo.until("submits the job")
        assert "why not" in demo.out.partition(submitted)[0], "the plan is shown before"
        demo.until("is killed, and comes back")
        with urllib.request.urlopen(f"{url}api/state", timeout=60) as answer:
            work = json.load(answer)["work"]
        (job,) = [each for each in work if each["outer_steps"]]
        assert [each["member"] for each in job["ranks"]] == ["member-1", "member-2", "member-3"]
        assert all(0 < each["loss"] < 10 for each in job["ranks"] if each["loss"] is not None)
        assert max(each["outer"] for each in job["ranks"]) >= 4
        demo.until("the models of the members are equal by hash")
        said = demo.until("the model of two laboratories has")
        pooled, single = map(float, re.findall(r"-?\d+\.\d+", said)[:2])
        assert pooled > 0.5, said  # the boards' constant rates have less than 0.1 bits a spike
        assert ("not above" in said) == (pooled <= single)
        assert demo.interrupt() == 0
        assert demo.left() == []
