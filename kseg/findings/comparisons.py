"""Findings from comparing a log with a manifest (--manifest) or another replica (--against)."""

from kseg.findings.kind import DECISION, ERROR, FROM_REPLICA, INFO, REPLICA, WARNING, Kind

COMPARISON_KINDS: dict[str, Kind] = {
    # Against a manifest (--manifest)
    "manifest-changed": Kind(
        ERROR,
        "The bytes of a batch differ from those in the manifest.",
        "Bit rot, or the log was changed or cleaned. The checksum of a batch does not cover its first 21 bytes, so "
        "brokers and consumers do not notice changes there.",
        FROM_REPLICA,
        REPLICA,
    ),
    "manifest-missing": Kind(
        ERROR,
        "A batch or segment in the manifest is missing from the log.",
        "Records were lost since, or removed by the cleaner, or a recovery has truncated the log.",
        FROM_REPLICA,
        REPLICA,
    ),
    "manifest-added": Kind(
        WARNING,
        "A batch or segment that is not in the manifest comes before others that are.",
        "Brokers only append: it was inserted, or the log was cleaned.",
        needs=DECISION,
    ),
    "manifest-grown": Kind(
        INFO,
        "The log continues after the end of the manifest.",
        "Nothing is wrong if a broker has written since. New records are not checked: write a new manifest.",
    ),
    "manifest-expired": Kind(
        INFO,
        "The first segments of the manifest are missing from the log.",
        "Nothing is wrong if retention or DeleteRecords removed them.",
    ),
    # Against another replica (--against)
    "replicas-diverge": Kind(
        ERROR,
        "Two replicas have different records, or records of different leader epochs, at one offset.",
        "Consumers read one or the other, depending on which replica leads. A broker notices only while a follower "
        "catches up and epochs differ; then it removes the follower's records. Compare both with kseg dump --offsets.",
        needs=DECISION,
    ),
    "replica-lacks-records": Kind(
        ERROR,
        "Records that one replica has are missing in the middle of the other.",
        "They are lost as soon as the replica that has them is gone: brokers do not search for gaps.",
        FROM_REPLICA,
        REPLICA,
    ),
    "replica-not-compared": Kind(
        WARNING,
        "Damaged bytes of a replica could not be compared.",
        "The other replica has the records if it holds these offsets.",
        FROM_REPLICA,
        REPLICA,
    ),
    "replicas-cleaned-apart": Kind(
        INFO,
        "One of two replicas of a compacted log still has records that the other no longer has.",
        "Nothing is wrong: each broker cleans its own logs.",
    ),
    "replica-starts-later": Kind(
        INFO,
        "One of two replicas starts at a higher offset.",
        "Nothing is wrong: each broker deletes its own old segments.",
    ),
    "replica-ends-earlier": Kind(
        INFO,
        "One of two replicas ends before the other.",
        "A follower was behind, or its log was truncated: it fetches the rest from its leader. Records are lost if it "
        "becomes leader before that.",
    ),
    "replica-missing": Kind(
        INFO,
        "Only one of two log directories holds this partition.",
        "Nothing is wrong unless both brokers are meant to have it.",
    ),
}
