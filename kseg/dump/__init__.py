"""Dumps: reading, filtering and rendering. `kseg.cli.dump` turns the command line into `DumpOptions`."""
