"""One table of cases for which both kernels must agree; kernel.both says what a case is."""

import hashlib
import json
from functools import cache
from random import Random

import pytest

from kernel.both import plain, printed_by_other
from kernel.codecs import cases as codecs
from kernel.compact import cases as compact
from kernel.records import cases as records
from kernel.render import cases as render
from kernel.scan import cases as scan
from kernel.state import cases as state
from segment import cases as segment

CASES = (
    codecs.CASES | compact.CASES | records.CASES | render.CASES | scan.CASES | segment.CASES | state.CASES
)  # fmt: skip


def outcomes(name: str, times: float) -> list[str]:
    """A digest for each seed; ``times``: so many times the number of seeds of the case."""
    case, count = CASES[name]
    answers = (plain(case(Random(f"{name} {seed}"))) for seed in range(round(times * count)))
    return [hashlib.sha256(repr(answer).encode()).hexdigest()[:16] for answer in answers]


@cache
def outcomes_of_other(times: float) -> dict[str, list[str]]:
    """The outcomes of all cases with the other kernel."""
    found = printed_by_other(
        "import json; from kernel.test_both_kernels import CASES, outcomes\n"
        f"print(json.dumps({{name: outcomes(name, {times}) for name in CASES}}))"
    )
    return dict(json.loads(found))


@pytest.mark.parametrize("times", [0.4, pytest.param(6, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_both_kernels_agree(name: str, times: float) -> None:
    """Fails with the first seeds for which the kernels differ."""
    mine, others = outcomes(name, times), outcomes_of_other(times)[name]
    assert len(set(mine)) > len(mine) // 4, "the case hardly depends on its seed"
    assert [seed for seed, pair in enumerate(zip(mine, others, strict=True)) if len(set(pair)) > 1] == []
