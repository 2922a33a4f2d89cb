"""Records of image pulls: the credentials that images were pulled with. No I/O.

Format and merging are those of the kubelet (kinds ``ImagePullIntent`` and ``ImagePulledRecord``), so that a node keeps
its records when the agent replaces a kubelet, or the reverse.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import field

from nodeagent.base import identity
from nodeagent.base.structs import Struct
from nodeagent.contracts.runtime import CredentialOwner, Credentials, OwnerKind

INTENT_KIND, PULLED_KIND = "ImagePullIntent", "ImagePulledRecord"
_VERSION = "v1beta1"
_VERSIONS = ("v1alpha1", "v1beta1")

Coordinates = tuple[str, str, str]
"""Namespace, name and UID of an API object."""


class RecordError(ValueError):
    """A file is not a record; the message is a predicate."""


class PullCredentials(Struct, frozen=True):
    """Credentials that an image may be used with."""

    secrets: Mapping[Coordinates, str] = field(default_factory=dict)
    """Pull secrets with the SHA-256 digest of their credentials, in hexadecimal digits."""
    accounts: frozenset[Coordinates] = frozenset()
    """Service accounts whose token a credential provider received."""
    everyone: bool = False
    """True for an anonymous pull and for credentials of the node; then there is nothing else."""

    @classmethod
    def of(cls, credential: Credentials | None) -> PullCredentials:
        """Return the credentials to record for a pull with *credential*."""
        owner = credential.owner if credential is not None else None
        if owner is None:
            return cls(everyone=True)
        if owner.kind is OwnerKind.SECRET:
            return cls(secrets={coordinates(owner): owner.digest})
        return cls(accounts=frozenset((coordinates(owner),)))

    def merged(self, other: PullCredentials) -> PullCredentials:
        """Return these credentials with those of *other*, whose digests replace older ones."""
        if self.everyone or other.everyone:
            return PullCredentials(everyone=True)
        return PullCredentials({**self.secrets, **other.secrets}, self.accounts | other.accounts)


def coordinates(owner: CredentialOwner) -> Coordinates:
    """Return the coordinates of *owner* in a record."""
    return owner.namespace, owner.name, owner.uid


class PulledRecord(Struct, frozen=True):
    """Record of an image that was pulled."""

    ref: str
    """ID of the image."""
    updated_at: str
    """Time of the last change, in the format of the API."""
    credentials: Mapping[str, PullCredentials] = field(default_factory=dict)
    """Credentials by image name without tag and digest, as written in pods."""


def owners_of(credentials: Iterable[Credentials]) -> list[CredentialOwner]:
    """Return the owners of *credentials* that a record can contain: all secrets and the first service account."""
    owners = [credential.owner for credential in credentials if credential.owner is not None]
    accounts = [owner for owner in owners if owner.kind is OwnerKind.SERVICE_ACCOUNT]
    return [owner for owner in owners if owner.kind is OwnerKind.SECRET] + accounts[:1]


def matching_owner(recorded: PullCredentials, owners: Collection[CredentialOwner]) -> CredentialOwner | None:
    """Return the first of *owners* that *recorded* contains.

    A secret matches by its coordinates, because its credentials may have been renewed, or by the digest of its
    credentials, because tenants may have copies of a secret.
    """
    digests = set(recorded.secrets.values()) - {""}
    for owner in owners:
        if owner.kind is OwnerKind.SECRET:
            if coordinates(owner) in recorded.secrets or owner.digest in digests:
                return owner
        elif coordinates(owner) in recorded.accounts:
            return owner
    return None


# --- file format ----------------------------------------------------------------------------------------------


class _Secret(msgspec.Struct, rename="camel"):
    uid: str = ""
    namespace: str = ""
    name: str = ""
    credential_hash: str = ""


class _Account(msgspec.Struct):
    uid: str = ""
    namespace: str = ""
    name: str = ""


class _Credentials(msgspec.Struct, rename="camel", omit_defaults=True):
    kubernetes_secrets: list[_Secret] | None = None
    kubernetes_service_accounts: list[_Account] | None = None
    node_pods_accessible: bool = False


class _Record(msgspec.Struct, rename="camel"):
    kind: str
    api_version: str
    last_updated_time: str | None = None
    image_ref: str = ""
    image: str = ""
    credential_mapping: dict[str, _Credentials] | None = None


def encode_intent(image: str) -> bytes:
    """Return the file of a pull intent."""
    return _encoded(INTENT_KIND, {"image": image})


def decode_intent(content: bytes) -> str:
    """Return the image of a pull intent.

    :raises RecordError: *content* is not a pull intent.
    """
    return _decoded(content, INTENT_KIND).image


def encode_pulled(record: PulledRecord) -> bytes:
    """Return the file of a record."""
    fields: dict[str, Any] = {"lastUpdatedTime": record.updated_at, "imageRef": record.ref}
    if record.credentials:
        fields["credentialMapping"] = {name: _plain(found) for name, found in sorted(record.credentials.items())}
    return _encoded(PULLED_KIND, fields)


def decode_pulled(content: bytes) -> PulledRecord:
    """Return the record of a file.

    :raises RecordError: *content* is not a record.
    """
    plain = _decoded(content, PULLED_KIND)
    mapping = {
        name: PullCredentials(
            {(one.namespace, one.name, one.uid): one.credential_hash for one in found.kubernetes_secrets or ()},
            frozenset((one.namespace, one.name, one.uid) for one in found.kubernetes_service_accounts or ()),
            found.node_pods_accessible,
        )
        for name, found in (plain.credential_mapping or {}).items()
    }
    return PulledRecord(plain.image_ref, plain.last_updated_time or "", mapping)


def _plain(found: PullCredentials) -> _Credentials:
    secrets = [
        _Secret(uid, namespace, name, digest) for (namespace, name, uid), digest in sorted(found.secrets.items())
    ]
    accounts = [_Account(uid, namespace, name) for namespace, name, uid in sorted(found.accounts)]
    return _Credentials(secrets or None, accounts or None, found.everyone)


def _encoded(kind: str, fields: Mapping[str, Any]) -> bytes:
    version = f"{identity.current().kubelet_config_group}/{_VERSION}"
    return msgspec.json.encode({"kind": kind, "apiVersion": version, **fields}) + b"\n"


def _decoded(content: bytes, kind: str) -> _Record:
    try:
        record = msgspec.json.decode(content, type=_Record)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"is invalid: {error}") from None
    group = identity.current().kubelet_config_group
    if record.kind != kind or record.api_version not in [f"{group}/{version}" for version in _VERSIONS]:
        raise RecordError(f"has kind {record.kind!r} and apiVersion {record.api_version!r}")
    return record
