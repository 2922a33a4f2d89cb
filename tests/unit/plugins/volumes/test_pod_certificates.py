"""Tests for projected pod certificates: request, files, rejection and renewal."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from nodeagent.base.release import Release, SelectedRelease
from nodeagent.base.tls import generate_ca
from nodeagent.contracts.api import SERVICE_ACCOUNTS, Resource
from nodeagent.contracts.context import AgentContext
from nodeagent.errors import ApiError, ApiUnavailable, VolumeError
from nodeagent.model.meta import wire_time
from nodeagent.model.pod import Pod
from nodeagent.testing import FakeApi, FakePodDirectory, FakeRecorder, make_context
from nodeagent.testing.clock import FakeClock, eventually
from nodeagent_plugins.volumes.manager import Manager
from nodeagent_plugins.volumes.pod_certificates.keys import generate_key
from nodeagent_plugins.volumes.pod_certificates.manager import STATES
from nodeagent_plugins.volumes.pod_certificates.projection import JITTER_SECONDS

from .conftest import FakeMounter, new_manager, pod_with

REQUESTS = Resource("certificates", "v1beta1", "podcertificaterequests", "PodCertificateRequest")
CHAIN = generate_ca("leaf").certificate
SOURCE = {
    "signerName": "example.com/signer",
    "keyType": "ED25519",
    "credentialBundlePath": "bundle.pem",
    "keyPath": "key.pem",
    "certificateChainPath": "chain.pem",
}
DAY = 86400.0


class SigningApi(FakeApi):
    """Server with a signer that the test controls."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.clock = clock
        self.put(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "uid": "account-uid"}})

    async def next(self, number: int = 1) -> dict[str, Any]:
        """Return the request with this number, once it exists."""
        await eventually(lambda: len(self.made("create", REQUESTS)) >= number)
        await eventually(lambda: self.watches > 0)
        return self.all(REQUESTS)[number - 1]

    def decide(self, request: dict[str, Any], kind: str = "Issued", reason: str = "", message: str = "") -> None:
        now = self.clock.wall()
        status: dict[str, Any] = {
            "conditions": [{"type": kind, "status": "True", "reason": reason, "message": message}]
        }
        if kind == "Issued":
            status |= {
                "certificateChain": "comment\n" + CHAIN.decode(),
                "notBefore": wire_time(now),
                "beginRefreshAt": wire_time(now + timedelta(seconds=DAY / 2)),
                "notAfter": wire_time(now + timedelta(seconds=DAY)),
            }
        self.put(REQUESTS, {**request, "status": status}, "default")


@pytest.fixture
def api(clock: FakeClock) -> SigningApi:
    return SigningApi(clock)


@pytest.fixture
async def context(
    tmp_path: Path, clock: FakeClock, recorder: FakeRecorder, api: SigningApi
) -> AsyncIterator[AgentContext]:
    context = make_context(
        tmp_path,
        clock=clock,
        recorder=recorder,
        api=api,
        node={"metadata": {"name": "node-1", "uid": "node-uid"}},
        release=SelectedRelease(Release(1, 36)),
    )
    yield context
    await context.tasks.close()


def pod_of(context: AgentContext, **source: Any) -> Pod:
    """Return a pod of the node with a certificate."""
    volume = {"name": "v", "projected": {"sources": [{"podCertificate": {**SOURCE, **source}}], "defaultMode": 0o640}}
    return known(context, pod_with(volume))


def known(context: AgentContext, pod: Pod) -> Pod:
    assert isinstance(context.pods, FakePodDirectory)
    return context.pods.add(pod)


async def issued(manager: Manager, api: SigningApi, pod: Pod) -> Path:
    """Return the directory of the pod's volume after the signer has issued its certificate."""
    preparing = asyncio.create_task(manager.prepare(pod))
    api.decide(await api.next())
    return Path((await preparing)["v"].host_path)


def reasons(recorder: FakeRecorder) -> list[str]:
    return [event.reason for event in recorder.events]


async def test_request_names_pod_account_and_node(context: AgentContext, mounter: FakeMounter, api: SigningApi) -> None:
    pod = pod_of(context, maxExpirationSeconds=7200, userAnnotations={"example.com/a": "b"})

    await issued(new_manager(context, mounter), api, pod)

    (request,) = api.made("create", REQUESTS)
    assert request.body["metadata"]["generateName"] == "req-"
    (owner,) = request.body["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": pod.uid}
    stub = x509.load_der_x509_csr(base64.b64decode(request.body["spec"].pop("stubPKCS10Request")))
    assert stub.is_signature_valid
    assert list(stub.subject) == []
    assert request.body["spec"] == {
        "signerName": "example.com/signer",
        "podName": "web",
        "podUID": pod.uid,
        "serviceAccountName": "default",
        "serviceAccountUID": "account-uid",
        "nodeName": "node-1",
        "nodeUID": "node-uid",
        "maxExpirationSeconds": 7200,
        "unverifiedUserAnnotations": {"example.com/a": "b"},
    }


