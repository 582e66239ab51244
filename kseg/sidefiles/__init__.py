"""The files beside segments: indexes, producer snapshots, leader epochs, checkpoints, properties.

One module a kind. Each has a NamedTuple of an entry with Kafka's field names and a reader that takes bytes, never
raises for bad ones, and yields `Entry | SideFileProblem` items in the order of the file; kinds that kseg rebuilds also
have a function that makes the bytes again.
"""
