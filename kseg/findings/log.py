"""Findings about the bytes of a segment, and about its offsets from batch to batch."""

from kseg.findings.kind import (
    BROKER,
    DECISION,
    DROP_UNDECODABLE,
    ERROR,
    FROM_REPLICA,
    INFO,
    REPLICA,
    SALVAGE,
    WARNING,
    Kind,
)

LOG_KINDS: dict[str, Kind] = {
    # Bytes of a .log
    "truncated-batch": Kind(
        ERROR,
        "A batch begins here, but bytes of it are missing at its end.",
        "A broker that starts after an unclean stop cuts it off, and all behind it; one that stopped cleanly may not "
        "start. Its records are lost here.",
        SALVAGE,
        is_cut=True,
    ),
    "nonsense-block": Kind(
        ERROR,
        "These bytes belong to no batch.",
        "Consumers stop here with an error. A broker that scans the segment cuts the log here and deletes every later "
        "segment, with all intact batches that follow.",
        SALVAGE,
        is_cut=True,
    ),
    "zero-block": Kind(
        ERROR,
        "These bytes belong to no batch and are all zero.",
        "As a nonsense block; zeros come from a file system after a power cut, or from a preallocated file that was "
        "not closed.",
        SALVAGE,
        is_cut=True,
    ),
    "bad-length": Kind(
        ERROR,
        "A batch begins here whose length field is wrong.",
        "Consumers stop here. A broker that scans the segment cuts the log here; a huge length may end its process.",
        SALVAGE,
        is_cut=True,
    ),
    "bad-magic": Kind(
        ERROR,
        "The format byte (magic) of a batch names no format.",
        "Consumers stop here. The byte lies outside the checksum of v2, so that a broker's scan does not see it.",
        SALVAGE,
    ),
    "crc-mismatch": Kind(
        ERROR,
        "The checksum of a batch is not that of its bytes.",
        "Consumers that check it stop here, others read wrong records. A broker that scans the segment cuts the log "
        "here.",
        SALVAGE,
        is_cut=True,
    ),
    "undecodable-records": Kind(
        ERROR,
        "The records of a batch cannot be decoded, though its checksum is right.",
        "Consumers stop here. A broker does not notice: its scan looks at no record. The cleaner stops at it.",
        DROP_UNDECODABLE,
        DECISION,
    ),
    "decompression-limit": Kind(
        ERROR,
        "A batch decompresses to more bytes than the limit allows.",
        "Its records were not judged. Consumers may run out of memory; --max-batch-bytes moves the limit.",
        needs=DECISION,
    ),
    "count-mismatch": Kind(
        ERROR,
        "A batch claims more records than its offset range has room for.",
        "Consumers may see an offset twice or stop here. A broker does not notice.",
        DROP_UNDECODABLE,
        DECISION,
    ),
    "offsets-not-rising": Kind(
        ERROR,
        "The offsets inside a batch do not rise.",
        "Consumers may skip records or see them twice.",
        DROP_UNDECODABLE,
        DECISION,
    ),
    "offset-out-of-range": Kind(
        ERROR,
        "A record's offset lies outside the range of its batch.",
        "Consumers may skip records or see them twice.",
        DROP_UNDECODABLE,
        DECISION,
    ),
    "cut-message-set": Kind(
        ERROR,
        "A compressed v0, v1 or 0.7 message ends in bytes that are no whole message.",
        "The last message of the set is lost. Consumers leave it out without a word, or run out of memory where its "
        "size field claims more than there is. Salvage can leave the whole set out, and keeps it in the quarantine; "
        "kseg dump shows the messages before.",
        DROP_UNDECODABLE,
        DECISION,
    ),
    "bytes-behind-records": Kind(
        WARNING,
        "A batch holds bytes behind its records.",
        "All records are there. Readers pass over these bytes, and no known writer makes such batches. kseg convert "
        "--codec CODEC --in-place writes the batches anew without them, where the codec is another one.",
        needs=DECISION,
    ),
    "inner-crc-mismatch": Kind(
        ERROR,
        "The checksum of a message inside a compressed v0, v1 or 0.7 message is wrong.",
        "Consumers that check it stop here.",
        DROP_UNDECODABLE,
        DECISION,
    ),
    "max-timestamp-mismatch": Kind(
        WARNING,
        "The largest timestamp of the records is not the one that the header of the batch tells.",
        "Searches by time and retention go by the header.",
        needs=DECISION,
    ),
    "record-attributes": Kind(
        WARNING,
        "A record has attributes, which no release sets.",
        "Readers ignore them; no known writer makes such records.",
        needs=DECISION,
    ),
    "unused-attributes": Kind(
        WARNING,
        "Attribute bits of a batch are set that no release uses.",
        "Readers ignore them; no known writer makes such batches.",
        needs=DECISION,
    ),
    # Offsets from batch to batch
    "wrong-base-offset": Kind(
        ERROR,
        "The base offset of an intact batch is wrong: its neighbours leave room for it elsewhere.",
        "Consumers see its records at wrong offsets or skip others. The field lies outside the checksum: a broker does "
        "not notice, or does not start where it is far off.",
        SALVAGE,
    ),
    "batch-out-of-order": Kind(
        ERROR,
        "A batch does not begin behind the one before it: written twice, or in the wrong place.",
        "Consumers see offsets twice. A broker that scans the segment empties all of it if the batch would be indexed.",
        SALVAGE,
    ),
    "offset-outside-segment": Kind(
        ERROR,
        "An offset lies below the number in the file's name, or 2^31 or more above it.",
        "A broker cannot index it, and may not start.",
        SALVAGE,
    ),
    "segments-overlap": Kind(
        ERROR,
        "A segment holds offsets at or above the base offset of the next one.",
        "Consumers see offsets twice or out of order.",
        SALVAGE,
    ),
    "gap-unexplained": Kind(
        ERROR,
        "Offsets are missing, and nothing tells why.",
        "Records are lost here; a broker does not notice gaps. It is a warning where nothing tells whether the log was "
        "compacted once, in a copy without its log directory; of a compacted log level deep alone finds it.",
        FROM_REPLICA,
        REPLICA,
    ),
    "gap-truncated": Kind(
        ERROR,
        "Offsets are missing where bytes are damaged or cut off.",
        "The records of these offsets are lost here, unless a replica has them.",
        FROM_REPLICA,
        REPLICA,
    ),
    "gap-compacted": Kind(INFO, "Offsets are missing as the log cleaner leaves them.", "Nothing is wrong."),
    "gap-control": Kind(
        INFO,
        "The offset of a transaction's marker is missing in a compacted log.",
        "Nothing is wrong: the cleaner removed the marker when nothing of the transaction was left.",
    ),
    "gap-aborted": Kind(
        INFO,
        "Offsets are missing before the marker of an aborted transaction in a compacted log.",
        "Nothing is wrong: the cleaner removes the records of aborted transactions.",
    ),
    "gap-salvaged": Kind(
        INFO,
        "Offsets are missing that an earlier salvage could not keep; its manifest accounts for them.",
        "What was cut out lies in the quarantine of the partition.",
    ),
    "leader-epoch-falls": Kind(
        WARNING,
        "The leader epoch of a batch is below that of the batch before it.",
        "The field lies outside the checksum. Followers and clients may truncate or refuse to go on.",
        SALVAGE,
    ),
    "future-timestamp": Kind(
        WARNING,
        "A timestamp lies in the future.",
        "Retention by time keeps the segment, and all behind it, until that time has come and gone.",
        needs=DECISION,
    ),
    "old-message-format": Kind(
        INFO,
        "Messages of format v0 or v1, from before Kafka 0.11.",
        "Kafka 4 reads them, and its cleaner rewrites them as v2; it writes no others.",
        "kseg convert --to v2",
    ),
    # Reading
    "file-shrank": Kind(
        ERROR,
        "A file became shorter while it was read.",
        "The bytes that were cut off were not judged. Somebody writes here: check it again when nobody does.",
        needs=BROKER,
    ),
    "unreadable-file": Kind(
        ERROR,
        "A file cannot be opened, or is no file: a link that leads to itself or nowhere, a directory, a pipe.",
        "It was not judged. A broker that meets it stops, or takes the log directory offline.",
        needs=DECISION,
    ),
    "packed-segment": Kind(
        ERROR,
        "An archive lies inside a directory or inside another archive.",
        "What is in it was not judged. No broker reads it: give its own path, or unpack it.",
        needs=DECISION,
    ),
    "damaged-archive": Kind(
        ERROR,
        "A packed file or an archive is cut or damaged.",
        "What could be read before the damage, and in a tar file behind it, was judged; the rest is lost. Another copy "
        "of the archive may have it.",
        needs=DECISION,
    ),
    "archive-member-skipped": Kind(
        WARNING,
        "A member of an archive was not read.",
        "Its name leads out of the archive or is there twice, it is a device, it is encrypted, or packed in a way that "
        "kseg does not read.",
        needs=DECISION,
    ),
    "segment-too-large": Kind(
        ERROR,
        "A segment has more than 2,147,483,647 bytes.",
        "No broker opens it, as positions in a segment are 32-bit numbers; it takes the log directory offline.",
        needs=DECISION,
    ),
    "unreadable-bytes": Kind(
        ERROR,
        "The disk cannot give these bytes.",
        "Consumers stop here; a broker that scans the segment stops, or takes the log directory offline. Position and "
        "length are those of the batches with such bytes; all other batches were judged. Copy the disk first.",
        SALVAGE,
    ),
}
