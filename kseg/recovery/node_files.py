"""Finds files that stop a KRaft node from starting on a log directory, and that kseg cannot repair.

Sources: MetaPropertiesEnsemble and FileQuorumStateStore of Kafka 4.3.1.
"""

import os
from collections.abc import Iterator

from kseg.segment.files import METADATA_TOPIC, QUORUM_STATE
from kseg.sidefiles.lines import MAX_TEXT_BYTES
from kseg.sidefiles.meta_properties import META_PROPERTIES, MetaProperties, missing_in_kraft, read_meta_properties
from kseg.sidefiles.problems import problems_of
from kseg.sidefiles.quorum_state import read_quorum_state
from kseg.stores import trees
from kseg.stores.regular_files import first_bytes


def node_file_problems(directory: str) -> Iterator[str]:
    """Yields a sentence for each such file; nothing if the directory is not of KRaft."""
    metadata = os.path.join(directory, f"{METADATA_TOPIC}-0")
    if not trees.isdir(metadata):
        return
    for path, read, help_ in (
        (os.path.join(directory, META_PROPERTIES), read_meta_properties, "kafka-storage.sh format makes a new one"),
        (os.path.join(metadata, QUORUM_STATE), read_quorum_state, "move it away, and the node begins a new one"),
    ):
        if not trees.lexists(path):
            if path.endswith(META_PROPERTIES):
                yield f"{path}: is missing: a node of KRaft does not start without it; {help_}"
            continue
        try:
            items = list(read(first_bytes(path, MAX_TEXT_BYTES)))
        except OSError as error:
            found = [str(error.strerror)]
        else:
            found = [problem.message for problem in problems_of(items)]
            missing = (missing_in_kraft(item) for item in items if isinstance(item, MetaProperties))
            found += [text for text in missing if text is not None]
        if found:
            yield f"{path}: {found[0]}: a node of KRaft does not start with it; {help_}"