async def test_key_and_certificate_are_written(context: AgentContext, mounter: FakeMounter, api: SigningApi) -> None:
    directory = await issued(new_manager(context, mounter), api, pod_of(context))

    key, chain = (directory / "key.pem").read_bytes(), (directory / "chain.pem").read_bytes()
    assert chain == CHAIN
    assert (directory / "bundle.pem").read_bytes() == key + chain
    assert isinstance(serialization.load_pem_private_key(key, None), ed25519.Ed25519PrivateKey)
    assert (directory / "key.pem").stat().st_mode & 0o777 == 0o640
    assert mounter.mounts[directory][0] == "tmpfs"


async def test_files_of_one_user_are_private(context: AgentContext, mounter: FakeMounter, api: SigningApi) -> None:
    volumes = [{"name": "v", "projected": {"sources": [{"podCertificate": {"keyPath": "key", **SOURCE}}]}}]
    pod = known(context, pod_with(*volumes, security_context={"runAsUser": 0}))

    directory = await issued(new_manager(context, mounter), api, pod)

    assert (directory / "key.pem").stat().st_mode & 0o777 == 0o600


async def test_pod_waits_for_the_signer(
    context: AgentContext, mounter: FakeMounter, api: SigningApi, clock: FakeClock
) -> None:
    manager, pod = new_manager(context, mounter), pod_of(context)
    preparing = asyncio.create_task(manager.prepare(pod))
    request = await api.next()

    await clock.advance(6)
    with pytest.raises(VolumeError, match="credential bundle is not issued yet"):
        await preparing
    assert STATES.sample() == {("example.com/signer", "not_yet_issued"): 1}
    api.decide(request)
    await clock.advance(1)

    assert await manager.prepare(pod)
    assert STATES.sample() == {("example.com/signer", "fresh"): 1}
    assert len(api.made("create", REQUESTS)) == 1


@pytest.mark.parametrize(("kind", "was"), [("Denied", "was denied"), ("Failed", "failed")])
async def test_rejected_request_is_final(
    context: AgentContext,
    mounter: FakeMounter,
    api: SigningApi,
    clock: FakeClock,
    recorder: FakeRecorder,
    kind: str,
    was: str,
) -> None:
    manager, pod = new_manager(context, mounter), pod_of(context)
    preparing = asyncio.create_task(manager.prepare(pod))
    api.decide(await api.next(), kind, "UnsupportedKeyType", "use RSA")

    with pytest.raises(VolumeError, match=f"permanently {kind.lower()}: .*UnsupportedKeyType.*use RSA"):
        await preparing
    await clock.advance(DAY)
    with pytest.raises(VolumeError, match="permanently"):
        await manager.prepare(pod)

    assert len(api.made("create", REQUESTS)) == 1
    (event,) = [event for event in recorder.events if event.reason == kind]
    assert event.type == "Warning"
    assert f'{was}, reason="UnsupportedKeyType", message="use RSA"' in event.note
    assert STATES.sample() == {("example.com/signer", kind.lower()): 1}


async def test_certificate_is_renewed(
    context: AgentContext, mounter: FakeMounter, api: SigningApi, clock: FakeClock
) -> None:
    manager, pod = new_manager(context, mounter), pod_of(context)
    directory = await issued(manager, api, pod)
    before = (directory / "key.pem").read_bytes()

    await clock.advance(DAY / 2 - 60)
    assert len(api.made("create", REQUESTS)) == 1
    await clock.advance(60 + JITTER_SECONDS + 60)
    second = await api.next(2)
    await manager.prepare(pod)
    assert (directory / "key.pem").read_bytes() == before
    api.decide(second)
    await clock.advance(1)
    await manager.prepare(pod)

    assert (directory / "key.pem").read_bytes() != before


async def test_late_renewal_and_expiry_are_events(
    context: AgentContext, mounter: FakeMounter, api: SigningApi, clock: FakeClock, recorder: FakeRecorder
) -> None:
    manager, pod = new_manager(context, mounter), pod_of(context)
    await issued(manager, api, pod)

    api.fail("create", ApiUnavailable("gone"), 1000)
    await clock.advance(DAY / 2 + JITTER_SECONDS + 1200)
    assert reasons(recorder) == ["CertificateOverdueForRefresh"]
    assert STATES.sample() == {("example.com/signer", "overdue_for_refresh"): 1}
    await clock.advance(DAY / 2)

    assert reasons(recorder) == ["CertificateOverdueForRefresh", "CertificateExpired"]
    assert STATES.sample() == {("example.com/signer", "expired"): 1}
    assert await manager.prepare(pod)  # The pod keeps the expired certificate.


