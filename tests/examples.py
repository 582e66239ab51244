"""The number of examples that Hypothesis draws for costly tests."""

from typing import Any

from hypothesis import settings


def fewer(by: int, **more: Any) -> settings:
    """Settings of tests whose examples each take long: a share of the examples of the profile, at least two."""
    return settings(max_examples=max(2, settings.default.max_examples // by), deadline=None, **more)
