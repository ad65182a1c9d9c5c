"""The RHX server speaks to programs that were written for Intan's software (J2)."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import numpy as np
import pytest
from intan.interface import IntanRHXDevice

from sim.rhx.server import FRAMES_PER_BLOCK, MAGIC, RhxServer
from tests.nerves.cards.simulated_bench import WitnessedArray

RATE = 25_000


@pytest.fixture
def amplifier() -> WitnessedArray:
    return WitnessedArray(8, 3)


@pytest.fixture
def server(amplifier: WitnessedArray) -> Iterator[RhxServer]:
    made = RhxServer(amplifier, RATE)
    yield made
    made.close()


def connected(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=10.0)
    client.settimeout(10.0)
    return client


def asked(client: socket.socket, command: str) -> str:
    client.sendall(command.encode())
    return client.recv(4096).decode()


def exactly(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = client.recv(count - len(data))
        assert more, "the server closed the connection"
        data += more
    return data


def test_J2_python_intan_reads_the_microvolts_of_the_array(server: RhxServer, amplifier: WitnessedArray) -> None:
    device = IntanRHXDevice(
        host="127.0.0.1", command_port=server.command_port, data_port=server.waveform_port, num_channels=4
    )
    try:
        assert device.connected
        assert device.sample_rate == RATE
        device.clear_all_data_outputs()
        device.configure(blocks_per_write=1, enable_wide_channel=range(4))
        device.start_streaming()
        deadline = time.monotonic() + 20.0
        while device._sample_counter == 0 and not np.any(device.circular_buffer) and time.monotonic() < deadline:
            time.sleep(0.05)
        device.stop_streaming()
        seen = device.circular_buffer[:, :FRAMES_PER_BLOCK]
        given = np.concatenate([samples for _, samples in amplifier.given])[:FRAMES_PER_BLOCK, :4]
        np.testing.assert_allclose(seen, 0.195 * given.T.astype(float), atol=1e-3)
    finally:
        device.close()


def test_J2_a_script_with_the_calls_of_intans_example_reads_one_channel(
    server: RhxServer, amplifier: WitnessedArray
) -> None:
    command, waveform = connected(server.command_port), connected(server.waveform_port)
    with command, waveform:
        assert asked(command, "get runmode") == "Return: RunMode Stop"
        assert asked(command, "get sampleratehertz") == "Return: SampleRateHertz 25000"
        command.sendall(b"execute clearalldataoutputs;set a-003.tcpdataoutputenabled true;")
        command.sendall(b"set tcpnumberdatablocksperwrite 1;get tcpnumberdatablocksperwrite;")
        assert command.recv(4096) == b"Return: TCPNumberDataBlocksPerWrite 1"
        command.sendall(b"set runmode run")
        raw = exactly(waveform, 2 * 772)  # one channel: 772 bytes a block
        command.sendall(b"set runmode stop")
    for number in range(2):
        block = raw[number * 772 : (number + 1) * 772]
        assert int.from_bytes(block[:4], "little") == MAGIC
        frames = np.frombuffer(block, np.dtype([("timestamp", "<i4"), ("word", "<u2")]), FRAMES_PER_BLOCK, 4)
        first = number * FRAMES_PER_BLOCK
        assert frames["timestamp"].tolist() == list(range(first, first + FRAMES_PER_BLOCK))
        given = np.concatenate([samples for _, samples in amplifier.given])[first : first + FRAMES_PER_BLOCK, 3]
        np.testing.assert_array_equal(frames["word"].astype(int) - 32_768, given)


def test_J2_a_script_with_the_calls_of_intans_stimulation_example_stimulates(
    server: RhxServer, amplifier: WitnessedArray
) -> None:
    command = connected(server.command_port)
    with command:
        assert asked(command, "get type") == "Return: Type ControllerStimRecord"
        for words in (
            "a-002.stimenabled true",
            "a-002.source keypressf1",
            "a-002.firstphaseamplitudemicroamps 1",
            "a-002.secondphaseamplitudemicroamps 1",
            "a-002.firstphasedurationmicroseconds 200",
            "a-002.secondphasedurationmicroseconds 200",
        ):
            command.sendall(f"set {words};".encode())
        command.sendall(b"execute uploadstimparameters a-002;set runmode run;execute manualstimtriggerpulse f1;")
        assert asked(command, "get runmode") == "Return: RunMode Run"
        command.sendall(b"set runmode stop")
        assert asked(command, ";get runmode") == "Return: RunMode Stop"
    ((electrode, _, phases),) = amplifier.received
    assert electrode == 2
    assert [(phase.duration_us, phase.current_ua) for phase in phases] == [(200.0, -1.0), (200.0, 1.0)]


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("get nonsense", "Unrecognized parameter"),
        ("set nonsense 1", "Unrecognized parameter"),
        ("execute nonsense", "Unrecognized action"),
        ("get", "Error - Command 1: Get commands require a parameter"),
        (
            "get type;set type",
            "Return: Type ControllerStimRecordError - Command 2: Set commands require a parameter and a value",
        ),
        ("execute", "Error - Command 1: Execute commands require an action"),
        ("dance", "Error - Command 1: Unrecognized command"),
        ("set runmode stop", "Board must be running in order to stop"),
        ("GET RunMode\n", "Return: RunMode Stop"),
        ("get currenttimestamp", "Return: -1"),
    ],
)
def test_J2_commands_are_answered_as_rhx_answers(server: RhxServer, command: str, answer: str) -> None:
    with connected(server.command_port) as client:
        assert asked(client, command) == answer


def test_J2_each_socket_takes_one_client_and_does_not_listen_again_by_itself(server: RhxServer) -> None:
    first = connected(server.command_port)
    assert asked(first, "get type")
    with pytest.raises(OSError):  # noqa: PT011  (the system's words differ)
        connected(server.command_port)
    first.close()
    time.sleep(0.2)
    with pytest.raises(OSError):  # noqa: PT011
        connected(server.command_port)
    server.press_connect()
    with connected(server.command_port) as again:
        assert asked(again, "get type")
