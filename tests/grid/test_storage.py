"""G3, G9: data sets on storage members, through the tunnels of a work lease."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from choroid.cli import main
from grid.data import data_sets, exchange
from grid.data.data_sets import DataSets
from grid.data.exchange import JOB, DataPeer, Shelf, http_client, peers_of
from grid.data.keeping import keep
from grid.data.listing import FileRow
from grid.data.loader import DataReader
from grid.data.manifest import DataManifest, Provenance, Sharing, read_manifest
from grid.data.objects import ObjectStore
from grid.data.replica import Replica
from grid.data.sealing import CHUNK_BYTES
from grid.data.storage import StorageMember, data_service, from_peers
from grid.errors import GridError, GridRefused
from grid.hub.hub import Hub
from grid.identity.keys import IdentityKey
from grid.member.tissue import GridClient
from grid.work.served import WorkingMember
from tests.grid.addresses import loopback_bases
from tests.grid.works import a_relay, ready, workers
from tests.grid.world import a_hub, approved, running, until

MARK = b"the marked plaintext of an organoid"
FILES = {f"traces/{number}.0": MARK * (number * 300 + 1) for number in range(12)} | {".zattrs": b"{}"}
AUTHOR, STORES = "alpha", ("beta", "gamma")


@dataclass
class Store:
    """A storage member: its folder of replicas, and what it said."""

    replica: Replica
    storage: StorageMember
    shelf: Shelf
    said: list[str] = field(default_factory=list)

    def whole(self) -> bool:
        names = list(self.replica.objects)
        return len(names) == len(set(FILES.values())) and all(map(self.replica.objects.is_whole, names))


@dataclass
class World:
    """A hub, a relay, an author with a data set, and two storage members."""

    folder: Path
    hub: Hub
    members: list[WorkingMember]
    stores: list[Store]
    which: str

    def key(self, name: str) -> IdentityKey:
        return IdentityKey.in_folder(self.folder / name)

    @contextlib.asynccontextmanager
    async def joined(self, *more: str) -> AsyncIterator[list[WorkingMember]]:
        """A lease of author and storage members."""
        names = (AUTHOR, *STORES, *more)
        async with GridClient(self.folder / AUTHOR) as client, client.work(JOB, names, role="storage"):
            found = [each for each in self.members if each.link.membership.name in names]
            await ready(found)
            yield found


def source(folder: Path) -> Path:
    for path, contents in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(contents)
    return folder


def add(folder: Path, name: str, sharing: Sharing = Sharing.MEMBERS, readers: tuple[bytes, ...] = ()) -> str:
    key = IdentityKey.in_folder(folder / AUTHOR)
    manifest = DataSets(folder / AUTHOR).add(
        source(folder / name), key, name=name, sharing=sharing, provenance=Provenance(), readers=readers
    )
    return manifest.id


@contextlib.asynccontextmanager
async def world(folder: Path, *more: str, quota_bytes: float = 1e9) -> AsyncIterator[World]:
    names = (AUTHOR, *STORES, *more)
    async with a_hub(folder) as hub, a_relay(folder, hub, "relay"):
        for name in names:
            await approved(folder, hub, name)
        which = add(folder, "day-1", readers=tuple(IdentityKey.in_folder(folder / each).public for each in more))
        stores, services = [], {}
        for name in names:
            key, sets = IdentityKey.in_folder(folder / name), DataSets(folder / name)
            replica = Replica(folder / name / "store") if name in STORES else None
            shelf, said = Shelf(sets, key, replica), list[str]()
            storage = None
            if replica is not None:
                storage = StorageMember(
                    shelf, replica, said.append, quota_bytes=quota_bytes, min_free_bytes=0, round_s=0.2
                )
                stores.append(Store(replica, storage, shelf, said))
            services[name] = data_service(shelf, storage)
        async with workers(folder, hub, *names, services=services) as members:
            yield World(folder, hub, members, stores, which)


async def test_G3_two_storage_members_keep_what_they_cannot_read_and_a_reader_reads_it_after_the_author_has_left(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, "reader") as known:
        async with running(keep(tmp_path / AUTHOR, ["day-1"], lambda _: None, on=STORES)):
            await until(lambda: all(each.replica.has(known.which) and each.whole() for each in known.stores))
        for each in known.stores:
            kept = [path.read_bytes() for path in each.replica.folder.rglob("*") if path.is_file()]
            assert kept
            assert not any(MARK in contents for contents in kept)
        async with GridClient(tmp_path / "beta") as client, client.work("training", ["reader", "beta"]):
            there = [each for each in known.members if each.link.membership.name in ("reader", "beta")]
            await ready(there)
            addresses = there[-1].network.addresses if there[-1].network else []
            sets, key = DataSets(tmp_path / "reader"), known.key("reader")

            def read() -> dict[str, bytes]:
                with http_client() as http:
                    (peer,) = peers_of(addresses, 0, http)
                    (shown,) = peer.sets()
                    assert shown["author"] is False
                    peer.take(sets, shown["manifest"], known.which, sealed=True)
                    with closing(sets.open(known.which)) as data:
                        return dict(DataReader(data, [peer.fetch(known.which)], data.seal(key), seed=1))

            assert await asyncio.to_thread(read) == FILES
            with closing(DataSets(tmp_path / "beta").open(known.which)) as data, pytest.raises(GridError):
                data.seal(known.key("beta"))


async def test_G3_damage_is_noticed_when_it_is_read_or_scrubbed_and_repaired(tmp_path: Path) -> None:
    async with world(tmp_path) as known, known.joined() as joined:
        first, second = known.stores
        await until(lambda: first.whole() and second.whole())
        path = max(FILES, key=lambda each: len(FILES[each]))
        with closing(DataSets(tmp_path / "beta").open(known.which)) as data:
            row = data.row(data.listing.find(path))
            name = row.object

        def flip(store: Store) -> None:
            place = store.replica.objects.path(name)
            spoilt = bytearray(place.read_bytes())
            spoilt[len(spoilt) // 2] ^= 1
            place.write_bytes(spoilt)

        flip(first)
        assert not first.whole()

        def read() -> bytes:
            network = joined[2].network
            assert network is not None
            with http_client() as http, closing(DataSets(tmp_path / "gamma").open(known.which)) as data:
                author, beta = peers_of(network.addresses, 2, http)
                with pytest.raises(GridError, match="is damaged in the replica here"):
                    b"".join(beta.chunks(known.which, row))
                return b"".join(from_peers(data, [beta, author], data.listing.find(path)))

        assert len(await asyncio.to_thread(read)) > len(FILES[path])
        await until(first.whole)
        flip(second)
        async with running(second.storage.scrub()):
            await until(second.whole)
        assert any("was damaged and is removed" in line for line in second.said)


async def test_S1_a_member_that_was_removed_gets_nothing_new(tmp_path: Path) -> None:
    async with world(tmp_path) as known:
        said: list[str] = []
        async with running(keep(tmp_path / AUTHOR, ["day-1"], said.append, replicas=1, again_s=0.1)):
            await until(lambda: any("1 of 1" in line for line in said))
            number = [each.whole() for each in known.stores].index(True)
            known.hub.members.decide(STORES[number], "revoke", "operator", "test")
            new = add(tmp_path, "day-2")
            try:
                await until(lambda: known.stores[1 - number].replica.has(new))
            except TimeoutError:
                pytest.fail(f"{said}, {known.stores[1 - number].said}")
        assert any(f"{STORES[number]} was revoked" in line for line in said)
        assert not known.stores[number].replica.has(new)


async def test_a_full_quota_is_one_sentence_and_what_came_before_stays(tmp_path: Path) -> None:
    async with world(tmp_path, quota_bytes=50_000) as known, known.joined():
        await until(lambda: all(any("its quota is used" in line for line in each.said) for each in known.stores))
        for each in known.stores:
            names = list(each.replica.objects)
            assert names
            assert all(map(each.replica.objects.is_whole, names))
            assert not each.replica.has(known.which)
            assert all(sooner != later for sooner, later in pairwise(each.said)), "it is said once"


async def test_listings_count_towards_the_quota_and_one_that_does_not_fit_is_not_taken(tmp_path: Path) -> None:
    objects = sum(len(each) + 16 * (1 + len(each) // CHUNK_BYTES) for each in set(FILES.values()))
    async with world(tmp_path, quota_bytes=2_000) as known, known.joined():
        await until(lambda: all(any("the quota is used" in line for line in each.said) for each in known.stores))
        assert not any(DataSets(tmp_path / name).has(known.which) for name in STORES)
        for each in known.stores:
            each.storage._quota_bytes = objects + 6_500  # the listing fits once, the objects as well do not
        await until(lambda: all(any("its quota is used" in line for line in each.said) for each in known.stores))
        for name, each in zip(STORES, known.stores, strict=True):
            assert DataSets(tmp_path / name).taken_bytes() + each.replica.used_bytes() <= objects + 6_500
            assert not each.replica.has(known.which)
            each.storage._quota_bytes = objects + 20_000
        await until(lambda: all(each.replica.has(known.which) and each.whole() for each in known.stores))


async def test_a_replica_is_complete_only_when_every_object_was_read_without_damage(tmp_path: Path) -> None:
    async with world(tmp_path) as known:
        async with known.joined():
            await until(lambda: all(known.which in each.shelf.whole for each in known.stores))
        beta = known.stores[0]
        again = StorageMember(
            beta.shelf, beta.replica, beta.said.append, quota_bytes=1e9, min_free_bytes=0, round_s=0.2
        )
        beta.shelf.whole = frozenset()  # as after a start of the member
        place = beta.replica.objects.path(next(iter(beta.replica.objects)))
        place.write_bytes(bytes(place.stat().st_size))
        said: list[str] = []
        known.members[1]._service = data_service(beta.shelf, again)
        async with running(keep(tmp_path / AUTHOR, ["day-1"], said.append, on=STORES)):
            await until(
                lambda: {"gamma: 1 of 1 data sets are complete", "beta: 0 of 1 data sets are complete"} <= {*said}
            )
            async with running(again.scrub()):
                await until(lambda: "beta: 1 of 1 data sets are complete" in said)
        assert beta.whole()
        assert any("was damaged and is removed" in line for line in beta.said)


def test_manifests_are_verified_once_and_again_when_they_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / AUTHOR).mkdir()
    which = add(tmp_path, "day-1")
    sets, verified = DataSets(tmp_path / AUTHOR), 0
    shelf = Shelf(sets, IdentityKey.in_folder(tmp_path / AUTHOR))

    def counted(plain: object) -> DataManifest:
        nonlocal verified
        verified += 1
        return read_manifest(plain)

    monkeypatch.setattr(data_sets, "read_manifest", counted)
    for _ in range(5):
        assert [each["manifest"]["name"] for each in shelf._sets()] == ["day-1"]
        sets.open(which).close()
    assert verified == 1
    place = tmp_path / AUTHOR / "data" / which / "manifest.json"
    place.write_bytes(place.read_bytes().replace(b"members", b"public "))
    assert shelf._sets() == [], "it is not what its author signed"
    place.unlink()
    assert (sets.every(), sets._verified) == ([], {})


def test_a_peer_that_drips_bytes_or_says_nothing_is_left_and_asked_again_later() -> None:
    now_s = 0.0
    given: list[bytes] = []

    class Dripping(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            nonlocal now_s
            for each in given:
                now_s += 1.0
                yield each

    def answer(request: httpx.Request) -> httpx.Response:
        if "silent" in request.url.path:
            raise httpx.ReadTimeout("silent", request=request)
        return httpx.Response(200, stream=Dripping())

    client = httpx.Client(transport=httpx.MockTransport(answer))
    peer = DataPeer("127.0.0.1", client, now_s=lambda: now_s)
    row = FileRow("a", 1 << 30, "", "")
    given = [bytes(16_001)] * 1000
    assert sum(map(len, peer.chunks("set", row))) == 16_001_000, "a slow line is fine"
    given = [b"x"] * 1000
    with pytest.raises(GridError, match="gave 32 bytes in 31 s, which is too slow"):
        list(peer.chunks("set", row))
    with pytest.raises(GridError, match=r"was too slow; it is asked again in 300 s"):
        list(peer.chunks("set", row))
    now_s += 300.0
    given = [b"whole"]
    assert list(peer.chunks("set", row)) == [b"whole"]
    with pytest.raises(GridError, match="cannot be reached"):
        list(peer.chunks("silent", row))
    with pytest.raises(GridError, match="is asked again in 300 s"):
        peer.sets()


def test_a_peer_that_falls_silent_after_its_answer_has_begun_is_left_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the file is: it was read before."""
    monkeypatch.setattr(exchange, "CALL_S", 0.5)
    with loopback_bases(1) as (base,), socket.create_server((f"{base}.1.1", exchange.PORT)) as server:

        def begin() -> None:
            connection, _ = server.accept()
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\nx")
            silent.append(connection)

        silent: list[socket.socket] = []
        thread = threading.Thread(target=begin)
        thread.start()
        with http_client() as client:
            peer, row = DataPeer(f"{base}.1.1", client), FileRow("a", 1_000_000_000, "", "")
            given = peer.chunks("set", row)
            assert next(given) == b"x"
            with pytest.raises(GridError, match="cannot be reached \\(ReadTimeout\\)"):
                next(given)
        thread.join()
        silent[0].close()


