"""One parser under libFuzzer: `python -m tests.fuzz.target SIDE MODEL [options of libFuzzer] [corpus…]`.

The code of drivers and simulated devices is instrumented as it is imported, so that an input which reaches a new branch
is kept and bred from.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["drivers", "sim.devices"], enable_loader_override=False):
    from tests.fuzz.sides import FOUND, SIDES, Fuzzed, Side

LENGTH = 48
"""Most bytes of an input, unless a golden frame is longer: some six requests, or one answer and what spoils it."""


def main() -> None:
    """Fuzz until libFuzzer's own bounds are reached; it ends the process, with a status that is not 0 on a finding."""
    side, model, *options = sys.argv[1:]
    one = SIDES[side](model)
    with tempfile.TemporaryDirectory() as folder:
        seeds = list(one.seeds())
        longest = max(LENGTH, *map(len, seeds))
        for number, seed in enumerate(seeds):
            (Path(folder) / f"{number:04}").write_bytes(seed)
        (Path(folder) / "words").write_text(_dictionary(one), encoding="ascii")
        given = [
            f"-artifact_prefix={FOUND / f'{side}-{model}'}/",
            f"-max_len={longest}",
            "-timeout=20",
            f"-dict={folder}/words",
            "-verbosity=1",
        ]
        atheris.Setup([sys.argv[0], *given, *options, folder], Fuzzed(one), internal_libfuzzer=True)
        atheris.Fuzz()


def _dictionary(one: Side) -> str:
    """The pieces of which golden frames are made, as libFuzzer reads them."""
    words: dict[bytes, None] = {}
    for seed in one.seeds():
        for word in re.findall(rb"[A-Za-z]+|[0-9.]+|[^A-Za-z0-9.]{1,4}", seed[1:]):
            words.setdefault(word[:32])
    return "".join('"' + "".join(f"\\x{byte:02X}" for byte in word) + '"\n' for word in list(words)[:400] if word)


if __name__ == "__main__":
    main()
