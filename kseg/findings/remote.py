"""Findings about remote (tiered) storage."""

from kseg.findings.kind import BROKER, DECISION, ERROR, INFO, REPLICA, WARNING, Kind

REMOTE_KINDS: dict[str, Kind] = {
    "remote-copy-unfinished": Kind(
        WARNING,
        "A copy of a segment to remote storage was never finished.",
        "Nobody reads it: a broker that was killed copies the segment again under another id, and leaves this behind.",
        needs=DECISION,
    ),
    "remote-orphan-object": Kind(
        WARNING,
        "An object in remote storage belongs to a segment without log and manifest.",
        "Nobody reads it: a deletion was interrupted, and nobody removes the rest.",
        needs=DECISION,
    ),
    "remote-other-objects": Kind(
        INFO,
        "Remote storage holds objects that are not those of segments.",
        "Brokers do not look at them.",
    ),
    "remote-objects-missing": Kind(
        ERROR,
        "A manifest in remote storage has no log or no indexes beside it.",
        "Consumers of these offsets get an error, unless the deletion of the segment was interrupted.",
        needs=REPLICA,
    ),
    "remote-manifest-damaged": Kind(
        ERROR,
        "The manifest of a remote segment cannot be read, or contradicts itself or its name.",
        "Brokers cannot read the segment, though its objects may be whole.",
        needs=REPLICA,
    ),
    "remote-size-mismatch": Kind(
        ERROR,
        "An object in remote storage has another size than its manifest says.",
        "Bytes are missing, or the object is another one: brokers fail to read some of its chunks or all of them.",
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
        "The records of a remote segment reach beyond the offsets that its manifest gives it.",
        "Brokers look for these records in another segment.",
        needs=DECISION,
    ),
    "remote-lineage-conflict": Kind(
        WARNING,
        "A remote segment was written by a leader whose records were lost in an unclean election.",
        "Brokers choose segments by leader epoch and never read it; by offsets alone it would be taken for live.",
        needs=DECISION,
    ),
    "remote-segment-superseded": Kind(
        INFO,
        "Other remote segments hold the same records.",
        "Nothing is wrong: the segment was copied by two leaders.",
    ),
    "remote-lineage-hole": Kind(
        ERROR,
        "Offsets between live remote segments are in none of them.",
        "Consumers get an error there, or skip them.",
        needs=REPLICA,
    ),
    "remote-local-gap": Kind(
        ERROR,
        "The local log begins after the offset at which remote storage ends.",
        "The records in between are lost on this broker.",
        needs=BROKER,
    ),
}
