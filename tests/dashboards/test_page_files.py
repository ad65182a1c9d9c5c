"""The page's files as they are sent: joined, named by their content, compressed, and sent once."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping

import pytest

from dashboards.app import STATIC
from dashboards.auth import Role
from dashboards.compression import MAX_BYTES, MIN_BYTES
from dashboards.page_bundle import joined_modules
from dashboards.page_files import PageFiles
from tests.dashboards.world import world

MAX_LOAD_BYTES = 130_000
ACCEPT = "accept-encoding"


async def test_a_page_names_two_files_of_its_own_that_a_browser_keeps_for_ever() -> None:
    async with world() as w, w.http(None, **{ACCEPT: "gzip"}) as browser:
        page = await browser.get("/")
        named = re.findall(r'(?:href|src)="(/static/[^"]+\.(?:js|css))"', page.text)
        assert len(named) == 2
        size = len(gzip.compress(page.content))
        for path in named:
            answer = await browser.get(path)
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert answer.headers["content-encoding"] == "gzip"
            assert answer.headers["vary"] == "Accept-Encoding"
            size += int(answer.headers["content-length"])
            plain = await browser.get(path, headers={ACCEPT: "identity"})
            assert "content-encoding" not in plain.headers
            assert plain.content == answer.content
        assert size < MAX_LOAD_BYTES


@pytest.mark.parametrize("path", ["/", "/static/icon.svg", "/static/js/main.js"])
async def test_a_copy_that_is_current_is_not_sent_again(path: str) -> None:
    async with world() as w, w.http() as browser:
        first = await browser.get(path)
        assert "no-cache" in first.headers["cache-control"]
        again = await browser.get(path, headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
        other = await browser.get(path, headers={"if-none-match": 'W/"0123456789abcdef"'})
        assert (other.status_code, other.content) == (200, first.content)


async def test_the_page_itself_is_kept_by_no_proxy_for_it_may_begin_a_session() -> None:
    async with world(demo=True) as w, w.http() as browser:
        page = await browser.get("/")
        assert page.headers["cache-control"] == "private, no-cache"
        browser.cookies.clear()
        again = await browser.get("/", headers={"if-none-match": page.headers["etag"]})
        assert again.status_code == 304
        assert "choroid_session_8080" in again.cookies


async def test_files_are_only_read() -> None:
    async with world() as w, w.http(Role.ADMIN) as admin:
        assert (await admin.post("/static/icon.svg")).status_code == 405
        assert (await admin.head("/static/icon.svg")).status_code == 200


def test_the_same_files_have_the_same_addresses() -> None:
    one, other = PageFiles(STATIC), PageFiles(STATIC)
    assert one.index.body == other.index.body
    assert one.index.packed == other.index.packed


MODULES = {
    "main.js": 'import { add } from "./sums/add.js";\nimport {\n  ONE as one,\n} from "./one.js";\nshow(add(one, 2));\n',
    "sums/add.js": 'import { ONE } from "../one.js";\nexport const add = (a, b) => a + b * ONE;\n',
    "one.js": "const hidden = 1;\nexport const ONE = hidden;\nexport async function never() {}\nexport class Two {}\n",
}


def test_each_module_is_joined_once_after_those_that_it_imports() -> None:
    text = joined_modules(MODULES, "main.js")
    assert re.findall(r"^// (.+)$", text, re.MULTILINE) == ["one.js", "sums/add.js", "main.js"]
    assert "const { ONE: one } = $one;" in text
    assert "return { ONE, never, Two };" in text
    assert re.search(r"^\s*(import|export)\b", text, re.MULTILINE) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"one.js": 'import { add } from "./sums/add.js";\n'}, "import each other: main.js > sums/add.js > one.js"),
        ({"one.js": "export default 1;\n"}, "export default 1"),
        ({"one.js": "export let count = 1;\n"}, "export let count"),
        ({"one.js": 'import "./other.js";\n'}, "import by name|cannot be joined"),
        ({"one.js": 'const late = await import("./other.js");\n'}, "cannot be joined"),
        ({"main.js": 'import { a } from "./none.js";\n'}, "none.js, which does not exist"),
    ],
)
def test_a_form_that_cannot_be_joined_is_refused(change: Mapping[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        joined_modules({**MODULES, **change}, "main.js")


async def test_long_answers_of_the_api_are_compressed_for_those_who_take_it() -> None:
    async with (
        world() as w,
        w.http(Role.VIEWER, **{ACCEPT: "gzip"}) as packed,
        w.http(Role.VIEWER, **{ACCEPT: ""}) as plain,
    ):
        one, other = await packed.get("/api/rig"), await plain.get("/api/rig")
        assert len(other.content) > MIN_BYTES
        assert one.headers["content-encoding"] == "gzip"
        assert "Accept-Encoding" in one.headers["vary"]
        assert int(one.headers["content-length"]) < len(other.content) / 2
        assert one.json() == other.json()
        assert "content-encoding" not in other.headers
        short = await packed.get("/health")
        assert "content-encoding" not in short.headers
        assert one.headers["cache-control"] == other.headers["cache-control"] == "no-store"


async def test_an_answer_with_a_secret_or_too_long_for_the_loop_is_not_compressed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as w, w.http(Role.ADMIN, **{ACCEPT: "gzip"}) as admin:
        fresh = await admin.post("/api/users", json={"name": "ada", "role": "viewer", "reason": "r" * 900})
        assert fresh.json()["token"]
        assert "content-encoding" not in fresh.headers
        rig = await admin.get("/api/rig")
        assert len(rig.content) < MAX_BYTES
        monkeypatch.setattr("dashboards.compression.MAX_BYTES", len(rig.content) - 1)
        assert "content-encoding" not in (await admin.get("/api/rig")).headers
