"""Readers and builders of the files next to segments: indexes, producer snapshots, checkpoints, properties.

One module per kind of file. Each defines a NamedTuple for an entry, with Kafka's field names, and a reader. A reader
takes bytes, never raises for malformed ones, and yields `Entry | SideFileProblem` items, entries in file order. Kinds
that kseg rebuilds also have a build function that returns the bytes.
"""
