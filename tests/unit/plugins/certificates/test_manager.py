"""Tests for the certificate manager."""

from __future__ import annotations

import asyncio
import ssl
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from math import inf
from pathlib import Path

import pytest

from nodeagent.errors import ApiError, ApiUnavailable
from nodeagent.testing import FakeApi, FakeClock
from nodeagent_plugins.certificates import manager
from nodeagent_plugins.certificates.issuance import REQUESTS
from nodeagent_plugins.certificates.manager import CertificateManager, borrowed
from nodeagent_plugins.certificates.managers import client_certificate, server_certificate
from nodeagent_plugins.certificates.metrics import SERVER_ROTATIONS
from nodeagent_plugins.certificates.pairs import CertificateError, CertificateSpec, describe, make_request
from nodeagent_plugins.certificates.store import PairStore
from tests.unit.plugins.certificates.signing import START, approve, deny, sign

HOURS = timedelta(hours=1) / timedelta(seconds=1)


class Harness:
    """A manager with an API server and a store."""

    def __init__(self, directory: Path, clock: FakeClock) -> None:
        self.api, self.clock = FakeApi(clock), clock
        self.store = PairStore(directory, "kubelet-client")
        self.desired: CertificateSpec | None = client_certificate("node-1")
        self.shown: list[bool] = []
        self.failures = 0

    @asynccontextmanager
    async def running(self, **options: object) -> AsyncIterator[CertificateManager]:
        def connect(usable: bool):
            self.shown.append(usable)
            return borrowed(self.api)

        def failed() -> None:
            self.failures += 1

        given: dict[str, object] = {"random_source": lambda: 0.5, "failed": failed, **options}
        manager = CertificateManager("certificate", self.store, lambda: self.desired, connect, self.clock, **given)
        task = asyncio.create_task(manager.run())
        try:
            await self.clock.settle()
            yield manager
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def requests(self):
        return self.api.all(REQUESTS)

    async def response(self, **times: object) -> None:
        """Approve the latest request."""
        request = self.requests()[-1]
        certificate = await asyncio.to_thread(sign, request, **times)
        approve(self.api, request, certificate)
        await self.clock.settle()

    async def pass_until(self, condition: Callable[[], object], seconds: float, step: float) -> None:
        for _ in range(int(seconds / step)):
            if condition():
                return
            await self.clock.advance(step)
        assert condition()


@pytest.fixture
def harness(tmp_path: Path, clock: FakeClock) -> Harness:
    return Harness(tmp_path / "pki", clock)


