"""Tests for the validation of signer names."""

from __future__ import annotations

import pytest

from apiserver_stub.validation.signers import trust_bundle_name_problems, validate_signer_name


@pytest.mark.parametrize(
    ("name", "count"),
    [("example.com/a", 0), ("", 1), ("example.com", 1), ("a/b/c", 1), ("com/a", 1), ("Example.com/A", 2)],
)
def test_signer_names(name: str, count: int) -> None:
    assert len(validate_signer_name(name, "f")) == count


@pytest.mark.parametrize(
    ("name", "signer", "valid"),
    [("a", "", True), ("a:b", "", False), ("example.com:a:b", "example.com/a", True), ("b", "example.com/a", False)],
)
def test_names_of_trust_bundles(name: str, signer: str, valid: bool) -> None:
    assert (not trust_bundle_name_problems(name, signer)) is valid
