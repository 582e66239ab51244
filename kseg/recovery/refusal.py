"""Errors for partitions on which a broker does not start."""

from kseg.errors import KsegError


class BrokerRefusesError(KsegError):
    """A broker would not start on this; the message gives the reason and a remedy."""


class TransactionConflictError(BrokerRefusesError):
    """Batches of a producer contradict each other: one is outside of its open transaction, or two transactions begin at
    one offset."""
