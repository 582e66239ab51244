"""Joins findings about transactions with __transaction_state and __consumer_offsets of the same log directory."""

from typing import TYPE_CHECKING, Any

from kseg.logdir.partitions import topic_id_at
from kseg.logdir.transaction_verdicts import ENDING, HANGING, abort_command, verdict_of
from kseg.logdir.waiting_groups import waiting_groups
from kseg.quantities import plural
from kseg.segment.times import show_span
from kseg.verification.report import Finding

if TYPE_CHECKING:
    from kseg.logdir.transactional_ids import TransactionState
    from kseg.verification.surroundings import Place

_FATES = {
    HANGING: "the coordinator does not know this transaction, so nothing ends it",
    ENDING: "the coordinator is writing its markers",
}


def of_transaction(finding: Finding, place: "Place") -> Finding:
    """Returns the finding with the transactional id of its producer, null if unknown; of an open transaction also with
    its state, a verdict, and the groups that wait."""
    details, texts = dict(finding.details), [finding.message]
    state = place.root.transaction_states.get(details["producerId"])
    details["transactionalId"] = None if state is None else state.name
    if state is not None:
        texts.append(f"its transactional id is {state.name}")
    if "ageMs" in details:  # it is open at the end of the log
        texts += _join(details, state, place)
    return finding._replace(message="; ".join(texts), details=details)


def _join(details: dict[str, Any], state: "TransactionState | None", place: "Place") -> list[str]:
    """Adds facts to the details of an open transaction. Returns sentences."""
    topic, partition = name = place.partition or (None, None)
    verdict = verdict_of(details["producerEpoch"], state, name, details["ageMs"])
    details |= {
        "state": None if state is None else state.state,
        "timeoutMs": None if state is None else state.timeout_ms,
        "verdict": verdict,
        "abort": abort_command(topic, partition, details["firstOffset"]) if verdict == HANGING else None,
    }
    texts = []
    if state is not None and state.state is not None:
        timeout = "" if state.timeout_ms is None else f", timeout {show_span(state.timeout_ms)}"
        texts.append(f"state {state.state}{timeout}")
        if verdict in _FATES:
            texts.append(_FATES[verdict])
    if "lastStableOffset" in details:
        topic_id = topic_id_at(place.path)
        groups = waiting_groups(place.root.group_offsets, name, details["lastStableOffset"], topic_id)
        details["waitingGroups"] = None if groups is None else [group.as_object() for group in groups]
        waiting = plural(details["waitingOffsets"], "offset", "offsets")
        if groups:
            waiting += f" and {plural(len(groups), 'group', 'groups')}"
        texts.append(f"{waiting} waiting behind the last stable offset {details['lastStableOffset']}")
    return texts
