"""Decoder for __cluster_metadata and KRaft snapshots: the metadata records of the controllers.

Source: MetadataRecordSerde and DumpLogSegments (``--cluster-metadata-decoder``) of Kafka 4.4.0; KIP-631.
"""

import re
from functools import cached_property
from typing import Any

from kseg.decoders.decoded import Decoded, Headers, undecodable_json
from kseg.decoders.framed import read_framed, type_name
from kseg.decoders.schemas.cluster_metadata import RECORDS
from kseg.formats.program import Program, framed_program
from kseg.formats.schema import MessageError, json_text, without_unknown_tags

REDACTED = "<redacted>"

CONFIG, DELEGATION_TOKEN, USER_SCRAM_CREDENTIAL, REMOVE_DELEGATION_TOKEN = 4, 10, 11, 26
_SECRET_FIELDS = {
    DELEGATION_TOKEN: ("tokenId",),
    USER_SCRAM_CREDENTIAL: ("salt", "storedKey", "serverKey"),
    REMOVE_DELEGATION_TOKEN: ("tokenId",),
}
# Broker settings of ConfigDef.Type.PASSWORD, with or without a listener prefix, and common names for them in plug-ins.
_SECRET_CONFIG = re.compile(r"password|secret|credential|token|jaas\.config|keystore\.key|certificate", re.IGNORECASE)


class ClusterMetadataDecoder:
    """Decodes __cluster_metadata; with `redact`, secrets become ``<redacted>`` in texts and in objects."""

    def __init__(self, redact: bool = False):
        self._redact = redact

    @cached_property
    def program(self) -> Program | None:
        """None if secrets must be redacted, which only `decode` can do."""
        names = {api_key: type_name(message) for api_key, message in RECORDS.items()}
        return None if self._redact else framed_program(RECORDS, names)

    def decode(self, key: bytes | None, value: bytes | None, offset: int, headers: Headers = ()) -> Decoded:
        """Decodes one record; see `kseg.decoders.decoded.Decoder`. The key is ignored: these records have none."""
        try:
            record = read_framed(value, RECORDS)
        except MessageError as error:
            text = f"Error at {offset}, skipping. {error}"
            # Undecodable bytes may contain a secret too.
            shown = {"error": text} if self._redact else undecodable_json(value, text)
            return Decoded(None, text, None, shown)
        fields = record.fields
        if self._redact:
            fields = without_unknown_tags(fields)  # fields of a newer release may be secret
            redact(record.api_key, fields)
        shown = {"type": type_name(RECORDS[record.api_key]), "version": record.version, "data": fields}
        return Decoded(None, json_text(shown), None, shown)


def redact(api_key: int, fields: dict[str, Any]) -> None:
    """Replaces the secrets among `fields` of a record of type `api_key`, in place."""
    for name in _SECRET_FIELDS.get(api_key, ()):
        fields[name] = REDACTED
    if api_key == CONFIG and fields["value"] is not None and _SECRET_CONFIG.search(fields["name"]):
        fields["value"] = REDACTED


def decoder(redact: bool = False) -> ClusterMetadataDecoder:
    return ClusterMetadataDecoder(redact)
