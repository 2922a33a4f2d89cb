"""Tests for the signer of node certificates: recognition and approval of requests, and issued certificates."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.controllers.node_certificates import (
    NodeCertificates,
    NotANodeCertificate,
    addresses_of,
    issue,
    read,
)
from nodeagent.base.identity import Identity
from nodeagent.base.tls import generate_ca
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, rest, running, store

__all__ = ["store"]

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


REQUESTS, NODES = "certificates.k8s.io/certificatesigningrequests", "core/nodes"
NODE_USER = {"username": "system:node:node-1", "groups": ["system:nodes"]}
AUTHORITY = generate_ca("ca")


class Signer:
    """A store with the running controller; users are authorized for the *permitted* subresources."""

    def __init__(self, store: MeteredStore, clock: FakeClock) -> None:
        self.store, self.clock = store, clock
        self.permitted: set[str] = set()
        self.users: list[User] = []

    async def authorize(self, user: User, info: RequestInfo) -> Any:
        self.users.append(user)
        return SimpleNamespace(allowed=info.subresource in self.permitted)

    def controller(self, *, signs_clients: bool = True) -> NodeCertificates:
        authorizer: Any = SimpleNamespace(authorize=self.authorize)
        day = timedelta(days=1)
        return NodeCertificates(
            self.store,  # type: ignore[arg-type]
            Identity(),
            authorizer,
            AUTHORITY,
            day,
            signs_clients=signs_clients,
            clock=self.clock,
        )

    def request(
        self,
        signer: str = CLIENT,
        *,
        age: float = 0,
        conditions: Sequence[str] = (),
        spec: Any = None,
        **requested: Any,
    ) -> None:
        obj = signing(signer, **requested)
        created = objects.format_time(self.clock.wall() - timedelta(seconds=age))
        found = [{"type": kind, "status": "True"} for kind in conditions]
        self.store.put(
            REQUESTS,
            {
                "metadata": {"name": "r", "uid": "r", "creationTimestamp": created},
                "spec": {**obj["spec"], **NODE_USER, **(spec or {})},
                **({"status": {"conditions": found}} if found else {}),
            },
        )

    def node(self, *addresses: str, **status: Any) -> None:
        entries = [{"type": "InternalIP", "address": address} for address in addresses]
        self.store.put(NODES, {"metadata": {"name": "node-1"}, "status": {"addresses": entries, **status}})

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        await rest(self.store)

    @property
    def status(self) -> Any:
        return self.store.read(REQUESTS, "r").get("status") or {}

    @property
    def certificate(self) -> x509.Certificate | None:
        data = self.status.get("certificate")
        return x509.load_pem_x509_certificate(base64.b64decode(data)) if data else None


@pytest.fixture
def signer(store: MeteredStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Signer:
    async def call(function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", call)
    return Signer(store, clock)


@pytest.mark.parametrize(
    ("user", "permitted", "message"),
    [
        ("system:node:node-1", "selfnodeclient", "Auto approving self kubelet client certificate"),
        ("system:node:node-1", "nodeclient", "Auto approving kubelet client certificate"),
        ("system:bootstrap:x", "nodeclient", "Auto approving kubelet client certificate"),
        ("system:bootstrap:x", "selfnodeclient", ""),
    ],
)
async def test_client_request_is_approved_if_its_user_is_authorized(
    signer: Signer, user: str, permitted: str, message: str
) -> None:
    signer.permitted = {permitted}
    signer.request(spec={"username": user, "uid": "u", "groups": ["g"], "extra": {"k": ["v"]}})
    async with running(signer.store, signer.controller().run()):
        await rest(signer.store)

    assert signer.users[0] == User(user, "u", ("g",), {"k": ("v",)})
    assert (signer.certificate is not None) == bool(message)
    if message:
        (condition,) = signer.status["conditions"]
        assert (condition["type"], condition["reason"]) == ("Approved", "AutoApproved")
        assert condition["message"] == f"{message} after SubjectAccessReview."


async def test_node_renews_its_own_client_certificate_without_permissions(signer: Signer) -> None:
    signer.request(spec={"username": "system:node:node-1", "groups": ["system:nodes", "system:authenticated"]})
    async with running(signer.store, signer.controller().run()):
        await rest(signer.store)
    assert signer.certificate is not None
    (condition,) = signer.status["conditions"]
    assert condition["message"] == "Auto approving renewal of the kubelet client certificate by the node itself."


async def test_node_needs_permission_for_the_client_certificate_of_another_node(signer: Signer) -> None:
    signer.request(spec={"username": "system:node:node-2", "groups": ["system:nodes", "system:authenticated"]})
    async with running(signer.store, signer.controller().run()):
        await rest(signer.store)
    assert signer.certificate is None


async def test_user_without_groups_is_authorized(signer: Signer) -> None:
    signer.permitted = {"nodeclient"}
    signer.request(spec={"username": "x", "groups": None, "extra": None})
    async with running(signer.store, signer.controller().run()):
        await rest(signer.store)
    assert signer.users == [User("x", "", (), {})]
    assert signer.certificate is not None


@pytest.mark.parametrize("conditions", [["Approved"], ["Other", "Approved"]])
async def test_approved_request_is_signed_without_another_decision(signer: Signer, conditions: list[str]) -> None:
    signer.request(conditions=conditions)
    async with running(signer.store, signer.controller().run()):
        await rest(signer.store)
    assert signer.certificate is not None
    assert [item["type"] for item in signer.status["conditions"]] == conditions
    assert signer.users == []


async def test_conditions_of_others_remain_after_the_approval(signer: Signer) -> None:
    signer.permitted = {"nodeclient"}
    signer.request(conditions=["Other"])
    async with running(signer.store, signer.controller().run()):
        await rest(signer.store)
    assert [item["type"] for item in signer.status["conditions"]] == ["Other", "Approved"]


@pytest.mark.parametrize("condition", ["Denied", "Failed"])
async def test_denied_and_failed_requests_are_not_signed(signer: Signer, condition: str) -> None:
    signer.permitted = {"nodeclient"}
    signer.request(conditions=[condition])
    async with running(signer.store, signer.controller().run()):
        await rest(signer.store)
    assert (signer.certificate, signer.users) == (None, [])


async def test_requests_for_other_signers_are_not_signed(signer: Signer, caplog: pytest.LogCaptureFixture) -> None:
    signer.request("example.com/own", conditions=["Approved"])
    async with running(signer.store, signer.controller().run()):
        await rest(signer.store)
    assert (signer.certificate, caplog.messages) == (None, [])


async def test_client_certificates_need_a_trusted_ca(signer: Signer, caplog: pytest.LogCaptureFixture) -> None:
    signer.node("node-1")
    signer.request(conditions=["Approved"])
    async with running(signer.store, signer.controller(signs_clients=False).run()):
        await rest(signer.store)
        client = signer.certificate
        await signer.advance(30)
        messages = list(caplog.messages)
        signer.request(SERVING, names=NAMES)
        await rest(signer.store)
        serving = signer.certificate
    assert (client, messages) == (None, ["Ignoring certificate signing request"])
    assert serving is not None


@pytest.mark.parametrize(
    ("addresses", "spec", "signed"),
    [
        (["node-1"], {}, True),
        (["other", "node-1"], {}, True),
        (["other"], {}, False),
        (["node-1"], {"groups": ["other"]}, False),
        (["node-1"], {"username": "system:node:other"}, False),
        (None, {}, False),
    ],
)
async def test_serving_request_is_approved_for_addresses_of_the_node(
    signer: Signer, addresses: list[str] | None, spec: Any, *, signed: bool
) -> None:
    if addresses is not None:
        signer.node(*addresses)
    signer.request(SERVING, names=NAMES, spec=spec)
    async with running(signer.store, signer.controller().run()):
        await rest(signer.store)
    assert (signer.certificate is not None) is signed
    if signed:
        message = "Auto approving kubelet serving certificate with addresses of the node."
        assert signer.status["conditions"][0]["message"] == message


async def test_ignored_request_is_signed_once_the_node_reports_its_address(signer: Signer) -> None:
    signer.request(SERVING, names=NAMES)
    async with running(signer.store, signer.controller().run()):
        await rest(signer.store)
        signer.node("other")
        await rest(signer.store)
        before = signer.certificate
        signer.node("node-1")
        await rest(signer.store)
    assert before is None
    assert signer.certificate is not None


async def test_ignored_request_is_checked_only_after_other_changes_of_a_node(signer: Signer) -> None:
    signer.node("other")
    signer.request()
    async with running(signer.store, signer.controller().run()):
        await rest(signer.store)
        checks = len(signer.users)
        signer.node("other", phase="Running")
        await rest(signer.store)
        assert len(signer.users) == checks
        signer.permitted = {"nodeclient"}
        await signer.advance(10)
    assert signer.certificate is not None


async def test_request_is_reported_again_if_it_is_created_again(
    signer: Signer, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(signer.store, signer.controller().run()):
        for _ in range(2):
            signer.request(spec={"username": "x"})
            await rest(signer.store)
            signer.store.remove(REQUESTS, "r")
            await signer.advance(11)
    assert caplog.messages == ["Ignoring certificate signing request"] * 2


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, 86400), (0, 86400), (60, 600), (3600, 3600)],
)
async def test_requested_duration_is_granted(signer: Signer, seconds: int | None, expected: int) -> None:
    signer.request(conditions=["Approved"], spec={"expirationSeconds": seconds})
    async with running(signer.store, signer.controller().run()):
        await rest(signer.store)
    assert signer.certificate is not None
    assert signer.certificate.not_valid_after_utc == signer.clock.wall() + timedelta(seconds=expected)


@pytest.mark.parametrize(("condition", "hours"), [("Denied", 1), ("Failed", 1), ("Other", 24)])
async def test_old_requests_are_deleted(signer: Signer, condition: str, hours: int) -> None:
    signer.request("example.com/own", age=hours * 3600, conditions=[condition])
    async with running(signer.store, signer.controller().run()):
        await rest(signer.store)
        before = signer.store.read(REQUESTS, "r")
        await signer.advance(2)
    assert before is not None
    assert signer.store.read(REQUESTS, "r") is None


async def test_signed_request_is_deleted_after_an_hour(signer: Signer) -> None:
    signer.request(conditions=["Approved"])
    async with running(signer.store, signer.controller().run()):
        await rest(signer.store)
        await signer.advance(3590)
        before = signer.certificate
        await signer.advance(20)
    assert before is not None
    assert signer.store.read(REQUESTS, "r") is None


@pytest.mark.parametrize("change", ["deleted", "denied"])
async def test_request_that_changes_while_it_is_signed_is_not_written(
    signer: Signer, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    def interrupt(collection: str, key: str) -> None:
        signer.store.before_update = None
        if change == "deleted":
            signer.store.remove(REQUESTS, "r")
        else:
            signer.request(conditions=["Approved", "Denied"])

    signer.request(conditions=["Approved"])
    signer.store.before_update = interrupt
    async with running(signer.store, signer.controller().run()):
        await rest(signer.store)
    found = signer.store.read(REQUESTS, "r")
    assert found is None if change == "deleted" else "certificate" not in found["status"]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
