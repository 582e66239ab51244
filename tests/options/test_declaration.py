"""Options are declared once: what Python takes by name fills the field that the command line fills."""

from dataclasses import fields
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import kseg
from kseg.cleaner.settings import CompactOptions
from kseg.conversion.options import ConvertOptions
from kseg.errors import RequestError
from kseg.options.declaration import filled, given_in, options_of
from kseg.recovery.options import RecoverOptions, ReindexOptions
from kseg.retention.planner import RetainOptions
from kseg.verification.run import VerifyOptions

OF_ALL_CHANGES = {"path", "keep", "lock", "output"}
FILLED = [
    (kseg.recover, RecoverOptions), (kseg.compact, CompactOptions), (kseg.retain, RetainOptions),
    (kseg.convert, ConvertOptions), (kseg.verify, VerifyOptions), (kseg.reindex, ReindexOptions),
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
    ],
)
def test_a_value_that_an_option_does_not_take_is_named(kind: Any, given: dict[str, str], message: str) -> None:
    with pytest.raises(RequestError) as raised:
        filled(kind, given)
    assert str(raised.value).startswith(message)


def test_functions_refuse_such_values(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="policy"):
        kseg.retain(tmp_path, policy="deleted")
