"""The sink of an InfluxDB v2 API (InfluxDB 2 and later, VictoriaMetrics): every new reading as line protocol, in order (D1).

    readings,point=balance.mass,quality=good,rig=bench,rig_id=0c9b5a7f21de,unit=g value=3.02 1767225605000

Time is when the reading was taken, in milliseconds. A reading that never had a value, or lost it, has the field `missing`
instead. One whose device says that the value is still in motion has the field `stable=false` as well. What is sent twice is
the same point of the same series at the same moment, which such a database keeps once.

A reading that the database refuses for what it says (HTTP 400, 413, 422: another type of field in its bucket, say) would be
refused for ever and hold up all that come after it. Its message is halved until the reading is found, which is given up,
counted and logged, while the others go through. That is done only while the database accepts anything: when it refuses the
oldest message and the newest, all of them wait, and an alarm says so.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import aiohttp
from influxdb_client.client.influxdb_client_async import InfluxDBClientAsync
from influxdb_client.client.write.point import Point
from influxdb_client.domain.write_precision import WritePrecision
from influxdb_client.rest import ApiException

from controller.rig.sinks import Influx
from controller.telemetry.batches import Taken
from controller.telemetry.outbox import Outbox
from controller.telemetry.sink import OutboxSink

logger = logging.getLogger(__name__)

Refusal = Callable[[Sequence[bytes]], Awaitable[str]]
"""Writes lines and returns why they are refused; empty when they are not."""
PRECISION: Any = WritePrecision.MS  # a plain text, whatever the package's annotations say
TIMEOUT_MS = 10_000
MAX_REFUSALS = 16
"""Number of refused readings, with none accepted, after which a whole message counts as refused."""
AT_ONCE = 100
"""Maximum number of messages in one request, about 2,000 readings of a default rig."""
REFUSED = frozenset((400, 413, 422))


class RefusedAll(ConnectionError):
    """The database accepts nothing of what waits."""

    remedy = "read why it refuses, and correct its bucket or the rig's readings; nothing is given up meanwhile"


class InfluxSink(OutboxSink):
    """The sink of a database. No database can make it fail."""

    name = "influx"
    outages = (aiohttp.ClientError, OSError, sqlite3.Error)

    def __init__(self, config: Influx, rig_name: str, rig_id: str, outbox: Outbox) -> None:
        """`rig_id` is the identity of the data folder (:mod:`controller.memory.identity`)."""
        super().__init__(f"database {config.url}", outbox)
        self._config = config
        self._tags = (("rig", rig_name), ("rig_id", rig_id))

    def _encoded(self, readings: Sequence[Taken]) -> bytes:
        return "\n".join(self._line(reading) for reading in readings).encode()

    def _line(self, reading: Taken) -> str:
        point: Any = Point.measurement("readings")  # type: ignore[no-untyped-call]
        of_reading = (("point", reading.point), ("unit", reading.unit), ("quality", reading.quality))
        for tag, text in (*self._tags, *of_reading):
            point.tag(tag, text)
        point.field("missing", True) if reading.value is None else point.field("value", reading.value)
        if not reading.stable:
            point.field("stable", False)
        return str(point.time(reading.at, PRECISION).to_line_protocol())

    async def _serve(self) -> None:
        config = self._config
        async with InfluxDBClientAsync(
            config.url, self._token(), config.org, timeout=TIMEOUT_MS, enable_gzip=True, ssl_ca_cert=config.ca_file
        ) as client:
            write = client.write_api()

            async def refusal(lines: Sequence[bytes]) -> str:
                """Write lines; return why the database refuses them, or an empty text."""
                try:
                    await write.write(config.bucket, config.org, b"\n".join(lines), PRECISION)
                except ApiException as error:
                    if error.status not in REFUSED:
                        raise ConnectionError(_in_words(error)) from error
                    return str(error.message or error.reason or error.status)
                return ""

            await self._empty(refusal)

    async def _empty(self, refusal: Refusal) -> None:
        """Send what waits, oldest first, for ever.

        Raises:
            RefusedAll: The database accepts neither the oldest message nor the newest.
        """
        at_once = AT_ONCE
        while True:
            self._news.clear()
            parcels = self._outbox.oldest(at_once)
            if not parcels:
                await self._news.wait()
                continue
            lines = [line for parcel in parcels for line in parcel.payload.splitlines()]
            if not (why := await refusal(lines)):
                at_once = min(2 * at_once, AT_ONCE)
            elif len(parcels) > 1:
                at_once = len(parcels) // 2  # one of them it is; the others are not to go with it
                continue
            else:
                await self._give_up(lines, why, refusal)
            self._came_up()
            self.delivered += len(parcels)
            for parcel in parcels:
                self._outbox.confirmed(parcel.seq)

    async def _give_up(self, lines: list[bytes], why: str, refusal: Refusal) -> None:
        """Find and count the readings of a message that the database refuses; the others go through.

        Raises:
            RefusedAll: As :meth:`_empty`.
        """
        refused = await _refused_of(lines, refusal, MAX_REFUSALS)
        if len(refused) == len(lines):
            newest = self._outbox.newest()
            others = [] if newest is None else newest.payload.splitlines()
            if others == lines or len(await _refused_of(others, refusal, MAX_REFUSALS)) == len(others):
                count = len(self._outbox)
                raise RefusedAll(f"it refuses everything ({why}); {count} message{'s' if count > 1 else ''} held")
            refused = await _refused_of(lines, refusal, len(lines))
        self.refused_readings += len(refused)
        logger.error("%s refuses %d readings (%s); they are given up", self._where, len(refused), why)

    def _token(self) -> str:
        if self._config.token_file is None:
            return ""
        return Path(self._config.token_file).read_text(encoding="utf-8").strip()


async def _refused_of(lines: list[bytes], refusal: Refusal, limit: int) -> list[bytes]:
    """Return the lines that the database refuses, found by halving; the others are written.

    After `limit` refused lines with none accepted, all lines count as refused.
    """
    refused: list[bytes] = []
    accepted = False
    waiting = [lines]
    while waiting:
        piece = waiting.pop()
        if not await refusal(piece):
            accepted = True
        elif len(piece) == 1:
            refused += piece
            if not accepted and len(refused) >= limit:
                return lines
        else:
            half = len(piece) // 2
            waiting += [piece[half:], piece[:half]]
    return refused


def _in_words(error: ApiException) -> str:
    hint = {401: "is the token right?", 403: "may this token write?", 404: "are org and bucket right?"}.get(
        error.status, ""
    )
    return f"it answers {error.status} {error.reason or ''}".rstrip() + (f"; {hint}" if hint else "")
