"""A recording of the CL API with a data stream, read through its view, through PyTables and through MessagePack."""

import sys

import cl
import msgpack
import numpy
import tables

with cl.open() as neurons:
    stream = neurons.create_data_stream(name="game", attributes={"score": 0, "size": [320, 180]})
    recording = neurons.record(file_location=sys.argv[1], stop_after_frames=neurons.get_frames_per_second())
    now = neurons.timestamp()
    stream.append(now, {"x": 1.5})
    stream.append(now + 1, numpy.arange(3, dtype=numpy.uint64))
    stream.append(now + 2, "bounced")
    stream.set_attribute("score", 1)
    stream.update_attributes({"level": 2})
    recording.wait_until_stopped()

with recording.open() as view:
    game = view.data_streams.game
    assert list(game.keys()) == [now, now + 1, now + 2]
    assert game[now] == {"x": 1.5}
    assert list(game.values())[2] == "bounced"
    assert list(game.items_for_range(now + 2, now + 3)) == [(now + 2, "bounced")]
    assert game.attributes.name == "game"
    assert game.attributes.application == {"score": 1, "size": [320, 180], "level": 2}
    rows = view.file.root.data_stream.game
    first = next((row["timestamp"], row["start_index"], row["end_index"]) for row in rows.index)
    assert first[0] == now
    assert msgpack.unpackb(bytes(rows.data[first[1] : first[2]])) == {"x": 1.5}

with tables.open_file(recording.file["path"]) as file:
    frames, channels = file.root.samples.shape
    largest = sorted(file.root.spikes[:], key=lambda spike: max(spike["samples"]) - min(spike["samples"]))[-1:]
    timestamp, channel, samples = largest[0]
    assert samples.shape == (75,)
    assert channel < channels
    assert timestamp < frames
    print(frames, channels, recording.attributes["duration_seconds"], len(largest))
