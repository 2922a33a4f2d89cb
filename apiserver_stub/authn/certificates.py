"""Client certificate authentication (spec: opt.client-ca-file): CN is the user name, each O a group.

With the feature gate ``AllowParsingUserUIDFromCertAuth``, the attribute ``1.3.6.1.4.1.57683.2`` is the UID.

The TLS handshake rejects certificates that no CA in any bundle issued. Each authenticator verifies them again, with its
own bundle, so that a changed bundle applies to open connections too. A chain is verified once per connection and
version of the bundle.
"""

from __future__ import annotations

import ssl
import time
import weakref
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery.request import User
from apiserver_stub.authn.authenticators import Rejected
from apiserver_stub.transport.reloading_files import ReloadingFiles
from nodeagent.base.metrics import Buckets
from nodeagent.base.structs import MutableStruct, Struct
from nodeagent.base.tls import TlsError, parse_errors

if TYPE_CHECKING:
    from cryptography import x509

_MAX_CHAIN = 8
_UID_ATTRIBUTE = "1.3.6.1.4.1.57683.2"
_HOURS, _DAYS = (0, 0.5, 1, 2, 6, 12), (1, 2, 4, 7, 30, 90, 180, 360)
_SECONDS_LEFT = (*(3600 * hours for hours in _HOURS), *(86_400 * days for days in _DAYS))


class PeerCertificates(MutableStruct, eq=False):
    """Certificates of one connection (DER, the client's first), and the results of their verification."""

    chain: tuple[bytes, ...]
    results: dict[CaBundle, tuple[int, Subject | str]]


class Subject(Struct, frozen=True):
    """Subject of a verified certificate, and its expiration (seconds since the epoch)."""

    common_name: str
    organizations: tuple[str, ...]
    uids: tuple[str, ...]
    expires_at: float


class CaBundle(ReloadingFiles):
    """CA bundle in the file *path*, reloaded when the file changes."""

    reloaded = "Loaded a new CA Bundle and Verifier"

    def __init__(self, path: Path, label: str, *, now: Callable[[], float] = time.time) -> None:
        """Load the bundle.

        :param label: name of the bundle in messages.
        :raises TlsError: the file cannot be read or contains no usable certificate.
        """
        self._path, self._name, self.now = path, f"{label}::{path}", now
        super().__init__("CA bundle", [path])
        self._generation = 0
        self._store, self.pem = self._load()

    @property
    def generation(self) -> int:
        """Version of the bundle, incremented at each reload."""
        return self._generation

    def subject_of(self, presented: PeerCertificates) -> Subject:
        """Return the subject of the client certificate.

        :raises Rejected: no CA in the bundle issued the certificate, it is not currently valid, or not for clients.
        """
        cached = presented.results.get(self)
        if cached is None or cached[0] != self._generation:
            cached = presented.results[self] = (self._generation, self._verify(presented))
        result = cached[1]
        if isinstance(result, str):
            raise Rejected(result)
        if result.expires_at < self.now():
            raise Rejected("x509: certificate has expired or is not yet valid")
        return result

    def _apply(self) -> None:
        self._store, self.pem = self._load()
        self._generation += 1

    def _load(self) -> tuple[Any, str]:
        from cryptography import x509
        from cryptography.x509 import verification

        try:
            data = self._path.read_bytes()
            certificates = x509.load_pem_x509_certificates(data)
            return verification.Store(certificates), data.decode(errors="replace")
        except OSError as error:
            raise TlsError(f'error loading CA bundle for "{self._name}": {error}') from error
        except parse_errors():
            rule = "data does not contain any valid RSA or ECDSA certificates"
            raise TlsError(f'error loading CA bundle for "{self._name}": {rule}') from None

    def _verify(self, presented: PeerCertificates) -> Subject | str:
        from cryptography import x509
        from cryptography.x509 import verification

        try:
            leaf, *others = (x509.load_der_x509_certificate(der) for der in presented.chain)
            verifier = (
                verification.PolicyBuilder()
                .store(self._store)
                .time(datetime.fromtimestamp(self.now(), UTC))
                .max_chain_depth(_MAX_CHAIN)
                .extension_policies(ca_policy=_ca_policy(), ee_policy=verification.ExtensionPolicy.permit_all())
                .build_client_verifier()
            )
            verified = verifier.verify(leaf, others)
            for certificate in verified.chain[:-1] if len(verified.chain) > 1 else verified.chain:
                _check_client_usage(certificate)
        except parse_errors(verification.VerificationError) as error:
            return f"x509: {str(error).splitlines()[0]}"
        names = leaf.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        groups = leaf.subject.get_attributes_for_oid(x509.NameOID.ORGANIZATION_NAME)
        uids = leaf.subject.get_attributes_for_oid(x509.ObjectIdentifier(_UID_ATTRIBUTE))
        return Subject(
            str(names[-1].value) if names else "",
            tuple(str(group.value) for group in groups),
            tuple(str(uid.value) for uid in uids),
            min(certificate.not_valid_after_utc.timestamp() for certificate in verified.chain),
        )


