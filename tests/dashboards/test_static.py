"""The page's own files: nothing from elsewhere, nothing missing, nothing hard to read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dashboards.app import STATIC

FILES = sorted(path for path in STATIC.rglob("*") if path.is_file())
TEXTS = {path: path.read_text(encoding="utf-8") for path in FILES}
NAMESPACE = "http://www.w3.org/2000/svg"


def test_the_page_needs_nothing_from_a_network() -> None:
    for path, text in TEXTS.items():
        addresses = set(re.findall(r"""(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s"'`)]*""", text)) - {NAMESPACE}
        assert addresses == set(), path
    assert sum(path.stat().st_size for path in FILES) < 450_000


def test_every_file_that_is_named_exists() -> None:
    for path, text in TEXTS.items():
        for named in re.findall(r"""(?:from|src=|href=)\s*["']([./][^"'#]+)["']""", text):
            target = STATIC / named.removeprefix("/static/") if named.startswith("/static/") else path.parent / named
            assert target.is_file(), (path.name, named)


def test_nothing_is_parsed_as_markup_or_run_from_text() -> None:
    """S3, S5: names and details from devices and people are text, whatever they contain."""
    for path, text in TEXTS.items():
        if path.suffix in (".js", ".html"):
            assert (
                re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text) is None
            )
    page = TEXTS[STATIC / "index.html"]
    assert re.search(r"\son[a-z]+=|style=|<script(?![^>]*src=)", page) is None


def test_every_element_that_scripts_look_for_is_on_the_page() -> None:
    page = TEXTS[STATIC / "index.html"]
    present = set(re.findall(r'\bid="([^"]+)"', page))
    for path, text in TEXTS.items():
        if path.suffix == ".js":
            assert set(re.findall(r'byId\("([^"]+)"', text)) <= present, path.name


def colors(theme: str) -> dict[str, str]:
    css = TEXTS[STATIC / "css" / "base.css"]
    block = re.search(r":root" + (r'\[data-theme="light"\]' if theme == "light" else "") + r" \{(.*?)\n\}", css, re.S)
    assert block is not None
    return dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", block[1]))


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("ink", ["ink", "dim", "accent", "good", "fair", "poor", "series-1", "series-2", "series-3"])
@pytest.mark.parametrize("ground", ["card", "raised"])
def test_text_stands_out_from_its_ground(theme: str, ink: str, ground: str) -> None:
    """WCAG 2 AA: 4.5 to 1."""
    found = colors(theme)
    lighter, darker = sorted((luminance(found[ink]), luminance(found[ground])), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= 4.5


def test_static_files_are_the_packages_own() -> None:
    assert Path(STATIC).name == "static"
    assert {path.suffix for path in FILES} <= {".html", ".css", ".js", ".svg"}
