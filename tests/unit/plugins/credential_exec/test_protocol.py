"""Requests and answers of the exec protocol; whatever is no answer is refused without quoting a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nodeagent.base.aio.command import CommandResult
from nodeagent.base.duration import Duration
from nodeagent.contracts.runtime import Credentials
from nodeagent_plugins.credential_exec.protocol import (
    Answer,
    CacheKeyType,
    ProviderFailure,
    encode_request,
    read_answer,
)
from tests.unit.plugins.credential_exec.conftest import V1, login, response


def read(output: Any, code: int = 0, errors: bytes = b"", version: str = V1) -> Answer:
    raw = output if isinstance(output, bytes) or output is None else json.dumps(output).encode()
    return read_answer(CommandResult(code, raw, errors), "keys", version, 1 << 20)


@pytest.mark.row("credential.apiVersion")
@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v1"])
def test_each_version_is_asked_and_answered_in_itself(version: str) -> None:
    group = f"credentialprovider.kubelet.k8s.io/{version}"

    assert json.loads(encode_request(group, "reg.io/app")) == {
        "kind": "CredentialProviderRequest",
        "apiVersion": group,
        "image": "reg.io/app",
    }
    answer = read(response({"reg.io": login("bob")}, apiVersion=group, cacheDuration="5m"), version=group)
    credentials = Credentials("bob", "secret", source="keys")
    assert answer == Answer(CacheKeyType.REGISTRY, Duration.of(minutes=5), {"reg.io": credentials})


@pytest.mark.row("credential.apiVersion")
def test_an_answer_in_another_version_is_refused() -> None:
    with pytest.raises(ProviderFailure, match=r"answered in apiVersion '.*/v1beta1' and was asked in .*/v1$"):
        read(response({}, apiVersion="credentialprovider.kubelet.k8s.io/v1beta1"))


@pytest.mark.parametrize("auth", [None, {}, {"reg.io": None}])
def test_an_answer_without_credentials_is_fine(auth: Any) -> None:
    assert read(response(auth)).auth == {}


def test_fields_of_later_versions_are_passed_over() -> None:
    assert read(response({"reg.io": {**login("bob"), "token": "t"}}, later=[1])).auth["reg.io"].username == "bob"


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (None, "printed more than 1024 KiB and was killed"),
        (b"", "answered nothing"),
        (b" \n", "answered nothing"),
        (b"hunter2", "answered something else than a CredentialProviderResponse in JSON: "),
        (b"\xff\xfe\x00", "answered something else than a CredentialProviderResponse in JSON: "),
        (b"[]", "answered something else than a CredentialProviderResponse in JSON: "),
        ({"auth": {"reg.io": "hunter2"}}, "answered something else than a CredentialProviderResponse in JSON: "),
        ({"auth": {"r": {"password": ["hunter2"]}}}, "answered something else than a CredentialProviderResponse"),
        (response({}, kind="Status"), "answered with kind 'Status' instead of CredentialProviderResponse"),
        (response({}, key_type=""), "answered with cacheKeyType '', which is none of Image, Registry, Global"),
        (response({}, key_type="image"), "answered with cacheKeyType 'image', which is none of"),
        (response({}, key_type="x" * 5000), "answered with cacheKeyType 'xxx"),
        (response({}, cacheDuration="soon"), "answered with cacheDuration 'soon'"),
    ],
)
def test_what_is_no_answer_is_a_failure_that_quotes_no_secret(output: Any, text: str) -> None:
    with pytest.raises(ProviderFailure) as raised:
        read(output)

    assert str(raised.value).startswith(text)
    assert "hunter2" not in str(raised.value)
    assert len(str(raised.value)) < 300
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    ("code", "text"),
    [(3, "ended with exit code 3"), (-11, "was ended by SIGSEGV"), (-40, "was ended by signal 40")],
)
def test_a_bad_ending_is_a_failure_whatever_was_printed(code: int, text: str) -> None:
    with pytest.raises(ProviderFailure) as raised:
        read(response({"reg.io": login("bob")}), code, b"out of luck\n")

    assert (str(raised.value), raised.value.detail) == (text, "out of luck")


@pytest.mark.row("card.credential-executables")
def test_a_question_is_one_whole_line() -> None:
    question = encode_request("credentialprovider.kubelet.k8s.io/v1", "reg.io/app")

    assert question.count(b"\n") == 1
    assert question.endswith(b"}\n")
