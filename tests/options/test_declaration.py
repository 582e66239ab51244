"""Options are declared once, for Python and the command line; times, keys and formats are read from text."""

from collections.abc import Callable
from dataclasses import fields
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import kseg
from kseg.carving.directories import CarveOptions
from kseg.cleaner.settings import CompactOptions
from kseg.conversion.options import ConvertOptions
from kseg.errors import RequestError
from kseg.options import declaration
from kseg.options.declaration import filled, given_in, options_of
from kseg.quantities import FIRST_TIMESTAMP, LAST_TIMESTAMP, show_time
from kseg.recovery.metadata_log import QuorumOptions
from kseg.recovery.options import RecoverOptions, ReindexOptions
from kseg.recovery.restoring import RestoreOptions
from kseg.retention.planner import RetainOptions
from kseg.verification.run import VerifyOptions
from kseg.views.cluster import ClusterOptions
from kseg.views.groups import GroupsOptions
from kseg.views.stats import StatsOptions
from kseg.views.transactions import TransactionsOptions

OF_ALL_CHANGES = {"path", "keep", "lock", "output"}
FILLED = [
    (kseg.recover, RecoverOptions), (kseg.compact, CompactOptions), (kseg.retain, RetainOptions),
    (kseg.convert, ConvertOptions), (kseg.verify, VerifyOptions), (kseg.reindex, ReindexOptions),
    (kseg.carve, CarveOptions), (kseg.quorum, QuorumOptions), (kseg.restore, RestoreOptions),
    (kseg.stats, StatsOptions), (kseg.groups, GroupsOptions), (kseg.transactions, TransactionsOptions),
    (kseg.cluster, ClusterOptions),
]  # fmt: skip


def arguments_of(function: Any) -> set[str]:
    found = set()
    for name, parameter in signature(function).parameters.items():
        is_rest = parameter.kind == Parameter.VAR_KEYWORD
        found |= get_type_hints(*get_args(parameter.annotation)).keys() if is_rest else {name}
    return found - OF_ALL_CHANGES


@pytest.mark.parametrize(("function", "kind"), FILLED, ids=lambda each: each.__name__)
def test_every_argument_fills_a_field(function: Any, kind: Any) -> None:
    known = {declared.python_name for each in fields(kind) for declared in options_of(each)}
    unknown = arguments_of(function) - known - {"private_keys"}
    assert unknown == ({"now"} if function is kseg.reindex else set())  # a rebuild needs no time


def test_given_options_are_those_that_differ_from_their_defaults() -> None:
    options = filled(RecoverOptions, {"drop_batches": [7], "full": True, "era": "2.8", "now": None, "topics": ()})
    assert (options.drop_batches, options.era.release[:2]) == (frozenset([7]), (2, 8))
    assert given_in(options) == {"--drop-batch", "--full", "--era"}


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (RetainOptions, {"policy": "deleted"}, "policy='deleted': is none of delete, compact, compact,delete"),
        (RecoverOptions, {"mode": "best"}, "mode='best': is neither broker nor salvage"),
        (RecoverOptions, {"topic_id": "orders"}, "topic_id: 'orders' is not a topic id"),
        (ConvertOptions, {"codec": "zip"}, "codec: "),
        (ConvertOptions, {"batch_bytes": -1}, "batch_bytes: '-1' is no number of bytes"),
        (StatsOptions, {"sample": -1}, "sample=-1: is no number from 1 on"),
        (CompactOptions, {"min_cleanable_ratio": 1.5}, "min_cleanable_ratio=1.5: is no number from 0 to 1"),
        (RetainOptions, {"retention_ms": -2}, "retention_ms: '-2' is no length of time"),
    ],
)
def test_a_value_that_an_option_does_not_take_is_named(kind: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as raised:
        filled(kind, given)
    assert str(raised.value).startswith(message)


def test_functions_refuse_such_values(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="policy"):
        kseg.retain(tmp_path, policy="deleted")
    for read in (kseg.open, kseg.scan):
        with pytest.raises(RequestError, match="max_batch_bytes=-1: is no number of bytes"):
            read(tmp_path, max_batch_bytes=-1)
    assert filled(RetainOptions, {"retention_ms": -1}).retention_ms == -1


NINE = 1769850000000


AGE = declaration.or_unlimited(declaration.milliseconds)


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (declaration.time_range, f"{NINE}..", (NINE, LAST_TIMESTAMP)),
        (declaration.time_range, f"..{NINE}", (FIRST_TIMESTAMP, NINE)),
        (declaration.time_range, f"{NINE}", (NINE, NINE)),
        (declaration.time_range, "2026-01-31..2026-02-01", (NINE - 9 * 3600_000, NINE + 39 * 3600_000 - 1)),
        (declaration.time_range, "2026-01-31T09:00:00Z..2026-01-31T09:00:00.5Z", (NINE, NINE + 500)),
        (declaration.time_point, "2026-01-31T09:00:00Z", NINE),
        (AGE, "3600000", 3600000), (AGE, "90s", 90000), (AGE, "5min", 300000), (AGE, "12h", 43200000),
        (AGE, "7d", 604800000), (AGE, "1w", 604800000), (AGE, "-1", -1), (AGE, "0ms", 0),
        (AGE, "999999999999999999d", (1 << 63) - 1),
        (declaration.key_bytes, "order-1", b"order-1"), (declaration.key_bytes, "a:b", b"a:b"),
        (declaration.key_bytes, "hex:00FF", b"\0\xff"), (declaration.key_bytes, "base64:AP8=", b"\0\xff"),
        (declaration.key_bytes, "utf8:hex:00", b"hex:00"), (declaration.key_bytes, "é", "é".encode()),
        (declaration.key_bytes, "\udcff", b"\xff"), (declaration.key_bytes, "", b""),
        (declaration.content_format, "int", "int"),
        *((declaration.time_range, text, None) for text in ("", "..", "a..b", "5..4", "1...2", "2026-01-31..someday")),
        *((AGE, text, None) for text in ("", "soon", "-2", "7y", "1.5h", "\u0661", "d")),
        *((declaration.key_bytes, text, None) for text in ("hex:0", "base64:A", "base64:?")),
        (declaration.time_point, "soon", None), (declaration.content_format, "int64", None),
    ],
    ids=lambda each: ascii(getattr(each, "__name__", each)),
)  # fmt: skip
def test_a_text_is_read_or_refused(read: Callable[[str], object], text: str, value: object) -> None:
    if value is None:
        with pytest.raises(ValueError):
            read(text)
    else:
        assert read(text) == value


def test_times_are_shown() -> None:
    assert show_time(NINE) == "2026-01-31T09:00:00.000Z"
    assert show_time(LAST_TIMESTAMP) == str(LAST_TIMESTAMP)


def test_relative_times_count_from_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: NINE / 1000)
    assert declaration.time_range("-2h..now") == (NINE - 2 * 3600_000, NINE)
    assert declaration.time_point("-2h") == NINE - 2 * 3600_000
