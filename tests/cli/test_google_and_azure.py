"""Logs in Google Cloud Storage and Azure Blob Storage, by servers on loopback, have the rows and findings of the files.

Skipped without the servers; CONTRIBUTING says how to install them.
"""

import base64
import gzip
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fsspec", reason="fsspec is not installed")

from bucket_servers import AZURE_KEY, Bucket, azure, google
from cli.command import TESTDATA, Kseg
from cli.test_archives import members, rows, tar_bytes
from stores.remote.stores import KEY_OPTIONS, store_of

LOGS = TESTDATA / "log-directories/4.3.1/logs"
PARTITION = LOGS / "dplain-0"
FLAGS = ("dump", "--deep-iteration", "--print-data-log", "--format", "json")
OTHER_KEY = base64.b64encode(b"another key that must not be shown").decode()
KEYS = [word for option in KEY_OPTIONS for word in ("--private-key", option)]


@pytest.fixture(scope="module", params=[google, azure], ids=["gs", "abfs"])
def bucket(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with request.param(tmp_path_factory.mktemp("server")) as found:
        found.put_tree("backup/logs", LOGS)
        yield found


def test_a_log_directory_gives_the_rows_of_the_files(bucket: Bucket, kseg: Kseg) -> None:
    plain, found = kseg(*FLAGS, LOGS), kseg(*FLAGS, f"{bucket.url}/backup/logs")
    assert (rows(found), found.status) == (rows(plain), plain.status)
    globbed = kseg(*FLAGS, f"{bucket.url}/backup/logs/dplain-*")
    assert rows(globbed) == rows(kseg(*FLAGS, PARTITION))


def test_findings_are_those_of_the_files(bucket: Bucket, kseg: Kseg) -> None:
    flags = ("verify", "--level", "deep", "--format", "json")
    plain, found = kseg(*flags, LOGS), kseg(*flags, f"{bucket.url}/backup/logs")
    assert rows(found, "repair", "next", "message") == rows(plain, "repair", "next", "message")
    hurt = bytearray((PARTITION / "00000000000000000046.log").read_bytes())
    hurt[700] ^= 1
    bucket.put("hurt/dplain-0/00000000000000000046.log", bytes(hurt))
    assert kseg("verify", f"{bucket.url}/hurt/dplain-0").status == 1


def test_archives_and_offsets(bucket: Bucket, kseg: Kseg) -> None:
    bucket.put("packed/backup.tar.gz", gzip.compress(tar_bytes(members(LOGS, "logs/"))))
    assert rows(kseg(*FLAGS, f"{bucket.url}/packed/backup.tar.gz")) == rows(kseg(*FLAGS, LOGS))
    found, plain = (
        kseg(*FLAGS, "--offsets", "120..125", path) for path in (f"{bucket.url}/backup/logs/dplain-0", PARTITION)
    )
    assert rows(found) == rows(plain) != []


def test_what_is_missing_is_told(bucket: Bucket, kseg: Kseg) -> None:
    scheme = bucket.url.partition(":")[0]
    for url in (f"{bucket.url}/nowhere", f"{scheme}://nobucket/t-0", f"{bucket.url}/backup/logs/dplain-0/9.log"):
        for command in ("dump", "verify"):
            done = kseg(command, url)
            assert (done.status, done.out) == (3, b"")
            assert url.rpartition("/")[0] in done.err
            assert "Traceback" not in done.err


@pytest.mark.parametrize("key", [OTHER_KEY, "no-key"])
def test_a_wrong_key_is_not_shown(bucket: Bucket, kseg: Kseg, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    if not bucket.url.startswith("abfs"):
        pytest.skip("fake-gcs-server asks for no credentials")
    monkeypatch.setenv(bucket.variable, bucket.settings.replace(AZURE_KEY, key))
    bucket.system.clear_instance_cache()  # the library keeps the right key
    for command in ("dump", "verify"):
        done = kseg(command, f"{bucket.url}/backup/logs/dplain-0")
        assert (done.status, done.out) == (3, b"")
        assert "abfs://bucket" in done.err
        assert not [word for word in (key, AZURE_KEY, "AccountKey", "Traceback") if word in done.err]
    bucket.system.clear_instance_cache()


def test_remote_storage_is_rebuilt_from_and_to_a_bucket(bucket: Bucket, tmp_path: Path, kseg: Kseg) -> None:
    pytest.importorskip("cryptography", reason="cryptography is not installed")
    tiered, output = tmp_path / "tiered", tmp_path / "local"
    for variant in ("plain", "zstd", "both"):
        shutil.copytree(store_of(variant), tiered, dirs_exist_ok=True)
    bucket.put_tree("tiered", tiered)
    plain = kseg("recover", "--from-remote", tiered, *KEYS, "--output", output)
    words = ["recover", "--from-remote", f"{bucket.url}/tiered", *KEYS, "--output", f"{bucket.url}/rebuilt"]
    done = kseg(*words)
    assert done.status == plain.status, done.err
    wanted = {str(path.relative_to(output)): path for path in output.rglob("*") if path.is_file()}
    assert bucket.files("rebuilt") == {name: path.read_bytes() for name, path in wanted.items() if name != ".lock"}
    kseg(*words).expect(3, "already exists; nothing was written")
