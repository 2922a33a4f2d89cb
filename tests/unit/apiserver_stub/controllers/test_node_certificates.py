"""Tests for the signer of node certificates: recognition of requests, and issued certificates."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from apiserver_stub.controllers.node_certificates import NotANodeCertificate, addresses_of, issue, read
from nodeagent.base.identity import Identity
from nodeagent.base.tls import generate_ca

CLIENT, SERVING = "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"
USAGES = {CLIENT: ["digital signature", "client auth"], SERVING: ["digital signature", "server auth"]}
NAMES = (x509.DNSName("node-1"),)
NOW = datetime(2024, 1, 2, 15, 4, 5, tzinfo=UTC)


def signing(
    signer: str = CLIENT,
    *,
    name: str = "system:node:node-1",
    group: str = "system:nodes",
    names: tuple[x509.GeneralName, ...] = (),
    usages: list[str] | None = None,
) -> Any:
    subject = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, group),
        x509.NameAttribute(NameOID.COMMON_NAME, name),
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    request = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    text = base64.b64encode(request.public_bytes(Encoding.PEM)).decode()
    return {"spec": {"signerName": signer, "request": text, "usages": usages or USAGES.get(signer, ["signing"])}}


def test_client_and_serving_requests_are_recognized() -> None:
    client, serving = read(signing(), Identity()), read(signing(SERVING, names=(*NAMES,)), Identity())
    assert client is not None
    assert serving is not None
    assert (client.node, client.serving, client.names) == ("node-1", False, frozenset())
    assert (serving.node, serving.serving, serving.names) == ("node-1", True, {"node-1"})


def test_other_signers_are_ignored() -> None:
    assert read(signing("example.com/own"), Identity()) is None


@pytest.mark.parametrize(
    ("requested", "why"),
    [
        ({"group": "system:masters"}, "organization"),
        ({"name": "admin"}, "common name"),
        ({"name": "system:node:"}, "common name"),
        ({"names": NAMES}, "subjectAltNames are not allowed"),
        ({"usages": ["digital signature", "client auth", "server auth"]}, "usages"),
        ({"usages": ["client auth"]}, "usages"),
        ({"signer": SERVING}, "no DNS or IP subjectAltName"),
        ({"signer": SERVING, "names": (x509.UniformResourceIdentifier("spiffe://x"),)}, "only DNS and IP"),
        ({"signer": SERVING, "names": (x509.RFC822Name("a@example.com"),)}, "only DNS and IP"),
    ],
)
def test_request_that_is_not_of_a_node_reports_the_reason(requested: dict[str, Any], why: str) -> None:
    with pytest.raises(NotANodeCertificate, match=why):
        read(signing(**requested), Identity())


def test_malformed_request_reports_the_reason() -> None:
    broken = signing()
    broken["spec"]["request"] = base64.b64encode(b"nonsense").decode()
    with pytest.raises(NotANodeCertificate, match="invalid request"):
        read(broken, Identity())


def test_key_encipherment_may_be_requested() -> None:
    assert read(signing(usages=[*USAGES[CLIENT], "key encipherment"]), Identity()) is not None


def test_certificate_contains_only_validated_attributes() -> None:
    requested = read(signing(SERVING, names=NAMES), Identity())
    assert requested is not None

    certificate = x509.load_pem_x509_certificate(issue(requested, generate_ca("ca"), NOW, timedelta(hours=10)))

    assert certificate.subject.rfc4514_string() == "CN=system:node:node-1,O=system:nodes"
    assert certificate.not_valid_before_utc == NOW - timedelta(minutes=5)
    assert certificate.not_valid_after_utc == NOW + timedelta(hours=10)
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [x509.ExtendedKeyUsageOID.SERVER_AUTH]
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_certificate_does_not_outlive_its_ca() -> None:
    requested, authority = read(signing(), Identity()), generate_ca("ca", days=1)
    assert requested is not None

    certificate = x509.load_pem_x509_certificate(issue(requested, authority, datetime.now(UTC), timedelta(days=300)))

    assert certificate.not_valid_after_utc == x509.load_pem_x509_certificate(authority.certificate).not_valid_after_utc


def test_addresses_are_compared_in_certificate_form() -> None:
    entries = [{"type": "InternalIP", "address": "2001:db8:0::1"}, {"type": "Hostname", "address": "node-1"}]
    assert addresses_of({"status": {"addresses": entries}}) == {"2001:db8::1", "node-1"}
    assert addresses_of(None) == set()
