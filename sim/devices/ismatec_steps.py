"""Commands of a Reglo ICC about times and roller steps (manual 14-036-E Rev. C, references 3.25, 3.26 and 6.25 to 6.39).

`V` and `T` are the run and pause time as older pumps have them, in 0.1 s, minutes or hours. `U` and `u` are the low and high
word of the roller steps of a dose, `r` is the volume of one roller step. `xv` and `xw` tell how long a volume takes. The
manual does not name the unit of the value that `r` takes: here it is nL, as in its answer.
"""

from __future__ import annotations

from sim.devices.ismatec_channel import PumpChannel
from sim.devices.ismatec_numbers import LONGEST_TENTHS, digits, from_volume_2, ml_per_revolution, volume_1

WORD = 65_536
ML_PER_NL = 1e-6
_TIMES = {"V": "run_s", "T": "pause_s"}
_UNITS = (("M", 60.0, 3), ("H", 3600.0, 3), ("", 0.1, 4))
"""Letter after `V` or `T`, its unit (s), and digits of the value."""


def answer(channel: PumpChannel, request: str) -> str | bool | None:
    """Return the data, or whether it was done, or None for any other request."""
    code = request[:2] if request[0] == "x" else request[0]
    argument = request[len(code) :]
    match code:
        case "xv" | "xw":
            return _time_for(channel, argument, by_speed=code == "xw")
        case "V" | "T":
            return _time(channel, _TIMES[code], argument)
        case "U" | "u":
            return _steps(channel, argument, high=code == "u")
        case "r":
            return _step_volume(channel, argument)
    return None


def _time_for(channel: PumpChannel, argument: str, *, by_speed: bool) -> str | bool:
    volume_text, _, rate_text = argument.partition("|")
    volume_ml = from_volume_2(volume_text)
    if by_speed:
        ml_min = (digits(rate_text, 6) or 0) / 100.0 * channel.settings.ml_per_rev
    else:
        ml_min = from_volume_2(rate_text) or 0.0
    if volume_ml is None or not ml_min:
        return False
    tenths = round(volume_ml / ml_min * 600.0)
    return str(tenths) if tenths <= LONGEST_TENTHS else False


def _time(channel: PumpChannel, setting: str, argument: str) -> str | bool:
    if not argument:
        return str(min(9999, round(getattr(channel.settings, setting) * 10.0)))
    letter, unit_s, width = next(unit for unit in _UNITS if argument.startswith(unit[0]))
    count = digits(argument[len(letter) :], width)
    return count is not None and channel.configure(**{setting: count * unit_s})


def _step_ml(channel: PumpChannel) -> float:
    return channel.settings.ml_per_rev / channel.settings.rollers


def _steps(channel: PumpChannel, argument: str, *, high: bool) -> str | bool:
    upper, lower = divmod(round(channel.settings.volume_ml / _step_ml(channel)), WORD)
    if not argument:
        return f"{upper if high else lower:06d}"
    word = digits(argument, 5)
    if word is None or word >= WORD:
        return False
    steps = word * WORD + lower if high else upper * WORD + word
    return channel.configure(volume_ml=steps * _step_ml(channel))


def _step_volume(channel: PumpChannel, argument: str) -> str | bool:
    if not argument:
        return volume_1(_step_ml(channel) / ML_PER_NL)
    step_nl = from_volume_2(argument)
    if not step_nl:
        return False
    settings = channel.settings
    return channel.configure(calibration=step_nl * ML_PER_NL * settings.rollers / ml_per_revolution(settings.tubing))