async def test_S1_what_stays_in_its_laboratory_is_not_given(tmp_path: Path) -> None:
    async with world(tmp_path) as known:
        quiet = add(tmp_path, "quiet", Sharing.NO)
        with pytest.raises(GridError, match="“quiet” stays in its laboratory"):
            await keep(tmp_path / AUTHOR, ["quiet"], lambda _: None)
        async with known.joined() as joined:
            await until(lambda: all(each.whole() for each in known.stores))
            network = joined[1].network
            assert network is not None

            def ask() -> Iterator[str]:
                with http_client() as http:
                    author = DataPeer(network.addresses[0], http)
                    assert [each["manifest"]["name"] for each in author.sets()] == ["day-1"]
                    for path in (".zattrs", "../../identity.key", "traces/0.0"):
                        row = FileRow(path, 10, "", "")
                        with pytest.raises(GridError, match="does not give"):
                            b"".join(author.chunks(quiet, row))
                        if path.startswith(".."):
                            with pytest.raises(GridError, match="does not give"):
                                b"".join(author.chunks(known.which, row))
                    with pytest.raises(GridError, match="is not given from here"):
                        author.take(DataSets(tmp_path / "beta"), {}, quiet, sealed=True)
                yield "asked"

            assert await asyncio.to_thread(lambda: list(ask())) == ["asked"]
        assert not any(each.replica.has(quiet) for each in known.stores)


