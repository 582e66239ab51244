"""Decoders for the records of Kafka's internal topics: coordinators, KRaft, tiered storage, MirrorMaker 2.

    >>> decoder("offsets").decode(bytes.fromhex("0002000167"), None, 0).key_text
    '{"type":"2","data":{"group":"g"}}'

`decoded` defines the decoder protocol and its result, `keyed` and `framed` implement the framings, `schemas` holds the
message tables; `values` decodes the records of other topics.
"""

import re
from typing import TYPE_CHECKING

from kseg.formats.suffixes import CHECKPOINT, LOG

if TYPE_CHECKING:
    from kseg.decoders.decoded import Decoder

__all__ = ["FOR_TOPIC", "decoder", "name_for"]

FOR_TOPIC = {
    "__consumer_offsets": "offsets",
    "__transaction_state": "transaction-log",
    "__cluster_metadata": "cluster-metadata",
    "__remote_log_metadata": "remote-log-metadata",
    "__share_group_state": "share-group-state",
}

_MIRROR_MAKER = {
    "offset-syncs": re.compile(r"mm2-offset-syncs\..*\.internal"),
    "checkpoints": re.compile(r".*\.checkpoints\.internal"),
    "heartbeats": re.compile(r"(.*\.)?heartbeats"),
}


def name_for(topic: str | None, kind: str = LOG) -> str | None:
    """Returns the `decoder` name for segments of a topic, None if the topic is not internal.

    KRaft snapshots (kind ".checkpoint") always hold cluster metadata, in any directory.
    """
    topic = topic or ""
    if kind == CHECKPOINT:
        return "cluster-metadata"
    mirrored = (name for name, pattern in _MIRROR_MAKER.items() if pattern.fullmatch(topic))
    return FOR_TOPIC.get(topic) or next(mirrored, None)


def decoder(name: str, redact: bool = False) -> "Decoder":
    """Returns the decoder called `name`: a flag of kafka-dump-log.sh without ``--`` and ``-decoder``, or a kind of
    MirrorMaker topic. Raises KeyError.

    With `redact`, secrets in cluster metadata (SCRAM credentials, delegation tokens, passwords) are replaced. No other
    topic contains secrets.
    """
    if name in ("cluster-metadata", "remote-log-metadata"):
        from kseg.decoders import framed

        is_remote = name == "remote-log-metadata"
        return framed.RemoteLogMetadataDecoder() if is_remote else framed.ClusterMetadataDecoder(redact)
    from kseg.decoders import keyed

    return keyed.decoder(name)
