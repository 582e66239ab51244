"""Command lines whose whole output is recorded in testdata/outputs: each runs in a folder of testdata."""

import json
from dataclasses import dataclass
from pathlib import Path

from cli.command import TESTDATA

NOW = ("--now", "1795300000000")
"""Behind all timestamps of the data; in a command line, ``@NOW``."""
CASES = sorted(path.parent for path in (TESTDATA / "damaged" / "findings").glob("*/case.json"))
NARROW, NARROW_COLUMNS = "narrow", "60"
"""A group of command lines for a terminal of so many columns."""
OTHERS_WORDS = {"bad-clean-shutdown", "bad-quorum-state", "remote-manifest-damaged"}
"""Cases whose findings quote Python's json, which changes its words."""


@dataclass(frozen=True)
class CommandLine:
    """A command line; ``folder``, below testdata, is the current directory."""

    folder: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Changes:
    """Command lines that run one after another in a copy of ``folder``."""

    folder: str
    lines: tuple[CommandLine, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.replace("@NOW", " ".join(NOW)).split())


def _lines(folder: str, *texts: str) -> list[CommandLine]:
    return [CommandLine(folder, _words(text)) for text in texts]


def _each(paths: str, *texts: str) -> list[CommandLine]:
    """Each command line with each path."""
    return [
        CommandLine(str(Path(path).parent), (*_words(text), Path(path).name))
        for path in paths.split()
        for text in texts
    ]


def _of_case(folder: Path) -> list[CommandLine]:
    """The verification of a case of testdata/damaged/findings, as its case.json says."""
    case = json.loads((folder / "case.json").read_text("utf-8"))
    if {"packed", "condition"} & case.keys() or folder.name in OTHERS_WORDS:
        return []
    words = [case["judged"], *([case["logs"]] if "logs" in case else []), "--jobs", "1"]
    words += ["--now", str(case.get("nowMs", NOW[1])), "--max-batch-bytes", str(case.get("maxBatchBytes", 1 << 28))]
    words += [word for name in ("against", "manifest") if name in case for word in (f"--{name}", case[name])]
    up = "../" * len(folder.relative_to(TESTDATA).parts)
    for key, path in case.get("privateKeys", {}).items():
        words += ["--private-key", f"{key}={up}{path}"]
    forms = ("json", "deep"), ("text", "deep"), ("text", "quick")
    place = str(folder.relative_to(TESTDATA))
    return [CommandLine(place, ("verify", *words, "--level", level, "--format", form)) for form, level in forms]


