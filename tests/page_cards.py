"""`make types`: write dashboards/static/js/cards.js, which starts each card of the folder dashboards/static/js/cards."""

from __future__ import annotations

from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent / "dashboards" / "static" / "js"
TARGET = SCRIPTS / "cards.js"


def text(scripts: Path = SCRIPTS) -> str:
    """Return the script for the folder `cards` in `scripts`.

    Raises:
        SystemExit: The name of a card is no identifier.
    """
    names = sorted(path.stem for path in (scripts / "cards").glob("*.js"))
    if wrong := [f"cards/{name}.js" for name in names if not name.isidentifier()]:
        raise SystemExit(f"{', '.join(wrong)}: a card's name is an identifier. Next: name it like cards/probes.js")
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
            " * Start every card. The failure of one is shown on the console and stops no other.",
            " * @param {Rig} rig",
            " */",
            "export function startCards(rig) {",
            "  for (const start of Object.values(CARDS)) {",
            "    try {",
            "      start(rig);",
            "    } catch (error) {",
            "      reportError(error);",
            "    }",
            "  }",
            "}",
            "",
        ]
    )


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
