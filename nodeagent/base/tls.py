"""TLS helpers of both binaries: generated certificates, private files, names of versions and cipher suites.

``cryptography`` is imported only when it is needed; of the shared packages, only this module imports it.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeagent.base.names import is_ip, subdomain_problems
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

CLOCK_SKEW = timedelta(hours=1)

MIN_VERSIONS = {
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}

CURVES = {23: "prime256v1", 24: "secp384r1", 25: "secp521r1", 29: "X25519"}
"""OpenSSL name of a curve by its TLS identifier, which is also Go's."""

SEVERAL_CURVES = hasattr(ssl.SSLContext, "set_groups")
"""True if Python's ssl module can restrict key exchanges to more than one curve."""

_LEGACY_SECURITY = "@SECLEVEL=0"
"""Security level of OpenSSL that permits TLS 1.0 and 1.1, whose signatures use SHA-1."""

TLS13_CIPHERS = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""Always enabled with TLS 1.3; listing them has no effect."""

PREFERRED_CIPHERS = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
}

INSECURE_CIPHERS = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": "ECDHE-ECDSA-RC4-SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": "ECDHE-RSA-DES-CBC3-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA": "ECDHE-RSA-RC4-SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_RC4_128_SHA": "RC4-SHA",
}


class TlsError(ValueError):
    """Invalid TLS version, cipher suite, certificate or key."""


class KeyPair(Struct, frozen=True):
    """Certificate (PEM, optionally followed by its chain) and private key (PEM)."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "KeyPair(certificate=..., key=***)"


def generate_ca(common_name: str, *, days: int = 3650) -> KeyPair:
    """Return a new CA certificate and key on P-256."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage(ca=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def issue(
    ca: KeyPair,
    common_name: str,
    *,
    organizations: Sequence[str] = (),
    names: Sequence[str] = (),
    server: bool = False,
    client: bool = False,
    days: int = 365,
) -> KeyPair:
    """Return a new certificate and key on P-256, signed by *ca*; *names* may be host names and IP addresses."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    certificate = certify(
        ca,
        key.public_key().public_bytes(*form),
        common_name,
        organizations=organizations,
        names=names,
        server=server,
        client=client,
        begin=now - CLOCK_SKEW,
        end=now + timedelta(days=days),
    )
    return KeyPair(certificate, _private_pem(key))


