"""The JSON Schema (draft 2020-12) of every object that a command prints with ``--format json``.

The tables have one entry for each kind of object, ``type = fields``; indented lines continue it. A field is
``name: TYPE``, or ``name?: TYPE`` if it may be absent. TYPE is one of _TYPES or a name in _PARTS; a trailing ``?``
allows null, a leading ``[]`` makes a list, ``{}`` an object with arbitrary names. Objects have no other fields.
"""

import re
from collections.abc import Iterator
from typing import Any

from kseg.formats.json_values import BATCHES, PLACE, RECORD
from kseg.segment.files import STREAMS_CHECKPOINT
from kseg.sidefiles.checkpoints import OFFSET_CHECKPOINTS
from kseg.sidefiles.kinds import ENTRY_NAMES

DRAFT = "https://json-schema.org/draft/2020-12/schema"

_TYPES: dict[str, dict[str, Any]] = {
    "int": {"type": "integer"},
    "number": {"type": "number"},
    "text": {"type": "string"},
    "flag": {"type": "boolean"},
    "any": {},
    "bytes": {
        "anyOf": [
            {"type": "string"},
            {
                "type": "object", "properties": {"base64": {"type": "string"}}, "required": ["base64"],
                "additionalProperties": False,
            },
        ]
    },
    "outcome": {"enum": ["same", "depends", "lost"]},
    "severity": {"enum": ["error", "warning", "info"]},
    "gravity": {"enum": ["nothing wrong", "watch", "config", "damage"]},
    "needs": {"enum": ["replica", "topic id", "decision", "broker"]},
}  # fmt: skip
"""``bytes``: a string if they are UTF-8, otherwise an object with base64. Names of files and topics are bytes, too."""

