"""A picture of a plan (SVG): the members of the cohort over one round of computing and synchronising."""

from __future__ import annotations

from html import escape

from grid.planning.options import TrainingOption

WIDTH, LEFT, ROW, TOP = 760, 120, 30, 64
COMPUTE, SYNC, LINE, TEXT = "#3b6ea5", "#d08a2e", "#c8ccd2", "#1d232b"


def picture(chosen: TrainingOption) -> str:
    """Return the picture of the chosen way: computing and synchronising of each member, to scale."""
    diloco = chosen.engine == "diloco"
    compute_s = chosen.compute_s * (chosen.local_steps if diloco else 1)
    whole_s = compute_s + chosen.sync_s
    scale = (WIDTH - LEFT - 20) / whole_s
    height = TOP + ROW * len(chosen.members) + 46
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' font-family="sans-serif" font-size="13" fill="{TEXT}">',
        f"<title>{escape(chosen.label)}</title>",
        f'<text x="10" y="24" font-size="15">{escape(chosen.label)}</text>',
        f'<text x="10" y="46">{chosen.samples_s:.3g} samples/s, {chosen.bytes_step / 1e6:.3g} MB a step and member,'
        f" {max(chosen.peak_bytes.values()) / 1e9:.3g} GB at most</text>",
    ]
    for number, name in enumerate(chosen.members):
        top = TOP + ROW * number
        parts += [
            f'<text x="10" y="{top + 17}">{escape(name[:16])}</text>',
            f'<rect x="{LEFT}" y="{top}" width="{compute_s * scale:.1f}" height="{ROW - 8}" fill="{COMPUTE}"/>',
            f'<rect x="{LEFT + compute_s * scale:.1f}" y="{top}" width="{chosen.sync_s * scale:.1f}" height="{ROW - 8}"'
            f' fill="{SYNC}"/>',
        ]
    foot = TOP + ROW * len(chosen.members)
    what = f"{chosen.local_steps} local steps" if diloco else "one step"
    parts += [
        f'<line x1="{LEFT}" y1="{foot}" x2="{WIDTH - 20}" y2="{foot}" stroke="{LINE}"/>',
        f'<text x="{LEFT}" y="{foot + 18}">0</text>',
        f'<text x="{WIDTH - 20}" y="{foot + 18}" text-anchor="end">{whole_s:.3g} s</text>',
        f'<rect x="{LEFT}" y="{foot + 28}" width="10" height="10" fill="{COMPUTE}"/>',
        f'<text x="{LEFT + 16}" y="{foot + 38}">{what}: {compute_s:.3g} s</text>',
        f'<rect x="{LEFT + 220}" y="{foot + 28}" width="10" height="10" fill="{SYNC}"/>',
        f'<text x="{LEFT + 236}" y="{foot + 38}">synchronisation: {chosen.sync_s:.3g} s</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"
