"""Tests for client certificates: verification by the CA bundle, and identities from proxy headers."""

from __future__ import annotations

import ssl
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from apiserver_stub.apimachinery.request import User
from apiserver_stub.authn.authenticators import Rejected
from apiserver_stub.authn.certificates import CaBundle, ClientCertificates, PeerCertificates
from apiserver_stub.authn.request_header import RequestHeaders
from nodeagent.base.tls import KeyPair, TlsError, generate_ca, issue

CA, OTHER = generate_ca("ca"), generate_ca("ca")
PREFIX = "X-Remote-Extra-"


def presented(pair: KeyPair) -> PeerCertificates:
    return PeerCertificates((ssl.PEM_cert_to_DER_cert(pair.certificate.decode()),), {})


def client(ca: KeyPair = CA, name: str = "carol", **options: Any) -> PeerCertificates:
    return presented(issue(ca, name, **{"organizations": ["dev", "ops"], "client": True} | options))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "ca.crt"
    path.write_bytes(CA.certificate)
    return path


@pytest.fixture
def certificates(bundle: Path) -> ClientCertificates:
    return ClientCertificates(CaBundle(bundle, "client-ca-bundle"))


@pytest.mark.row("opt.client-ca-file")
def test_verified_certificate_authenticates_its_subject(certificates: ClientCertificates) -> None:
    assert certificates.user_of({}, client()) == User("carol", groups=("dev", "ops"))


@pytest.mark.parametrize(
    "wrong",
    [
        client(OTHER),
        client(client=False, server=True),
        presented(generate_ca("self")),
        PeerCertificates((b"junk",), {}),
    ],
    ids=["foreign", "for servers", "self-signed", "junk"],
)
def test_unverified_certificate_is_rejected(certificates: ClientCertificates, wrong: PeerCertificates) -> None:
    with pytest.raises(Rejected, match="x509"):
        certificates.user_of({}, wrong)


def test_leaf_certificate_cannot_issue_certificates(certificates: ClientCertificates) -> None:
    carol = issue(CA, "carol", client=True)
    forged = issue(carol, "admin", client=True)
    chain = tuple(ssl.PEM_cert_to_DER_cert(pair.certificate.decode()) for pair in (forged, carol))

    with pytest.raises(Rejected):
        certificates.user_of({}, PeerCertificates(chain, {}))


def test_expired_certificate_is_rejected_on_open_connections(bundle: Path) -> None:
    now = [time.time()]
    certificates = ClientCertificates(CaBundle(bundle, "client-ca-bundle", now=lambda: now[0]))
    connection = client(days=1)
    assert certificates.user_of({}, connection)

    now[0] += 2 * 24 * 3600

    for late in (connection, client(days=1)):
        with pytest.raises(Rejected):
            certificates.user_of({}, late)


def test_certificate_expiration_is_observed_per_request(bundle: Path) -> None:
    now = [time.time()]
    certificates = ClientCertificates(CaBundle(bundle, "client-ca-bundle", now=lambda: now[0]))
    connection = client(days=3)

    for passed in (0, 1.5 * 86400, 0.75 * 86400):
        now[0] += passed
        certificates.user_of({}, connection)

    left = certificates.seconds_left
    found = {bound: count for bound, count in zip(left.bounds, left.counts, strict=False) if count}
    assert found == {4 * 86400: 1, 2 * 86400: 1, 86400: 1}


def test_reloaded_bundle_applies_to_open_connections(bundle: Path, certificates: ClientCertificates) -> None:
    old, new = client(), client(OTHER)
    assert certificates.user_of({}, old)

    bundle.write_bytes(b"nonsense")
    assert not certificates.authorities.reload()
    assert certificates.user_of({}, old)
    bundle.write_bytes(OTHER.certificate + b"\n")
    assert certificates.authorities.reload()

    assert certificates.user_of({}, new)
    with pytest.raises(Rejected):
        certificates.user_of({}, old)


def test_empty_bundle_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")

    with pytest.raises(TlsError, match=r'"client-ca-bundle::.*/f": data does not contain any valid'):
        CaBundle(tmp_path / "f", "client-ca-bundle")
    with pytest.raises(TlsError, match="No such file"):
        CaBundle(tmp_path / "nope", "client-ca-bundle")


# UIDs.


def with_uids(*uids: str) -> PeerCertificates:
    """Return a certificate of carol with *uids* in its subject."""
    names = [(NameOID.COMMON_NAME, "carol"), *((x509.ObjectIdentifier("1.3.6.1.4.1.57683.2"), uid) for uid in uids)]
    now = datetime.now(UTC)
    authority = x509.load_pem_x509_certificate(CA.certificate)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(*name) for name in names]))
        .issuer_name(authority.subject)
        .public_key(ec.generate_private_key(ec.SECP256R1()).public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(serialization.load_pem_private_key(CA.key, None), hashes.SHA256())  # type: ignore[arg-type]
    )
    return PeerCertificates((certificate.public_bytes(serialization.Encoding.DER),), {})


def test_attribute_of_the_subject_is_the_uid(bundle: Path, certificates: ClientCertificates) -> None:
    reading = ClientCertificates(CaBundle(bundle, "client-ca-bundle"), reads_uids=True)

    assert reading.user_of({}, with_uids("u1")) == User("carol", "u1")
    assert reading.user_of({}, with_uids()) == User("carol")
    assert certificates.user_of({}, with_uids("u1")) == User("carol")
    assert certificates.user_of({}, with_uids("u1", "u2")) == User("carol")
    with pytest.raises(Rejected, match="found multiple"):
        reading.user_of({}, with_uids("u1", "u2"))


# Request headers of a proxy.


def proxies(bundle: Path, *names: str) -> RequestHeaders:
    return RequestHeaders(
        CaBundle(bundle, "request-header"),
        allowed=names,
        users=("X-First", "X-Remote-User"),
        groups=("X-Remote-Group",),
        uids=("X-Remote-Uid", "X-Uid"),
        extra=(PREFIX,),
    )


@pytest.mark.row(
    "opt.requestheader-client-ca-file",
    "opt.requestheader-username-headers",
    "opt.requestheader-group-headers",
    "opt.requestheader-extra-headers-prefix",
)
def test_proxy_headers_authenticate_the_user(bundle: Path) -> None:
    headers = {
        "X-First": "",
        "X-Remote-User": "dave",
        "X-Remote-Group": "dev",
        "X-Uid": "u1",
        f"{PREFIX}Foo-Bar": "v",
        f"{PREFIX}Acme.io%2fTeam": "w",
    }

    user = proxies(bundle).user_of(headers, client(name="proxy"))

    assert user == User("dave", "u1", ("dev",), extra={"foo-bar": ("v",), "acme.io/team": ("w",)})
    assert proxies(bundle).user_of({"X-First": "erin", "X-Remote-User": "dave"}, client()) == User("erin")
    assert proxies(bundle).user_of({"X-Other": "dave"}, client(name="proxy")) is None
    with pytest.raises(Rejected):
        proxies(bundle).user_of(headers, client(OTHER, name="proxy"))


@pytest.mark.row("opt.requestheader-allowed-names")
def test_proxy_must_have_an_allowed_name(bundle: Path) -> None:
    headers = {"X-Remote-User": "dave"}

    assert proxies(bundle, "proxy", "front").user_of(headers, client(name="front"))
    with pytest.raises(Rejected, match="cn=carol is not in the allowed list"):
        proxies(bundle, "proxy").user_of(headers, client(name="carol"))
