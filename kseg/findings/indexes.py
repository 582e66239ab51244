"""Findings about offset and time indexes."""

from kseg.findings.kind import ERROR, INFO, RECOVER, RECOVERED, REINDEX, WARNING, Kind

INDEX_KINDS: dict[str, Kind] = {
    # Offset and time indexes
    "index-missing": Kind(
        WARNING,
        "A segment has no offset index.",
        "A broker's start scans the segment and rebuilds both indexes; 1.1 creates an empty one.",
        REINDEX,
        start=RECOVERED,
    ),
    "index-corrupt": Kind(
        ERROR,
        "Most entries of an offset index are wrong, in several ways.",
        "Consumers miss records or stop with an error; after a clean shutdown, a broker may compute a wrong log end. "
        "Brokers since 2.3 do not check the index; older ones may rebuild it.",
        REINDEX,
    ),
    "index-misleads": Kind(
        ERROR,
        "An entry of an offset index has a position where no batch starts, or that of a batch after its offset.",
        "Consumers that start there miss records or stop with an error. Brokers since 2.3 do not check it.",
        REINDEX,
    ),
    "index-beyond-log": Kind(
        ERROR,
        "An entry of an offset index has a position after the end of the log: the log has lost its end.",
        "After a clean shutdown, a broker takes the base offset of the last segment as the log end, and assigns "
        "existing offsets to new records.",
        REINDEX,
    ),
    "index-unsorted": Kind(
        ERROR,
        "The entries of an offset index are not in order.",
        "Lookups return wrong positions: consumers miss records or read too much.",
        REINDEX,
    ),
    "index-below-base": Kind(
        ERROR,
        "An entry of an offset index has an offset below the base offset of the segment.",
        "Lookups return wrong positions. Brokers up to 2.2 rebuild the index at their start, later ones do not notice.",
        REINDEX,
    ),
    "index-zero-tail": Kind(
        WARNING,
        "The end of an offset index is zeros, like preallocated space; a broker truncates it for a closed segment.",
        "Lookups may find the zeros and read the segment from its start: correct, but slow.",
        REINDEX,
    ),
    "index-bad-size": Kind(
        WARNING,
        "The size of an offset index is not a multiple of 8.",
        "Brokers since 2.3 ignore the excess bytes; older ones rebuild the index, 0.8 does not start.",
        REINDEX,
    ),
    "index-imprecise": Kind(
        WARNING,
        "The offset of an index entry is neither the last offset of a batch nor the base offset of its batch.",
        "Lookups still work. Only the cleaner leaves such entries: in a compacted log it is an info.",
        REINDEX,
    ),
    "index-sparse": Kind(
        INFO,
        "More than 16 MiB of batches follow the last entry of the offset index.",
        "Consumers that start there wait while the broker reads that far. An index without entries (a warning) was "
        "lost once, or index.interval.bytes is huge.",
        REINDEX,
    ),
    "time-index-missing": Kind(
        WARNING,
        "A segment has no time index.",
        "A broker creates an empty one and never fills it: retention then uses the time of the file's last change, "
        "and searches by time read the segment from its start.",
        REINDEX,
    ),
    "time-index-corrupt": Kind(
        ERROR,
        "Most entries of a time index are wrong, in several ways.",
        "Searches by time return wrong offsets, retention keeps the segment for ever or deletes it at once, and a "
        "broker may fail to append to the last segment.",
        REINDEX,
    ),
    "time-index-mismatch": Kind(
        WARNING,
        "The timestamp of a time index entry is not the largest of the records up to its offset.",
        "If it is too old, searches by time miss records; the last entry decides on retention.",
        REINDEX,
    ),
    "time-index-incomplete": Kind(
        WARNING,
        "The last entry of a closed segment's time index is older than its largest timestamp.",
        "Retention by time deletes the segment too early; without an entry it uses the file's last change.",
        REINDEX,
    ),
    "time-index-beyond-log": Kind(
        ERROR,
        "An entry of a time index has an offset after the end of the log: the log has lost its end.",
        "In the last segment, a broker fails to append to the index, and so to the log; elsewhere (a warning) searches "
        "by time miss the segment.",
        REINDEX,
    ),
    "time-index-unsorted": Kind(
        ERROR,
        "The entries of a time index are not in order.",
        "Searches by time return wrong offsets.",
        REINDEX,
    ),
    "time-index-below-base": Kind(
        ERROR,
        "An entry of a time index has an offset below the base offset of the segment.",
        "Searches by time return wrong offsets. Brokers up to 2.2 rebuild the index at their start, later ones do not "
        "notice.",
        REINDEX,
    ),
    "time-index-zero-tail": Kind(
        ERROR,
        "The end of a time index is zeros, like preallocated space; a broker truncates it for a closed segment.",
        "The last entry of a closed segment has its largest timestamp: retention by time reads 1970 and deletes the "
        "segment.",
        REINDEX,
    ),
    "time-index-bad-size": Kind(
        WARNING,
        "The size of a time index is not a multiple of 12.",
        "Brokers since 2.3 ignore the excess bytes; older ones rebuild the index.",
        REINDEX,
    ),
    "orphan-index": Kind(
        WARNING,
        "An index has no .log of the same name.",
        "A broker deletes it at its start. If there was a .log, its records are lost.",
        RECOVER,
    ),
}
