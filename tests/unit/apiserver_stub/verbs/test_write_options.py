"""Tests for the query options of writes."""

from __future__ import annotations

import pytest

from tests.unit.apiserver_stub.api import Api, config_map

MAPS = "/api/v1/namespaces/default/configmaps"
DRY_RUN = 'dryRun: Unsupported value: []string{"x"}: supported values: "All"'
VALIDATION = 'fieldValidation: Unsupported value: "y": supported values: "", "Ignore", "Strict", "Warn"'


@pytest.mark.parametrize(
    ("query", "problems"),
    [
        ("dryRun=x", DRY_RUN),
        ("fieldValidation=y", VALIDATION),
        ("dryRun=x&fieldValidation=y", f"[{DRY_RUN}, {VALIDATION}]"),
    ],
)
async def test_all_invalid_options_are_reported(query: str, problems: str) -> None:
    response = await Api().request("POST", f"{MAPS}?{query}", config_map("a"))

    assert (response.code, response.message) == (422, f'CreateOptions.meta.k8s.io "" is invalid: {problems}')


@pytest.mark.parametrize("query", ["", "?dryRun=All", "?fieldValidation=Strict&fieldManager=m"])
async def test_valid_options_are_accepted(query: str) -> None:
    assert (await Api().request("POST", f"{MAPS}{query}", config_map("a"))).code == 201
