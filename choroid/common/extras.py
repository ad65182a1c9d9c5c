"""Packages that only some commands need, and that are installed as extras of Choroid."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from choroid.common.child import DISTRIBUTIONS, PACKAGES, is_installed, missing_distribution
from choroid.common.failure import UserError


def load_extra(module: str, extra: str, *, needed_for: str, otherwise: str) -> ModuleType:
    """Import a module that needs an extra.

    Args:
        module: The module, of the other package or one of Choroid that imports it.
        extra: The extra that has the package.
        needed_for: What asks for it, for people: an option, a command, a key of the rig file.
        otherwise: How to do without, for people.

    Raises:
        UserError: The package, or a distribution of Choroid, is not installed; the message says how to install it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in DISTRIBUTIONS and not is_installed(package):
            raise missing_distribution(package, needed_for) from None
        if package in PACKAGES:
            raise  # a defect of Choroid
        raise UserError(
            f"{needed_for} needs the package {error.name}, which is not installed. Likely cause: Choroid was installed"
            f' without the extra “{extra}”. Next: pip install "choroid[{extra}]", or {otherwise}'
        ) from None
