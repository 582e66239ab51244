"""The table of symptoms. It feeds ``kseg symptoms`` and man/kseg-symptoms.7.

The messages are those of Kafka's sources, 0.8 to 4.4, of librdkafka, sarama and kafka-python. Entries are
tried in this order: messages that name a file come before those that only report the consequence.
"""

from kseg.symptoms.clients import CLIENTS
from kseg.symptoms.loading import LOADING
from kseg.symptoms.metadata import METADATA
from kseg.symptoms.running import RUNNING
from kseg.symptoms.symptom import Symptom

_ENTRIES = (*LOADING, *METADATA, *RUNNING, *CLIENTS)
SYMPTOMS: tuple[Symptom, ...] = tuple(sorted(_ENTRIES, key=lambda symptom: symptom.is_consequence))
"""Consequences last: the same line often has the text of their cause."""
