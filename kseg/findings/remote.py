"""Findings about remote (tiered) storage."""

from kseg.findings.kind import BROKER, DECISION, ERROR, INFO, REPLICA, WARNING, Kind

REMOTE_KINDS: dict[str, Kind] = {
    "remote-metadata-incomplete": Kind(
        WARNING,
        "__remote_log_metadata has updates of remote segments whose first event is missing.",
        "The topic has lost its oldest records, by retention or truncation. A broker without its own copy of these "
        "events does not know the segments: nobody reads or deletes them. The topic needs retention.ms=-1.",
        needs=REPLICA,
    ),
    "remote-copy-unfinished": Kind(
        WARNING,
        "A copy of a segment to remote storage was never finished.",
        "Brokers never read it: a killed broker copies the segment again under another id, and this copy stays.",
        needs=DECISION,
    ),
    "remote-orphan-object": Kind(
        WARNING,
        "An object in remote storage belongs to a segment without log and manifest.",
        "Brokers never read it: a deletion was interrupted, and brokers do not remove the rest.",
        needs=DECISION,
    ),
    "remote-other-objects": Kind(
        INFO,
        "Remote storage holds objects that belong to no segment.",
        "Brokers ignore them.",
    ),
    "remote-objects-missing": Kind(
        ERROR,
        "A manifest in remote storage has no log or no indexes.",
        "Consumers of these offsets get an error, unless the deletion of the segment was interrupted.",
        needs=REPLICA,
    ),
    "remote-manifest-damaged": Kind(
        ERROR,
        "The manifest of a remote segment cannot be read, or contradicts itself or its name.",
        "Brokers cannot read the segment, though its objects may be intact.",
        needs=REPLICA,
    ),
    "remote-size-mismatch": Kind(
        ERROR,
        "The size of an object in remote storage differs from its manifest.",
        "Bytes are missing, or it is another object: brokers fail to read some or all of its chunks.",
        needs=REPLICA,
    ),
    "remote-chunk-damaged": Kind(
        ERROR,
        "A chunk of a remote segment cannot be restored: it fails authentication or decompression, or is cut off.",
        "Consumers get an error at its offsets. kseg recover --from-remote keeps the batches of all other chunks.",
        needs=REPLICA,
    ),
    "remote-offsets-mismatch": Kind(
        ERROR,
        "The records of a remote segment exceed the offset range of its manifest.",
        "Brokers look for these records in another segment.",
        needs=DECISION,
    ),
    "remote-lineage-conflict": Kind(
        WARNING,
        "A remote segment was written by a leader whose records were lost in an unclean election.",
        "Brokers select segments by leader epoch and never read it; by offsets alone it would look live.",
        needs=DECISION,
    ),
    "remote-segment-superseded": Kind(
        INFO,
        "Other remote segments hold the same records.",
        "Nothing is wrong: the segment was copied by two leaders.",
    ),
    "remote-lineage-hole": Kind(
        ERROR,
        "No live remote segment holds these offsets.",
        "Consumers get an error there, or skip them.",
        needs=REPLICA,
    ),
    "remote-local-gap": Kind(
        ERROR,
        "The local log starts after the end of remote storage.",
        "The records in between are lost on this broker.",
        needs=BROKER,
    ),
}
