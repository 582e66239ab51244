"""The help of commands: options in groups with headings, examples, the manual page."""

import click

from kseg.decoders import FOR_TOPIC

# The help of each command besides its options: the group of each option, and examples.

READ, PRINT, DECIDE, CHANGE, RESOURCES, OUTPUT = (
    "Input", "Contents", "Rules", "Changes", "Resources", "Output",
)  # fmt: skip
GROUPS = (READ, PRINT, DECIDE, CHANGE, RESOURCES, OUTPUT)
"""In the order of the help."""

_OPTIONS = {
    READ: (
        "--files --offsets --last --around --time --key --key-pattern --grep --producer-id --topic --isolation --limit "
        "--max-bytes --live --all --era --fetch-response --transaction-state --from --against --manifest "
        "--server-properties --from-replica --from-remote --for-cluster --private-key"
    ),
    PRINT: (
        "--deep-iteration --print-data-log --skip-record-metadata --key-format --key-decoder-class --value-format "
        "--value-decoder-class --decode --redact --committed-offsets --open-transactions --summary --sort --what-if "
        "--sample --hex --position --index-sanity-check --verify-index-only --max-message-size --explain --records "
        "--list"
    ),
    DECIDE: (
        "--level --severity --ignore --fail-on --now --max-batch-bytes --stop-on-damage --mode --drop-undecodable "
        "--drop-batch --undelete --full --rebuild-epochs --topic-id --max-message-bytes --reset-epochs --as "
        "--snapshots --check --index-interval-bytes --min-compaction-lag-ms --max-compaction-lag-ms "
        "--delete-retention-ms --min-cleanable-ratio --segment-bytes --max-index-bytes --until-clean --include-active "
        "--keep-format --drop-null-keys --force-policy --retention-ms --retention-bytes --log-start-offset --policy "
        "--keep-active --to --codec --batch-bytes --base-offset --position-header --lossy --skip-damage --complete "
        "--purge --change"
    ),
    CHANGE: "--dry-run --in-place --output --link --quarantine --no-quarantine --no-lock",
    RESOURCES: "--jobs --memory --spool-dir --spool-bytes --engine --master",
    OUTPUT: "--format --report --color --quiet --verbose --help",
}
GROUP_OF = {option: group for group, options in _OPTIONS.items() for option in options.split()}
GROUP_OF |= {f"--{name}-decoder": PRINT for name in FOR_TOPIC.values()}
"""By the long name of an option. --output is one of OUTPUT in commands that only read."""

READING = frozenset({"dump", "verify", "symptoms"})

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "symptoms": (
        (
            "The cause of a line in a broker's log",
            "kseg symptoms 'Corrupt index found, index file (/a-0/0.index)'",
        ),
        ("All known messages in a broker's log", "kseg symptoms - < server.log"),
    ),
    "verify": (
        ("All of a broker's partitions", "kseg verify /kafka-logs"),
        (
            "Every record, with a page for a browser",
            "kseg verify --level deep --format html -o report.html /kafka-logs",
        ),
        ("One line for each partition, the worst first", "kseg verify --sort errors /kafka-logs"),
        ("The meaning of a finding", "kseg verify --explain crc-mismatch"),
    ),
    "dump": (
        ("The last ten records", "kseg dump --print-data-log --last 10 orders-0"),
        ("The records of the last two hours", "kseg dump --print-data-log --time -2h.. orders-0"),
        ("Transactions that block consumers", "kseg dump --open-transactions /kafka-logs"),
        ("The committed offsets of consumer groups", "kseg dump --committed-offsets /kafka-logs"),
    ),
    "recover": (
        ("Preview the truncation at a broker's next start", "kseg recover --dry-run /kafka-logs"),
        ("Keep every intact batch", "kseg recover --mode salvage orders-0"),
        ("Fill gaps from another replica", "kseg recover --from-replica /backup/orders-0 orders-0"),
    ),
    "reindex": (
        ("Compare the indexes with the log", "kseg reindex --check orders-0"),
        ("Rebuild them, and producer snapshots", "kseg reindex --snapshots orders-0"),
    ),
    "compact": (
        ("Preview a compaction", "kseg compact --dry-run /kafka-logs"),
        ("Compact the offsets of consumer groups", "kseg compact --topic __consumer_offsets /kafka-logs"),
    ),
    "retain": (
        ("Explain why a topic does not shrink", "kseg retain --explain orders-0"),
        ("Preview a retention of one week", "kseg retain --dry-run --retention-ms 7d orders-0"),
    ),
    "convert": (
        ("Old segments in the current format", "kseg convert --to v2 --output new orders-0"),
        ("Another codec, in place", "kseg convert --codec zstd --in-place orders-0"),
        ("Records for analysis", "kseg convert --to parquet -o orders.parquet orders-0"),
    ),
    "undo": (
        ("List the changes of a log directory", "kseg undo --list /kafka-logs"),
        ("Undo the last change", "kseg undo orders-0"),
    ),
}


class Command(click.Command):
    """A command whose help has groups and examples."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                rows[self.group_of(parameter)].append(record)
        for group, records in rows.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)

    def group_of(self, parameter: click.Parameter) -> str:
        """Returns the heading of an option."""
        long_name = next(name for name in reversed(parameter.opts) if name.startswith("--"))
        group = GROUP_OF[long_name]
        return OUTPUT if group == CHANGE and self.name in READING else group

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for purpose, command in EXAMPLES[self.name or ""]:
                formatter.write(f"  {purpose}:\n    {command}\n")
        formatter.write(f"\nman kseg-{self.name} describes everything.\n")
