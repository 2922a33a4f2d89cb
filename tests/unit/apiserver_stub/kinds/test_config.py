"""Tests for the validation of typed secrets."""

from __future__ import annotations

import base64

import pytest

from apiserver_stub.kinds.config import SecretStrategy
from nodeagent.base.identity import Identity


def problems(type_: str, **data: str) -> list[tuple[str, str]]:
    encoded = {key.replace("__", ".").replace("_", "-"): base64.b64encode(data[key].encode()).decode() for key in data}
    secret = {"metadata": {"name": "s"}, "type": f"kubernetes.io/{type_}", "data": encoded}
    return [(cause.field, cause.reason) for cause in SecretStrategy(Identity()).validate(secret)]


@pytest.mark.parametrize("name", ["dockercfg", "dockerconfigjson"])
def test_registry_credentials_must_be_json(name: str) -> None:
    assert problems(name) == [(f"data[.{name}]", "FieldValueRequired")]
    for wrong in ("x", "[]", "", "{"):
        assert problems(name, **{f"__{name}": wrong}) == [(f"data[.{name}]", "FieldValueInvalid")]
    assert problems(name, **{f"__{name}": '{"auths": {}}'}) == []


def test_basic_auth_requires_a_username_or_password() -> None:
    assert [field for field, _ in problems("basic-auth")] == ["data[username]", "data[password]"]
    assert problems("basic-auth", username="") == []
    assert problems("basic-auth", password="") == []


def test_ssh_key_must_not_be_empty() -> None:
    assert problems("ssh-auth", ssh_privatekey="k") == []
    for given in ({}, {"ssh_privatekey": ""}):
        assert problems("ssh-auth", **given) == [("data[ssh-privatekey]", "FieldValueRequired")]


def test_tls_secret_requires_certificate_and_key() -> None:
    assert [field for field, _ in problems("tls", tls__crt="")] == ["data[tls.key]"]
    assert problems("tls", tls__crt="", tls__key="") == []