_PARTS = """
header = key: any, value?: any
voter = voterId: int, voterDirectoryId?: text, endpoints?: []endpoint, kRaftVersionFeature?: versions
endpoint = name: text, host: text, port: int
versions = minSupportedVersion: int, maxSupportedVersion: int
control = type: text, typeId?: int, error?: text, version?: int, coordinatorEpoch?: int, leaderId?: int,
    voters?: []voter, grantingVoters?: []voter, lastContainedLogTimestamp?: int, kRaftVersion?: int
form = format: text, compression: text, batches: int, records: int, bytes: int, recordBytes: int,
    uncompressedRecordBytes: int?, ratio: number?
distribution = total: int, count: int, least: int, median: number, largest: int
cardinality = count: int, isExact: flag
headerKey = key: any, keySize: int, count: int, bytes: int
sizeAt = bytes: int, offset: int?
groupSize = group: bytes, records: int, bytes: int
whatIf = compression: text, level: int?, batches: int, sampledBatches: int, bytesBefore: int, bytesAfter: int,
    bytesSaved: int, isExact: flag, error: number?, bytesUntouched: int, megabytesPerSecond: number?
removed = position: int, length: int, reason: text, firstOffset: int?, lastOffset: int?, records: int?
carving = name: text?, aside: flag, joined: {}int, matched: {}int, candidates: []bytes
range = file: bytes, position: int, length: int
undecided = one: bytes, two: bytes
owner = clusterId: text, nodeId: int
gap = directory: bytes, firstOffset: int, lastOffset: int
round = dirtyFrom: int, dirtyTo: int, keys: int
gone = superseded: int, tombstones: int, aborted: int, markers: int, noKey: int
unsearched = file: bytes, position: int, length: int, code: text, message: text
erasedBatches = rewritten: int, emptied: int, dropped: int
rewriting = copied: int, rewritten: int, emptied: int, dropped: int
sources = {}text
groupOffset = group: bytes, offset: int
formCount = format: text, compression: text, batches: int, bytes: int
stop = code: text, message: text
cleaner = state: text, cleanBytes: int?, dirtyBytes: int?, dirtyRatio: number?, isDue: flag?, waitsFor: []stop
node = logDirectories: []bytes, starts: flag?, because: []text, recovers: []bytes, setsAside: []bytes?,
    deletes: []bytes, deletedFiles: int, creates: []assignedPartition?, lacks: []assignedPartition,
    releases: []text?
cluster = clusterId: text, nodes: []int, voters: []voterLog, partitions: []clusterPartition, copies: []nodeCopy,
    commands: [][]text, lastResort: []text?
nodeCopy = node: int, logDirectories: []bytes, wasClean: flag, metadataEnd: int?, newestTime: int?,
    partitionsBehind: int, offsetsBehind: int, fits: flag, findings: []text
voterLog = node: int, logEnd: int?, epoch: int?
clusterPartition = topic: bytes, partition: int, copies: []partitionCopy, outcome: outcome, ranges: []lostRange
partitionCopy = node: int, directory: bytes?, logStart: int, logEnd: int, epoch: int?, inSync: flag
lostRange = leader: int, node: int, firstOffset: int, lastOffset: int, records: int?, isCommitted: flag
assignedPartition = partition: bytes, logDirectory: bytes?
place = logDirectory: bytes?, partition: bytes?, file: bytes?, name: bytes?, position: int?, offset: int?,
    other: bytes?, disks: []bytes
consequence = name: text, count: int, firstTime: text?, lastTime: text?, lineNumber: int, line: text, reason: text?
command = argv: []text, purpose: text
evidence = kind: text, weight: int, text: text
details = magic?: int, storedChecksum?: int, computedChecksum?: int, firstOffset?: int?, lastOffset?: int?,
    recordCount?: int?, producerId?: int?, producerEpoch?: int?, leaderEpoch?: int?, lastGoodOffset?: int?,
    nextGoodOffset?: int?, offsetBefore?: int, expectedOffset?: int, attributes?: int, offsetCount?: int,
    leaderEpochBefore?: int, timestamp?: int, baseOffset?: int, reachedOffset?: int, firstMissing?: int,
    freeBytes?: int, neededBytes?: int,
    lastMissing?: int, missing?: int, gaps?: int, class?: text, v0?: int, v1?: int, otherRepair?: []text,
    removedRecords?: int, records?: int, evidence?: []evidence, copies?: []bytes, transactionalId?: bytes?,
    firstTimestamp?: int?, ageMs?: int?, batches?: int, entries?: int, entry?: int, entryOffset?: int?,
    entryPosition?: int?, entryTimestamp?: int?, logEndOffset?: int, checkpointOffset?: int, topicId?: text?,
    expectedTopicId?: text?, sequence?: int?, expectedSequence?: int?, epochBefore?: int, names?: []bytes, count?: int,
    startOffset?: int?, latestTimestamp?: int, other?: bytes, command?: text, size?: int, segments?: int, offset?: int,
    coordinatorEpoch?: int, agreeTo?: int?, reason?: text, state?: text?, timeoutMs?: int?, verdict?: text,
    abort?: []text?, lastStableOffset?: int, waitingOffsets?: int, waitingGroups?: []groupOffset?, hasSnapshots?: flag,
    difference?: text, offsets?: []int, directoryId?: text, partitions?: []any, held?: []any, assigned?: any,
    topic?: bytes, policy?: text, owner?: int, chunk?: int, leader?: int, node?: int, mayLead?: []int,
    newestTopicId?: text, voters?: []int
"""
"""Nested objects."""

_DAMAGE = f"code: text, {PLACE}, length: int, message: text"

_CHECKPOINTS = "\n".join(
    f"{name} = file: bytes, topic: text, partition: int, offset: int"
    for name in sorted({*OFFSET_CHECKPOINTS.values(), ENTRY_NAMES[STREAMS_CHECKPOINT]})
)

_DUMP = f"""
{BATCHES}
record = {RECORD}, proven?: flag
damage = {_DAMAGE}, indexOffset?: int?, logOffset?: int?, indexTimestamp?: int?, logTimestamp?: int?,
    previousTimestamp?: int?
sanityCheck = file: bytes, passed: flag, message: text?
offsetIndexEntry = file: bytes, offset: int, position: int
timeIndexEntry = file: bytes, timestamp: int, offset: int
abortedTxn = file: bytes, version: int, producerId: int, firstOffset: int, lastOffset: int, lastStableOffset: int
producerState = file: bytes, producerId: int, producerEpoch: int, coordinatorEpoch: int, currentTxnFirstOffset: int?,
    lastTimestamp: int, firstSequence: int?, lastSequence: int?, lastOffset: int?, offsetDelta: int?, timestamp: int?
leaderEpoch = file: bytes, epoch: int, startOffset: int
{_CHECKPOINTS}
partitionMetadata = file: bytes, version: int, topicId: text
metaProperties = file: bytes, version: int, clusterId: text?, brokerId?: int?, nodeId?: int?, directoryId?: text?
cleanShutdown = file: bytes, version: int?, brokerEpoch: int?
quorumState = file: bytes, dataVersion?: int?, clusterId?: text?, leaderId?: int?, leaderEpoch?: int?, votedId?: int?,
    votedDirectoryId?: text?, appliedOffset?: int?, currentVoters?: []int?
"""
"""Type and fields of the objects that `kseg dump` prints; they depend on the era of the batch."""

