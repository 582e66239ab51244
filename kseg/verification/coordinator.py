"""Adds facts of __transaction_state and __consumer_offsets in the same log directory to findings about transactions."""

from typing import TYPE_CHECKING, Any

from kseg.logdir.coordinators import (
    ENDING,
    HANGING,
    abort_command,
    topic_id_at,
    verdict_of,
    waiting_groups,
    why_hanging,
)
from kseg.quantities import plural
from kseg.segment.times import show_span
from kseg.verification.report import Finding

if TYPE_CHECKING:
    from kseg.logdir.coordinators import TransactionState
    from kseg.verification.repair_targets import RepairTarget


def with_coordinator_facts(finding: Finding, target: "RepairTarget") -> Finding:
    """Returns the finding with the transactional id of its producer, null if unknown; of an open transaction also with
    its state, a verdict, and the groups that wait."""
    details, texts = dict(finding.details), [finding.message]
    state = target.root.transaction_states.get(details["producerId"])
    details["transactionalId"] = None if state is None else state.name
    if state is not None:
        texts.append(f"its transactional id is {state.name}")
    if "ageMs" in details:  # the transaction is open at the end of the log
        texts += _add_state(details, state, target)
    return finding._replace(message="; ".join(texts), details=details)


def _add_state(details: dict[str, Any], state: "TransactionState | None", target: "RepairTarget") -> list[str]:
    """Adds facts to the details of an open transaction. Returns sentences."""
    topic, partition = name = target.partition or (None, None)
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
        if verdict == ENDING:
            texts.append("the coordinator is writing its markers")
    if "lastStableOffset" in details:
        topic_id = topic_id_at(target.path)
        groups = waiting_groups(target.root.group_offsets, name, details["lastStableOffset"], topic_id)
        details["waitingGroups"] = None if groups is None else [group.as_object() for group in groups]
        waiting = plural(details["waitingOffsets"], "offset", "offsets")
        if groups:
            waiting += f" and {plural(len(groups), 'group', 'groups')}"
        texts.append(f"{waiting} waiting behind the last stable offset {details['lastStableOffset']}")
    if verdict == HANGING:
        texts.append(why_hanging(state))
    return texts
