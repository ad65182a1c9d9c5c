"""`make types`: write dashboards/static/js/cards.js, which starts each card of the folder dashboards/static/js/cards."""

from __future__ import annotations

from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent / "dashboards" / "static" / "js"
TARGET = SCRIPTS / "cards.js"


def text() -> str:
    """Return the script."""
    names = sorted(path.stem for path in (SCRIPTS / "cards").glob("*.js"))
    return "\n".join(
        [
            "// Generated from the folder cards by `make types`; do not edit.",
            "",
            *(f'import {{ start as {name} }} from "./cards/{name}.js";' for name in names),
            "",
            '/** @import { Rig } from "../../types/live.d.ts" */',
            "",
            "/** @type {Record<string, (rig: Rig) => void>} */",
            "const CARDS = {",
            *(f"  {name}," for name in names),
            "};",
            "",
            "/**",
            " * Start every card.",
            " * @param {Rig} rig",
            " */",
            "export function startCards(rig) {",
            "  for (const start of Object.values(CARDS)) start(rig);",
            "}",
            "",
        ]
    )


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
