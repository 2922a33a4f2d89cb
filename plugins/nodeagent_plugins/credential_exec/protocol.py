"""Exec protocol: a JSON request on standard input, a JSON response on standard output. No I/O.

Versions v1alpha1, v1beta1 and v1 have the same fields, except those of service accounts, which only v1 has; the
response must have the version of the request.
spec: credential.apiVersion, credential.defaultCacheDuration
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from nodeagent.base.aio.command import CommandResult
from nodeagent.base.duration import Duration
from nodeagent.base.structs import Struct
from nodeagent.contracts.runtime import Credentials

_REQUEST, _RESPONSE = "CredentialProviderRequest", "CredentialProviderResponse"
_SHOWN = 60


class CacheKeyType(StrEnum):
    """Images that a response applies to."""

    IMAGE = "Image"
    """The repository."""
    REGISTRY = "Registry"
    """All repositories of the registry host and port."""
    GLOBAL = "Global"
    """All images of the provider."""


class ProviderFailure(Exception):
    """A provider failed; the message is a sentence part and quotes no output of the provider."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail
        """The end of its standard error output."""


class ProviderResponse(Struct, frozen=True):
    """Response of a provider."""

    key_type: CacheKeyType
    cache_duration: Duration | None
    """``None`` selects the configured default."""
    auth: Mapping[str, Credentials]
    """Credentials by registry or repository; empty for an anonymous pull."""


class _Auth(msgspec.Struct):
    username: str = ""
    password: str = ""


class _Response(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    cache_key_type: str = ""
    cache_duration: str | None = None
    auth: dict[str, _Auth | None] | None = None


def encode_request(
    api_version: str, image: str, *, token: str = "", annotations: Mapping[str, str] | None = None
) -> bytes:
    """Return the request for *image*, a full repository name without tag and digest.

    The request is a single line with a line break, because some providers read a line.

    :param token: the token of the pod's service account; empty if the request has none.
    :param annotations: the annotations of the pod's service account that the configuration names.
    """
    request: dict[str, object] = {"kind": _REQUEST, "apiVersion": api_version, "image": image}
    if token:
        request["serviceAccountToken"] = token
    if annotations:
        request["serviceAccountAnnotations"] = annotations
    return msgspec.json.encode(request) + b"\n"


def read_response(finished: CommandResult, provider: str, api_version: str, limit_bytes: int) -> ProviderResponse:
    """Parse the output of *provider*.

    :raises ProviderFailure: the process failed or its output is invalid.
    """
    if finished.output is None:
        raise ProviderFailure(f"printed more than {limit_bytes >> 10} KiB and was killed")
    detail = finished.errors.decode(errors="replace").strip()
    if finished.code:
        raise ProviderFailure(_ending(finished.code), detail)
    if not finished.output.strip():
        raise ProviderFailure("wrote no output", detail)
    try:
        response = msgspec.json.decode(finished.output, type=_Response)
    except (ValueError, RecursionError) as error:
        # The library's message contains the position and the rule, but not the value.
        raise ProviderFailure(f"wrote an invalid {_RESPONSE}: {error}", detail) from None
    return _checked(response, provider, api_version)


def _checked(response: _Response, provider: str, api_version: str) -> ProviderResponse:
    if response.kind != _RESPONSE:
        raise ProviderFailure(f"returned kind {_shown(response.kind)} instead of {_RESPONSE}")
    if response.api_version != api_version:
        raise ProviderFailure(f"returned apiVersion {_shown(response.api_version)} instead of {api_version}")
    if response.cache_key_type not in set(CacheKeyType):
        known = ", ".join(CacheKeyType)
        raise ProviderFailure(f"returned cacheKeyType {_shown(response.cache_key_type)}, must be one of {known}")
    try:
        duration = None if response.cache_duration is None else Duration.parse(response.cache_duration)
    except ValueError:
        raise ProviderFailure(f"returned an invalid cacheDuration: {_shown(response.cache_duration)}") from None
    auth = {
        location: Credentials(entry.username, entry.password, provider)
        for location, entry in (response.auth or {}).items()
        if entry is not None
    }
    return ProviderResponse(CacheKeyType(response.cache_key_type), duration, auth)


def _ending(code: int) -> str:
    if code > 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _shown(text: str | None) -> str:
    cut = text or ""
    return repr(cut if len(cut) <= _SHOWN else f"{cut[:_SHOWN]}…")
