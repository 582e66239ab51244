"""The help of commands: options in groups with headings, examples, the manual page."""

import click

from kseg.cli.help_texts import CHANGE, EXAMPLES, GROUP_OF, GROUPS, OUTPUT, READING


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