@pytest.mark.row("config.rotateCertificates")
async def test_first_certificate_is_requested_and_stored(harness: Harness) -> None:
    async with harness.running():
        (request,) = harness.requests()
        assert harness.shown == [False]
        assert request["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"
        assert request["spec"]["usages"] == ["digital signature", "client auth"]
        assert request["metadata"]["name"].startswith("csr-")
        assert not harness.store.pending_key.exists()

        await harness.response()

        current = harness.store.current
        assert current.name == "kubelet-client-current.pem"
        assert current.readlink() == Path("kubelet-client-2024-01-02-15-04-05.pem")
        assert stat.S_IMODE(current.stat().st_mode) == 0o600
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(current)
        held = describe(current.read_bytes())
        assert held is not None
        assert (held.common_name, held.organizations) == ("system:node:node-1", ("system:nodes",))


@pytest.mark.row("config.rotateCertificates")
@pytest.mark.parametrize(("drawn", "hours"), [(0.0, 7.0), (1.0, 9.0)])
async def test_certificate_is_renewed_at_70_to_90_percent_of_its_life(
    harness: Harness, drawn: float, hours: float
) -> None:
    ages: list[float] = []
    async with harness.running(random_source=lambda: drawn, check_seconds=HOURS, replaced=ages.append):
        await harness.response(begin=START - timedelta(minutes=1))
        before = harness.store.current.read_bytes()
        await harness.clock.advance(hours * HOURS - 61)
        assert len(harness.requests()) == 1

        await harness.clock.advance(1)

        assert len(harness.requests()) == 2
        assert harness.shown == [False, True]
        assert ages == []
        await harness.response(begin=START + timedelta(hours=hours))
        assert harness.store.current.read_bytes() != before
        assert ages == [hours * HOURS]


@pytest.mark.parametrize("age_hours", [8, 9, 11])
async def test_certificate_due_when_issued_is_renewed_after_the_check_interval(
    harness: Harness, age_hours: int
) -> None:
    async with harness.running(check_seconds=10.0):
        await harness.response(begin=START - timedelta(hours=age_hours))
        await harness.clock.advance(9)
        assert len(harness.requests()) == 1

        await harness.clock.advance(1)

        assert len(harness.requests()) == 2


@pytest.mark.row("config.rotateCertificates")
async def test_expired_certificate_is_not_presented(harness: Harness) -> None:
    pair = make_pair(harness.desired)
    harness.store.put(pair, START)
    harness.clock.jump(11 * HOURS)
    async with harness.running() as manager:
        assert manager.remaining_seconds() == -HOURS
        assert harness.shown == [False]


async def test_valid_certificate_needs_no_request(harness: Harness) -> None:
    harness.store.put(make_pair(harness.desired), START)
    async with harness.running() as manager:
        assert harness.requests() == []
        assert manager.remaining_seconds() == 10 * HOURS


async def test_valid_certificate_of_the_kubeconfig_is_the_first(harness: Harness) -> None:
    seed = make_pair(harness.desired)
    async with harness.running(seed=seed):
        assert harness.requests() == []
        assert harness.store.current.read_bytes() == seed


async def test_valid_certificate_takes_precedence_over_that_of_the_kubeconfig(harness: Harness) -> None:
    stored = make_pair(harness.desired)
    harness.store.put(stored, START)
    async with harness.running(seed=make_pair(harness.desired)):
        assert harness.store.current.read_bytes() == stored


async def test_certificate_of_the_kubeconfig_replaces_an_expired_one(harness: Harness) -> None:
    harness.store.put(make_pair(harness.desired), START)
    harness.clock.jump(11 * HOURS)
    seed = make_pair(harness.desired, begin=START + timedelta(hours=10))
    async with harness.running(seed=seed) as manager:
        assert harness.store.current.read_bytes() == seed
        assert manager.remaining_seconds() == 9 * HOURS


@pytest.mark.parametrize(
    ("function", "error"), [("put", OSError(28, "No space left")), ("describe", CertificateError("helper failed"))]
)
async def test_certificate_is_loaded_again_after_a_failure(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, function: str, error: Exception
) -> None:
    seed, problems, target = make_pair(harness.desired), [error, error], harness.store if function == "put" else manager
    original = getattr(target, function)

    def fail(*arguments: object) -> object:
        if problems:
            raise problems.pop()
        return original(*arguments)

    monkeypatch.setattr(target, function, fail)
    async with harness.running(seed=seed, random_source=lambda: 0.0) as rotation:
        assert rotation.remaining_seconds() == inf
        await harness.clock.advance(6)

        assert rotation.remaining_seconds() == 10 * HOURS - 6
        assert harness.store.current.read_bytes() == seed
        assert harness.requests() == []
        failures = [record.__dict__["err"] for record in caplog.records if record.levelname == "ERROR"]
        assert failures == [str(error)]


@pytest.mark.parametrize("expired", [True, False])
async def test_unusable_certificate_of_the_kubeconfig_is_not_stored(harness: Harness, expired: bool) -> None:
    seed = make_pair(harness.desired, begin=START - timedelta(hours=10)) if expired else b"nonsense"
    async with harness.running(seed=seed) as manager:
        assert len(harness.requests()) == 1
        assert not harness.store.current.exists()
        assert manager.remaining_seconds() == inf


async def test_without_renewal_only_the_expiry_causes_a_request(harness: Harness) -> None:
    harness.store.put(make_pair(harness.desired), START)
    async with harness.running(renews=False, check_seconds=600):
        await harness.clock.advance(10 * HOURS - 1)
        assert harness.requests() == []
        await harness.clock.advance(1)
        assert len(harness.requests()) == 1


async def test_pending_request_is_resumed_after_a_restart(harness: Harness) -> None:
    async with harness.running(resumes=True):
        (first,) = harness.requests()
    async with harness.running(resumes=True):
        assert [request["metadata"]["uid"] for request in harness.requests()] == [first["metadata"]["uid"]]
        assert first["metadata"]["name"].startswith("node-csr-")
        await harness.response()
        assert harness.store.current.exists()
        assert not harness.store.pending_key.exists()
        await harness.clock.advance(8 * HOURS)
        assert harness.requests()[-1]["metadata"]["name"].startswith("csr-")  # The renewal is not resumed.


async def test_unusable_key_of_a_pending_request_is_replaced(harness: Harness) -> None:
    harness.store.keep_pending_key("-----BEGIN PRIVATE")
    async with harness.running(resumes=True):
        (first,) = harness.requests()
    async with harness.running(resumes=True):
        assert [request["metadata"]["uid"] for request in harness.requests()] == [first["metadata"]["uid"]]
        assert harness.failures == 0


async def test_request_of_another_signer_is_not_resumed(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    async with harness.running(resumes=True):
        (request,) = harness.requests()
    harness.api.put(REQUESTS, {**request, "spec": {**request["spec"], "signerName": "example.com/other"}})

    async with harness.running(resumes=True):
        assert harness.failures == 1
        assert caplog.records[-1].__dict__["err"].endswith("has other content")


@pytest.mark.parametrize("kind", ["Denied", "Failed"])
async def test_denied_request_is_logged_and_retried_with_another_key(
    harness: Harness, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with harness.running(resumes=True):
        deny(harness.api, harness.requests()[0], kind)
        await harness.clock.settle()

        assert harness.failures == 1
        assert f"{kind.lower()}: not this one" in caplog.records[-1].__dict__["err"]
        await harness.clock.advance(3)
        assert len(harness.requests()) == 2


async def test_repeated_error_is_logged_once(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    harness.api.outage = True
    async with harness.running():
        await harness.clock.advance(60)
        harness.api.outage = False
        harness.api.fail("create", ApiError("quota exceeded", code=403))
        await harness.clock.advance(60)

        errors = [record.__dict__["err"] for record in caplog.records if record.levelname == "ERROR"]
        assert len(errors) == 2 < harness.failures
        assert errors[-1] == "quota exceeded"


async def test_retries_have_increasing_delays(harness: Harness) -> None:
    harness.api.outage = True
    async with harness.running(random_source=lambda: 0.0):
        for pause in (2, 4, 8, 16, 32, 32):
            before = harness.failures
            await harness.clock.advance(pause - 0.5)
            assert harness.failures == before
            await harness.clock.advance(0.5)
            assert harness.failures == before + 1


async def test_pending_request_times_out(harness: Harness) -> None:
    async with harness.running():
        await harness.clock.advance(15 * 60 - 1)
        assert (len(harness.requests()), harness.failures) == (1, 0)
        await harness.clock.advance(1)
        assert harness.failures == 1
        await harness.clock.advance(3)
        assert len(harness.requests()) == 2


async def test_wait_continues_while_the_api_server_is_unavailable(harness: Harness) -> None:
    async with harness.running():
        harness.api.end_watches()
        harness.api.fail("list", ApiUnavailable("gone"))
        await harness.clock.advance(5)
        await harness.response()
        assert harness.store.current.exists()
        assert harness.failures == 0


@pytest.mark.parametrize("resumes", [True, False])
@pytest.mark.parametrize("signed", [True, False])
async def test_mismatching_certificate_is_rejected(harness: Harness, resumes: bool, signed: bool) -> None:
    async with harness.running(resumes=resumes):
        (request,) = harness.requests()
        other = {**request, "spec": {**request["spec"], "usages": ["server auth"]}}
        approve(harness.api, request, await asyncio.to_thread(sign, other) if signed else b"nonsense")
        await harness.clock.settle()
        assert not harness.store.current.exists()
        assert harness.failures == 1
        await harness.clock.advance(3)
        assert len(harness.requests()) == 2  # Another request, since this one will not change.


def addresses(*values: str):
    return {"status": {"addresses": [{"type": "InternalIP", "address": value} for value in values]}}


@pytest.mark.parametrize("node", [None, {}, {"status": None}, {"status": {"addresses": None}}])
@pytest.mark.parametrize("dns_only", [True, False])
def test_node_without_addresses_has_no_serving_certificate(node: dict[str, object] | None, dns_only: bool) -> None:
    assert server_certificate("node-1", node, dns_only=dns_only) is None


@pytest.mark.parametrize("dns_only", [True, False])
def test_serving_certificate_needs_an_ip_address_unless_host_names_suffice(dns_only: bool) -> None:
    assert (server_certificate("node-1", addresses("node-1"), dns_only=dns_only) is not None) == dns_only
    for values in (("10.0.0.5",), ("10.0.0.5", "node-1")):
        assert server_certificate("node-1", addresses(*values), dns_only=dns_only) is not None


@pytest.mark.row("config.serverTLSBootstrap")
async def test_serving_certificate_waits_for_addresses_and_follows_them(harness: Harness) -> None:
    harness.desired = server_certificate("node-1", {"status": {}})
    async with harness.running(check_seconds=1.0):
        await harness.clock.advance(5)
        assert harness.requests() == []

        harness.desired = server_certificate("node-1", addresses("10.0.0.5", "node-1"))
        await harness.clock.advance(1)
        (request,) = harness.requests()
        assert request["spec"]["signerName"] == "kubernetes.io/kubelet-serving"
        await harness.response()
        held = describe(harness.store.current.read_bytes())
        assert held is not None
        assert (held.dns_names, held.addresses) == (("node-1",), ("10.0.0.5",))

        harness.desired = server_certificate("node-1", addresses("10.0.0.6", "node-1"))
        await harness.clock.advance(1)
        assert len(harness.requests()) == 2
        harness.desired = server_certificate("node-1", addresses("10.0.0.7", "node-1"))  # while the one before waits
        await harness.clock.advance(1)
        assert len(harness.requests()) == 3


def test_certificate_with_additional_names_is_sufficient() -> None:
    desired = server_certificate("node-1", addresses("10.0.0.5", "10.0.0.6"))
    assert desired is not None
    held = describe(make_pair(desired))
    assert held is not None
    assert held.satisfies(replace(desired, addresses=("10.0.0.5",)))
    assert not held.satisfies(replace(desired, addresses=("10.0.0.7",)))
    assert not held.satisfies(replace(desired, common_name="system:node:node-2"))


@pytest.mark.parametrize(("hours", "valid"), [(-0.01, False), (0, True), (9.99, True), (10, False)])
def test_certificate_is_valid_from_its_start_until_its_end(hours: float, valid: bool) -> None:
    held = describe(make_pair(client_certificate("node-1")))
    assert held is not None
    assert held.valid(START + timedelta(hours=hours)) == valid


def test_invalid_pairs_are_detected() -> None:
    desired = client_certificate("node-1")
    other = make_request(desired)
    certificate = make_pair(desired).partition(b"-----BEGIN PRIVATE KEY")[0]
    assert describe(b"nonsense") is None
    assert describe(certificate + other.key.reveal().encode()) is None


def make_pair(desired: CertificateSpec | None, begin: datetime = START) -> bytes:
    """Return a pair signed by the CA, as the manager stores it."""
    import base64

    assert desired is not None
    request = make_request(desired)
    text = base64.b64encode(request.text.encode()).decode()
    return sign({"spec": {"request": text, "usages": desired.usages}}, begin) + request.key.reveal().encode()


def test_lifetimes_of_rotated_certificates_are_counted_by_upstream_bounds():
    SERVER_ROTATIONS.observe(30)
    labels = [text for suffix, text, *_ in SERVER_ROTATIONS.family().rows if suffix == "_bucket"]

    assert labels[:2] == ['le="60"', 'le="3600"']
    assert labels[-2:] == ['le="124416000"', 'le="+Inf"']
