"""The list of benchmarks: each has its function, which takes the options that the list names."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from choroid.cli import main
from verification.bench import suite
from verification.bench.suite import BENCHMARKS, bench


@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_function_takes_the_options_that_the_list_names(name: str) -> None:
    function = getattr(import_module(f"verification.bench.{name}"), f"bench_{name}")
    assert set(BENCHMARKS[name].options) <= set(inspect.signature(function).parameters)


def test_the_options_of_the_command_reach_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[str, dict[str, object]]] = []

    def run(self: suite.Benchmark, name: str, options: dict[str, object]) -> dict[str, object]:
        called.append((name, {key: options[key] for key in self.options if key in options}))
        return {}

    monkeypatch.setattr(suite.Benchmark, "run", run)
    told = (
        "verify bench medium guard recording --seeds 2 --arms sensor,exchange --load-for 5s --record-for 3s --unpaced"
    )
    assert main(told.split()) == 0
    assert called == [
        ("medium", {"seeds": 2, "arms": ["sensor", "exchange"]}),
        ("guard", {"load_s": 5.0}),
        ("recording", {"record_s": 3.0, "paced": False}),
    ]


def test_figures_are_of_the_benchmarks_that_were_named() -> None:
    answer = bench(["plant"], {"seeds": 3})
    assert list(answer["benchmarks"]) == ["plant"]
