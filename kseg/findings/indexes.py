"""Findings about offset and time indexes."""

from kseg.findings.kind import ERROR, INFO, RECOVER, REINDEX, WARNING, Kind

INDEX_KINDS: dict[str, Kind] = {
    # Offset and time indexes
    "index-missing": Kind(
        WARNING,
        "A segment has no offset index.",
        "A broker scans the segment when it starts and writes both indexes anew; 1.1 begins an empty one.",
        REINDEX,
    ),
    "index-corrupt": Kind(
        ERROR,
        "Most entries of an offset index are wrong, in several ways.",
        "Consumers miss records or stop with an error; a broker that stopped cleanly may take a wrong end of the log. "
        "Brokers since 2.3 do not check it, older ones rebuild it at most.",
        REINDEX,
    ),
    "index-misleads": Kind(
        ERROR,
        "An entry of an offset index leads to a place where no batch begins, or to a batch behind the offset.",
        "Consumers that begin there miss records or stop with an error. Brokers since 2.3 do not check it.",
        REINDEX,
    ),
    "index-beyond-log": Kind(
        ERROR,
        "An entry of an offset index leads behind the end of the log: the log has lost its end.",
        "A broker that stopped cleanly takes the base offset of the last segment for the end of the log then, and "
        "writes new records over offsets that exist.",
        REINDEX,
    ),
    "index-unsorted": Kind(
        ERROR,
        "An entry of an offset index is not in line with its neighbours.",
        "Lookups go astray: consumers miss records or read more than they need to.",
        REINDEX,
    ),
    "index-below-base": Kind(
        ERROR,
        "An entry of an offset index has an offset below the base offset of the segment.",
        "Lookups go astray. Brokers up to 2.2 rebuild the index when they start, later ones do not notice.",
        REINDEX,
    ),
    "index-zero-tail": Kind(
        WARNING,
        "The end of an offset index is zeros, as room is that was set aside; a broker cuts it off a closed segment.",
        "Lookups may find the zeros and read the segment from its beginning: correct, but slow.",
        REINDEX,
    ),
    "index-bad-size": Kind(
        WARNING,
        "The size of an offset index is no multiple of 8.",
        "Brokers since 2.3 do not see the bytes left over; older ones rebuild the index, 0.8 does not start.",
        REINDEX,
    ),
    "index-imprecise": Kind(
        WARNING,
        "The offset of an entry of an offset index is that of no batch's end, nor of the beginning of its batch.",
        "It leads nobody astray. Only the cleaner may leave such an entry: of a compacted log it is an info.",
        REINDEX,
    ),
    "index-sparse": Kind(
        INFO,
        "Batches lie more than 16 MiB behind the last one that an entry of the offset index leads to.",
        "Consumers that begin there wait while the broker reads that far. With no entry at all (a warning) the index "
        "was lost once, or index.interval.bytes is huge.",
        REINDEX,
    ),
    "time-index-missing": Kind(
        WARNING,
        "A segment has no time index.",
        "A broker begins an empty one and never fills it: retention goes by the time of the file's last change then, "
        "and searches by time read the segment from its beginning.",
        REINDEX,
    ),
    "time-index-corrupt": Kind(
        ERROR,
        "Most entries of a time index are wrong, in several ways.",
        "Searches by time go astray, retention keeps the segment for ever or deletes it at once, and a broker may fail "
        "to append to the last segment.",
        REINDEX,
    ),
    "time-index-mismatch": Kind(
        WARNING,
        "The timestamp of an entry of a time index is not the largest of the records up to its offset.",
        "Where it is too old, searches by time miss records; the last entry decides on retention.",
        REINDEX,
    ),
    "time-index-incomplete": Kind(
        WARNING,
        "The last entry of a closed segment's time index is older than its largest timestamp.",
        "Retention by time deletes the segment too early; without an entry it goes by the file's last change.",
        REINDEX,
    ),
    "time-index-beyond-log": Kind(
        ERROR,
        "An entry of a time index has an offset behind the end of the log: the log has lost its end.",
        "In the last segment a broker refuses to append to the index, and so to the log; elsewhere (a warning) "
        "searches by time miss the segment.",
        REINDEX,
    ),
    "time-index-unsorted": Kind(
        ERROR,
        "An entry of a time index is not in line with its neighbours.",
        "Searches by time go astray.",
        REINDEX,
    ),
    "time-index-below-base": Kind(
        ERROR,
        "An entry of a time index has an offset below the base offset of the segment.",
        "Searches by time go astray. Brokers up to 2.2 rebuild the index when they start, later ones do not notice.",
        REINDEX,
    ),
    "time-index-zero-tail": Kind(
        ERROR,
        "The end of a time index is zeros, as room is that was set aside; a broker cuts it off a closed segment.",
        "The last entry of a closed segment stands for its largest timestamp: retention by time takes it for one of "
        "1970 and deletes it.",
        REINDEX,
    ),
    "time-index-bad-size": Kind(
        WARNING,
        "The size of a time index is no multiple of 12.",
        "Brokers since 2.3 do not see the bytes left over; older ones rebuild the index.",
        REINDEX,
    ),
    "orphan-index": Kind(
        WARNING,
        "An index has no .log beside it.",
        "A broker deletes it when it starts. If the .log was there once, its records are gone.",
        RECOVER,
    ),
}