def certify(
    ca: KeyPair,
    public_key: bytes,
    common_name: str,
    *,
    organizations: Sequence[str] = (),
    names: Sequence[str] = (),
    server: bool = False,
    client: bool = False,
    begin: datetime,
    end: datetime,
) -> bytes:
    """Return a certificate (PEM) for *public_key* (PEM); it does not outlive *ca*.

    :raises TlsError: the key of *ca* is not an elliptic curve key, or *public_key* has an unsupported type.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.x509.oid import ExtendedKeyUsageOID

    issuer = x509.load_pem_x509_certificate(ca.certificate)
    issuer_key = serialization.load_pem_private_key(ca.key, None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise TlsError("the CA key is not an elliptic curve key")
    key = serialization.load_pem_public_key(public_key)
    if not isinstance(key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey):
        raise TlsError("unsupported type of public key")
    subject = [x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, name) for name in organizations]
    subject.append(x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name))
    usages = [ExtendedKeyUsageOID.SERVER_AUTH] * server + [ExtendedKeyUsageOID.CLIENT_AUTH] * client
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(subject))
        .issuer_name(issuer.subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(min(end, issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if names:
        general: list[x509.GeneralName] = []
        for name in dict.fromkeys(names):
            general.append(x509.IPAddress(ip_address(name)) if is_ip(name) else x509.DNSName(name))
        builder = builder.add_extension(x509.SubjectAlternativeName(general), critical=False)
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def names_of(certificate: bytes) -> list[str]:
    """Return the host names and addresses for which the first certificate of the PEM text is valid.

    :raises ValueError: the text is not a certificate.
    """
    from cryptography import x509

    try:
        parsed = x509.load_pem_x509_certificate(certificate)
        found = [str(item.value) for item in parsed.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)]
        names = [name for name in found if not subdomain_problems(name.lower().removeprefix("*."))]
        alternative = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return names
    except parse_errors() as error:
        raise ValueError(str(error)) from error
    names += alternative.get_values_for_type(x509.DNSName)
    names += [str(address) for address in alternative.get_values_for_type(x509.IPAddress)]
    return list(dict.fromkeys(names))


def valid_until(certificates: bytes) -> datetime:
    """Return the earliest expiry of *certificates* (PEM; surrounding text is ignored).

    :raises ValueError: there is none, or one cannot be parsed.
    """
    from cryptography import x509

    try:
        return min(each.not_valid_after_utc for each in x509.load_pem_x509_certificates(certificates))
    except parse_errors() as error:
        raise ValueError(str(error)) from error


def covers(certificate: bytes, names: Iterable[str], *, at: datetime | None = None) -> bool:
    """Return whether the first certificate of the PEM text is valid *at* that time (default: now) for all *names*."""
    from cryptography import x509

    time = at or datetime.now(UTC)
    try:
        parsed = x509.load_pem_x509_certificate(certificate)
        if not parsed.not_valid_before_utc <= time <= parsed.not_valid_after_utc:
            return False
        alternative = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return not list(names)
    except parse_errors():
        return False
    covered = {str(address) for address in alternative.get_values_for_type(x509.IPAddress)}
    covered.update(alternative.get_values_for_type(x509.DNSName))
    return covered.issuperset(names)


def parse_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """Return *others* and the errors of ``cryptography`` for malformed certificates and requests.

    Not all of them are ValueErrors.
    """
    from cryptography import x509

    return *others, ValueError, TypeError, x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType


def server_context(
    certificate_file: Path,
    key_file: Path,
    *,
    client_ca_file: Path | None = None,
    min_version: str = "",
    cipher_suites: Sequence[str] = (),
    curves: Sequence[int] = (),
) -> ssl.SSLContext:
    """Return a server context; with *client_ca_file*, client certificates are requested but not required.

    :param curves: the curves of key exchanges, keys of :data:`CURVES`; by default those of OpenSSL. More than one
     requires :data:`SEVERAL_CURVES`.
    :raises TlsError: an unknown version or cipher suite, or unusable files.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = parse_min_version(min_version)
    ciphers = openssl_ciphers(cipher_suites)
    if context.minimum_version < ssl.TLSVersion.TLSv1_2:
        ciphers = f"{ciphers or 'DEFAULT'}:{_LEGACY_SECURITY}"
    if curves:
        limit_curves(context, curves)
    if ciphers:
        try:
            context.set_ciphers(ciphers)
        except ssl.SSLError as error:
            raise TlsError(f"no cipher suite is available on this system: {', '.join(cipher_suites)}") from error
    try:
        context.load_cert_chain(certificate_file, key_file)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(f"certificate {certificate_file} with key {key_file}: {error}") from error
    if client_ca_file is not None:
        try:
            context.load_verify_locations(client_ca_file)
        except (OSError, ssl.SSLError) as error:
            raise TlsError(f"client CA {client_ca_file}: {error}") from error
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def limit_curves(context: Any, curves: Sequence[int]) -> None:
    """Allow only *curves* in the key exchanges of *context*; several only if :data:`SEVERAL_CURVES`.

    :raises ssl.SSLError: Python's ssl module cannot set the curve, see :func:`can_limit_to`.
    """
    names = list(dict.fromkeys(CURVES[curve] for curve in curves))
    if SEVERAL_CURVES:
        context.set_groups(":".join(names))
    else:
        context.set_ecdh_curve(*names)


def can_limit_to(curve: int) -> bool:
    """Return whether Python's ssl module can restrict key exchanges to *curve*; that of Debian 12 cannot to X25519."""
    try:
        limit_curves(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), [curve])
    except ssl.SSLError:
        return False
    return True


def parse_min_version(name: str) -> ssl.TLSVersion:
    """Return the TLS version *name*; empty means 1.2.

    :raises TlsError: the name is unknown.
    """
    try:
        return MIN_VERSIONS[name or "VersionTLS12"]
    except KeyError:
        raise TlsError(f'unknown tls version "{name}"') from None


def openssl_ciphers(names: Sequence[str]) -> str:
    """Return the OpenSSL cipher list of *names*, without those of TLS 1.3, which are always enabled.

    :raises TlsError: a name is unknown.
    """
    covered = PREFERRED_CIPHERS | INSECURE_CIPHERS | dict.fromkeys(TLS13_CIPHERS, "")
    if unknown := next((name for name in names if name not in covered), None):
        raise TlsError(f"Cipher suite {unknown} not supported or doesn't exist")
    return ":".join(dict.fromkeys(covered[name] for name in names if covered[name]))


def insecure(names: Sequence[str]) -> list[str]:
    """Return the insecure cipher suites of *names*; they are accepted with a warning."""
    return [name for name in names if name in INSECURE_CIPHERS]


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    from cryptography.hazmat.primitives import serialization

    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _private_pem(key))


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