_STATS = """
summary = path: bytes, files: int, bytes: int, allBytes: int?, groups: []groupSize?,
    batches: int, records: int, controlRecords: int, forms: []form,
    batchSize: distribution?, recordsPerBatch: distribution?, keySize: distribution?, valueSize: distribution?,
    nullKeys: int, nullValues: int, tombstones: int, emptyKeys: int, emptyValues: int, distinctKeys: cardinality,
    headers: int, recordsWithHeaders: int, keyBytes: int, valueBytes: int, headerBytes: int, framingBytes: int,
    batchHeaderBytes: int, headerKeys: []headerKey, distinctHeaderKeys: cardinality, otherHeaders: int,
    otherHeaderBytes: int, largestKeys: []sizeAt, largestRecords: []sizeAt, firstOffset: int?, lastOffset: int?,
    gaps: int, missingOffsets: int, offsetsNotRising: int, leastTimestamp: int?, maxTimestamp: int?,
    leastBaseTimestamp: int?, recordsWithTimestamp: int, recordsPerHour: number?, logAppendTimeBatches: int,
    producers: cardinality, batchesWithProducer: int, transactionalBatches: int, commits: int, aborts: int,
    controlBatches: int, headerOnlyBatches: int, deleteHorizonBatches: int, damagedRanges: int, damagedBytes: int,
    damage: {}int, problems: {}int, whatIf?: whatIf, whatIfs?: []whatIf, cleaner: cleaner?
"""

_GROUPS = """
committedOffset = group: any, topic: any, partition: int, offset: int?, leaderEpoch: int?, metadata: any,
    commitTimestamp: int?, expireTimestamp: int?, topicId: text?, recordOffset: int, logStartOffset: int?,
    logEndOffset: int?, lag: int?, outside: int?, lagRecords: int?, offsetsPartition: int?, coordinatorPartition: int?,
    ageMs: int?, error?: text
shareGroupOffset = group: any, topic: any, topicId: text, partition: int, startOffset: int, stateEpoch: int?,
    recordOffset: int
groupSize = group: bytes, records: int, bytes: int
totals = committedOffsets: int, groups: int, partitions: int, outside: int, pending: int
"""

_TRANSACTIONS = """
openTransaction = file: bytes, topic: bytes?, partition: int?, producerId: int, producerEpoch: int,
    transactionalId: bytes?, state: text?, timeoutMs: int?, firstOffset: int?, firstTimestamp: int?, ageMs: int?,
    batches: int, verdict: text, lastStableOffset: int, waitingOffsets: int?, waitingGroups: []groupOffset?,
    abort: []text
preparedTransaction = file: bytes, topic: bytes?, partition: int?, transactionalId: bytes, producerId: int,
    producerEpoch: int?, state: text, timeoutMs: int?, startTimestamp: int?, updateTimestamp: int?, ageMs: int?,
    markerOffset: int?
"""

_CLUSTER = """
metadataImage = file: bytes, offset: int, epoch: int, snapshot: text?, metadataVersion: text?
imageRecord = recordType: text, version: int, data: any
imageChange = change: text, recordType: text, version: int, data: any
"""

