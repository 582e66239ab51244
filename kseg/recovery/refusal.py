"""Where a broker would not start."""

from kseg.errors import KsegError


class BrokerRefusesError(KsegError):
    """A broker would not start on this; the message says why, and what helps."""


class TransactionConflictError(BrokerRefusesError):
    """Batches of one producer contradict each other: one outside of its open transaction, or two that begin as one."""