OLD = "kafka-0.6/magic0/MagicByte0-0 kafka-0.7.2/direct/edge-0 kafka-0.7.2/direct/nested-0 kafka-0.7.2/direct/codecs-0"
PLAIN = """
kafka-0.8.2.2/codecs/one-mixcodec-0 kafka-0.10.2.2/codecs/tsedge-0 kafka-0.10.2.2/codecs/compact-lat-snappy-0
kafka-0.11.0.3/txn/lat-gzip-0 kafka-1.1.1/txn/txn-tiny-0 kafka-1.1.1/format-switch/sw-lz4-0
kafka-2.8.2/upgraded-from-0.8.2.2/compact-0 kafka-4.3.1/codecs/codec-mix-0 kafka-4.3.1/clients/librdkafka-txn-0
"""
INTERNAL = """
kafka-0.8.2.2/codecs/__consumer_offsets-0 kafka-1.1.1/txn/__consumer_offsets-1 kafka-3.9.1/metadata/__cluster_metadata-0
kafka-4.3.1/internal/__cluster_metadata-0 kafka-4.3.1/internal/__consumer_offsets-0
kafka-4.3.1/internal/__share_group_state-0 kafka-4.3.1/internal/__transaction_state-0
kafka-4.3.1/tiered/__remote_log_metadata-0 kafka-4.3.1/committed/__consumer_offsets-1
"""
DAMAGED = """
damaged/0.7.2-34-size-plus-1/rec-0 damaged/0.8.2.2-zero-page-dz/dz-0 damaged/0.10.2.2-len-negative-dz/dz-0
damaged/1.1.1-insert-nonsense-dt/dt-0 damaged/1.1.1-offset-high-dz/dz-0 damaged/4.3.1-crcok-count-plus-1/dplain-0
damaged/4.3.1-crcok-gzip-payload-garbage/dgzip-0 damaged/4.3.1-last-flip-crc/dplain-0
damaged/4.3.1-last-trunc-half-batch/dplain-0
"""
WHOLE = """
verify/4.3.1-transactions/dtxn-0 log-directories/4.3.1-rounds/clean/cmptx-4 compaction/4.3.1/before/e-txn-0
kafka-4.3.1/compacted/e-txn-0 kafka-4.3.1/committed/orders-0
"""
DIRECTORIES = "log-directories/4.3.1/logs log-directories/4.3.1-rounds/clean log-directories/4.3.1-rounds/kill"
REMOTE = "remote/local/remote remote/plain/remote remote/zstd/remote remote/both/remote"
BEFORE = """
recovery/0.7.2-flip-payload/before/rec-0 recovery/0.8.2.2-flip-body/before/dz-0 recovery/0.8.2.2-swap-file/before/dz-0
recovery/0.10.2.2-len-negative/before/dz-0 recovery/0.11.0.3-flip-body/before/dt-0
recovery/1.1.1-trunc-half-batch/before/dt-0 recovery/2.8.2-kill9/before/k-idle-0
"""
TIMED = """
kafka-0.11.0.3/txn/lat-gzip-0 kafka-1.1.1/txn/txn-tiny-0 kafka-1.1.1/format-switch/sw-lz4-0
kafka-4.3.1/codecs/codec-mix-0 kafka-4.3.1/clients/librdkafka-txn-0
"""
"""Partitions whose segments have timestamps: retention takes the time of the file for others."""
COMMANDS = "dump", "verify", "recover", "reindex", "compact", "retain", "convert", "undo", "symptoms"
UNCOMPRESSED = """
kafka-0.8.2.2/codecs/one-none-0 kafka-0.10.2.2/codecs/tsedge-0 kafka-1.1.1/txn/txn-tiny-0
verify/4.3.1-transactions/dtxn-0 compaction/4.3.1/before/e-idem-0 compaction/4.3.1/before/e-txn-0
"""
"""Partitions that are written without a codec: the bytes of others depend on the version of its library."""
COMPACT = "compact --force-policy --drop-null-keys --memory 1000000 --jobs 1 @NOW"

