"""``kseg cluster``: the cluster that the records of __cluster_metadata make, as tables, a page and JSON Lines."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from kseg.decoders.framed import FramedRecord, redact, type_name
from kseg.decoders.schemas import CLUSTER_METADATA
from kseg.errors import KsegError, PathError, RequestError
from kseg.formats.json_values import name_value
from kseg.formats.schema import ZERO_UUID, json_text
from kseg.node.cluster_metadata import LoadedImage, load_image, load_snapshot
from kseg.node.log_directory import METADATA_PARTITION
from kseg.node.metadata_image import Fields, MetadataImage
from kseg.node.paths import expanded
from kseg.options import declaration
from kseg.options.declaration import CONTENTS, HTML, INPUT, JSON, TABLE, TEXT, Number, option
from kseg.output.notices import Color, Notices, Paint, on_one_line
from kseg.output.sink import Sink
from kseg.output.terminal import LONGEST_LINE, columns_of, line_width, table_lines
from kseg.quantities import plural
from kseg.releases.metadata import METADATA_VERSION, METADATA_VERSIONS
from kseg.segment.files import METADATA_TOPIC, list_segments, segment_file
from kseg.segment.paths import expand_path
from kseg.stores.place import Place

_ADDED, _REMOVED = "added", "removed"
_ROWS = (JSON, HTML)
"""Forms that are made of objects."""

SCRAM_MECHANISMS = {0: "UNKNOWN", 1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
RESOURCES = {0: "unknown", 2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options of `kseg cluster`, one field each."""

    paths: Sequence[str]
    as_of: int | None = option(
        "--as-of", INPUT, "The cluster that the records below OFFSET make.", Number(), metavar="OFFSET"
    )
    since: int | None = option(
        "--since", INPUT, "Only what differs from the cluster as of OFFSET.", Number(), metavar="OFFSET"
    )
    redact: bool = option("--redact", CONTENTS, "Hide SCRAM credentials and other secrets.", bool)
    form: str = declaration.form(
        TEXT, TABLE, JSON, HTML,
        text="Form of the output; html: a page for people (needs kseg[report]); text is tables.",
    )  # fmt: skip
    output: str | None = None
    color: Color = "auto"
    quiet: bool = False
    verbose: bool = False


def show_clusters(sink: Sink, options: ClusterOptions, notices: Notices) -> int:
    """Prints the image of each PATH, or how it differs from that at ``options.since``. Returns the exit status."""
    status = 0
    for number, path in enumerate(chain.from_iterable(map(_log_directories_at, options.paths))):
        try:
            loaded = _loaded(path, options.as_of)
            old = None if options.since is None else _loaded(path, options.since)
            version = METADATA_VERSIONS.get(loaded.image.metadata_version or 0)
            if options.form in _ROWS:
                head = {"type": "metadataImage", "file": name_value(path), "offset": loaded.offset,
                        "epoch": loaded.epoch, "snapshot": loaded.snapshot, "metadataVersion": version}  # fmt: skip
                sink.put_row(head)
            else:
                if number:
                    sink.put("")
                begins = f", epoch {loaded.epoch}" + (f", from {loaded.snapshot}" if loaded.snapshot else "")
                begins += f", {METADATA_VERSION} {version or 'unknown'}"
                sink.put(on_one_line(f"{path}: offset {loaded.offset}{begins}"))
            if old is None:
                _image(sink, options, loaded.image)
            else:
                _changes(sink, options, old.image, loaded.image)
        except KsegError as error:
            notices.error(error)
            sink.failures.append(str(error))
            status = max(status, error.exit_status)
            continue
        if loaded.lacking:
            text = f"{path}: the image ends at offset {loaded.offset}: {loaded.lacking}"
            notices.warning(text)
            if options.form == HTML:
                sink.put_row({"type": "imageEnd", "message": name_value(text)})
            status = max(status, 1)
    return status


def _log_directories_at(path: str) -> list[str]:
    """Returns the log directories with a metadata log of the node that a PATH stands for; else the PATH itself."""
    return [each for each in expanded([path]) if (Place(each) / METADATA_PARTITION).is_dir()] or [path]


