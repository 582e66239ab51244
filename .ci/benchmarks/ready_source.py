"""A data source that has nothing to do: its Arrow record batches lie ready in files. What it takes is Spark's own."""

import os
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kseg.spark.modes import schema_of

SUFFIX = ".arrow"


class ReadySource(DataSource):
    """Each file of a folder is a task."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> StructType:
        return schema_of("records")

    def reader(self, schema: StructType) -> "ReadyReader":
        return ReadyReader(self.options["path"])


class ReadyReader(DataSourceReader):
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def partitions(self) -> list[InputPartition]:
        names = sorted(name for name in os.listdir(self._folder) if name.endswith(SUFFIX))
        return [InputPartition(os.path.join(self._folder, name)) for name in names]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        import pyarrow as pa

        with pa.memory_map(partition.value) as file:
            batches = pa.ipc.open_file(file)
            for k in range(batches.num_record_batches):
                yield batches.get_batch(k)
