"""Bounds of the memory, files and work that a corrupt or hostile file can cause, and sizes of buffers and calls.

Bounds of one format, such as those of archives, are in the module that reads it.
"""

MAX_BATCH_BYTES = 256 << 20
"""Bytes that one batch may decompress to (all nested sets of a message together); ``--max-batch-bytes`` moves it.

Kafka has no such ceiling; a batch of the default ``message.max.bytes`` (1 MiB) would need a ratio of 256 to reach it.
"""

MAX_NESTING = 16
"""Compressed sets inside compressed sets (0.7 to 0.9 readers recurse without limit; 3 is the deepest ever seen)."""

ROWS_PER_CALL = 4096
"""Records that one call of the kernel hands over (80 bytes each)."""

HEADERS_PER_CALL = 16384
"""Header rows for those records (32 bytes each); grown for a single record that has more."""

MAX_HEADERS = 1 << 20
"""Headers of one record."""

MAX_MESSAGE_BYTES = 5 << 20
"""How far from an index entry's position its batch may reach: kafka-dump-log's --max-message-size."""

FRAMES_PER_CALL = 8192
"""Frames that one call of the kernel hands over (32 bytes each)."""

RUN_BYTES = 1 << 18
"""Bytes of frames that one call of the kernel hands over (compressed ones count eightfold), or a single frame: so few
that they are still in a processor's cache when they are looked at again."""

LONG_RUN_BYTES = 1 << 20
"""The same for readers that expand a whole run of compressed frames at once, and read its records once."""

FIRST_WINDOW_BYTES = 16 << 10
"""Bytes read first, at each place of a file that is not mapped."""

WINDOW_BYTES = 1 << 20
"""Bytes read at a time where a file is not mapped."""

SEARCH_BYTES = 16 << 20
"""Bytes searched for an intact batch between two looks at signals and at the size of the file."""

MAX_ROOT_FILE_BYTES = 64 << 20
"""A checkpoint of a log directory: some 40 bytes a partition, so more than a million of them."""

MAX_MANIFEST_BYTES = 256 << 20
"""The record of a change (manifest, journal): some 300 bytes a file, and a copy of each checkpoint."""

MAX_ACCEPTED_BYTES = 4 << 20
"""The record of accepted gaps of a partition: some 20 bytes each."""

MAX_INDEX_BYTES = 256 << 20
"""Used bytes of an index, more than any has: a broker's are 10 MiB by default; 256 MiB would be an entry for each 64
bytes of a segment of 2 GiB."""

OUTPUT_BYTES = 1 << 20
"""Bytes of output gathered before they are written."""

LARGEST_BUFFER_BYTES = 16 << 20
"""The largest buffer that a thread keeps for the expanded records of the next batch."""

CHUNK_ROWS = 16384
"""Records in one chunk of columns."""

MAX_OFFSET_ROWS = 1 << 17
"""Records in one chunk that has only offsets."""

CHUNK_BYTES = 8 << 20
"""Bytes of keys, values and headers in one chunk of columns, but for a single record that has more."""

MAX_SEGMENT_BYTES = (1 << 31) - 1
"""FileRecords.open refuses a larger file."""

MAX_OFFSET = (1 << 63) - 1

MAX_MANIFEST_OBJECT_BYTES = 32 << 20
"""A manifest of a remote segment; the largest part is a chunk index, of at most 4 bytes a chunk."""

MAX_CHUNK_BYTES = 256 << 20
"""A chunk of a remote segment, which is restored in memory; the plugin's default is 4 MiB."""

MAX_CHUNKS = 1 << 21
"""Chunks of one remote segment: with chunks of 1 KiB a segment of 2 GiB has so many."""

MAX_REMOTE_EPOCHS = 1 << 20
"""Leader epochs of one remote segment."""

TRANSACTION_LIMIT_MS = 20 * 60 * 1000
"""The default of transaction.max.timeout.ms plus the five minutes of the broker's metric of late transactions."""
