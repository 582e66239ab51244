"""Where a broker would not start."""

from kseg.errors import KsegError


class BrokerRefusesError(KsegError):
    """A broker would not start on this; the message says why, and what helps."""
