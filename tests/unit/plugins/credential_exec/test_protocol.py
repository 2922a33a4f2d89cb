"""Tests for requests and responses of the exec protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nodeagent.base.aio.command import CommandResult
from nodeagent.base.duration import Duration
from nodeagent.contracts.runtime import Credentials
from nodeagent_plugins.credential_exec.protocol import (
    CacheKeyType,
    ProviderFailure,
    ProviderResponse,
    encode_request,
    read_response,
)
from tests.unit.plugins.credential_exec.conftest import V1, login, make_response


def read(output: Any, code: int = 0, errors: bytes = b"", version: str = V1) -> ProviderResponse:
    raw = output if isinstance(output, bytes) or output is None else json.dumps(output).encode()
    return read_response(CommandResult(code, raw, errors), "keys", version, 1 << 20)


@pytest.mark.row("credential.apiVersion")
@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v1"])
def test_request_and_response_have_the_configured_version(version: str) -> None:
    group = f"credentialprovider.kubelet.k8s.io/{version}"

    assert json.loads(encode_request(group, "reg.io/app")) == {
        "kind": "CredentialProviderRequest",
        "apiVersion": group,
        "image": "reg.io/app",
    }
    response = read(make_response({"reg.io": login("bob")}, apiVersion=group, cacheDuration="5m"), version=group)
    credentials = Credentials("bob", "secret", source="keys")
    assert response == ProviderResponse(CacheKeyType.REGISTRY, Duration.of(minutes=5), {"reg.io": credentials})


@pytest.mark.row("credential.apiVersion")
def test_response_in_another_version_is_rejected() -> None:
    with pytest.raises(ProviderFailure, match=r"returned apiVersion '.*/v1beta1' instead of .*/v1$"):
        read(make_response({}, apiVersion="credentialprovider.kubelet.k8s.io/v1beta1"))


@pytest.mark.parametrize("auth", [None, {}, {"reg.io": None}])
def test_response_without_credentials_is_accepted(auth: Any) -> None:
    assert read(make_response(auth)).auth == {}


def test_unknown_fields_are_ignored() -> None:
    assert read(make_response({"reg.io": {**login("bob"), "token": "t"}}, later=[1])).auth["reg.io"].username == "bob"


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (None, "printed more than 1024 KiB and was killed"),
        (b"", "wrote no output"),
        (b" \n", "wrote no output"),
        (b"hunter2", "wrote an invalid CredentialProviderResponse: "),
        (b"\xff\xfe\x00", "wrote an invalid CredentialProviderResponse: "),
        (b"[]", "wrote an invalid CredentialProviderResponse: "),
        ({"auth": {"reg.io": "hunter2"}}, "wrote an invalid CredentialProviderResponse: "),
        ({"auth": {"r": {"password": ["hunter2"]}}}, "wrote an invalid CredentialProviderResponse"),
        (make_response({}, kind="Status"), "returned kind 'Status' instead of CredentialProviderResponse"),
        (make_response({}, key_type=""), "returned cacheKeyType '', must be one of Image, Registry, Global"),
        (make_response({}, key_type="image"), "returned cacheKeyType 'image', must be one of"),
        (make_response({}, key_type="x" * 5000), "returned cacheKeyType 'xxx"),
        (make_response({}, cacheDuration="soon"), "returned an invalid cacheDuration: 'soon'"),
    ],
)
def test_invalid_output_is_a_failure_that_quotes_no_secret(output: Any, text: str) -> None:
    with pytest.raises(ProviderFailure) as raised:
        read(output)

    assert str(raised.value).startswith(text)
    assert "hunter2" not in str(raised.value)
    assert len(str(raised.value)) < 300
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    ("code", "text"),
    [(3, "exited with code 3"), (-11, "was killed by SIGSEGV"), (-40, "was killed by signal 40")],
)
def test_failed_process_is_a_failure_regardless_of_its_output(code: int, text: str) -> None:
    with pytest.raises(ProviderFailure) as raised:
        read(make_response({"reg.io": login("bob")}), code, b"out of luck\n")

    assert (str(raised.value), raised.value.detail) == (text, "out of luck")


@pytest.mark.row("card.credential-executables")
def test_request_is_a_single_line() -> None:
    question = encode_request("credentialprovider.kubelet.k8s.io/v1", "reg.io/app")

    assert question.count(b"\n") == 1
    assert question.endswith(b"}\n")