async def test_G3_a_storage_member_that_was_killed_brings_what_it_lacks_and_a_peer_that_lies_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, count = ObjectStore.put, 0

    def dies(self: ObjectStore, name: str, chunks: Iterator[bytes]) -> int:
        nonlocal count
        count += 1
        if count == 5:
            raise OSError("killed")
        return put(self, name, chunks)

    async with world(tmp_path) as known:
        with monkeypatch.context() as patched:
            patched.setattr(ObjectStore, "put", dies)
            async with known.joined():
                await until(lambda: all(each.whole() for each in known.stores))
        beta = known.stores[0]
        for name in list(beta.replica.objects)[:3]:
            beta.replica.objects.remove(name)
        beta.shelf.damaged = True
        chunks, lies = DataPeer.chunks, 0

        def lying(self: DataPeer, which: str, row: FileRow) -> Iterator[bytes]:
            nonlocal lies
            for chunk in chunks(self, which, row):
                sound = not self.address.endswith(".1")  # rank 0 is the author
                lies += not sound
                yield chunk if sound else bytes(len(chunk))

        monkeypatch.setattr(DataPeer, "chunks", lying)
        async with known.joined():
            await until(beta.whole)
        assert lies >= 3, "the author was asked first each time"


async def test_a_data_set_that_cannot_be_had_does_not_keep_the_others_from_being_stored(tmp_path: Path) -> None:
    """Nor does a member without a store, or one that cannot read an object at the moment."""
    async with world(tmp_path) as known:
        add(tmp_path, "aaa")
        (tmp_path / "aaa" / ".zattrs").write_bytes(b"changed since")
        async with known.joined():
            await until(lambda: all(each.replica.has(known.which) for each in known.stores))
            await until(lambda: all("not as it was signed" in each.shelf.trouble for each in known.stores))
        assert not any(str(tmp_path) in line for each in known.stores for line in each.said), (
            "no path of the author's machine"
        )
        beta = known.stores[0]
        name = next(iter(beta.replica.objects))
        place = beta.replica.objects.path(name)
        place.rename(place.with_suffix(".kept"))
        place.mkdir()  # it cannot be read: that says nothing of its bytes
        assert beta.storage._checked(name) == 0
        assert place.is_dir()
        assert "cannot be read" in beta.said[-1]


