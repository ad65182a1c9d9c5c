"""Run a seccomp filter program as the kernel would; an interpreter of our own."""

from __future__ import annotations

import sys


def verdict(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """Return what a filter decides of a system call.

    Args:
        program: The filter.
        audit: Number of the machine.
        number: Of the call.
        arguments: Of the call; those that are missing are 0.
    """
    steps = [
        (
            int.from_bytes(program[at : at + 2], sys.byteorder),
            program[at + 2],
            program[at + 3],
            int.from_bytes(program[at + 4 : at + 8], sys.byteorder),
        )
        for at in range(0, len(program), 8)
    ]
    data = {0: number, 4: audit} | {16 + 8 * place: 0 for place in range(6)}
    data |= {16 + 8 * place: argument for place, argument in enumerate(arguments)}
    at = register = 0
    while True:
        code, yes, no, k = steps[at]
        at += 1
        if code == 0x20:
            register = data[k]
        elif code == 0x06:
            return k
        elif code == 0x54:
            register &= k
        elif code == 0x05:
            at += k
        else:
            holds = {0x15: register == k, 0x35: register >= k, 0x45: bool(register & k)}[code]
            at += yes if holds else no
