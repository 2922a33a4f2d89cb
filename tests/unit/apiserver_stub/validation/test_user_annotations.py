"""Tests for the validation of the annotations that pods pass to the signer of their certificates."""

from __future__ import annotations

import pytest

from apiserver_stub.validation.user_annotations import validate_user_annotations

_KEY = "a.example/k"
_LONGEST = (256 << 10) - len(_KEY)


@pytest.mark.parametrize(
    ("annotations", "reasons"),
    [
        (None, []),
        ({}, []),
        ({_KEY: ""}, []),
        ({"A.example/K": ""}, []),
        ({"": ""}, ["Required"]),
        ({"k": ""}, ["Invalid"]),
        ({"a b/k": ""}, ["Invalid"]),
        ({_KEY: "v" * _LONGEST}, []),
        ({_KEY: "v" * (_LONGEST + 1)}, ["TooLong"]),
        ({_KEY: "v" * (_LONGEST - 1) + "é"}, ["TooLong"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_keys_have_a_domain_and_the_size_is_limited(annotations: dict[str, str] | None, reasons: list[str]) -> None:
    causes = validate_user_annotations(annotations, "f")

    assert [(cause.field, cause.reason.removeprefix("FieldValue")) for cause in causes] == [
        ("f", reason) for reason in reasons
    ]
