"""Whether gaps in a log may be the work of its cleaner: what the log directory around it says."""

import os


def is_compacted(directory: str) -> bool:
    """By the topic's policy in __cluster_metadata, by the cleaner's checkpoint, or by the name of the topic."""
    from kseg.verify.broker_state import state_by_name  # few logs have gaps
    from kseg.verify.log_directory import directory_around

    name = os.path.basename(os.path.abspath(directory))
    around = directory_around(directory)
    topic = name.rpartition("-")[0]
    state = around.broker_state(name) if around else state_by_name(topic)
    return bool(state.is_compacted) or state.cleaner_offset is not None
