"""Commands of the RHX software: the grammar of its command socket, and the parameters that its clients use.

Written from the published formats (Intan, "Remote TCP Control"). A command that succeeds is not answered; `get` is, and
errors are plain sentences. Names do not depend on case. Commands are separated by semicolons only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

STIM_DEFAULTS = {
    "stimenabled": "False",
    "shape": "Biphasic",
    "polarity": "NegativeFirst",
    "source": "DigitalIn01",
    "pulseortrain": "SinglePulse",
    "firstphasedurationmicroseconds": "100",
    "secondphasedurationmicroseconds": "100",
    "interphasedelaymicroseconds": "100",
    "firstphaseamplitudemicroamps": "0",
    "secondphaseamplitudemicroamps": "0",
    "refractoryperiodmicroseconds": "1000",
    "enableampsettle": "True",
    "enablechargerecovery": "False",
}
OUTPUTS = ("tcpdataoutputenabled", "tcpdataoutputenabledstim")
LOCKED_WHILE_RUNNING = frozenset({"tcpnumberdatablocksperwrite", *OUTPUTS})
Action = Callable[[str], str]


@dataclass
class RhxSettings:
    """Parameters by their lower-case names; those of channels by `(channel, name)`, such as `("A-003", "stimenabled")`."""

    sample_rate_hz: float
    channels: list[str]
    step_ua: float
    globals: dict[str, str] = field(default_factory=dict)
    of_channel: dict[tuple[str, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.globals |= {
            "sampleratehertz": f"{self.sample_rate_hz:g}",
            "type": "ControllerStimRecord",
            "version": "3.4.0",
            "uploadinprogress": "False",
            "tcpnumberdatablocksperwrite": "10",
            "stimstepsizemicroamps": f"{self.step_ua:g}",
            "impedancefilename.path": "",
            "impedancefilename.basefilename": "",
        }
        for channel in self.channels:
            for name in OUTPUTS:
                self.of_channel[channel, name] = "False"
            for name, value in STIM_DEFAULTS.items():
                self.of_channel[channel, name] = value

    def clear_outputs(self) -> None:
        """Send no channel any more."""
        for channel in self.channels:
            for name in OUTPUTS:
                self.of_channel[channel, name] = "False"

    def is_on(self, channel: str, name: str) -> bool:
        """Return whether a switch of a channel is on."""
        return self.of_channel[channel, name].lower() == "true"


class RhxCommands:
    """Obeys what arrives on the command socket.

    Args:
        settings: The parameters.
        actions: What `execute` can do, by lower-case name; each gets the parameter (or "") and returns an error (or "").
        running: Returns whether the board runs.
        set_run: Starts or stops the board.
        timestamp: Returns the present frame, or -1.
    """

    def __init__(
        self,
        settings: RhxSettings,
        actions: dict[str, Action],
        running: Callable[[], bool],
        set_run: Callable[[bool], None],
        timestamp: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._actions = actions
        self._running = running
        self._set_run = set_run
        self._timestamp = timestamp

    def obey(self, text: str) -> str:
        """Obey all commands of one message; return the answers, without anything between them."""
        commands = [command for command in text.split(";") if command.strip()]
        return "".join(self._one(number, command.split()) for number, command in enumerate(commands, 1))

    def _one(self, number: int, words: list[str]) -> str:
        verb = words[0].lower()
        if verb == "get":
            return (
                self._get(words[1])
                if len(words) == 2
                else f"Error - Command {number}: Get commands require a parameter"
            )
        if verb == "set":
            if len(words) < 3:
                return f"Error - Command {number}: Set commands require a parameter and a value"
            return self._set(words[1], " ".join(words[2:]))
        if verb == "execute":
            if len(words) not in (2, 3):
                return f"Error - Command {number}: Execute commands require an action"
            action = self._actions.get(words[1].lower())
            return action(words[2] if len(words) == 3 else "") if action else "Unrecognized action"
        return f"Error - Command {number}: Unrecognized command"

    def _get(self, name: str) -> str:
        low = name.lower()
        if low == "runmode":
            return f"Return: RunMode {'Run' if self._running() else 'Stop'}"
        if low == "currenttimestamp":
            return f"Return: {self._timestamp()}"
        key = self._key(low)
        if key in self._settings.of_channel:
            return f"Return: {name} {self._settings.of_channel[key]}"
        if low in self._settings.globals:
            return f"Return: {_NAMES.get(low, name)} {self._settings.globals[low]}"
        return "Unrecognized parameter"

    def _set(self, name: str, value: str) -> str:
        low = name.lower()
        if low == "runmode":
            return self._set_run_mode(value.lower())
        key = self._key(low)
        known = key in self._settings.of_channel or low in self._settings.globals
        if not known:
            return "Unrecognized parameter"
        if self._running() and key[1] in LOCKED_WHILE_RUNNING:
            return f"{name} cannot be set while board is running"
        if key in self._settings.of_channel:
            self._settings.of_channel[key] = value
        else:
            self._settings.globals[low] = value
        return ""

    def _key(self, low: str) -> tuple[str, str]:
        channel, _, item = low.partition(".")
        return channel.upper(), item or low

    def _set_run_mode(self, value: str) -> str:
        if value not in ("run", "stop"):
            return "RunMode must be Run, Record, Trigger or Stop"
        if value == "stop" and not self._running():
            return "Board must be running in order to stop"
        if value == "run" and self._running():
            return "Board must be stopped in order to start running"
        self._set_run(value == "run")
        return ""


_NAMES = {
    "sampleratehertz": "SampleRateHertz",
    "type": "Type",
    "version": "Version",
    "stimstepsizemicroamps": "StimStepSizeMicroAmps",
    "tcpnumberdatablocksperwrite": "TCPNumberDataBlocksPerWrite",
    "uploadinprogress": "UploadInProgress",
}