async def test_a_peer_that_gives_more_bytes_than_were_signed_is_cut_off(tmp_path: Path) -> None:
    async with world(tmp_path) as known, known.joined() as joined:
        await until(lambda: all(each.whole() for each in known.stores))
        network = joined[1].network
        assert network is not None

        def ask() -> None:
            with http_client() as http, closing(DataSets(tmp_path / "alpha").open(known.which)) as data:
                row = max(data.listing, key=lambda each: each.size)
                with pytest.raises(GridError, match="gave more bytes"):
                    b"".join(DataPeer(network.addresses[0], http).chunks(known.which, replace(row, size=10)))

        await asyncio.to_thread(ask)


def test_a_data_set_with_the_name_of_anothers_id_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / AUTHOR).mkdir()
    key = IdentityKey.generate()
    sets = DataSets(tmp_path / AUTHOR)
    first = sets.add(source(tmp_path / "one"), key, name="one", sharing=Sharing.PUBLIC, provenance=Provenance())
    sets.add(source(tmp_path / "two"), key, name=first.id, sharing=Sharing.PUBLIC, provenance=Provenance())
    with closing(sets.open(first.id)) as data:
        assert data.manifest.name == "one"


async def test_the_hub_asks_for_the_role_storage_of_all_but_the_holder(tmp_path: Path) -> None:
    rules = {"roles": {"storage": [{"figure": "disk_write_bytes_s", "min": 1e15}]}}
    async with a_hub(tmp_path, rules=rules) as hub, workers(tmp_path, hub, "alpha", "beta"):
        async with GridClient(tmp_path / "alpha") as client:
            with pytest.raises(GridRefused, match="beta has not the role storage: disk_write_bytes_s is"):
                async with client.work(JOB, ["alpha", "beta"], role="storage"):
                    pytest.fail("it runs")
            async with client.work(JOB, ["alpha"], role="storage"):
                pass
            with pytest.raises(GridRefused, match="role “owner” of the ranks"):
                async with client.work(JOB, ["alpha"], role="owner"):
                    pytest.fail("it runs")
        await approved(tmp_path, hub, "delta")
        add(tmp_path, "day-1")
        with pytest.raises(GridError, match="Next: start `choroid grid join --work --store FOLDER`"):
            await keep(tmp_path / "alpha", ["day-1"], lambda _: None)


def test_without_a_lease_a_person_is_asked_for_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grid", "data", "take", "--data", str(tmp_path)]) == 1
    assert "no work lease runs here. Next: give the folder of a replica, or join a job" in capsys.readouterr().err
