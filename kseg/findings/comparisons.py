"""Findings of what a log is compared with: a manifest (--manifest), another replica (--against)."""

from kseg.findings.kind import DECISION, ERROR, FROM_REPLICA, INFO, REPLICA, WARNING, Kind

COMPARISON_KINDS: dict[str, Kind] = {
    # Against a manifest (--manifest)
    "manifest-changed": Kind(
        ERROR,
        "The bytes of a batch are not those that the manifest tells of.",
        "Bits have rotted, or someone has changed or cleaned the log. A change in the first 21 bytes of a batch breaks "
        "no checksum, so that nobody else notices.",
        FROM_REPLICA,
        REPLICA,
    ),
    "manifest-missing": Kind(
        ERROR,
        "A batch or a segment of the manifest is not there.",
        "Records were lost since, or removed by the cleaner, or the log was cut by a recovery.",
        FROM_REPLICA,
        REPLICA,
    ),
    "manifest-added": Kind(
        WARNING,
        "A batch or a segment is there that the manifest does not tell of, in front of others that it does.",
        "Brokers only append: somebody has put it there, or the log was cleaned.",
        needs=DECISION,
    ),
    "manifest-grown": Kind(
        INFO,
        "The log goes on behind what the manifest tells of.",
        "Nothing is wrong where a broker has written since. What is new is not checked: make a new manifest.",
    ),
    "manifest-expired": Kind(
        INFO,
        "Segments of the manifest are gone from the front of the log.",
        "Nothing is wrong where retention or DeleteRecords took them.",
    ),
    # Against another replica (--against)
    "replicas-diverge": Kind(
        ERROR,
        "Two replicas have different records, or records of different leader epochs, at one offset.",
        "Consumers read one or the other, depending on which replica leads. A broker notices only while a follower "
        "catches up and epochs tell it, and then the follower's records go. Look at both with kseg dump --offsets.",
        needs=DECISION,
    ),
    "replica-lacks-records": Kind(
        ERROR,
        "Records that one replica has are missing in the middle of the other.",
        "They are lost as soon as the replica that has them is gone: a broker never looks for holes.",
        FROM_REPLICA,
        REPLICA,
    ),
    "replica-not-compared": Kind(
        WARNING,
        "Damaged bytes of a replica could not be compared with the other one.",
        "The other one has what was there, if it holds these offsets.",
        FROM_REPLICA,
        REPLICA,
    ),
    "replicas-cleaned-apart": Kind(
        INFO,
        "Records of a compacted log are gone from one of two replicas, and still there in the other.",
        "Nothing is wrong: each broker cleans for itself.",
    ),
    "replica-starts-later": Kind(
        INFO,
        "One of two replicas begins at a higher offset.",
        "Nothing is wrong: each broker deletes old segments for itself.",
    ),
    "replica-ends-earlier": Kind(
        INFO,
        "One of two replicas ends before the other.",
        "A follower that was behind, or whose log was cut: it fetches the rest from its leader. Records are lost if "
        "it leads before that.",
    ),
    "replica-missing": Kind(
        INFO,
        "Only one of two log directories holds this partition.",
        "Nothing is wrong unless both brokers are meant to have it.",
    ),
}