GROUPS: dict[str, list[CommandLine]] = {
    "findings": [line for folder in CASES for line in _of_case(folder)],
    "verify": [
        *_each(OLD + PLAIN + WHOLE, "verify --jobs 1 --level deep --verbose @NOW"),
        *_each(DAMAGED, "verify --jobs 1 --format junit @NOW"),
        *_each(
            DIRECTORIES, *(f"verify --jobs 1 @NOW --level deep --format {form}" for form in ("text", "json"))
        ),
        *_each(DIRECTORIES, *(f"verify --jobs 1 @NOW --sort {key}" for key in ("name", "size", "oldest"))),
        *_each(DIRECTORIES, "verify --jobs 1 @NOW --sort errors --format json"),
        *_each(REMOTE, "verify --jobs 1 @NOW --format json"),
        *_lines("", "verify --explain all", "verify --explain all --format json"),
    ],
    "batches": _each(OLD + PLAIN + INTERNAL + DAMAGED + WHOLE, "dump --format json", "dump --format table", "dump"),
    "records": _each(
        OLD + PLAIN + DAMAGED + WHOLE,
        "dump --format json --print-data-log", "dump --format table --print-data-log",
        "dump --format table --deep-iteration",
    ),
    "hex": [
        *_each(OLD + PLAIN + DAMAGED, "dump --hex", "dump --hex --deep-iteration",
        "dump --hex --position 100..400"),
        *_each("kafka-1.1.1/txn/txn-tiny-0 kafka-4.3.1/internal/__cluster_metadata-0", "dump --hex --all"),
    ],
    "statistics": [
        *_each(OLD + PLAIN + INTERNAL + DAMAGED + WHOLE, "dump --summary", "dump --summary --format json"),
        *_each(
            DIRECTORIES,
            "dump --summary", "dump --summary --sort cleaner", "dump --summary --sort damage --format json",
        ),
    ],
    "decoded": [
        *_each(INTERNAL, "dump --decode auto", "dump --decode auto --format json",
        "dump --decode auto --format table"),
        *_each(INTERNAL, "dump --committed-offsets", "dump --open-transactions @NOW"),
        *_each(
            "kafka-4.3.1/committed", "dump --committed-offsets", "dump --committed-offsets --format json",
            "dump --committed-offsets --format table",
        ),
        *_each(DIRECTORIES, "dump --open-transactions @NOW", "dump --open-transactions --format json"),
        *_each("kafka-4.3.1/internal/__cluster_metadata-0", "dump --decode auto --redact --all --format json"),
    ],
    "side-files": [
        *_each(
            WHOLE + PLAIN, "dump --all --format json --limit 0", "dump --all --format table --limit 0",
            "dump --all --limit 0",
        ),
        *_each(
            WHOLE + DIRECTORIES + " side-files/damaged",
            "dump --all --index-sanity-check", "dump --all --verify-index-only",
        ),
        *_each(
            "side-files/text side-files/damaged",
            "dump --all", "dump --all --format json", "dump --all --format table",
        ),
    ],
    "filters": _each(
        "verify/4.3.1-transactions/dtxn-0 kafka-1.1.1/format-switch/sw-lz4-0 kafka-0.7.2/direct/edge-0",
        "dump --format json --deep-iteration --offsets 50..60", "dump --format json --last 3",
        "dump --format json --deep-iteration --last 3", "dump --format json --around 57", "dump --around 57",
        "dump --format json --isolation read_committed", "dump --format json --limit 4",
        "dump --format json --deep-iteration --limit 4", "dump --format json --max-bytes 700",
        "dump --max-bytes 700",
        "dump --format json --producer-id 1",
        "dump --format json --print-data-log --key-format hex --value-format base64",
        "dump --format json --print-data-log --grep a --limit 5", "dump --format json --key-pattern 1 --limit 5",
        "dump --format json --time 2026-09-01..2026-09-30", "dump --stop-on-damage --format table",
        "dump --print-data-log --skip-record-metadata --limit 9", "dump --live --offsets 0..55 --format table",
    ),
    "remote": [
        *_each(REMOTE, "dump --format json", "dump --summary", "dump --all --format json --limit 0"),
        *_lines("remote/enc", "dump --format json remote --private-key k1=../keys/k1-private.pem"),
    ],
    "plans": [
        *_each(
            BEFORE + DAMAGED, *(
                f"recover --dry-run --full --jobs 1 @NOW {mode}"
                for mode in ("", "--format json", "--mode salvage", "--mode salvage --format json")
            ),
        ),
        *_each(DIRECTORIES, "recover --dry-run --jobs 1 @NOW", "reindex --dry-run --jobs 1 --snapshots"),
        *_each(
            PLAIN + WHOLE, "reindex --dry-run --snapshots --jobs 1 --format json", "reindex --check --jobs 1",
        ),
        *_each(
            UNCOMPRESSED, f"{COMPACT} --dry-run --format json", f"{COMPACT} --dry-run --verbose",
            f"{COMPACT} --dry-run --keep-format --include-active --min-cleanable-ratio 0.9",
            "convert --dry-run --in-place --to v1 --lossy --jobs 1",
            "convert --dry-run --in-place --to v2 --jobs 1 --format json",
        ),
        *_each(
            TIMED + WHOLE, "retain --explain --retention-bytes 9000 @NOW",
            "retain --dry-run --retention-ms 1 @NOW --format json",
        ),
        *_each(
            "retention/4.3.1/before", "retain --explain @NOW",
            "retain --explain --format json --retention-ms 9d @NOW",
            "retain --dry-run --retention-ms 9d @NOW",
        ),
    ],
    "comparisons": [
        *_lines("kafka-1.1.1/replicas", *(
            f"verify --jobs 1 {level} @NOW --against {other} {one} --format {form}"
            for one, other in (("broker0", "broker1"), ("broker1/ep-compact-0", "broker0/ep-compact-0"))
            for form in ("text", "json") for level in ("", "--level deep")
        )),
        *_each(
            WHOLE + DAMAGED,
            "verify --jobs 1 @NOW --against ../../../damaged/4.3.1-control-clean/dplain-0 --format json",
        ),
    ],
    "refusals": [
        *_lines(
            "kafka-1.1.1/txn", "dump nothing-0", "verify nothing-0", "recover nothing-0", "undo -n txn-tiny-0",
            "undo --complete -n txn-tiny-0", "undo --purge -n txn-tiny-0", "compact -n txn-tiny-0 @NOW",
            "retain -n txn-tiny-0 @NOW", "convert --to v0 --in-place -n txn-tiny-0", "verify --manifest . . @NOW",
            "recover -n --from-replica nothing-0 txn-tiny-0", "dump --max-batch-bytes 0 txn-tiny-0",
        ),
        *_each(DAMAGED, "reindex -n --jobs 1", f"{COMPACT} -n", "retain -n --retention-bytes 1 @NOW",
        "convert --to v2 --in-place -n"),
    ],
    "archives": _each(
        "damaged/findings/archive-member-skipped/backup.tar damaged/findings/damaged-archive/backup.tar",
        "dump --format json", "dump --summary", "dump --all", "dump --format table",
    ),
    "schemas": _lines("", *(f"--json-schema {name}" for name in COMMANDS)),
    "exports": _each(
        OLD + PLAIN + DAMAGED + WHOLE, "convert --to jsonl --skip-damage -o -",
        "convert --to csv --skip-damage -o -",
        "convert --to csv --isolation read_committed -o -",
    ),
}  # fmt: skip
GROUPS[NARROW] = _each(
    "kafka-1.1.1/txn/txn-tiny-0 kafka-0.7.2/direct/edge-0 kafka-4.3.1/internal/__consumer_offsets-0",
    "dump --format table", "dump --format table --print-data-log",
    "dump --decode auto --format table", "dump --summary",
) + _each(
    DIRECTORIES + " kafka-4.3.1/committed", "dump --summary --sort size", "dump --committed-offsets --format table",
    "verify --jobs 1 @NOW --sort name",
) + _each(DIRECTORIES, "retain --explain --retention-ms 1 @NOW")  # fmt: skip


