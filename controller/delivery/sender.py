"""A process that delivers one message or one ping and ends: `python -P -m controller.delivery.sender`.

It reads one JSON object on standard input and writes one on standard output: `{"ok": true, "detail": "…"}`. Delivery blocks,
may hang in name resolution or in a half-open connection, and runs third-party code; in its own process it can do no more
than fail. The address carries a secret: it comes by standard input, not by the command line, and is removed from everything
that is returned (S4).
"""

from __future__ import annotations

import json
import logging
import re
import signal
import sys
import urllib.error
import urllib.request
from io import StringIO
from typing import Any
from urllib.parse import unquote

LIMIT_S = 60
"""Maximum life of the process (s), even if the controller that started it is gone."""
PING_S = 10.0
MAX_DETAIL = 300


def deliver(order: dict[str, Any]) -> tuple[bool, str]:
    """Deliver a message over Apprise, or ping a monitor. Return whether it was confirmed, and the answer."""
    if "ping" in order:
        return _ping(str(order["ping"]))
    return _apprise(str(order["url"]), str(order["title"]), str(order["body"]), str(order["priority"]))


def _ping(url: str) -> tuple[bool, str]:
    if not re.match(r"https?://", url):
        return False, "the address of the monitor does not begin with http:// or https://"
    try:
        with urllib.request.urlopen(url, timeout=PING_S) as reply:  # noqa: S310  (the scheme was checked)
            return 200 <= reply.status < 300, f"HTTP {reply.status}"
    except urllib.error.HTTPError as error:
        return False, f"HTTP {error.code}"
    except (OSError, ValueError) as error:
        return False, str(getattr(error, "reason", error))


def _apprise(url: str, title: str, body: str, priority: str) -> tuple[bool, str]:
    import apprise

    kinds = {"critical": apprise.NotifyType.FAILURE, "high": apprise.NotifyType.WARNING}
    warnings = StringIO()
    handler = logging.StreamHandler(warnings)
    handler.setLevel(logging.WARNING)
    log = logging.getLogger("apprise")
    log.addHandler(handler)
    asset = apprise.AppriseAsset(app_id="Choroid", app_desc="Choroid", async_mode=False, storage_mode="memory")
    sender = apprise.Apprise(asset=asset)
    try:
        if not sender.add(url):
            return False, "the address in the secret file is no Apprise URL"
        sent = sender.notify(
            body=body,
            title=title,
            notify_type=kinds.get(priority, apprise.NotifyType.INFO),
            body_format=apprise.NotifyFormat.TEXT,
        )
    except Exception as error:  # a plugin's defect is a failed delivery
        return False, f"{type(error).__name__}: {error}"
    if sent:
        return True, "confirmed by the channel"
    words = " ".join(dict.fromkeys(warnings.getvalue().split("\n"))).strip()
    return False, words or "the channel did not take it"


def without_secrets(text: str, url: str) -> str:
    """Replace the address, and every part of it except scheme and host, by an ellipsis."""
    scheme, _, rest = url.partition("://")
    host = re.split(r"[/?]", rest.rpartition("@")[2] if "@" in rest else rest)[0].partition(":")[0]
    parts = {url, unquote(url), rest, unquote(rest)}
    parts |= {part for piece in re.split(r"[:/@?&=,;]", rest) for part in (piece, unquote(piece)) if len(part) >= 3}
    known = {scheme, "", *({host} if "." in host else ())}  # some services have a token in place of a host
    for part in sorted(parts - known, key=len, reverse=True):
        if not (part.isdigit() and len(part) <= 5):  # a port is no secret
            text = text.replace(part, "…")
    return text


def main() -> int:
    """Carry out the order on standard input."""
    signal.alarm(LIMIT_S)
    order = json.load(sys.stdin)
    secret = str(order.get("url") or order.get("ping") or "")
    ok, detail = deliver(order)
    json.dump({"ok": ok, "detail": without_secrets(detail, secret)[:MAX_DETAIL]}, sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