_VERIFY = """
finding = code: text, severity: severity, file: bytes, position: int?, length: int?, offset: int?, message: text,
    details: details, repair: []text?, needs: needs?
omitted = code: text, file: bytes, count: int
comparison = file: bytes, against: bytes, identical: flag, same: int, different: int, onlyHere: int, onlyThere: int,
    notCompared: int, agreeTo: int?, divergeAt: int?, startOffset: int?, lastOffset: int?, againstStartOffset: int?,
    againstLastOffset: int?, by?: []text, repeatedHere?: int, repeatedThere?: int, outOfOrder?: int
summary = files: int, bytes: int, batches: int, records: int, errors: int, warnings: int, infos: int, ok: flag,
    next: [][]text, notJudged: int, nodes: []node,
    clusters: []cluster
partition = path: bytes, files: int, bytes: int, allBytes: int?, batches: int, records: int,
    forms: []formCount, damagedBytes: int,
    leastBaseTimestamp: int?, maxTimestamp: int?, errors: int, warnings: int, cleaner: cleaner?
explanation = code: text, severity: severity, sentence: text, means: text, repair: text?, needs: needs?
"""

_CHANGES = """
action = action: text, file: bytes, reason: text, oldSize: int?, newSize: int?, removedBytes: int, target?: bytes,
    removed: []removed
taken = directory: bytes, firstOffset: int, lastOffset: int, from: bytes
left = directory: bytes, firstOffset: int, lastOffset: int, from: bytes, reason: text
summary = changed: flag, dryRun: flag, damageRemains: flag, directories: int, actions: {}int, removedBytes: int,
    replacedBytes: int, removedRecords: int, missingOffsets: int, gaps: []gap, newBytes: int, peakBytes: int,
    kept: []bytes, failed: []bytes, leftAlone?: []bytes
"""

_RECOVER = f"""{_CHANGES}
cut = code: text?, {PLACE}, length: int, nextOffset: int, laterSegments: []bytes, intactBatches: int,
    intactRecords: int, firstOffset: int?, lastOffset: int?, firstTimestamp: int?, lastTimestamp: int?
damage = {_DAMAGE}
leftOut = {_DAMAGE}, intactBatches: int, intactRecords: int, firstOffset: int?, lastOffset: int?
salvage = directory: bytes, damagedRanges: int, mendedHeaders: int, movedStretches: int, ambiguousBatches: int
remains = code: text, {PLACE}, offset: int?, message: text, firstMissing?: int, lastMissing?: int
remains = directory: bytes, message: text
record = {RECORD}, proven: flag
"""

_RESTORE = """
rebuilt = directory: bytes, topicId: text, logStartOffset: int, logEndOffset: int, lastLeaderEpoch: int, segments: int,
    newBytes: int, wasThere: flag
"""

_CARVE = f"""
{_CHANGES.rstrip()}, batches: int, duplicates: int, torn: int, givenUp: int, mended: int, unfit: int,
    unfitRanges: []range, readInPart: int, singleBatchLogs: int, undecided: []undecided, nodes: []owner
carved = directory: bytes, topic: bytes, partition: int, evidence: carving, batches: int, records: int, bytes: int,
    firstOffset: int, lastOffset: int, gaps: int, firstTimestamp: int?, lastTimestamp: int?, producers: int,
    ranges: []range
"""

_REPLACED = "files: int, bytes: int, records: int, keys: int, values: int, headerValues: int, randomBytes: int"
_REDACT = f"""
{_CHANGES.rstrip()}, {_REPLACED.replace(": int", "?: int")}
redacted = directory: bytes, original: bytes, {_REPLACED}
"""

_COMPACT = """
compaction = directory: bytes, rounds: int, dirtyFrom: int, dirtyTo: int, dirtyRatio: number, checkpoint: int,
    keys: int, laterRounds: []round, oneRoundMemory: int, peakBytes: int, bytesBefore: int, bytesAfter: int,
    records: int, kept: int, gone: gone, waitingMarkers: int, deleteHorizon: int?, batches: rewriting, seconds: number,
    stops: []text
cleanedSegment = directory: bytes, baseOffset: int, sources: []int, bytesBefore: int, bytesAfter: int, records: int,
    kept: int
"""

_ERASE = f"""{_CHANGES.rstrip()}, records: int
erasure = directory: bytes, records: int, offsets: [][]int, segments: int, rewritten: int, batches: erasedBatches,
    bytesBefore: int, bytesAfter: int, deleted: []bytes, purged: []int, notSearched: []unsearched, replicas: []int,
    remoteThrough: int?, otherNames: []bytes, seconds: number
erasureCheck = directory: bytes, records: int, offsets: [][]int, notSearched: []unsearched
"""

