"""Required and current certificates, and the helper process that creates and reads them."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nodeagent.base.gobase64 import encode_url
from nodeagent.base.secret import Secret
from nodeagent.base.structs import Struct
from nodeagent.errors import NodeAgentError

_HELPER = Path(__file__).with_name("helper_process.py")
_HELPER_SECONDS = 60.0


class CertificateError(NodeAgentError):
    """A certificate cannot be created, read or obtained."""

    reason = "CertificateError"
    transient = True


class CertificateSpec(Struct, frozen=True, kw_only=True):
    """Content of a certificate to be issued."""

    signer: str
    common_name: str
    organizations: tuple[str, ...]
    usages: tuple[str, ...]
    dns_names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


class Held(Struct, frozen=True, kw_only=True):
    """Content of an issued certificate."""

    not_before: datetime
    not_after: datetime
    common_name: str
    organizations: tuple[str, ...]
    dns_names: tuple[str, ...]
    addresses: tuple[str, ...]
    usages: tuple[str, ...]

    def satisfies(self, desired: CertificateSpec) -> bool:
        """Return whether the certificate covers *desired*; it may cover more."""
        extended = {usage for usage in desired.usages if usage.endswith(" auth")}
        return (
            self.common_name == desired.common_name
            and set(self.organizations) >= set(desired.organizations)
            and set(self.dns_names) >= set(desired.dns_names)
            and set(self.addresses) >= set(desired.addresses)
            and set(self.usages) >= extended
        )

    def valid(self, at: datetime) -> bool:
        return self.not_before <= at < self.not_after


class Request(Struct, frozen=True):
    """Certificate signing request with its key."""

    key: Secret[str]
    text: str
    name: str
    """Name of the request, derived from its content and key."""


def make_request(desired: CertificateSpec, key: str = "") -> Request:
    """Create the request for *desired*, with a new key unless *key* is a valid one (PEM). Blocks briefly.

    :raises CertificateError: the request cannot be created.
    """
    subject = {
        "common_name": desired.common_name,
        "organizations": desired.organizations,
        "dns_names": desired.dns_names,
        "addresses": desired.addresses,
    }
    response = _run_helper(action="make_request", key=key, **subject)
    digest = hashlib.new("sha512_256")
    for part in (base64.b64decode(response["public_key"]), json.dumps(asdict(desired), sort_keys=True).encode()):
        digest.update(base64.urlsafe_b64encode(part) + b"|")
    name = f"node-csr-{encode_url(digest.digest())}"
    return Request(Secret(response["key"]), response["request"], name)


def describe(pem: bytes) -> Held | None:
    """Return the content of the certificate *pem*, ``None`` if it is invalid. Blocks briefly.

    :raises CertificateError: the helper process failed.
    """
    response = _run_helper(action="describe", pem=pem.decode(errors="replace"))
    if not response:
        return None
    return Held(
        not_before=datetime.fromtimestamp(response["not_before"], UTC),
        not_after=datetime.fromtimestamp(response["not_after"], UTC),
        common_name=response["common_name"],
        organizations=tuple(response["organizations"]),
        dns_names=tuple(response["dns_names"]),
        addresses=tuple(response["addresses"]),
        usages=tuple(response["usages"]),
    )


def _run_helper(**request: Any) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(_HELPER)],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=_HELPER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CertificateError(f"certificate helper failed: {type(error).__name__}") from None
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or ["unknown"]
        raise CertificateError(f"certificate helper failed: {reason[0]}")
    response: dict[str, Any] = json.loads(done.stdout)
    return response