class ClientCertificates:
    """Authenticator for client certificates that a CA in the bundle issued.

    :param reads_uids: whether certificates contain the UIDs of users.
    """

    def __init__(self, authorities: CaBundle, *, reads_uids: bool = False) -> None:
        self.authorities, self._reads_uids = authorities, reads_uids
        self.seconds_left = Buckets(_SECONDS_LEFT)
        """Remaining lifetimes in seconds of the verified certificates, observed with every request."""

    def user_of(self, headers: Mapping[str, str], presented: PeerCertificates) -> User | None:
        """Return the user of the client certificate, ``None`` if it has no common name.

        :raises Rejected: the certificate is invalid.
        """
        subject = self.authorities.subject_of(presented)
        self.seconds_left.observe(subject.expires_at - self.authorities.now())
        if not subject.common_name:
            return None
        uid = _uid_of(subject) if self._reads_uids else ""
        return User(subject.common_name, uid, subject.organizations)


def _uid_of(subject: Subject) -> str:
    """Return the UID in *subject*, empty if it has none.

    :raises Rejected: it has several, or an empty one.
    """
    if len(subject.uids) > 1:
        raise Rejected("unable to parse UID from certificate: expected 1 UID, but found multiple")
    if "" in subject.uids:
        raise Rejected("unable to parse UID from certificate: UID cannot be an empty string")
    return "".join(subject.uids)


_presented: weakref.WeakKeyDictionary[ssl.SSLObject, PeerCertificates | None] = weakref.WeakKeyDictionary()


def presented_by(connection: ssl.SSLObject | None) -> PeerCertificates | None:
    """Return the certificates that the client of a TLS connection presented, ``None`` without any."""
    if connection is None:
        return None
    try:
        return _presented[connection]
    except KeyError:
        own = connection.getpeercert(binary_form=True)
        found = _presented[connection] = PeerCertificates(_chain_of(connection, own), {}) if own else None
        return found


def _chain_of(connection: ssl.SSLObject, own: bytes) -> tuple[bytes, ...]:
    """Return the certificates that the client sent; before Python 3.13, only its own is available."""
    chain = getattr(connection, "get_unverified_chain", tuple)
    return tuple(chain()) or (own,)


def _ca_policy() -> Any:
    from cryptography import x509
    from cryptography.x509 import verification

    def require_ca(policy: Any, certificate: x509.Certificate, found: x509.BasicConstraints) -> None:
        if not found.ca:
            raise ValueError("certificate is not authorized to sign other certificates")

    def require_cert_sign(policy: Any, certificate: x509.Certificate, found: x509.KeyUsage | None) -> None:
        if found is not None and not found.key_cert_sign:
            raise ValueError("certificate is not authorized to sign other certificates")

    agnostic = verification.Criticality.AGNOSTIC
    return (
        verification.ExtensionPolicy.permit_all()
        .require_present(x509.BasicConstraints, agnostic, require_ca)
        .may_be_present(x509.KeyUsage, agnostic, require_cert_sign)
    )


def _check_client_usage(certificate: x509.Certificate) -> None:
    """Check that the extended key usages of a certificate, if any, include client authentication.

    :raises ValueError: they do not.
    """
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    if not {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}.intersection(usages):
        raise ValueError("certificate specifies an incompatible key usage")