def _changes(paths: str, *texts: str, undo: str = "undo") -> list[Changes]:
    """Each command line changes the partitions; ``undo`` brings the files back."""
    return [
        Changes(line.folder, (line, *_lines(line.folder, f"{undo} {line.words[-1]}"))) for line in _each(paths, *texts)
    ]


_REBUILDS = (
    "recover --jobs 1 @NOW --from-remote remote --output dry --dry-run",
    "recover --jobs 1 @NOW --from-remote remote --output out",
    "recover --jobs 1 @NOW --from-remote remote --output other --reset-epochs --format json",
)
CHANGES = [
    Changes("remote/local", tuple(_lines("remote/local", *_REBUILDS))),
    Changes(
        "remote/both",
        tuple(_lines("remote/both", *_REBUILDS, "recover --jobs 1 @NOW --from-remote remote --output full logs")),
    ),
    Changes(
        "verify/4.3.1-transactions",
        tuple(
            _lines(
                "verify/4.3.1-transactions",
                "verify --jobs 1 @NOW --manifest manifest dtxn-0",
                "recover --jobs 1 --full @NOW --output out dtxn-0",
                "convert --to jsonl -o records.jsonl dtxn-0",
                "convert --from jsonl --output made records.jsonl",
                "convert --to v1 --lossy --segment-bytes 4000 --output old dtxn-0",
                f"{COMPACT} --output clean dtxn-0",
                "recover --mode salvage --drop-batch 20 dtxn-0",
                "verify --jobs 1 @NOW --manifest manifest dtxn-0 --format json",
                "undo dtxn-0",
            )
        ),
    ),
    *_changes(BEFORE, "recover --full --jobs 1 @NOW", "recover --mode salvage --jobs 1"),
    *_changes(UNCOMPRESSED, "convert --to v1 --lossy --in-place --jobs 1", "reindex --snapshots --jobs 1"),
    *_changes(UNCOMPRESSED, f"{COMPACT} --format json", undo="undo --format json"),
    *_changes("retention/4.3.1/before", "retain --retention-ms 9d @NOW", "retain --log-start-offset 40"),
]
