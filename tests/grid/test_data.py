"""G3: data sets of the grid: signed listings, encrypted objects, replicas that fail, epochs that are resumed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from choroid.cli import main
from grid.data import sealing
from grid.data.data_sets import KEY, DataSet, DataSets, files_of
from grid.data.listing import NODES, ROWS, FileRow, Listing, checked_path, write_listing
from grid.data.loader import DataReader
from grid.data.manifest import DataManifest, Provenance, Sharing, read_manifest
from grid.data.objects import ObjectStore
from grid.data.replica import Replica
from grid.data.sealing import TAG_BYTES, DataSeal, as_reader, reader_key, unwrapped, wrapped
from grid.errors import GridError
from grid.identity.keys import IdentityKey

AUTHOR, READER, OUTSIDER = (IdentityKey.generate() for _ in range(3))
MARK = b"the marked plaintext of an organoid"
FILES = {
    ".zattrs": b"{}",
    "empty": b"",
    "traces/0.0": MARK * 1000,
    "traces/1.0": bytes(sealing.CHUNK_BYTES),
    "traces/10.0": bytes(sealing.CHUNK_BYTES) + MARK,
    "Ähre.parquet": b"\xff" * 5000,
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recording")
    for path, contents in FILES.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(contents)
    return folder


def of(store: ObjectStore) -> Callable[[FileRow], bytes]:
    return lambda row: store.get(row.object)


def sealed_bytes(size: int) -> int:
    return size + TAG_BYTES * max(-(-size // sealing.CHUNK_BYTES), 1)


def added(folder: Path, source: Path, sharing: Sharing = Sharing.MEMBERS) -> DataSet:
    sets = DataSets(folder)
    sets.add(
        source,
        AUTHOR,
        name="day-1",
        sharing=sharing,
        provenance=Provenance(rig="bench", licence="CC-BY-4.0"),
        readers=[READER.public],
    )
    return sets.open("day-1")


def replica(data: DataSet, folder: Path) -> ObjectStore:
    store = ObjectStore(folder)
    with store.filling(10**9, 0):
        for index in range(len(data.listing)):
            store.put(data.row(index).object, data.objects(index, AUTHOR))
    return store


def taken(data: DataSet, folder: Path) -> DataSet:
    sets = DataSets(folder)
    manifest = sets.take(data.manifest.to_json(), (data.folder / ROWS).read_bytes(), (data.folder / KEY).read_bytes())
    return sets.open(manifest.id)


@pytest.fixture
def lab(tmp_path: Path, source: Path) -> Iterator[DataSet]:
    with closing(added(tmp_path / "lab", source)) as data:
        yield data


def test_G3_a_reader_gets_every_file_and_a_replica_holds_no_plaintext(lab: DataSet, tmp_path: Path) -> None:
    store = replica(lab, tmp_path / "member")
    with closing(taken(lab, tmp_path / "reader")) as data:
        seal = data.seal(READER)
        found = {data.row(index).path: data.read(index, [of(store)], seal) for index in range(len(data.listing))}
        assert found == FILES
        with pytest.raises(GridError, match="has not named this member as a reader"):
            data.seal(OUTSIDER)
        assert data.source is None
        with pytest.raises(GridError, match="not on this machine"):
            list(data.objects(0, READER))
    for file in [*(tmp_path / "member").rglob("*"), *(tmp_path / "reader").rglob("*")]:
        assert not file.is_file() or MARK not in file.read_bytes(), file
    sizes = [store.path(name).stat().st_size for name in store]
    assert sum(sizes) == sum(sealed_bytes(len(contents)) for contents in FILES.values())


def test_G3_public_data_are_the_files_themselves(tmp_path: Path, source: Path) -> None:
    with closing(added(tmp_path / "lab", source, Sharing.PUBLIC)) as data:
        rows = list(data.listing)
        assert [row.object for row in rows] == [hashlib.sha256(FILES[row.path]).hexdigest() for row in rows]
        assert data.seal(OUTSIDER) is None
        assert not (data.folder / KEY).exists()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 400), st.integers(0, 10_000), st.sampled_from(["flip", "cut", "swap", "path", "data", "key", "more"])
)
def test_G3_what_was_changed_or_moved_does_not_open(size: int, at: int, spoilt: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealing, "CHUNK_BYTES", 64)
        seal, contents = DataSeal(b"k" * 32, b"n" * 32), bytes(at % 251 for at in range(size))
        chunks = [contents[begin : begin + 64] for begin in range(0, size, 64)]
        sealed = b"".join(seal.sealed("a", chunks))
        assert len(sealed) == sealed_bytes(size)
        assert seal.opened("a", sealed) == contents
        step = 64 + sealing.TAG_BYTES
        bad, path = bytearray(sealed), "a"
        if spoilt == "flip":
            bad[at % len(bad)] ^= 1 << at % 8
        elif spoilt == "cut":
            del bad[at % len(bad) :]
        elif spoilt == "more":
            bad += sealed
        elif spoilt == "swap" and size >= 128:
            bad[:step], bad[step : 2 * step] = sealed[step : 2 * step], sealed[:step]
        elif spoilt == "data":
            seal = DataSeal(b"k" * 32, b"m" * 32)
        elif spoilt == "key":
            seal = DataSeal(b"l" * 32, b"n" * 32)
        else:
            path = "b"
        with pytest.raises(GridError, match="cannot be decrypted"):
            seal.opened(path, bytes(bad))


def test_G3_the_key_is_for_its_readers_only() -> None:
    envelope = wrapped(b"s" * 32, [AUTHOR.public, READER.public, READER.public])
    assert unwrapped(envelope, AUTHOR) == unwrapped(envelope, READER) == b"s" * 32
    with pytest.raises(GridError, match="identity show"):
        unwrapped(envelope, OUTSIDER)
    with pytest.raises(GridError, match="cannot be opened"):
        unwrapped(envelope[:-1], READER)


@pytest.mark.parametrize("field", [each.name for each in dataclasses.fields(DataManifest)])
def test_G3_a_manifest_with_a_changed_field_is_refused(lab: DataSet, field: str) -> None:
    plain = lab.manifest.to_json()
    assert read_manifest(json.loads(json.dumps(plain))) == lab.manifest
    others = {"files": 1, "size": True, "sharing": "public", "provenance": {"rig": "x"}, "name": "other"}
    for other in (others.get(field, "0" * len(str(plain[field]))), None, [], "no"):
        with pytest.raises(GridError, match=r"Next:"):
            read_manifest({**plain, field: other})
    del plain[field]
    with pytest.raises(GridError, match=r"malformed|signature"):
        read_manifest(plain)


@pytest.mark.parametrize(
    "path", ["../a", "a/../b", "/a", "", "a//b", "./a", "a\\b", "a\nb", "a/..", "x" * 2000, None, 3]
)
def test_G3_a_path_that_leaves_the_folder_is_refused(path: object) -> None:
    with pytest.raises(GridError, match="cannot be in a data set"):
        checked_path(path)
    row = json.dumps({"path": path, "size": 0, "sha256": "0" * 64, "object": "0" * 64}).encode()
    with pytest.raises(GridError):
        FileRow.from_bytes(row)


def rows(count: int) -> list[FileRow]:
    digest = hashlib.sha256(b"").hexdigest()
    return [FileRow(f"a/{number:07d}", number, digest, digest) for number in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 1000])
def test_G3_each_row_is_verified_alone(tmp_path: Path, count: int) -> None:
    root = write_listing(tmp_path, rows(count))
    with closing(Listing(tmp_path)) as listing:
        assert listing.root() == root
        assert [listing.verified(index, root) for index in range(count)] == rows(count)
        assert [listing.find(row.path) for row in rows(count)] == list(range(count))
        with pytest.raises(GridError, match="has no file"):
            listing.find("a/5")
    content = bytearray((tmp_path / ROWS).read_bytes())
    content[content.index(b'"size":0') + 7] = ord("9")
    (tmp_path / ROWS).write_bytes(content)
    with closing(Listing(tmp_path)) as listing, pytest.raises(GridError, match="not the one that its author signed"):
        listing.verified(0, root)
    (tmp_path / ROWS).write_bytes(content[:-2])
    with pytest.raises(GridError, match="cut short"):
        Listing(tmp_path)
    (tmp_path / NODES).unlink()
    with pytest.raises(GridError, match="cannot be read"):
        Listing(tmp_path)


def test_G3_a_listing_out_of_order_or_cut_short_is_not_taken(lab: DataSet, tmp_path: Path) -> None:
    content = (lab.folder / ROWS).read_bytes()
    lines = content.splitlines(keepends=True)
    sets = DataSets(tmp_path / "reader")
    for bad in (b"", b"".join(lines[:-1]), b"".join([*lines[1:], lines[0]]), content[:-1], content + b"\n", b"[]\n"):
        with pytest.raises(GridError, match=r"Next:"):
            sets.take(lab.manifest.to_json(), bad, b"")
    assert sets.every() == []


def test_G3_what_cannot_be_a_data_set_is_refused_and_nothing_is_kept(tmp_path: Path, source: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    with pytest.raises(GridError, match="has no files"):
        files_of(folder, tmp_path / "lab")
    (folder / "link").symlink_to("/etc/passwd")
    with pytest.raises(GridError, match="is a link"):
        added(tmp_path / "lab", folder)
    sets = DataSets(tmp_path / "lab")
    for wrong, match in (
        ({"name": "../x"}, "is no name of a data set"),
        ({"name": "x\n"}, "is no name of a data set"),
        ({"provenance": Provenance(medium="x" * 300)}, "medium has more than"),
    ):
        with pytest.raises(GridError, match=match):
            sets.add(source, AUTHOR, **{"name": "x", "sharing": Sharing.NO, "provenance": Provenance(), **wrong})  # type: ignore[arg-type]
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "identity.key").write_text("")
    with pytest.raises(GridError, match="is the key of a member"):
        added(tmp_path / "lab", tmp_path / "secret")
    for place in (tmp_path, tmp_path / "lab", tmp_path / "lab" / "data"):
        place.mkdir(parents=True, exist_ok=True)
        with pytest.raises(GridError, match="where the keys are"):
            added(tmp_path / "lab", place)
    assert list((tmp_path / "lab" / "data").iterdir()) == []


def test_G3_a_file_that_grows_or_changes_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "recording"
    folder.mkdir()
    (folder / "a").write_bytes(b"abc")
    with closing(added(tmp_path / "lab", folder)) as data:
        assert list(data.changed()) == []
        (folder / "a").write_bytes(b"abd")
        replica = Replica(tmp_path / "disk")
        with pytest.raises(GridError, match="has changed since it was added"):
            replica.fill(data, partial(data.objects, key=AUTHOR), min_free_bytes=0)
        left = [each for each in (tmp_path / "disk" / "objects").rglob("*") if each.is_file()]
        assert left == [], "the same key and nonces encrypt nothing else"
        assert list(data.changed()) == ["a"]
        (folder / "a").unlink()
        assert list(data.changed()) == ["a"]
    (folder / "b").write_bytes(b"b")
    monkeypatch.setattr("grid.data.data_sets.files_of", lambda source, own: {"b": 2})
    with pytest.raises(GridError, match="still being recorded"):
        added(tmp_path / "other", folder)


def test_G3_a_store_keeps_whole_objects_within_its_quota(tmp_path: Path) -> None:
    content = b"x" * 1000
    name, other = hashlib.sha256(content).hexdigest(), hashlib.sha256(b"z" * 501).hexdigest()
    store = ObjectStore(tmp_path)
    with store.filling(1500, 0):
        with pytest.raises(GridError, match="other bytes"):
            store.put(name, [b"y"])
        assert store.put(name, [content[:500], content[500:]]) == 1000
        with pytest.raises(GridError, match="quota"):
            store.put(other, [b"z" * 501])
        with pytest.raises(GridError, match="another process fills"), ObjectStore(tmp_path).filling(1500, 0):
            pass
    assert list(store) == [name]
    (tmp_path / "partial" / other).write_bytes(b"left by a process that was killed")
    store.path(name).write_bytes(b"X" + content[1:])
    again = ObjectStore(tmp_path)
    assert (again.is_whole(name), again.is_whole(other)) == (False, False)
    with again.filling(1500, 1 << 60):
        assert list((tmp_path / "partial").iterdir()) == []
        again.remove(name)
        with pytest.raises(GridError, match="disk has less than"):
            again.put(name, [content])
    with pytest.raises(GridError, match="has no object"):
        again.get(name)


def test_G3_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObjectStore(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(GridError, match=r"No space left.*kept before is whole"), store.filling(10**6, 0):
        store.put(hashlib.sha256(b"a").hexdigest(), [b"a"])
    assert list(store) == []


def test_G3_a_damaged_data_set_hides_no_other_and_is_replaced_or_removed(lab: DataSet, tmp_path: Path) -> None:
    sets = DataSets(tmp_path / "reader")
    with closing(taken(lab, tmp_path / "reader")) as data:
        place = data.folder
    (place / ROWS).write_bytes(b"")
    with pytest.raises(GridError, match=r"Next:"):
        sets.open("day-1")
    with closing(taken(lab, tmp_path / "reader")) as data:
        assert len(data.listing) == len(FILES)
    (place / "manifest.json").write_text("")
    assert sets.every() == []
    assert sets.remove(lab.manifest.id[:12]) == lab.manifest.id
    (tmp_path / "reader" / "data" / "new-scratch-abcd1234").mkdir()
    (tmp_path / "reader" / "data" / "new-scratch-abcd1234" / "manifest.json").write_text("{}")
    taken(lab, tmp_path / "reader").close()
    assert [each.name for each in (tmp_path / "reader" / "data").iterdir()] == [lab.manifest.id]


def test_G3_only_a_key_is_a_reader() -> None:
    assert (
        reader_key(as_reader(READER.public)) == reader_key(f"ssh-ed25519 {as_reader(READER.public)} x") == READER.public
    )
    for wrong in (READER.id, READER.public.hex(), "", "ssh-ed25519", "AAAA", "ssh-rsa AAAA"):
        with pytest.raises(GridError, match="is no reader's key"):
            reader_key(wrong)


def stream(data: DataSet, store: ObjectStore, **more: object) -> DataReader:
    return DataReader(data, [of(store)], data.seal(AUTHOR), **{"seed": 3, "ahead": 2, **more})  # type: ignore[arg-type]


def test_G3_an_epoch_that_is_resumed_is_equal(lab: DataSet, tmp_path: Path) -> None:
    store = replica(lab, tmp_path / "objects")
    near = {lab.row(index).object for index in (0, 3)}
    whole = stream(lab, store, near=near.__contains__)
    first, second = list(whole), list(whole)
    assert sorted(first) == sorted(second) == sorted(FILES.items())
    assert first != second
    assert {path for path, _ in first[:2]} == {lab.row(0).path, lab.row(3).path}, "near files come first"
    for stop in range(1, len(first)):
        before = stream(lab, store, near=near.__contains__)
        begun = list(islice(before, stop))
        state = json.loads(json.dumps(before.state_dict()))
        after = stream(lab, store, near=lambda name: False)
        after.load_state_dict(state)
        assert begun + list(after) == first
        assert [path for path, _ in after] != [], "and the next epoch follows"
    with pytest.raises(GridError, match="another seed"):
        stream(lab, store, seed=4).load_state_dict(whole.state_dict())


def test_G3_each_file_has_one_reader(lab: DataSet, tmp_path: Path) -> None:
    store = replica(lab, tmp_path / "objects")
    shares = [dict(stream(lab, store, rank=rank, world=4)) for rank in range(4)]
    assert sum(len(share) for share in shares) == len(FILES)
    assert {path: contents for share in shares for path, contents in share.items()} == FILES


def test_G3_a_damaged_replica_is_left_for_a_sound_one(lab: DataSet, tmp_path: Path) -> None:
    bad, sound = replica(lab, tmp_path / "bad"), replica(lab, tmp_path / "sound")
    spoilt, gone = lab.row(2).object, lab.row(4).object
    content = bytearray(bad.path(spoilt).read_bytes())
    content[7] ^= 1
    bad.path(spoilt).write_bytes(content)
    bad.remove(gone)
    assert [bad.is_whole(row.object) for row in lab.listing].count(False) == 2
    seal = lab.seal(AUTHOR)
    assert dict(DataReader(lab, [of(bad), of(sound)], seal, seed=1)) == FILES
    with pytest.raises(GridError, match=r"no replica gave.*(has no object|other bytes)"):
        list(DataReader(lab, [of(bad)], seal, seed=1))


def test_G3_a_replica_is_repaired_and_gives_every_file(lab: DataSet, tmp_path: Path, source: Path) -> None:
    replica = Replica(tmp_path / "disk")
    with pytest.raises(GridError, match="holds no data set"):
        replica.take(DataSets(tmp_path / "reader"))
    assert replica.fill(lab, partial(lab.objects, key=AUTHOR), min_free_bytes=0) == len(FILES)
    assert replica.fill(lab, partial(lab.objects, key=AUTHOR), min_free_bytes=0) == 0
    damaged, missing = lab.row(2), lab.row(4)
    place = replica.objects.path(damaged.object)
    place.write_bytes(place.read_bytes()[:-1])
    replica.objects.remove(missing.object)
    assert sorted(replica.lacking(lab)) == sorted([damaged.path, missing.path])
    assert replica.fill(lab, partial(lab.objects, key=AUTHOR), min_free_bytes=0) == 2
    assert list(replica.lacking(lab)) == []
    sets = DataSets(tmp_path / "reader")
    assert replica.take(sets, lab.manifest.id[:9]) == replica.take(sets) == [lab.manifest]
    with closing(sets.open("day-1")) as data:
        assert data.replicas == [tmp_path / "disk"]
        assert dict(DataReader(data, [replica.object], data.seal(READER), seed=1)) == FILES
    assert not any(MARK in each.read_bytes() for each in (tmp_path / "disk").rglob("*") if each.is_file())
    with (
        closing(added(tmp_path / "quiet", source, Sharing.NO)) as quiet,
        pytest.raises(GridError, match="stays in its lab"),
    ):
        replica.fill(quiet, partial(quiet.objects, key=AUTHOR), min_free_bytes=0)
    small = Replica(tmp_path / "small")
    with pytest.raises(GridError, match="quota"):
        small.fill(lab, partial(lab.objects, key=AUTHOR), quota_bytes=100_000, min_free_bytes=0)
    with pytest.raises(GridError, match="holds no data set"):
        small.take(sets)
    (tmp_path / "file").write_text("")
    with pytest.raises(GridError, match="cannot be written"):
        Replica(tmp_path / "file" / "x").fill(lab, partial(lab.objects, key=AUTHOR))


def test_G3_commands_add_show_verify_export_remove(
    tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "recording"
    folder.mkdir()
    attributes = {"identity": {"rig": "bench", "tissue": {"chamber": {}}}, "started_utc": "2026-11-29T01:02:03Z"}
    (folder / ".zattrs").write_text(json.dumps(attributes))
    (folder / "0.0").write_bytes(MARK)
    base = ["--data", str(tmp_path / "lab"), "--json"]

    def told(*words: str, code: int = 0) -> Any:
        assert main(["grid", "data", *words, *base]) == code
        return json.loads(capsys.readouterr().out)

    made = told(
        "add",
        str(folder),
        "--name",
        "day-1",
        "--share",
        "members",
        "--reader",
        as_reader(READER.public),
        "--medium",
        "M",
    )
    provenance = {"rig": "bench", "organoid": "chamber", "day": "2026-11-29", "medium": "M", "licence": ""}
    assert provenance.items() <= made["provenance"].items()
    assert [each["id"] for each in told("list")["data_sets"]] == [made["id"]]
    assert told("show", "day-1")["rows"] == [
        {"path": ".zattrs", "size": (folder / ".zattrs").stat().st_size},
        {"path": "0.0", "size": len(MARK)},
    ]
    assert told("verify", str(made["id"])[:12])["changed"] == {str(folder): []}
    told("export", "day-1", str(tmp_path / "out"))
    assert told("replicate", "day-1", str(tmp_path / "disk"))["brought"] == 2
    assert (tmp_path / "out" / "0.0").read_bytes() == MARK
    (folder / "0.0").write_bytes(b"else")
    assert told("verify", "day-1", code=1)["changed"] == {str(folder): ["0.0"], str(tmp_path / "disk"): []}
    other = ["--data", str(tmp_path / "other"), "--json"]
    assert main(["grid", "data", "take", str(tmp_path / "disk"), *other]) == 0
    assert main(["grid", "data", "export", "day-1", str(tmp_path / "none"), *other]) != 0
    assert "has not named this member as a reader" in "".join(capsys.readouterr())
    told("remove", "day-1")
    assert told("list") == {"data_sets": []}
    assert (folder / "0.0").exists()
    for words in (["show", "day-1"], ["add", str(tmp_path / "none")], ["add", str(folder), "--reader", "ff"]):
        assert main(["grid", "data", *words, *base]) != 0
        out, err = capsys.readouterr()
        assert "Next:" in out + err
        assert "Traceback" not in err
