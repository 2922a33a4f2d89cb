"""What is asked for, what is held, and the program that makes and reads it."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nodeagent.base.secret import Secret
from nodeagent.errors import NodeAgentError

_PROGRAM = Path(__file__).with_name("program.py")
_PROGRAM_SECONDS = 60.0


class CertificateError(NodeAgentError):
    """A certificate cannot be made, read or had; the text says why."""

    reason = "CertificateError"
    transient = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A certificate as it is to be issued."""

    signer: str
    common_name: str
    organizations: tuple[str, ...]
    usages: tuple[str, ...]
    dns_names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a certificate says."""

    not_before: datetime
    not_after: datetime
    common_name: str
    organizations: tuple[str, ...]
    dns_names: tuple[str, ...]
    addresses: tuple[str, ...]
    usages: tuple[str, ...]

    def satisfies(self, wanted: Wanted) -> bool:
        """Return whether it is for whom and for what is *wanted*; it may be for more."""
        extended = {usage for usage in wanted.usages if usage.endswith(" auth")}
        return (
            self.common_name == wanted.common_name
            and set(self.organizations) >= set(wanted.organizations)
            and set(self.dns_names) >= set(wanted.dns_names)
            and set(self.addresses) >= set(wanted.addresses)
            and set(self.usages) >= extended
        )

    def valid(self, at: datetime) -> bool:
        return self.not_before <= at < self.not_after


@dataclass(frozen=True, slots=True)
class Request:
    """A request with its key."""

    key: Secret[str]
    text: str
    name: str
    """By which the same request of the same key is found again."""


def make_request(wanted: Wanted, key: str = "") -> Request:
    """Make the request for what is *wanted*, with a new key unless one is given (PEM). Blocks for a moment.

    :raises CertificateError: it cannot be made.
    """
    subject = {
        "common_name": wanted.common_name,
        "organizations": wanted.organizations,
        "dns_names": wanted.dns_names,
        "addresses": wanted.addresses,
    }
    answer = _ask(action="make_request", key=key, **subject)
    digest = hashlib.new("sha512_256")
    for part in (base64.b64decode(answer["public_key"]), json.dumps(asdict(wanted), sort_keys=True).encode()):
        digest.update(base64.urlsafe_b64encode(part) + b"|")
    name = f"node-csr-{base64.urlsafe_b64encode(digest.digest()).decode().rstrip('=')}"
    return Request(Secret(answer["key"]), answer["request"], name)


def describe(pem: bytes) -> Held | None:
    """Return what the pair *pem* says, ``None`` when it is none. Blocks for a moment.

    :raises CertificateError: nobody could read it.
    """
    answer = _ask(action="describe", pem=pem.decode(errors="replace"))
    if not answer:
        return None
    return Held(
        not_before=datetime.fromtimestamp(answer["not_before"], UTC),
        not_after=datetime.fromtimestamp(answer["not_after"], UTC),
        common_name=answer["common_name"],
        organizations=tuple(answer["organizations"]),
        dns_names=tuple(answer["dns_names"]),
        addresses=tuple(answer["addresses"]),
        usages=tuple(answer["usages"]),
    )


def _ask(**question: Any) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(_PROGRAM)],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            timeout=_PROGRAM_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CertificateError(f"certificates cannot be read or made: {type(error).__name__}") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or ["unknown"]
        raise CertificateError(f"certificates cannot be read or made: {said[0]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
