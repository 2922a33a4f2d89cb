"""Tests for the validation of config maps and secrets: keys, size, types, immutable data, and warnings about TLS."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from apiserver_stub.kinds.config import SecretStrategy
from apiserver_stub.validation.config_maps import SIZE_LIMIT_BYTES, decoded_size, validate_config_map
from apiserver_stub.validation.secrets import secret_warnings, validate_secret
from nodeagent.base.identity import Identity
from nodeagent.base.tls import generate_ca


def _encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


def _secret(kind: str, data: Any = None, **annotations: str) -> dict[str, Any]:
    return {"metadata": {"name": "s", "annotations": annotations}, "type": kind, "data": data or {}}


@pytest.mark.parametrize(
    ("config_map", "fields"),
    [
        ({"data": {"a.b_c-D": "", ".hidden": ""}}, []),
        ({"data": {"..": "", "..a": "", "a/b": "", "": ""}}, ["data[..]", "data[..a]", "data[a/b]", "data[]"]),
        ({"data": {"a": ""}, "binaryData": {"a": ""}}, ["data[a]"]),
        ({"binaryData": {"a" * 254: ""}}, [f"binaryData[{'a' * 254}]"]),
        ({"data": {"a": "é" * (SIZE_LIMIT_BYTES // 2)}}, []),
        ({"data": {"a": "x" * SIZE_LIMIT_BYTES}, "binaryData": {"b": "QQ=="}}, [""]),
    ],
)
def test_keys_and_size_of_a_config_map_are_validated(config_map: Any, fields: list[str]) -> None:
    assert [cause.field for cause in validate_config_map(config_map)] == fields


def test_decoded_size_ignores_padding() -> None:
    assert decoded_size(["", "QQ==", "QUI=", "QUJD", "QUJDRA=="]) == 0 + 1 + 2 + 3 + 4


@pytest.mark.parametrize(
    ("secret", "fields"),
    [
        (_secret("Opaque"), []),
        (_secret("example.com/own"), []),
        (_secret("kubernetes.io/tls"), ["data[tls.crt]", "data[tls.key]"]),
        (_secret("kubernetes.io/basic-auth", {"password": ""}), []),
        (_secret("kubernetes.io/basic-auth"), ["data[username]", "data[password]"]),
        (_secret("kubernetes.io/ssh-auth", {"ssh-privatekey": ""}), ["data[ssh-privatekey]"]),
        (_secret("kubernetes.io/dockercfg"), ["data[.dockercfg]"]),
        (_secret("kubernetes.io/dockercfg", {".dockercfg": _encoded(b"null")}), []),
        (_secret("kubernetes.io/dockerconfigjson", {".dockerconfigjson": _encoded(b"{}")}), []),
        (_secret("kubernetes.io/service-account-token", **{"kubernetes.io/service-account.name": "app"}), []),
        (_secret("kubernetes.io/service-account-token"), ["metadata.annotations[kubernetes.io/service-account.name]"]),
        (_secret("Opaque", {"a b": ""}), ["data[a b]"]),
    ],
)
def test_secret_is_validated_by_its_type(secret: Any, fields: list[str]) -> None:
    assert [cause.field for cause in validate_secret(secret, Identity())] == fields


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "unexpected end of JSON input"),
        (b'{"a"', "unexpected end of JSON input"),
        (b"xyz", "invalid character 'x' looking for beginning of value"),
        (b"[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ],
)
def test_registry_configuration_is_a_json_object(content: bytes, problem: str) -> None:
    [cause] = validate_secret(_secret("kubernetes.io/dockercfg", {".dockercfg": _encoded(content)}), Identity())
    assert cause.message == f'Invalid value: "<secret contents redacted>": {problem}'


def test_registry_configuration_with_invalid_characters_is_read() -> None:
    secret = _secret("kubernetes.io/dockercfg", {".dockercfg": _encoded(b'{"a\xa8": {}}')})
    assert validate_secret(secret, Identity()) == []


def test_type_and_data_of_an_immutable_secret_stay() -> None:
    old = _secret("Opaque", {"a": "QQ=="}) | {"immutable": True}
    new = _secret("example.com/own", {})
    causes = SecretStrategy(Identity()).validate_update(new, old, "")
    assert [cause.field for cause in causes] == ["type", "immutable", "data"]


def test_tls_secret_with_another_key_is_warned_about() -> None:
    pair, other = generate_ca("a"), generate_ca("b")
    fitting = _secret("kubernetes.io/tls", {"tls.crt": _encoded(pair.certificate), "tls.key": _encoded(pair.key)})
    wrong = _secret("kubernetes.io/tls", {"tls.crt": _encoded(pair.certificate), "tls.key": _encoded(other.key)})
    assert secret_warnings(fitting, Identity()) == []
    assert secret_warnings(wrong, Identity()) == ["tls: private key does not match public key"]
    assert secret_warnings({**wrong, "type": "Opaque"}, Identity()) == []
