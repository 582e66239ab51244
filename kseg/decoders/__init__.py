"""Decoders of the records that Kafka keeps for itself: coordinators, KRaft, tiered storage.

    >>> decoder("offsets").decode(bytes.fromhex("0002000167"), None, 0).key_text
    '{"type":"2","data":{"group":"g"}}'

`decoded` says what a decoder is and gives, `coordinator` and `framed` are the two framings, `schemas` are the tables.
"""

from importlib import import_module

from kseg.decoders.decoded import Decoded, Decoder

__all__ = ["FOR_TOPIC", "Decoded", "Decoder", "decoder", "name_for"]

_MODULES = {
    "offsets": "consumer_offsets",
    "transaction-log": "transaction_state",
    "cluster-metadata": "cluster_metadata",
    "remote-log-metadata": "remote_log_metadata",
    "share-group-state": "share_group_state",
}

FOR_TOPIC = {f"__{module}": name for name, module in _MODULES.items()}


def name_for(topic: str | None, kind: str = ".log") -> str | None:
    """What `decoder` calls the decoder for segments of a topic; None for a topic that is not internal.

    KRaft snapshots, of the kind ".checkpoint", hold cluster metadata wherever they lie.
    """
    return "cluster-metadata" if kind == ".checkpoint" else FOR_TOPIC.get(topic or "")


def decoder(name: str, redact: bool = False) -> Decoder:
    """The decoder called `name`, a flag of kafka-dump-log.sh without ``--`` and ``-decoder``. Raises KeyError.

    With `redact`, the secrets of cluster metadata (SCRAM credentials, delegation tokens, passwords) are not shown; no
    other topic holds any.
    """
    module = import_module(f"kseg.decoders.{_MODULES[name]}")
    made: Decoder = module.decoder(redact) if name == "cluster-metadata" else module.decoder()
    return made
