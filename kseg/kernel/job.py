"""The interpreted twin of the struct Job in schema.pxd."""


class Job:
    """What is read (``p`` from ``at`` to ``end``), by what program (``code``, ``names``), and printed where.

    NO_ROOM follows where a position in ``out`` passes ``limit``, behind which there must be 512 bytes. So many
    ``items`` of arrays were met; ``is_switched``: the last SWITCH was what it looks for; ``as_jackson``: texts are
    as Jackson writes them, which differs in some control characters; ``is_control``: of a control batch.
    """

    __slots__ = (
        "as_jackson", "at", "code", "end", "is_control", "is_flexible", "is_switched", "items", "limit", "names", "out",
        "p",
    )  # fmt: skip
