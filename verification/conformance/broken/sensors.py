"""Defects of sensors: wrong value, unit or sign; old values; hidden failures."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from drivers.commands import Quality
from drivers.conformance.bench import Bench, Sense
from drivers.device import Device
from drivers.errors import DeviceError
from verification.conformance.broken.making import Broken, Points, SensorLayer, around_sensors, remade


def _known(bench: Bench, points: Points) -> list[Sense]:
    return [bench.senses[point] for point in points.sensors if point in bench.senses and bench.senses[point].values]


def _fits(bench: Bench, points: Points) -> bool:
    return bool(_known(bench, points))


def _with(matters: Callable[[Sense], bool]) -> Callable[[Bench, Points], bool]:
    return lambda bench, points: any(matters(sense) for sense in _known(bench, points))


def _slack(sense: Sense) -> float:
    return sense.within + sense.share * max(abs(value) for value in sense.values)


def _altered(alter: Callable[[float, Sense], float]) -> Callable[[Bench], Bench]:
    class Altered(SensorLayer):
        async def read(self) -> float:
            return alter(await self.inner.read(), self.bench.senses[self.point])

    return around_sensors(Altered)


def _on_failure(instead: Callable[[SensorLayer, DeviceError], float]) -> Callable[[Bench], Bench]:
    class Hiding(SensorLayer):
        async def read(self) -> float:
            try:
                self.kept[:] = [await self.inner.read()]
            except DeviceError as error:
                return instead(self, error)
            return self.kept[0]

    return around_sensors(Hiding)


class _WrongUnit(SensorLayer):
    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.unit = "K" if self.inner.unit != "K" else "degC"


class _Stuck(SensorLayer):
    async def read(self) -> float:
        value = await self.inner.read()
        self.kept = self.kept or [value]
        return self.kept[0]


class _Cached(SensorLayer):
    until_s = -math.inf

    async def read(self) -> float:
        now_s = asyncio.get_running_loop().time()
        if now_s >= self.until_s:
            self.kept, self.until_s = [await self.inner.read()], now_s + 60.0
        return self.kept[0]


class _OneBehind(SensorLayer):
    async def read(self) -> float:
        self.kept = [*self.kept[-1:], await self.inner.read()]
        return self.kept[0]


class _Averaged(SensorLayer):
    async def read(self) -> float:
        self.kept = [*self.kept[-1:], await self.inner.read()]
        return sum(self.kept) / len(self.kept)


class _NoNumber(SensorLayer):
    async def read(self) -> float:
        return str(await self.inner.read())  # type: ignore[return-value]


class _AlwaysGood(SensorLayer):
    quality = Quality.GOOD


class _AlwaysBad(SensorLayer):
    quality = Quality.SUSPECT


class _AlwaysStable(SensorLayer):
    stable = True


class _NeverStable(SensorLayer):
    stable = False


class _MotionDoubted(SensorLayer):
    @property
    def quality(self) -> Quality:  # type: ignore[override]
        return self.inner.quality if self.inner.stable else Quality.SUSPECT


def _raise_key_error(sensor: SensorLayer, error: DeviceError) -> float:
    raise KeyError(sensor.point) from error


def _exchanged(device: Device) -> None:
    points = list(device.sensors)
    sensors = [device.sensors[point] for point in points]
    device.sensors.update(zip(points, [*sensors[1:], sensors[0]], strict=True))


def _all_the_first(device: Device) -> None:
    first = next(iter(device.sensors.values()))
    device.sensors.update(dict.fromkeys(device.sensors, first))


def _several(bench: Bench, points: Points) -> bool:
    return len(points.sensors) > 1


def _broken(
    name: str,
    what: str,
    spoil: Callable[[Bench], Bench],
    prop: str = "truth",
    fits: Callable[[Bench, Points], bool] = _fits,
) -> Broken:
    return Broken(name, what, prop, spoil, fits)


SENSORS: tuple[Broken, ...] = (
    _broken("scaled by 100", "every reading is 100 times too large", _altered(lambda v, _: 100.0 * v)),
    _broken("scaled by 0.1", "every reading is a tenth of the truth", _altered(lambda v, _: 0.1 * v)),
    _broken("offset", "every reading is too high by a little", _altered(lambda v, s: v + 5.0 * _slack(s) + 1e-6)),
    _broken("sign reversed", "every reading has the wrong sign", _altered(lambda v, _: -v)),
    _broken(
        "sign lost",
        "negative readings come as positive ones",
        _altered(lambda v, _: abs(v)),
        fits=_with(lambda sense: min(sense.values) < 0.0),
    ),
    _broken("another scale", "readings are converted as if from °C to °F", _altered(lambda v, _: 1.8 * v + 32.0)),
    _broken("wrong unit named", "the value is right and the unit that is named is another", around_sensors(_WrongUnit)),
    _broken(
        "precision lost",
        "readings are rounded to whole numbers",
        _altered(lambda v, _: float(round(v))),
        fits=_with(lambda sense: any(abs(value - round(value)) > 2.0 * _slack(sense) for value in sense.values)),
    ),
    _broken(
        "clipped",
        "readings stop at the first value of the bench",
        _altered(lambda v, s: min(v, s.values[0])),
        fits=_with(lambda sense: max(sense.values) > sense.values[0]),
    ),
    _broken("stuck", "the first reading is returned for ever", around_sensors(_Stuck)),
    _broken("cached", "a reading is kept and returned for a minute", around_sensors(_Cached)),
    _broken("one behind", "the reading before is returned", around_sensors(_OneBehind)),
    _broken("averaged", "the mean of the last two readings is returned", around_sensors(_Averaged)),
    _broken("no number", "the reading is a text", around_sensors(_NoNumber)),
    _broken("channels exchanged", "each point reads its neighbour", lambda b: remade(b, _exchanged), fits=_several),
    _broken("one channel for all", "every point reads the first", lambda b: remade(b, _all_the_first), fits=_several),
    _broken(
        "trusted by default",
        "the quality is good, whatever the device says",
        around_sensors(_AlwaysGood),
        "doubt",
        _with(lambda sense: sense.doubts),
    ),
    _broken("distrusted by default", "the quality is never good, whatever the device says", around_sensors(_AlwaysBad)),
    _broken(
        "stable by default",
        "a value in motion is called stable",
        around_sensors(_AlwaysStable),
        "motion",
        _with(lambda sense: sense.moves),
    ),
    _broken("never stable", "a value at rest is said to be in motion", around_sensors(_NeverStable)),
    _broken(
        "motion doubted",
        "a value in motion is called suspect",
        around_sensors(_MotionDoubted),
        "motion",
        _with(lambda sense: sense.moves),
    ),
    _broken("nan on failure", "a failed reading is nan", _on_failure(lambda s, e: math.nan), "silence"),
    _broken("zero on failure", "a failed reading is 0", _on_failure(lambda s, e: 0.0), "silence"),
    _broken(
        "last value on failure",
        "a failed reading is the last good one",
        _on_failure(lambda s, e: s.kept[0] if s.kept else 0.0),
        "silence",
    ),
    _broken("wrong exception", "a failed reading raises KeyError", _on_failure(_raise_key_error), "silence"),
)
"""Defects of any sensor."""