def _loaded(path: str, end: int | None) -> LoadedImage:
    if not Place(path).is_dir():
        expand_path(path)  # raises PathError if nothing is there
        file = segment_file(path)
        if file.epoch is None or not Place(path).exists():
            raise PathError(f"{path}: is neither a directory nor a snapshot OFFSET-EPOCH.checkpoint")
        if end is not None:
            raise RequestError(f"{path}: is one snapshot; --as-of and --since are for a directory")
        return load_snapshot(path)
    inside = Place(path) / METADATA_PARTITION
    directory = inside if inside.is_dir() else path
    files = list_segments(directory)
    if not files:
        raise PathError(f"{path}: holds no {METADATA_TOPIC}")
    return load_image(files, end)


def _type_of(record: FramedRecord) -> str:
    return type_name(CLUSTER_METADATA[record.api_key])


def _fields(record: FramedRecord, options: ClusterOptions) -> Fields:
    fields = dict(record.fields)
    if options.redact:
        redact(record.api_key, fields)
    return fields


def _image(sink: Sink, options: ClusterOptions, image: MetadataImage) -> None:
    if options.form != JSON:
        for table in _TABLES:
            table.put(sink, options, image)
        return
    for record in image.records():
        row = {"type": "imageRecord", "recordType": _type_of(record), "version": record.version}
        sink.put_row(row | {"data": _fields(record, options)})


def _changes(sink: Sink, options: ClusterOptions, old: MetadataImage, new: MetadataImage) -> None:
    before = {(record.api_key, record.version, json_text(record.fields)): record for record in old.records()}
    added = []
    for record in new.records():
        if before.pop((record.api_key, record.version, json_text(record.fields)), None) is None:
            added.append(record)
    for change, records in ((_REMOVED, before.values()), (_ADDED, added)):
        for record in records:
            fields = _fields(record, options)
            if options.form in _ROWS:
                row = {"type": "imageChange", "change": change, "recordType": _type_of(record),
                       "version": record.version, "data": fields}  # fmt: skip
                sink.put_row(row)
            else:
                sink.put(f"{'+' if change == _ADDED else '-'} {_type_of(record)} {json_text(fields)}")


class _Table(NamedTuple):
    """A table of one part of an image. ``caption``: "" for the numbers of topics and partitions; ``columns``: as
    `columns_of` takes them; ``rows``: cells by column, each a text."""

    caption: str
    columns: str
    rows: Callable[[MetadataImage, ClusterOptions], Iterable[tuple[str, ...]]]

    def put(self, sink: Sink, options: ClusterOptions, image: MetadataImage) -> None:
        shown = columns_of(self.columns)
        caption = self.caption
        if not caption:
            partitions = sum(len(topic.partitions) for topic in image.topics.values())
            topics = plural(len(image.topics), "topic", "topics", ",")
            caption = f"{topics}, {plural(partitions, 'partition', 'partitions', ',')}"
        if options.form == HTML:
            columns = [{"title": column.title, "isNumber": column.is_number} for column in shown]
            sink.put_row({"type": "imageTable", "title": caption, "columns": columns,
                          "rows": [list(row) for row in self.rows(image, options)]})  # fmt: skip
            return
        paint = Paint(options.color, sink.is_terminal)
        if lines := [*table_lines(shown, self.rows(image, options), line_width(sink, LONGEST_LINE), paint)]:
            for line in ("", paint(caption, bold=True), *lines):
                sink.put(line)


def _numbers(values: Iterable[int]) -> str:
    return ",".join(map(str, values)) or "-"


def _features(image: MetadataImage, options: ClusterOptions) -> Iterator[tuple[str, ...]]:
    for name, level in sorted(image.features.items()):
        yield name, str(level)