async def test_deleted_request_is_created_again(
    context: AgentContext, mounter: FakeMounter, api: SigningApi, clock: FakeClock
) -> None:
    manager, pod = new_manager(context, mounter), pod_of(context)
    preparing = asyncio.create_task(manager.prepare(pod))
    request = await api.next()
    api.remove(REQUESTS, request["metadata"]["name"])
    await clock.advance(599)
    assert len(api.made("create", REQUESTS)) == 1
    await clock.advance(JITTER_SECONDS + 120)

    assert len(api.made("create", REQUESTS)) == 2
    with pytest.raises(VolumeError):
        await preparing


async def test_error_of_the_server_is_the_reason(
    context: AgentContext, mounter: FakeMounter, api: SigningApi, clock: FakeClock
) -> None:
    api.fail("create", ApiError('signer "x" is forbidden', code=403), 1)
    manager, pod = new_manager(context, mounter), pod_of(context)
    preparing = asyncio.create_task(manager.prepare(pod))

    await eventually(lambda: len(api.made("create", REQUESTS)) == 1)
    await clock.advance(0.5)
    api.fail("create", ApiError('signer "x" is forbidden', code=403), 100)
    await clock.advance(6)

    with pytest.raises(VolumeError, match=r'is not issued yet: .*signer "x" is forbidden'):
        await preparing


async def test_key_is_dropped_with_the_volume(
    context: AgentContext, mounter: FakeMounter, api: SigningApi, clock: FakeClock
) -> None:
    manager, pod = new_manager(context, mounter), pod_of(context)
    await issued(manager, api, pod)

    await manager.release(pod.uid)
    await clock.advance(DAY)

    assert STATES.sample() == {}
    assert len(api.made("create", REQUESTS)) == 1


@pytest.mark.parametrize("kind", ["", "Denied"])
async def test_removed_pod_requests_nothing(
    context: AgentContext, mounter: FakeMounter, api: SigningApi, clock: FakeClock, kind: str
) -> None:
    manager, pod = new_manager(context, mounter), pod_of(context)
    preparing = asyncio.create_task(manager.prepare(pod))
    request = await api.next()
    if kind:
        api.decide(request, kind)
    await clock.advance(6)
    await asyncio.gather(preparing, return_exceptions=True)

    del context.pods.pods[pod.uid]  # type: ignore[attr-defined]
    api.remove(REQUESTS, request["metadata"]["name"])
    await clock.advance(DAY)

    assert STATES.sample() == {}
    assert len(api.made("create", REQUESTS)) == 1


async def test_issued_certificate_triggers_a_sync(context: AgentContext, mounter: FakeMounter, api: SigningApi) -> None:
    pod = pod_of(context)

    await issued(new_manager(context, mounter), api, pod)

    assert context.pods.triggered == [pod.uid]  # type: ignore[attr-defined]


async def test_earlier_servers_receive_the_public_key(
    tmp_path: Path, clock: FakeClock, mounter: FakeMounter, api: SigningApi
) -> None:
    alpha = Resource("certificates", "v1alpha1", "podcertificaterequests", "PodCertificateRequest")
    node = {"metadata": {"name": "node-1", "uid": "node-uid"}}
    release = SelectedRelease(Release(1, 34))
    context = make_context(tmp_path, clock=clock, api=api, node=node, release=release)
    pod = pod_of(context)
    preparing = asyncio.create_task(new_manager(context, mounter).prepare(pod))
    await eventually(lambda: len(api.made("create", alpha)) == 1)
    spec = api.made("create", alpha)[0].body["spec"]
    await context.tasks.close()
    await clock.advance(6)
    await asyncio.gather(preparing, return_exceptions=True)

    public = serialization.load_der_public_key(base64.b64decode(spec["pkixPublicKey"]))
    assert isinstance(public, ed25519.Ed25519PublicKey)
    public.verify(base64.b64decode(spec["proofOfPossession"]), pod.uid.encode())
    assert "stubPKCS10Request" not in spec


@pytest.mark.parametrize("kind", ["RSA3072", "ECDSAP256", "ECDSAP384", "ECDSAP521"])
def test_key_types(kind: str) -> None:
    key = generate_key(kind, "uid")

    public = serialization.load_der_public_key(key.public_der)
    if isinstance(public, rsa.RSAPublicKey):
        assert public.key_size == 3072
        pss = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.AUTO)
        public.verify(key.signed_pod_uid, b"uid", pss, hashes.SHA256())
    else:
        assert isinstance(public, ec.EllipticCurvePublicKey)
        assert public.curve.key_size == int(kind.removeprefix("ECDSAP"))
        public.verify(key.signed_pod_uid, b"uid", ec.ECDSA(hashes.SHA256()))
    assert x509.load_der_x509_csr(key.stub_request).is_signature_valid
    assert key.private_pem.startswith(b"-----BEGIN PRIVATE KEY-----")


def test_unknown_key_type_is_an_error() -> None:
    with pytest.raises(ValueError, match='unknown key type "DSA"'):
        generate_key("DSA", "uid")
