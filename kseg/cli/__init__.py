"""The command line: one thin file a subcommand, from options to one core call to rendering."""