_RETAIN = """
retention = directory: bytes, segments: int, bytes: int, logStartOffset: int?, highWatermark: int?, logEndOffset: int?,
    cleanupPolicy: text?, retentionMs: int?, retentionBytes: int?, sources: sources, now: int, goes: int, rolls: flag,
    segmentsAfter: int, bytesAfter: int, records: int?, recordsAfter: int?
segmentRetention = file: bytes, size: int, records: int?, baseOffset: int, lastOffset: int?, rule: text?,
    largestTimestamp: int?, largestTimestampSource: text, recordOffset: int?, isFuture: flag, goesAt: int?,
    goesAfterBytes: int?, blockedBy: any, held: any
"""

_UNDO = """
change = directory: bytes, number: int, timeMs: int, command: text, state: text, keptBytes: int, kept: bytes?,
    user: text?, host: text?, kseg: text?, arguments: []bytes?, files: []changedFile, partitions?: int
changedFile = file: bytes, sizeBefore: int?, sha256Before: text?, sizeAfter: int?, sha256After: text?
summary = changed: flag, keptBytes: int
"""

_SYMPTOMS = """
symptom = name: text, severity: gravity, speaker: text, count: int, firstTime: text?, lastTime: text?,
    lineNumber: int, line: text, reason: text?, cause: text, isConsequence: flag, findings: []text,
    consequences: []consequence, places: []place, commands: []command
"""

_SERVE = """
listening = host: text, port: int, topics: int, partitions: int
damage = partition: bytes, file: bytes, position: int, code: text, message: text
notice = partition: bytes?, message: text
ended = connections: int, requests: int, bytes: int, damagedPartitions: int
"""

OBJECTS = {
    "dump": _DUMP,
    "stats": _STATS,
    "groups": _GROUPS,
    "transactions": _TRANSACTIONS,
    "cluster": _CLUSTER,
    "verify": _VERIFY,
    "recover": _RECOVER,
    "reindex": _CHANGES,
    "compact": _CHANGES + _COMPACT,
    "retain": _CHANGES + _RETAIN,
    "erase": _ERASE,
    "convert": f"{_CHANGES}record = {RECORD}",
    "undo": _CHANGES + _UNDO,
    "restore": _RECOVER + _RESTORE,
    "carve": _CARVE,
    "redact": _REDACT,
    "quorum": f"{_CHANGES}remains = directory: bytes, message: text",
    "symptoms": _SYMPTOMS,
    "serve": _SERVE,
}
"""Objects by command."""


def schema(command: str | None = None) -> dict[str, Any]:
    """Returns a schema that accepts exactly the objects of a command, or of any command."""
    tables = OBJECTS.values() if command is None else [OBJECTS[command]]
    kinds = dict.fromkeys(each for table in tables for each in _entries(table))
    return {
        "$schema": DRAFT,
        "title": f"output of kseg {command}" if command else "output of kseg",
        "anyOf": [_object(fields, kind) for kind, fields in kinds],
        "$defs": {name: _object(fields) if ":" in fields else _value(fields) for name, fields in _entries(_PARTS)},
    }


def _entries(table: str) -> Iterator[tuple[str, str]]:
    """Yields the name and the fields of each entry."""
    for entry in re.findall(r"^\S.*(?:\n +.*)*", table, re.MULTILINE):
        name, fields = re.sub(r"\s+", " ", entry).split(" = ")
        yield name, fields


def _object(fields: str, kind: str | None = None) -> dict[str, Any]:
    properties: dict[str, Any] = {} if kind is None else {"type": {"const": kind}}
    required = list(properties)
    for each in fields.split(", "):
        name, value = each.split(": ")
        if not name.endswith("?"):
            required.append(name)
        properties[name.removesuffix("?")] = _value(value)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _value(text: str) -> dict[str, Any]:
    if text.endswith("?"):
        return {"anyOf": [_value(text[:-1]), {"type": "null"}]}
    if text.startswith("[]"):
        return {"type": "array", "items": _value(text[2:])}
    if text.startswith("{}"):
        return {"type": "object", "additionalProperties": _value(text[2:])}
    return _TYPES[text] if text in _TYPES else {"$ref": f"#/$defs/{text}"}
