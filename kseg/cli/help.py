"""The help of commands: options in groups with headings, examples, the manual page."""

import click

from kseg.options.declaration import GROUPS, OUTPUT

# The help of each command besides its options: the group of each option, and examples.

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
                rows[getattr(parameter, "group", OUTPUT)].append(record)
        for group, records in rows.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for purpose, command in EXAMPLES[self.name or ""]:
                formatter.write(f"  {purpose}:\n    {command}\n")
        formatter.write(f"\nman kseg-{self.name} describes everything.\n")
