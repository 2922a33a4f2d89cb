"""A secret of a known type holds what its readers expect of it."""

from __future__ import annotations

import base64

import pytest

from apiserver_stub.kinds.config import SecretStrategy


def problems(type_: str, **data: str) -> list[tuple[str, str]]:
    encoded = {key.replace("__", ".").replace("_", "-"): base64.b64encode(data[key].encode()).decode() for key in data}
    secret = {"metadata": {"name": "s"}, "type": f"kubernetes.io/{type_}", "data": encoded}
    return [(cause.field, cause.reason) for cause in SecretStrategy().validate(secret)]


@pytest.mark.parametrize("name", ["dockercfg", "dockerconfigjson"])
def test_credentials_of_a_registry_are_json(name: str) -> None:
    assert problems(name) == [(f"data[.{name}]", "FieldValueRequired")]
    for wrong in ("x", "[]", "", "{"):
        assert problems(name, **{f"__{name}": wrong}) == [(f"data[.{name}]", "FieldValueInvalid")]
    assert problems(name, **{f"__{name}": '{"auths": {}}'}) == []


def test_basic_credentials_have_a_name_or_a_password() -> None:
    assert [field for field, _ in problems("basic-auth")] == ["data[username]", "data[password]"]
    assert problems("basic-auth", username="") == []
    assert problems("basic-auth", password="") == []


def test_a_key_for_ssh_is_not_empty() -> None:
    assert problems("ssh-auth", ssh_privatekey="k") == []
    for given in ({}, {"ssh_privatekey": ""}):
        assert problems("ssh-auth", **given) == [("data[ssh-privatekey]", "FieldValueRequired")]


def test_a_pair_has_both_halves() -> None:
    assert [field for field, _ in problems("tls", tls__crt="")] == ["data[tls.key]"]
    assert problems("tls", tls__crt="", tls__key="") == []
