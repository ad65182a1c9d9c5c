"""One Chromium, and one page over the small controller, for each file of browser tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.pages import Server, chromium, serving


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as found:
        yield found
