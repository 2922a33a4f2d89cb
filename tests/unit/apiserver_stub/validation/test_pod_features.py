"""Tests for the features that stored pods use."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.pod_features import features_in_use

RELAXED = "RelaxedEnvironmentVariableValidation"


@pytest.mark.parametrize(
    ("container", "used"),
    [
        ({"envFrom": [{"prefix": "1-"}]}, True),
        ({"envFrom": [{"prefix": "A_"}]}, False),
        ({"envFrom": [{}]}, False),
        ({"env": [{"name": "1-"}]}, True),
        ({"env": [{"name": "A"}]}, False),
    ],
)
def test_relaxed_names_of_variables_are_in_use(container: dict[str, Any], used: bool) -> None:
    spec = {"containers": [{"name": "main", **container}]}

    assert (RELAXED in features_in_use(spec, frozenset())) is used
