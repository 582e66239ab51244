"""What a dump reads, filters and renders; `kseg.cli.dump` turns the command line into `DumpOptions`."""
