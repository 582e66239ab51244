"""Plans a read of many segments in a store that makes them up: ``python -m benchmarks.spark_planning``.

The store answers a listing after a wait for each thousand names, as object stores do. Spark's driver plans in a process
of Python, which this is; what it returns is pickled for the JVM, and counted.
"""

import argparse
import pickle
import resource
import time
from typing import Any, ClassVar

import fsspec
from fsspec import AbstractFileSystem

from kseg.spark.source import KsegDataSource

PAGE = 1000
SEGMENT_BYTES = 1 << 30
SUFFIXES = {".log": SEGMENT_BYTES, ".index": 2 << 20, ".timeindex": 3 << 20, ".snapshot": 10}


class MadeUp(AbstractFileSystem):
    """``partitions`` directories of ``segments`` each. Their indexes are empty."""

    protocol = "madeup"
    partitions: ClassVar[int] = 0
    segments: ClassVar[int] = 0
    wait_seconds: ClassVar[float] = 0
    requests: ClassVar[int] = 0

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[dict[str, Any]]:
        parts = self._strip_protocol(path).strip("/").split("/")
        if len(parts) == 1:
            found = [
                {"name": f"{parts[0]}/orders-{number}", "type": "directory", "size": 0}
                for number in range(self.partitions)
            ]
        else:
            folder = "/".join(parts)
            found = [
                {"name": f"{folder}/{base * 10_000_000:020}{suffix}", "type": "file", "size": size}
                for base in range(self.segments)
                for suffix, size in SUFFIXES.items()
            ]
        pages = -(-len(found) // PAGE)
        MadeUp.requests += pages
        time.sleep(pages * self.wait_seconds)
        return found

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        MadeUp.requests += 1
        time.sleep(self.wait_seconds)
        name = self._strip_protocol(path).strip("/")
        if name.count("/") > 1 or name.endswith("checkpoint"):
            raise FileNotFoundError(path)
        return {"name": name, "type": "directory", "size": 0}

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        MadeUp.requests += 1
        time.sleep(self.wait_seconds)
        return bytes((end or 0) - (start or 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--segments", type=int, default=1000, help="of each partition")
    parser.add_argument("--wait", type=float, default=0.05, metavar="SECONDS", help="for each request")
    parser.add_argument("options", nargs="*", metavar="OPTION=VALUE", help="of the data source")
    given = parser.parse_args()
    fsspec.register_implementation("madeup", MadeUp, clobber=True)
    MadeUp.partitions, MadeUp.segments, MadeUp.wait_seconds = given.partitions, given.segments, given.wait
    options = dict(option.split("=", 1) for option in given.options)
    source = KsegDataSource({"path": "madeup://archive"} | {name.lower(): text for name, text in options.items()})
    reader = source.reader(schema=source.schema())
    begun, used = time.monotonic(), time.process_time()
    tasks = reader.partitions()
    pickled = sum(len(pickle.dumps(task)) for task in tasks)
    print(f"{given.partitions * given.segments} segments, {len(tasks)} tasks, {MadeUp.requests} requests")
    print(f"{time.monotonic() - begun:.1f} s, {time.process_time() - used:.1f} s of the processor")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB, {pickled >> 20} MiB of tasks")


if __name__ == "__main__":
    main()
