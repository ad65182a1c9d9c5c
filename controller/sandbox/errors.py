"""What the sandbox reports."""

from __future__ import annotations


class SandboxError(Exception):
    """A model was not opened or not run."""


class ModelRefused(SandboxError):
    """The model breaks a rule of the sandbox; its bytes were not given to the runtime."""


class SandboxUnavailable(SandboxError):
    """This machine cannot lock a process in, so no model runs on it."""


class ModelFailed(SandboxError):
    """The model, or the process that ran it, failed; the process is gone."""


class ModelTooSlow(ModelFailed):
    """The model did not answer before its deadline; its process was killed."""
