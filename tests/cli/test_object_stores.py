"""Logs in object stores, by servers on loopback, have the rows and findings of the files; what S3 is asked for.

Google's and Azure's stores are skipped without the servers; CONTRIBUTING says how to install them.
"""

import base64
import gzip
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bucket_servers import AZURE_KEY, Bucket, azure, google
from cli.command import LOGS, Kseg, Outcome, files
from cli.test_archives import members, rows, tar_bytes
from kseg.changes.new_directories import RECORD
from kseg.errors import PathError
from kseg.stores.object_urls import UrlObjects
from s3_server import Store, s3_server
from stores.remote.stores import KEY_OPTIONS, store_of

PARTITION = LOGS / "dplain-0"
OTHER_KEY = base64.b64encode(b"another key that must not be shown").decode()
FLAGS = ("dump", "--deep-iteration", "--print-data-log", "--format", "json")


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with s3_server() as found:
        found.put_tree("backup/logs", LOGS)
        yield found


@pytest.fixture(scope="module", params=["s3", google, azure], ids=["s3", "gs", "abfs"])
def bucket(
    request: pytest.FixtureRequest, store: Store, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store | Bucket]:
    if request.param == "s3":
        yield store
        return
    with request.param(tmp_path_factory.mktemp("server")) as found:
        found.put_tree("backup/logs", LOGS)
        yield found


@pytest.fixture(autouse=True)
def no_requests_yet(store: Store) -> None:
    store.requests.clear()


def test_a_log_directory_gives_the_rows_of_the_files(bucket: Store | Bucket, kseg: Kseg) -> None:
    plain, found = kseg(*FLAGS, LOGS), kseg(*FLAGS, f"{bucket.url}/backup/logs")
    assert (rows(found), found.status) == (rows(plain), plain.status)
    files = [row["file"].replace(str(LOGS), f"{bucket.url}/backup/logs") for row in plain.objects]
    assert [row["file"] for row in found.objects] == files
    globbed = kseg(*FLAGS, f"{bucket.url}/backup/logs/dplain-*")
    assert rows(globbed) == rows(kseg(*FLAGS, PARTITION))


def test_findings_are_those_of_the_files(bucket: Store | Bucket, kseg: Kseg) -> None:
    flags, url = ("verify", "--level", "deep", "--format", "json"), f"{bucket.url}/backup/logs"
    plain, found = kseg(*flags, LOGS), kseg(*flags, url)
    places = ("repair", "next", "message", "nodes")
    assert rows(found, *places) == rows(plain, *places)
    nodes = json.dumps(plain.objects[-1]["nodes"]).replace(str(LOGS), url)
    assert found.objects[-1]["nodes"] == json.loads(nodes)
    assert kseg("verify", f"{url}/dplain-0").status == 0
    same = kseg("verify", "--format", "json", "--against", f"{url}/dplain-0", PARTITION)
    assert [(row["same"], row["different"]) for row in same.of_type("comparison")] == [(150, 0)]
    hurt = bytearray((PARTITION / "00000000000000000046.log").read_bytes())
    hurt[700] ^= 1
    bucket.put("hurt/dplain-0/00000000000000000046.log", bytes(hurt))
    assert kseg("verify", f"{bucket.url}/hurt/dplain-0").status == 1


def test_archives_packed_segments_and_offsets(bucket: Store | Bucket, kseg: Kseg) -> None:
    segment = PARTITION / "00000000000000000116.log"
    bucket.put("packed/backup.tar.gz", gzip.compress(tar_bytes(members(LOGS, "logs/"))))
    bucket.put(f"packed/{segment.name}.gz", gzip.compress(segment.read_bytes()))
    assert rows(kseg(*FLAGS, f"{bucket.url}/packed/backup.tar.gz")) == rows(kseg(*FLAGS, LOGS))
    found = kseg(*FLAGS, f"{bucket.url}/packed/{segment.name}.gz")
    assert rows(found, "topic", "partition") == rows(kseg(*FLAGS, segment), "topic", "partition")
    places = (f"{bucket.url}/backup/logs/dplain-0", PARTITION)
    found, plain = (kseg(*FLAGS, "--offsets", "120..125", path) for path in places)
    assert rows(found) == rows(plain) != []


def test_recovery_and_conversion_read_from_a_store(store: Store, tmp_path: Path, kseg: Kseg) -> None:
    for place, out in ((LOGS, "one"), ("s3://bucket/backup/logs", "two")):
        assert kseg("recover", "--output", tmp_path / out, place).status == 0
        assert kseg("convert", "--codec", "lz4", "--output", tmp_path / f"{out}-lz4", place).status == 0
    for suffix in ("", "-lz4"):
        assert files(tmp_path / f"two{suffix}") == files(tmp_path / f"one{suffix}")
    kseg("recover", "s3://bucket/backup/logs").expect(3, "--output DIR")


def test_an_index_leads_to_ranges(store: Store, tmp_path: Path, kseg: Kseg) -> None:
    """Ten records of a segment of 12 MiB: its index, and little of the segment."""
    import os

    built = tmp_path / "built"
    lines = tmp_path / "lines"
    value = os.urandom(3000).hex()
    lines.write_text(
        "".join(
            f'{{"type":"record","topic":"t","partition":0,"offset":{n},"timestamp":{n},'
            f'"key":null,"value":"{value}","headers":[]}}\n'
            for n in range(2000)
        )
    )
    assert kseg("convert", "--from", "jsonl", "--output", built, lines).status == 0
    for path in (built / "t-0").iterdir():
        store.put(f"large/t-0/{path.name}", path.read_bytes())
    (log,) = (built / "t-0").glob("*.log")
    assert log.stat().st_size > 12_000_000
    store.requests.clear()
    found = kseg("dump", "--offsets", "1500..1509", "--format", "json", "--deep-iteration", "s3://bucket/large/t-0")
    assert [row["offset"] for row in found.of_type("record")] == list(range(1500, 1510))
    ranges = [given for _, path, given in store.requests if path.partition("?")[0].endswith(".log") and given]
    read = sum(int(end) - int(start) + 1 for start, end in (re.findall(r"\d+", given) for given in ranges))
    assert 0 < read < 3_000_000


