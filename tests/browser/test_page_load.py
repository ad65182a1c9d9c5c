"""What a page costs on the wire: few requests and bytes at first, nothing of its own files again."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser

from tests.browser.page_load import loads
from tests.browser.pages import Server

pytestmark = pytest.mark.needs("chromium-headless-shell", "chromium")

MAX_REQUESTS = 25
MAX_BYTES = 300_000


def test_a_page_loads_with_few_requests_and_a_reload_takes_no_file_again(browser: Browser, server: Server) -> None:
    first, again = loads(browser, server.url)
    assert len(first.addresses) <= MAX_REQUESTS, first.addresses
    assert first.bytes <= MAX_BYTES
    files = first.types["Script"] + first.types["Stylesheet"]
    assert files == 2
    assert len({urlsplit(each).path for each in first.addresses}) >= 10, "the page has read its parts"
    assert again.bytes < first.bytes - 100_000
