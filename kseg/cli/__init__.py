"""The command line: one thin file a subcommand, from options to one core call to rendering."""

ARGUMENTS = "kseg.arguments"
"""Key of the words of the command line after ``kseg`` in `click.Context.meta`."""
