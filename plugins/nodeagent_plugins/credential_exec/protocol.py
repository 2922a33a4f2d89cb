"""The exec protocol: one request in JSON on standard input, one answer in JSON on standard output. Pure.

Versions v1alpha1, v1beta1 and v1 have the same fields; an answer must come in the version of its request.
spec: credential.apiVersion, credential.defaultCacheDuration
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from nodeagent.base.aio.command import CommandResult
from nodeagent.base.duration import Duration
from nodeagent.contracts.runtime import Credentials

_REQUEST, _RESPONSE = "CredentialProviderRequest", "CredentialProviderResponse"
_SHOWN = 60


class CacheKeyType(StrEnum):
    """For which images an answer holds."""

    IMAGE = "Image"
    """For this repository."""
    REGISTRY = "Registry"
    """For every repository of this host and port."""
    GLOBAL = "Global"
    """For everything the provider is asked for."""


class ProviderFailure(Exception):
    """A provider gave no answer; the message is a sentence part without anything that the provider wrote."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail
        """The end of its standard error."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a provider answered."""

    key_type: CacheKeyType
    cache_duration: Duration | None
    """``None``: it leaves that to the configuration."""
    auth: Mapping[str, Credentials]
    """By the registry or repository they are for; empty asks for an anonymous pull."""


class _Auth(msgspec.Struct):
    username: str = ""
    password: str = ""


class _Response(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    cache_key_type: str = ""
    cache_duration: str | None = None
    auth: dict[str, _Auth | None] | None = None


def encode_request(api_version: str, image: str) -> bytes:
    """Return the request for credentials of *image*, a full repository name without tag and digest.

    It is one line and ends it, because providers exist that read a line.
    """
    return msgspec.json.encode({"kind": _REQUEST, "apiVersion": api_version, "image": image}) + b"\n"


def read_answer(finished: CommandResult, provider: str, api_version: str, limit_bytes: int) -> Answer:
    """Return what the *provider* answered.

    :raises ProviderFailure: it is no answer.
    """
    if finished.output is None:
        raise ProviderFailure(f"printed more than {limit_bytes >> 10} KiB and was killed")
    detail = finished.errors.decode(errors="replace").strip()
    if finished.code:
        raise ProviderFailure(_ending(finished.code), detail)
    if not finished.output.strip():
        raise ProviderFailure("answered nothing", detail)
    try:
        response = msgspec.json.decode(finished.output, type=_Response)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        # The library's message tells the place and the rule, never the text that stands there.
        raise ProviderFailure(f"answered something else than a {_RESPONSE} in JSON: {error}", detail) from None
    return _checked(response, provider, api_version)


def _checked(response: _Response, provider: str, api_version: str) -> Answer:
    if response.kind != _RESPONSE:
        raise ProviderFailure(f"answered with kind {_shown(response.kind)} instead of {_RESPONSE}")
    if response.api_version != api_version:
        raise ProviderFailure(f"answered in apiVersion {_shown(response.api_version)} and was asked in {api_version}")
    if response.cache_key_type not in set(CacheKeyType):
        known = ", ".join(CacheKeyType)
        raise ProviderFailure(f"answered with cacheKeyType {_shown(response.cache_key_type)}, which is none of {known}")
    try:
        duration = None if response.cache_duration is None else Duration.parse(response.cache_duration)
    except ValueError:
        raise ProviderFailure(f"answered with cacheDuration {_shown(response.cache_duration)}") from None
    auth = {
        location: Credentials(entry.username, entry.password, provider)
        for location, entry in (response.auth or {}).items()
        if entry is not None
    }
    return Answer(CacheKeyType(response.cache_key_type), duration, auth)


def _ending(code: int) -> str:
    if code > 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _shown(text: str | None) -> str:
    cut = text or ""
    return repr(cut if len(cut) <= _SHOWN else f"{cut[:_SHOWN]}…")
