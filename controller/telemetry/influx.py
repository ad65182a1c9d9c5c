"""The sink of an InfluxDB v2 API (InfluxDB 2 and later, VictoriaMetrics): every new reading as line protocol, in order (D1).

    readings,point=balance.mass,quality=good,rig=bench,unit=g value=3.02 1767225605000

Time is when the reading was taken, in milliseconds. A reading that never had a value, or lost it, has the field `missing`
instead. One whose device says that the value is still in motion has the field `stable=false` as well. What is sent twice is
the same point of the same series at the same moment, which such a database keeps once.

A message that the database refuses for what it says (HTTP 400, 413, 422: another type of field in its bucket, say) would be
refused for ever and hold up all that come after it. It is given up, counted and logged; everything else waits and is tried
again.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
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

PRECISION: Any = WritePrecision.MS  # a plain text, whatever the package's annotations say
TIMEOUT_MS = 10_000
AT_ONCE = 100
"""Maximum number of messages in one request, about 2,000 readings of a default rig."""
REFUSED = frozenset((400, 413, 422))


class InfluxSink(OutboxSink):
    """The sink of a database. No database can make it fail."""

    name = "influx"
    outages = (aiohttp.ClientError, OSError, sqlite3.Error)

    def __init__(self, config: Influx, rig_name: str, outbox: Outbox) -> None:
        super().__init__(f"database {config.url}", outbox)
        self._config = config
        self._rig = rig_name
        self.given_up = 0
        """Number of messages since the start that the database refused for their contents."""

    def _encoded(self, readings: Sequence[Taken]) -> bytes:
        return "\n".join(self._line(reading) for reading in readings).encode()

    def _line(self, reading: Taken) -> str:
        point: Any = Point.measurement("readings")  # type: ignore[no-untyped-call]
        for tag, text in (
            ("rig", self._rig), ("point", reading.point), ("unit", reading.unit), ("quality", reading.quality)
        ):  # fmt: skip
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
            at_once = AT_ONCE
            while True:
                self._news.clear()
                parcels = self._outbox.oldest(at_once)
                if not parcels:
                    await self._news.wait()
                    continue
                lines = b"\n".join(parcel.payload for parcel in parcels)
                try:
                    await write.write(config.bucket, config.org, lines, PRECISION)
                except ApiException as error:
                    if error.status not in REFUSED:
                        raise ConnectionError(_in_words(error)) from error
                    if len(parcels) > 1:
                        at_once = 1  # one of them it is; the others are not to go with it
                        continue
                    self.given_up += 1
                    logger.error("%s refuses a message of readings; it is given up: %s", self._where, error.message)
                else:
                    self.delivered += len(parcels)
                    at_once = min(2 * at_once, AT_ONCE)
                self._came_up()
                for parcel in parcels:
                    self._outbox.confirmed(parcel.seq)

    def _token(self) -> str:
        if self._config.token_file is None:
            return ""
        return Path(self._config.token_file).read_text(encoding="utf-8").strip()


def _in_words(error: ApiException) -> str:
    hint = {401: "is the token right?", 403: "may this token write?", 404: "are org and bucket right?"}.get(
        error.status, ""
    )
    return f"it answers {error.status} {error.reason or ''}".rstrip() + (f"; {hint}" if hint else "")
