"""The plan of a training job, from measurements that are made up, so that every decision has one right answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from grid.commands.plan import PlanSettings, planned, text_of
from grid.errors import GridError
from grid.planning import links
from grid.planning.candidates import LinkTable, TrainingCandidate, read_candidate, read_probes
from grid.planning.links import LinkFigures, LinkProbe
from grid.planning.options import options
from grid.planning.pace import ring_s
from grid.planning.picture import picture
from grid.planning.plan import PlanRequest, TrainingPlan, plan
from tests.grid.addresses import loopback_bases

PARAMETERS = 10_000_000
SITE = LinkFigures(2e-4, 1e10, 1e10)
NEAR_SLOW = LinkFigures(2e-4, 1e8, 1e8)
FAR_SLOW = LinkFigures(4e-2, 1e8, 1e8)
REQUEST = PlanRequest(batch=8)


def probe(step_s: float = 0.4, parameters: int = PARAMETERS, **other: Any) -> dict[str, Any]:
    side = int(parameters**0.5)
    case = {"micro_batch": 8, "steps": 10, "step_cpu_s": step_s, "peak_bytes": 26 * parameters}
    return {
        "format": "choroid-probe/1",
        "preset": "base",
        "parameters": parameters,
        "shapes": [[side, side]],
        "threads": 2,
        "memory_bytes": 8_000_000_000,
        "program_bytes": 300_000_000,
        "update_s": 0.05 * step_s,
        "outer_s": 0.1,
        "digest_s": 0.05,
        "pack_s": 0.05,
        "power_sgd_s": 0.02,
        "cases": [
            {**case, "recomputed": False, "step_s": step_s},
            {**case, "recomputed": True, "step_s": 1.3 * step_s, "peak_bytes": 25 * parameters},
        ],
    } | other


def group(*steps_s: float, **other: Any) -> list[TrainingCandidate]:
    return [read_candidate(probe(step_s, **other), f"m{number}") for number, step_s in enumerate(steps_s)]


def joined(candidates: list[TrainingCandidate], link: LinkFigures) -> LinkTable:
    names = [each.name for each in candidates]
    return LinkTable({(one, other): link for one in names for other in names if one < other})


def found(candidates: list[TrainingCandidate], link: LinkFigures, **other: Any) -> TrainingPlan:
    return plan(REQUEST, candidates, joined(candidates, link), **other)


def test_within_a_site_plain_training_is_chosen() -> None:
    chosen = found(group(0.4, 0.4, 0.4), SITE).chosen
    assert chosen is not None
    assert (chosen.engine, chosen.codec, len(chosen.members)) == ("ddp", "fp32", 3)
    assert not chosen.recompute


def test_over_a_slow_link_local_steps_are_chosen_and_take_a_tenth_or_less() -> None:
    chosen = found(group(0.4, 0.4, 0.4), FAR_SLOW).chosen
    assert chosen is not None
    assert chosen.engine == "diloco"
    assert chosen.sync_s / chosen.local_steps <= chosen.step_s * 0.1
    assert chosen.samples_s >= 0.9 * 3 * 8 / 0.4 * 0.999


def test_the_round_trip_decides_between_power_sgd_and_local_steps() -> None:
    members = group(0.1, 0.1, 0.1, power_sgd_s=0.002)
    near = found(members, NEAR_SLOW, every_engine=True).chosen
    far = found(members, FAR_SLOW, every_engine=True).chosen
    assert near is not None
    assert far is not None
    assert ((near.engine, near.codec), far.engine) == (("ddp", "power-sgd"), "diloco")
    assert NEAR_SLOW.bit_s == FAR_SLOW.bit_s


def test_the_bandwidth_decides_at_one_round_trip() -> None:
    members = group(0.4, 0.4, 0.4)
    engines = {
        bit_s: getattr(found(members, LinkFigures(2e-4, bit_s, bit_s)).chosen, "engine", "") for bit_s in (1e10, 1e8)
    }
    assert engines == {1e10: "ddp", 1e8: "diloco"}


def test_what_the_release_does_not_run_is_not_chosen_and_its_worth_is_said() -> None:
    against = {(each.engine, each.codec): reason for each, reason in found(group(0.1, 0.1, 0.1), NEAR_SLOW).against}
    assert "this release does not run it" in against["ddp", "power-sgd"]
    assert "this release does not run it" in against["fsdp2", "fp32"]
    assert "of the speed" in against["ddp", "fp32"]


def test_a_throttled_member_is_left_out_with_the_reason() -> None:
    answer = found(group(0.4, 0.42, 0.8), SITE)
    assert answer.chosen is not None
    assert answer.chosen.members == ("m0", "m1")
    assert answer.left_out == {"m2": "2.00 times the step time of the others; at most 15% apart train together"}


def test_a_member_whose_link_costs_more_than_it_brings_is_left_out() -> None:
    members = group(0.4, 0.4, 0.4)
    links = joined(members, SITE).links
    slow = LinkFigures(0.3, 1e4, 1e4)
    answer = plan(REQUEST, members, LinkTable({pair: slow if "m2" in pair else link for pair, link in links.items()}))
    assert answer.chosen is not None
    assert (answer.chosen.members, answer.chosen.engine) == (("m0", "m1"), "ddp")
    assert answer.left_out["m2"].startswith("its link (0.01 Mbit/s, 300 ms)")


def test_there_are_never_more_than_five_hundred_local_steps_and_the_plan_says_what_that_costs() -> None:
    members = group(0.4, 0.4)
    assert found(members, FAR_SLOW).warnings == []
    slow = found(members, LinkFigures(4e-2, 1e6, 1e6))
    assert slow.chosen is not None
    assert slow.chosen.local_steps == 500
    (warning,) = slow.warnings
    assert warning.endswith("but above 500 the quality of DiLoCo is not proven")


def test_activations_are_computed_again_only_where_memory_asks_for_it() -> None:
    big = [{**case, "peak_bytes": size} for case, size in zip(probe()["cases"], (9e9, 2e9), strict=True)]
    chosen = found(group(0.4, 0.4, cases=big), SITE).chosen
    assert chosen is not None
    assert chosen.recompute


def test_a_model_that_fits_nowhere_says_what_would_fit() -> None:
    answer = found(group(0.4, 0.4, memory_bytes=1_000_000_000), SITE)
    assert answer.chosen is None
    wanted = float(answer.would_fit[0].split()[2])
    assert found(group(0.4, 0.4, memory_bytes=int(1.01e9 * wanted)), SITE).chosen is not None
    assert found(group(0.4, 0.4, memory_bytes=int(0.99e9 * wanted)), SITE).chosen is None
    assert "a preset of at most" in answer.would_fit[1]
    assert "FSDP2" in answer.would_fit[2]


def test_a_budget_that_is_too_small_says_which_would_do() -> None:
    members = group(0.4, 0.4)
    request = PlanRequest(batch=8, samples=1_000_000, core_hours=1.0)
    answer = plan(request, members, joined(members, SITE))
    assert answer.chosen is None
    (advice,) = answer.would_fit
    assert advice.endswith("core-hours (it has 1), or fewer samples")
    enough = float(advice.split()[3].replace(",", "")) * 1.01
    assert plan(PlanRequest(batch=8, samples=1_000_000, core_hours=enough), members, joined(members, SITE)).chosen


def test_the_totals_are_those_of_the_outer_steps_that_the_plan_names() -> None:
    members = group(0.4, 0.4)
    for link, samples in ((SITE, 5_000), (FAR_SLOW, 10_000), (FAR_SLOW, 1)):
        answer = plan(PlanRequest(batch=8, samples=samples), members, joined(members, link))
        chosen, totals = answer.chosen, answer.totals
        assert chosen is not None
        steps = totals["outer_steps"] * chosen.local_steps
        assert steps * 16 >= samples > (steps - chosen.local_steps) * 16, "no outer step too many"
        assert totals["hours"] == pytest.approx(steps * chosen.step_s / 3600)
        assert totals["bytes"] == pytest.approx(steps * chosen.bytes_step * 2)
        assert totals["core_hours"] == pytest.approx(4 * totals["hours"])
        taken = PlanRequest(batch=8, samples=int(steps) * 16)  # a manifest that has the plan's values
        assert plan(taken, members, joined(members, link)).totals == totals


def test_too_few_members_of_one_speed_are_named() -> None:
    members = group(0.4, 0.8)
    answer = plan(PlanRequest(batch=8, ranks=(2, 4)), members, joined(members, SITE))
    assert answer.chosen is None
    assert answer.would_fit == [
        "2 members at most 15% apart in speed (there are 1 at most), or a job with ranks from 1",
    ]


def test_a_language_model_over_a_slow_line_is_answered_in_figures() -> None:
    members = group(60.0, 60.0, 60.0, parameters=7_000_000_000, memory_bytes=10**12)
    ways = options(members, joined(members, NEAR_SLOW), 8)
    far = next(each for each in ways if (each.engine, each.codec) == ("diloco", "fp32"))
    assert ring_s(28e9, 3, 1e8) == pytest.approx(50 * 60, rel=0.01)
    assert far.sync_s == pytest.approx(50 * 60, rel=0.02)
    assert far.local_steps == pytest.approx(9 * 50, rel=0.02)


def test_stage_three_moves_half_as_much_again_as_plain_training() -> None:
    members = group(0.4, 0.4, 0.4)
    ways = {(each.engine, each.codec): each for each in options(members, joined(members, SITE), 8)}
    assert ways["fsdp2", "fp32"].bytes_step == pytest.approx(1.5 * ways["ddp", "fp32"].bytes_step)
    assert ways["ddp", "fp32"].bytes_step == pytest.approx(4 / 3 * 4 * PARAMETERS)
    assert ways["diloco", "int8"].bytes_step * ways["diloco", "int8"].local_steps == pytest.approx(4 / 3 * PARAMETERS)


def test_energy_is_reported_where_every_machine_tells() -> None:
    told = [{**case, "energy_j_step": 12.0} for case in probe()["cases"]]
    with_meter, without = group(0.4, cases=told)[0], read_candidate(probe(), "other")
    whole = found([with_meter, with_meter.model_copy(update={"name": "m1"})], SITE).chosen
    part = found([with_meter, without], SITE).chosen
    assert whole is not None
    assert part is not None
    assert (whole.energy_j_step, part.energy_j_step) == (24.0, None)


def test_files_are_read_and_refused_with_the_next_action(tmp_path: Path) -> None:
    (tmp_path / "alpha.json").write_text(json.dumps(probe()))
    (tmp_path / "beta.json").write_text(json.dumps(probe(0.5)))
    written = {"format": "choroid-links/1", "name": "alpha", "links": {"beta": {"round_trip_s": 0.01, "up_bit_s": 1e8, "down_bit_s": 5e7}}}  # fmt: skip  # noqa: E501
    (tmp_path / "links.json").write_text(json.dumps(written))
    candidates, table = read_probes([tmp_path / f"{name}.json" for name in ("alpha", "beta", "links")])
    assert [each.name for each in candidates] == ["alpha", "beta"]
    back = table.between("beta", "alpha")
    assert back is not None
    assert (back.up_bit_s, back.bit_s) == (5e7, 5e7)
    for text, said in (
        ("no JSON", "cannot be read"),
        (json.dumps({"format": "choroid-links/1", "links": 3}), "holds no links"),
        (json.dumps(probe(cases=[])), "is no measurement of a member"),
        ("[]", "is no measurement of a member"),
    ):
        (tmp_path / "gamma.json").write_text(text)
        with pytest.raises(GridError, match=f"{said}.*Next: "):
            read_probes([tmp_path / "gamma.json"])
    with pytest.raises(GridError, match="alpha occurs twice"):
        read_probes([tmp_path / "alpha.json"] * 2)
    with pytest.raises(GridError, match="different models"):
        plan(REQUEST, [candidates[0], read_candidate(probe(parameters=5), "b")], table)
    with pytest.raises(GridError, match="there are no members"):
        plan(REQUEST, [], table)


JOB = """
name: trial
preset: base
data: {train: [%s]}
ranks: {max: 3, min: 1}
local_steps: 10
outer_steps: 10
batch: 8
inner: {rate: 1e-3}
budget: {core_hours: 20, bytes: 1000000000000}
"""


def settings(folder: Path, **other: Any) -> PlanSettings:
    return PlanSettings(**{"data": folder, "here": None, "keep": None, "micro_batches": (), "memory_gb": None, "picture": None, **other})  # fmt: skip  # noqa: E501


def test_the_command_prints_a_table_and_draws_the_plan(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(JOB % ("a" * 64))
    (tmp_path / "alpha.json").write_text(json.dumps(probe()))
    drawn = tmp_path / "plan.svg"
    answer = planned(job, [tmp_path / "alpha.json"], settings(tmp_path, picture=drawn))
    text = text_of(answer)
    assert "engine: ddp, codec: fp32" in text
    assert "members: alpha" in text
    assert "energy: not known; the machines do not tell" in text
    assert drawn.read_text().startswith("<svg")
    nothing = planned(job, [tmp_path / "alpha.json"], settings(tmp_path, memory_gb=0.5))
    assert nothing["chosen"] is None
    assert "nothing fits. It would fit with:" in text_of(nothing)
    job.write_text((JOB % ("a" * 64)).replace("preset: base", "preset: large"))
    with pytest.raises(GridError, match="measured with the preset base, and the job has large"):
        planned(job, [tmp_path / "alpha.json"], settings(tmp_path))


def test_the_picture_is_to_scale_and_escapes_names() -> None:
    members = [each.model_copy(update={"name": f"<{each.name}>"}) for each in group(0.4, 0.4)]
    chosen = found(members, FAR_SLOW).chosen
    assert chosen is not None
    drawn = picture(chosen)
    assert "&lt;m0&gt;" in drawn
    assert "<m0>" not in drawn
    widths = [float(part.split('"')[0]) for part in drawn.split('width="')[1:3]]
    whole = chosen.local_steps * chosen.compute_s + chosen.sync_s
    assert widths[1] / sum(widths) == pytest.approx(chosen.sync_s / whole, rel=0.01)


async def test_a_silent_connection_does_not_hold_a_probe_and_a_result_is_asked_for_where_it_belongs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three ranks; a fourth program says nothing, falls silent in a measurement, and says results of others."""
    monkeypatch.setattr(links, "SILENT_S", 0.5)
    false = json.dumps({"round_trip_s": 1.0, "up_bit_s": 1.0, "down_bit_s": 1.0}).encode()
    with loopback_bases(1) as (base,):
        addresses = [f"{base}.1.{1 + rank}" for rank in range(3)]
        probes = [LinkProbe(rank, addresses, 29_481, steady_s=0.01) for rank in range(3)]
        last = asyncio.create_task(probes[2].run())
        await asyncio.sleep(0.1)
        opened = [await asyncio.open_connection(addresses[2], 29_481) for _ in range(4)]
        (_, quiet), (_, begun), (liar, lie), (_, wrong) = opened
        begun.write(links.HEAD.pack(links.UP, 1000))
        await asyncio.sleep(1.0)
        lie.write(links.HEAD.pack(links.RESULT, 0) + false)
        wrong.write(links.HEAD.pack(links.RESULT, 2) + false)
        assert await liar.read(1) == b"", "rank 0 does not run: nothing comes from there"
        found = [*await asyncio.gather(*(each.run() for each in probes[:2])), await last]
        for _, writer in opened:
            writer.close()
    assert [sorted(each) for each in found] == [[1, 2], [0, 2], [0, 1]]
    assert found[2][0] == found[0][2].reversed()
    assert found[2][0].round_trip_s < 1.0
    assert quiet.is_closing()


async def test_links_are_measured_between_all_ranks_and_both_ends_know() -> None:
    addresses = ["127.0.0.31", "127.0.0.32", "127.0.0.33"]
    probes = [LinkProbe(rank, addresses, 29_481, steady_s=0.01) for rank in range(3)]
    found = await asyncio.gather(*(each.run() for each in probes))
    assert [sorted(each) for each in found] == [[1, 2], [0, 2], [0, 1]]
    assert found[0][1] == found[1][0].reversed()
    assert all(link.bit_s > 1e6 and 0 < link.round_trip_s < 5 for each in found for link in each.values())