def test_many_objects_are_listed_page_by_page(store: Store, kseg: Kseg) -> None:
    store.most_listed = 20
    data = (PARTITION / "00000000000000000116.log").read_bytes()
    for number in range(50):
        store.put(f"many/t-0/{116:020}.log" if number == 49 else f"many/t-0/note-{number:04}", data * (number == 49))
    done = kseg("dump", "--format", "json", "s3://bucket/many/t-0").expect(0)
    assert len(done.of_type("batch")) == len(kseg("dump", "--format", "json", PARTITION / f"{116:020}.log").objects)
    assert sum("list-type=2" in path and "many" in path for _, path, _ in store.requests) >= 3


def test_what_is_missing_is_told_without_credentials(bucket: Store | Bucket, kseg: Kseg) -> None:
    scheme = bucket.url.partition(":")[0]
    for url in (f"{bucket.url}/nowhere", f"{scheme}://nobucket/t-0", f"{bucket.url}/backup/logs/dplain-0/9.log"):
        for command in ("dump", "verify"):
            done = kseg(command, url).expect(3, url.rpartition("/")[0])
            assert done.out == b""
            assert "secret" not in done.err
            assert "Traceback" not in done.err


@pytest.mark.parametrize("key", [OTHER_KEY, "no-key"])
def test_a_wrong_key_is_not_shown(bucket: Bucket, kseg: Kseg, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    if not bucket.url.startswith("abfs"):
        pytest.skip("a server of the tests asks for no credentials")
    monkeypatch.setenv(bucket.variable, bucket.settings.replace(AZURE_KEY, key))
    bucket.system.clear_instance_cache()  # the library keeps the right key
    for command in ("dump", "verify"):
        done = kseg(command, f"{bucket.url}/backup/logs/dplain-0").expect(3, "abfs://bucket")
        assert done.out == b""
        assert not [word for word in (key, AZURE_KEY, "AccountKey", "Traceback") if word in done.err]
    bucket.system.clear_instance_cache()


KEYS = [word for option in KEY_OPTIONS for word in ("--private-key", option)]


@pytest.fixture
def tiered(tmp_path: Path) -> Path:
    """Remote storage with three topics: plain, compressed, and compressed and encrypted."""
    pytest.importorskip("cryptography", reason="cryptography is not installed")
    for variant in ("plain", "zstd", "both"):
        shutil.copytree(store_of(variant), tmp_path / "tiered", dirs_exist_ok=True)
    return tmp_path / "tiered"


def rebuilt(kseg: Kseg, tiered: Path, output: Path) -> tuple[Outcome, dict[str, bytes]]:
    """The outcome of a rebuild in a local directory, and its files."""
    return kseg("restore", "--from-remote", tiered, *KEYS, "--output", output, "--format", "json"), files(output)


@pytest.mark.slow
def test_remote_storage_is_rebuilt_in_stores(tiered: Path, bucket: Store | Bucket, tmp_path: Path, kseg: Kseg) -> None:
    bucket.put_tree("tiered", tiered)
    plain, wanted = rebuilt(kseg, tiered, tmp_path / "local")
    url = f"{bucket.url}/rebuilt"
    words = ["restore", "--from-remote", f"{bucket.url}/tiered", *KEYS, "--output", url]
    done = kseg(*words, "--format", "json")
    assert done.status == plain.status, done.err
    assert bucket.files("rebuilt") == wanted
    names = {name.split("/")[0] for name in wanted if "/" in name}
    assert len(names) == 3
    assert {row["directory"] for row in done.of_type("rebuilt")} == {f"{url}/{name}" for name in names}
    kseg(*words).expect(3, f"{url}: already exists; nothing was written")


@pytest.mark.slow
def test_upload_resumes(
    tiered: Path, store: Store, tmp_path: Path, kseg: Kseg, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["restore", "--from-remote", tiered, *KEYS, "--jobs", "1", "--output", "s3://bucket/continued"]
    upload, partitions = UrlObjects.upload, list[str]()

    def failing(self: UrlObjects, name: str, path: str) -> None:
        partitions.append(name.partition("/")[0])
        if partitions[-1] != partitions[0]:
            raise PathError(f"{self.path(name)}: the network is down")
        upload(self, name, path)

    with monkeypatch.context() as patch:
        patch.setattr(UrlObjects, "upload", failing)
        kseg(*words).expect(3, "the network is down")
    begun = store.files("continued")
    assert set(json.loads(begun[RECORD])["done"]) == {partitions[0]}
    kseg(*words, "--reset-epochs").expect(3, "was begun with other options")
    plain, wanted = rebuilt(kseg, tiered, tmp_path / "local")
    assert kseg(*words).status == plain.status
    assert store.files("continued") == wanted


@pytest.mark.parametrize("command", [["recover"], ["compact"], ["convert", "--codec", "none"]], ids=" ".join)
def test_other_commands_write_to_no_store(command: list[str], store: Store, kseg: Kseg) -> None:
    done = kseg(*command, "--output", "s3://bucket/out", PARTITION)
    done.expect(3, "only restore --from-remote writes to object stores")
