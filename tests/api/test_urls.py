"""``file:`` URLs, and globs in URLs, of fsspec's memory file system."""

import pickle
import tarfile
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

import kseg
from api.consumed import TESTDATA

CLIENTS = TESTDATA / "kafka-4.3.1/clients"
GZIP = CLIENTS / "librdkafka-gzip-0"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    memory = fsspec.filesystem("memory")
    for partition in CLIENTS.glob("librdkafka-*-0"):
        memory.put(str(partition), f"/bucket/logs/{partition.name}", recursive=True)
    with tarfile.open(tmp_path / "logs.tar.gz", "w:gz") as made:
        made.add(GZIP, GZIP.name)
    memory.pipe_file("/bucket/old/logs.tar.gz", (tmp_path / "logs.tar.gz").read_bytes())
    yield "memory://bucket"
    memory.rm("/bucket", recursive=True)


@pytest.mark.parametrize(
    "glob", ["logs/*gzip-0", "l*/librdkafka-gz[a-z]p-[0-9]", "logs/librdkafka-gzip-0/*.log", "old/*"]
)
@pytest.mark.parametrize("kept_bytes", [0, 16 << 20])
def test_globs_of_urls(glob: str, kept_bytes: int, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kseg.stores.object_urls._KEPT_BYTES", kept_bytes)
    expected = [(r.offset, r.key, r.value) for r in kseg.open(GZIP).records()]
    url = f"{store}/{glob}"
    assert [(r.offset, r.key, r.value) for r in kseg.open(url).records()] == expected
    assert kseg.verify(url).summary.records == len(expected)
    assert kseg.verify(GZIP, against=f"{store}/logs/*gzip-0").comparisons[0].same == len(expected)


def test_a_glob_may_match_several(store: str) -> None:
    files = kseg.open(sorted(CLIENTS.glob("librdkafka-*-0"))).files
    found = kseg.open([f"{store}/logs/*-0"]).files
    assert [Path(path).parts[-2:] for path in found] == [Path(path).parts[-2:] for path in files]
    with pytest.raises(kseg.RequestError, match="matches"):
        kseg.verify(GZIP, against=f"{store}/logs/*-0")


def test_a_scan_of_a_glob_can_be_split(store: str) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    scan = kseg.scan(f"{store}/logs/*-0")
    table = scan.to_arrow()
    assert table.num_rows == kseg.scan(sorted(CLIENTS.glob("librdkafka-*-0"))).to_arrow().num_rows
    splits = pickle.loads(pickle.dumps(scan.splits(2000)))
    assert sum(split.to_arrow().num_rows for split in splits) == table.num_rows


def test_an_object_with_the_letters_of_a_glob(store: str) -> None:
    memory = fsspec.filesystem("memory")
    data = next(GZIP.glob("*.log")).read_bytes()
    memory.pipe_file(f"/bucket/odd/t[1]-0/{0:020}.log", data)
    assert kseg.open(f"{store}/odd/t[1]-0").files == [f"{store}/odd/t[1]-0/{0:020}.log"]


@pytest.mark.parametrize("glob", ["*/nothing", "nowhere/*", "logs/x*"])
def test_a_glob_without_a_match(glob: str, store: str) -> None:
    for read in (kseg.open, kseg.verify, lambda url: kseg.scan(url).splits()):
        with pytest.raises(kseg.PathError, match="matches nothing"):
            read(f"{store}/{glob}")


def test_file_urls(tmp_path: Path) -> None:
    expected = list(kseg.open(GZIP).records())
    for path in (f"//{GZIP}", GZIP, f"//{CLIENTS}/librdkafka-gzi*-0", f"//{CLIENTS}/librdkafka-gzi%70-0"):
        assert list(kseg.open(f"file:{path}").records()) == expected
    assert kseg.verify(f"file://{GZIP}", against=f"file://{GZIP}").comparisons[0].same == len(expected)
    with kseg.writer(f"file://{tmp_path}/t-0") as writer:
        writer.append(value=b"v")
    assert (tmp_path / "t-0").is_dir()
    assert not kseg.reindex(f"file://{tmp_path}/t-0")