def _partitions(image: MetadataImage, options: ClusterOptions) -> Iterator[tuple[str, ...]]:
    for topic in sorted(image.topics.values(), key=lambda topic: topic.name):
        if not topic.partitions:
            yield topic.name, "-", "-", "-", "-", "-", topic.topic_id, "-"
        for number, partition in sorted(topic.partitions.items()):
            known = [directory for directory in partition.directories if directory != ZERO_UUID]
            yield (
                topic.name, str(number), str(partition.leader), _numbers(partition.replicas), _numbers(partition.isr),
                str(partition.leader_epoch), topic.topic_id, ",".join(known) or "-",
            )  # fmt: skip


def _nodes(nodes: dict[int, Fields]) -> Iterator[tuple[str, ...]]:
    for number, node in sorted(nodes.items()):
        listeners = " ".join(f"{one['name']}://{one['host']}:{one['port']}" for one in node["endPoints"])
        state = "fenced" if node.get("fenced") else "shutting down" if node.get("inControlledShutdown") else ""
        yield str(number), state or "-", listeners or "-", node.get("rack") or "-", ",".join(node.get("logDirs", ()))


def _configs(image: MetadataImage, options: ClusterOptions) -> Iterator[tuple[str, ...]]:
    for (kind, resource), settings in sorted(image.configs.items()):
        for name, value in sorted(settings.items()):
            fields: dict[str, Any] = {"name": name, "value": value}
            if options.redact:
                redact(_CONFIG, fields)
            yield RESOURCES[kind], resource or "(default)", name, fields["value"]


_CONFIG = 4


def _quotas(image: MetadataImage, options: ClusterOptions) -> Iterator[tuple[str, ...]]:
    for entity, quotas in image.quotas.items():
        shown = " ".join(f"{kind}={'(default)' if name is None else name}" for kind, name in entity)
        for name, value in sorted(quotas.items()):
            yield shown, name, str(value)


def _acls(image: MetadataImage, options: ClusterOptions) -> Iterator[tuple[str, ...]]:
    for acl in image.acls.values():
        yield (
            acl["principal"], _PERMISSIONS[acl["permissionType"]], _OPERATIONS[acl["operation"]],
            f"{_ACL_RESOURCES[acl['resourceType']]}:{acl['resourceName']}", _PATTERNS[acl["patternType"]], acl["host"],
        )  # fmt: skip


_PERMISSIONS = "unknown any deny allow".split()
_PATTERNS = "unknown any match literal prefixed".split()
_ACL_RESOURCES = "unknown any topic group cluster transactional-id delegation-token user".split()
_OPERATIONS = (
    "unknown any all read write create delete alter describe cluster-action describe-configs alter-configs "
    "idempotent-write create-tokens describe-tokens two-phase-commit"
).split()


def _users(image: MetadataImage, options: ClusterOptions) -> Iterator[tuple[str, ...]]:
    for mechanism, users in sorted(image.scram.items()):
        for name, credential in sorted(users.items()):
            yield name, SCRAM_MECHANISMS[mechanism], str(credential["iterations"])


def _tokens(image: MetadataImage, options: ClusterOptions) -> Iterator[tuple[str, ...]]:
    for token in image.tokens.values():
        yield token["owner"], token["requester"], str(token["expirationTimestamp"])


_TABLES = (
    _Table("Features", "FEATURE LEVEL#", _features),
    _Table("Controllers", "NODE# STATE/3 LISTENERS RACK/2 DIRECTORIES/4", lambda image, _: _nodes(image.controllers)),
    _Table("Brokers", "NODE# STATE LISTENERS RACK/2 DIRECTORIES/4", lambda image, _: _nodes(image.brokers)),
    _Table("", "TOPIC PARTITION# LEADER# REPLICAS ISR EPOCH#/3 TOPIC-ID/2 DIRECTORIES/4", _partitions),
    _Table("Settings", "OF NAME SETTING VALUE", _configs),
    _Table("Quotas", "ENTITY QUOTA VALUE#", _quotas),
    _Table("ACLs", "PRINCIPAL PERMISSION OPERATION RESOURCE PATTERN/2 HOST/2", _acls),
    _Table("SCRAM users", "USER MECHANISM ITERATIONS#", _users),
    _Table("Delegation tokens", "OWNER REQUESTER EXPIRES#", _tokens),
)
