"""`choroid grid plan`: the plan of a training job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grid.errors import GridError
from grid.jobs.manifest import JobManifest, read_job
from grid.planning.candidates import read_probes
from grid.planning.here import measure_here, micro_batches
from grid.planning.picture import picture
from grid.planning.plan import PlanRequest, plan


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """What the command is asked for in addition to the files: see the options of `choroid grid plan`."""

    data: Path
    here: str | None
    keep: Path | None
    micro_batches: Sequence[int]
    memory_gb: float | None
    picture: Path | None


def planned(job: Path, probes: Sequence[Path], settings: PlanSettings) -> dict[str, Any]:
    """Return the plan of a job as plain data.

    Args:
        job: Its manifest.
        probes: Files of measurements.
        settings: What else was asked for.

    Raises:
        GridError: The manifest or a file is refused, or there is nothing to plan with.
    """
    manifest = read_job(job)
    if manifest.engine == "federated":
        raise GridError(f"{job}: a federated job has no plan, for its data stay where they are. Next: submit it")
    if settings.keep is not None and settings.here is None:
        raise GridError("--keep writes what --here measures. Next: add --here NAME")
    candidates, links = read_probes(probes)
    if settings.here is not None:
        if settings.here in {each.name for each in candidates}:
            raise GridError(f"there is a file for {settings.here} already. Next: leave it out, or use another name")
        sizes = settings.micro_batches or micro_batches(manifest.batch)
        candidates.append(measure_here(manifest, settings.data, settings.here, sizes, settings.keep))
    for each in candidates:
        if each.preset != manifest.preset:
            raise GridError(
                f"{each.name} was measured with the preset {each.preset}, and the job has {manifest.preset}. Next:"
                " measure it again with --here"
            )
    if settings.memory_gb is not None:
        memory = int(1e9 * settings.memory_gb)
        candidates = [each.model_copy(update={"memory_bytes": memory}) for each in candidates]
    found = plan(request_of(manifest), candidates, links)
    if settings.picture is not None and found.chosen is not None:
        try:
            settings.picture.write_text(picture(found.chosen), encoding="utf-8")
        except OSError as error:
            raise GridError(f"{settings.picture} cannot be written ({error.strerror}). Next: name another") from None
    return {"job": manifest.name, "preset": manifest.preset, **found.to_json()}


def request_of(manifest: JobManifest) -> PlanRequest:
    """Return what a manifest asks of a plan."""
    most = manifest.ranks.max
    steps = manifest.local_steps * manifest.outer_steps
    return PlanRequest(
        manifest.batch,
        samples=steps * manifest.batch * most,
        ranks=(manifest.ranks.required, most),
        core_hours=manifest.budget.core_hours,
        max_bytes=manifest.budget.bytes,
        checkpoint_every=manifest.checkpoint_every,
    )


def text_of(answer: Mapping[str, Any]) -> str:
    """Return the plan for people."""
    lines = [f"{answer['job']}, preset {answer['preset']}"]
    chosen = answer["chosen"]
    if chosen is None:
        lines.append("nothing fits. It would fit with:")
        lines += [f"  {each}" for each in answer["would_fit"]]
    else:
        lines += _chosen_lines(chosen, answer["totals"])
    lines += [f"left out: {name}: {reason}" for name, reason in answer["left_out"].items()]
    lines += [f"warning: {each}" for each in answer["warnings"]]
    if answer["against"]:
        lines.append(f"{'engine':7} {'codec':9} {'H':>6} {'samples/s':>10} {'MB a step':>10} {'GB':>6}  why not")
    for each in answer["against"]:
        lines.append(
            f"{each['engine']:7} {each['codec']:9} {each['local_steps']:6} {each['samples_s']:10.3g}"
            f" {each['bytes_step'] / 1e6:10.3g} {max(each['peak_bytes'].values()) / 1e9:6.3g}  {each['reason']}"
        )
    return "\n".join(lines)


def _chosen_lines(chosen: Mapping[str, Any], totals: Mapping[str, float]) -> list[str]:
    again = ", activations computed again" if chosen["recompute"] else ""
    lines = [
        f"engine: {chosen['engine']}, codec: {chosen['codec']}, local_steps: {chosen['local_steps']},"
        f" micro_batch: {chosen['micro_batch']}{again}",
        f"members: {', '.join(chosen['members'])}",
        f"step: {chosen['step_s']:.3g} s ({chosen['compute_s']:.3g} s of it computing),"
        f" {chosen['samples_s']:.3g} samples/s",
        f"traffic: {chosen['bytes_step'] / 1e6:.3g} MB a step from each member",
        "memory: " + ", ".join(f"{name} {peak / 1e9:.3g} GB" for name, peak in chosen["peak_bytes"].items()),
        "energy: not known; the machines do not tell"
        if chosen["energy_j_step"] is None
        else f"energy: {chosen['energy_j_step']:.3g} J a step",
    ]
    if totals:
        lines.append(
            f"the whole job: outer_steps: {totals['outer_steps']}, {totals['hours']:.3g} h,"
            f" {totals['bytes'] / 1e9:.3g} GB sent,"
            f" {totals['core_hours']:.3g} core-hours" + (f", {totals['kwh']:.3g} kWh" if "kwh" in totals else "")
        )
    return lines
