"""Streams whose drivers are killed at random moments: their sinks have each record once.

KSEG_KILLS drivers (2) are killed, at moments that KSEG_KILLS_SEED (27) chooses; `pytest -rP` shows the state at each.
"""

import os
import random
import shutil
import time
from pathlib import Path

import pytest

from spark.drivers import ROOT, killed, output_of, require_success, session, settings_of, skip_unless_pyspark, started
from spark.reading import rows_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PARTITION = ROOT / "testdata/kafka-0.11.0.3/txn/compact-txn-0"
CLOSED = sorted(PARTITION.glob("*.log"))[:-1]

STREAM = """
sink, logs, out, checkpoint = sys.argv[1:]
frame = spark.readStream.format("kseg").option("maxFilesPerTrigger", "1").load(logs)
writing = frame.writeStream.format(sink).option("checkpointLocation", checkpoint)
writing.trigger(availableNow=True).start(out).awaitTermination()
print(json.dumps([list(row) for row in spark.read.format(sink).load(out).select("topic", "offset").collect()]))
"""


def numbers_in(folder: Path) -> int:
    """The number of micro-batches, or of versions of a table, whose file is complete in this folder."""
    names = os.listdir(folder) if folder.is_dir() else []
    return len({int(name.split(".")[0]) for name in names if name.split(".")[0].isdigit()})


@pytest.mark.parametrize(("sink", "log"), [("parquet", "_spark_metadata"), ("delta", "_delta_log")])
def test_a_killed_stream_writes_each_record_once(sink: str, log: str, tmp_path: Path, needs_java: None) -> None:
    pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark before 4.2 has no limits of streams")
    settings = {"spark.databricks.delta.snapshotPartitions": "1"}
    if sink == "delta":
        skip_unless_pyspark("4.2")
        settings |= settings_of("delta-spark", tmp_path) | {"spark.driver.memory": "1g"}
    starts, seed = int(os.environ.get("KSEG_KILLS", "2")), int(os.environ.get("KSEG_KILLS_SEED", "27"))
    moments, kills, expected = random.Random(seed), 0, []
    for number in range(starts + 1):
        name = f"orders{number}"
        shutil.copytree(PARTITION, tmp_path / f"logs/{name}-0")
        expected += [[name, row["offset"]] for path in CLOSED for row in rows_of(path)]
    batches = (starts + 1) * len(CLOSED)
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    begun, written, committed = checkpoint / "offsets", out / log, checkpoint / "commits"
    program, arguments = session("local[1]", settings) + STREAM, (sink, tmp_path / "logs", out, checkpoint)

    def state() -> list[int]:
        return [numbers_in(folder) for folder in (begun, written, committed)]

    for _ in range(starts):
        target, delay = sum(state()) + moments.randint(1, 3), moments.choice((0, moments.uniform(0, 0.8)))
        process, deadline = started(tmp_path, program, *arguments), time.monotonic() + 280
        try:
            while sum(state()) < target and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.005)
            time.sleep(delay)
        finally:
            running = killed(process)
        if not running:
            require_success(process, tmp_path)
        kills += running
        print(f"{sink}, seed {seed}: micro-batches begun, written, committed {state()}, killed: {running}")
    assert kills, "there is more to read than a driver can before it is killed"
    rows = output_of(started(tmp_path, program, *arguments), tmp_path)
    assert sorted(rows) == sorted(expected)
    assert state() == [batches] * 3

    # A kill after the last commit of the sink and before that of the checkpoint: the micro-batch is repeated.
    for name in (f"{batches - 1}", f".{batches - 1}.crc"):
        (committed / name).unlink()
    rows = output_of(started(tmp_path, program, *arguments), tmp_path)
    assert sorted(rows) == sorted(expected)
    assert numbers_in(committed) == batches
