"""Logs in a real S3 server: the records and findings of the files, and several readers of one store."""

import pickle
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import kseg
from api.consumed import TESTDATA
from s3_server import Store, free_port, s3_server

LOGS = TESTDATA / "log-directories/4.3.1/logs"
URL = "s3://bucket/backup/logs"


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with s3_server() as found:
        found.put_tree("backup/logs", LOGS)
        yield found


@pytest.mark.slow
def test_scans_and_their_splits_read_a_store(store: Store, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "logs.tar.gz"
    with tarfile.open(path, "w:gz") as made:
        made.add(LOGS, "logs")
    store.put("archive/logs.tar.gz", path.read_bytes())
    expected = kseg.scan(LOGS).to_arrow()
    for url in (URL, "s3://bucket/archive/logs.tar.gz"):
        assert pa.table(kseg.scan(url)).equals(expected)
        splits = pickle.loads(pickle.dumps(kseg.scan(url).splits(2000)))
        assert pa.concat_tables([split.to_arrow() for split in splits]).equals(expected)
    both = kseg.scan([f"{URL}/dplain-0", "s3://bucket/archive/logs.tar.gz"], columns="offset")
    assert both.to_arrow().num_rows == kseg.scan(LOGS / "dplain-0").to_arrow().num_rows + expected.num_rows


def test_readers_of_one_store_do_not_end_each_other(store: Store) -> None:
    first = kseg.open(f"{URL}/dplain-0")
    records = kseg.open(f"{URL}/dplain-0").records()
    expected = list(kseg.open(LOGS / "dplain-0").records())
    assert next(records) == expected[0]
    second = kseg.open(URL)
    del first
    assert [expected[0], *records] == expected
    assert list(second.records()) == list(kseg.open(LOGS).records())


def test_credentials_are_not_shown() -> None:
    url = f"http://user:secret@127.0.0.1:{free_port()}/orders-0"
    assert "secret" not in repr(kseg.scan(url))
    assert "127.0.0.1" in repr(kseg.scan(url))
    for read in (kseg.open, kseg.verify):
        with pytest.raises(kseg.KsegError) as raised:
            read(url)
        assert "secret" not in str(raised.value)
