"""When a certificate is requested, what is done with the answer, and how often it is tried."""

from __future__ import annotations

import asyncio
import ssl
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from nodeagent.errors import ApiUnavailable
from nodeagent.testing import FakeApi, FakeClock
from nodeagent_plugins.certificates.issuance import REQUESTS
from nodeagent_plugins.certificates.manager import CertificateManager, borrowed
from nodeagent_plugins.certificates.managers import client_wanted, server_wanted
from nodeagent_plugins.certificates.pairs import Wanted, describe, make_request
from nodeagent_plugins.certificates.store import PairStore
from tests.unit.plugins.certificates.authority import START, approve, deny, sign

HOURS = timedelta(hours=1) / timedelta(seconds=1)


class Scene:
    """A manager with an API server and a store."""

    def __init__(self, directory: Path, clock: FakeClock) -> None:
        self.api, self.clock = FakeApi(clock), clock
        self.store = PairStore(directory, "kubelet-client")
        self.wanted: Wanted | None = client_wanted("node-1")
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
        manager = CertificateManager("certificate", self.store, lambda: self.wanted, connect, self.clock, **given)
        task = asyncio.create_task(manager.run())
        try:
            await self.clock.settle()
            yield manager
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def requests(self):
        return self.api.all(REQUESTS)

    async def answer(self, **times: object) -> None:
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
def scene(tmp_path: Path, clock: FakeClock) -> Scene:
    return Scene(tmp_path / "pki", clock)


@pytest.mark.row("config.rotateCertificates")
async def test_the_first_certificate_is_requested_and_put_in_force(scene: Scene) -> None:
    async with scene.running():
        (request,) = scene.requests()
        assert scene.shown == [False]
        assert request["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"
        assert request["spec"]["usages"] == ["digital signature", "client auth"]
        assert request["metadata"]["name"].startswith("csr-")

        await scene.answer()

        current = scene.store.current
        assert current.name == "kubelet-client-current.pem"
        assert current.readlink() == Path("kubelet-client-2024-01-02-15-04-05.pem")
        assert stat.S_IMODE(current.stat().st_mode) == 0o600
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(current)
        held = describe(current.read_bytes())
        assert held is not None
        assert (held.common_name, held.organizations) == ("system:node:node-1", ("system:nodes",))


@pytest.mark.row("config.rotateCertificates")
@pytest.mark.parametrize(("drawn", "hours"), [(0.0, 7.0), (1.0, 9.0)])
async def test_it_is_renewed_between_70_and_90_percent_of_its_life(scene: Scene, drawn: float, hours: float) -> None:
    async with scene.running(random_source=lambda: drawn, look_seconds=60):
        await scene.answer()
        before = scene.store.current.read_bytes()
        await scene.clock.advance((hours - 0.05) * HOURS)
        assert len(scene.requests()) == 1

        await scene.clock.advance(0.1 * HOURS)

        assert len(scene.requests()) == 2
        assert scene.shown == [False, True]
        await scene.answer(begin=START + timedelta(hours=hours))
        assert scene.store.current.read_bytes() != before


@pytest.mark.row("config.rotateCertificates")
async def test_a_certificate_that_ended_is_not_shown_any_more(scene: Scene) -> None:
    pair = make_pair(scene.wanted)
    scene.store.put(pair, START)
    scene.clock.jump(11 * HOURS)
    async with scene.running() as manager:
        assert manager.remaining_seconds() == -HOURS
        assert scene.shown == [False]


async def test_one_that_is_good_is_taken_up_without_a_request(scene: Scene) -> None:
    scene.store.put(make_pair(scene.wanted), START)
    async with scene.running() as manager:
        assert scene.requests() == []
        assert manager.remaining_seconds() == 10 * HOURS


async def test_a_good_pair_of_the_kubeconfig_is_where_rotation_begins(scene: Scene) -> None:
    async with scene.running(seed=make_pair(scene.wanted)):
        assert scene.requests() == []
        assert scene.store.current.exists()


async def test_without_renewal_only_the_end_brings_another_one(scene: Scene) -> None:
    scene.store.put(make_pair(scene.wanted), START)
    async with scene.running(renews=False, look_seconds=600):
        await scene.clock.advance(9.9 * HOURS)
        assert scene.requests() == []
        await scene.clock.advance(0.3 * HOURS)
        assert len(scene.requests()) == 1


async def test_a_request_is_resumed_after_a_restart(scene: Scene) -> None:
    async with scene.running(resumes=True):
        (first,) = scene.requests()
    async with scene.running(resumes=True):
        assert [request["metadata"]["uid"] for request in scene.requests()] == [first["metadata"]["uid"]]
        assert first["metadata"]["name"].startswith("node-csr-")
        await scene.answer()
        assert scene.store.current.exists()
        assert not scene.store.pending_key.exists()


@pytest.mark.parametrize("kind", ["Denied", "Failed"])
async def test_a_refused_request_is_told_and_another_key_is_tried(
    scene: Scene, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene.running(resumes=True):
        deny(scene.api, scene.requests()[0], kind)
        await scene.clock.settle()

        assert scene.failures == 1
        assert f"{kind.lower()}: not this one" in caplog.records[-1].__dict__["err"]
        await scene.clock.advance(3)
        assert len(scene.requests()) == 2


async def test_tries_come_with_growing_pauses(scene: Scene) -> None:
    scene.api.outage = True
    async with scene.running(random_source=lambda: 0.0):
        for pause in (2, 4, 8, 16, 32, 32):
            before = scene.failures
            await scene.clock.advance(pause - 0.5)
            assert scene.failures == before
            await scene.clock.advance(0.5)
            assert scene.failures == before + 1


async def test_a_request_that_nobody_answers_is_given_up(scene: Scene) -> None:
    async with scene.running():
        await scene.clock.advance(14 * 60)
        assert (len(scene.requests()), scene.failures) == (1, 0)
        await scene.clock.advance(90)
        assert (len(scene.requests()), scene.failures) == (2, 1)


async def test_the_wait_survives_an_api_server_that_goes_away(scene: Scene) -> None:
    async with scene.running():
        scene.api.end_watches()
        scene.api.fail("list", ApiUnavailable("gone"))
        await scene.clock.advance(5)
        await scene.answer()
        assert scene.store.current.exists()
        assert scene.failures == 0


async def test_what_was_not_asked_for_is_not_taken(scene: Scene) -> None:
    async with scene.running():
        (request,) = scene.requests()
        other = {**request, "spec": {**request["spec"], "usages": ["server auth"]}}
        approve(scene.api, request, await asyncio.to_thread(sign, other))
        await scene.clock.settle()
        assert not scene.store.current.exists()
        assert scene.failures == 1


def addresses(*values: str):
    return {"status": {"addresses": [{"type": "InternalIP", "address": value} for value in values]}}


@pytest.mark.row("config.serverTLSBootstrap")
async def test_a_serving_certificate_waits_for_addresses_and_follows_them(scene: Scene) -> None:
    scene.wanted = server_wanted("node-1", {"status": {}})
    async with scene.running(look_seconds=1.0):
        await scene.clock.advance(5)
        assert scene.requests() == []

        scene.wanted = server_wanted("node-1", addresses("10.0.0.5", "node-1"))
        await scene.clock.advance(1)
        (request,) = scene.requests()
        assert request["spec"]["signerName"] == "kubernetes.io/kubelet-serving"
        await scene.answer()
        held = describe(scene.store.current.read_bytes())
        assert held is not None
        assert (held.dns_names, held.addresses) == (("node-1",), ("10.0.0.5",))

        scene.wanted = server_wanted("node-1", addresses("10.0.0.6", "node-1"))
        await scene.clock.advance(1)
        assert len(scene.requests()) == 2
        scene.wanted = server_wanted("node-1", addresses("10.0.0.7", "node-1"))  # while the one before waits
        await scene.clock.advance(1)
        assert len(scene.requests()) == 3


def test_a_certificate_for_more_satisfies_what_is_wanted() -> None:
    wanted = server_wanted("node-1", addresses("10.0.0.5", "10.0.0.6"))
    assert wanted is not None
    held = describe(make_pair(wanted))
    assert held is not None
    assert held.satisfies(replace(wanted, addresses=("10.0.0.5",)))
    assert not held.satisfies(replace(wanted, addresses=("10.0.0.7",)))
    assert not held.satisfies(replace(wanted, common_name="system:node:node-2"))


def test_what_is_no_pair_is_told_apart() -> None:
    wanted = client_wanted("node-1")
    other = make_request(wanted)
    certificate = make_pair(wanted).partition(b"-----BEGIN PRIVATE KEY")[0]
    assert describe(b"nonsense") is None
    assert describe(certificate + other.key.reveal().encode()) is None


def make_pair(wanted: Wanted | None) -> bytes:
    """Return a pair from the authority, as the manager would store it."""
    import base64

    assert wanted is not None
    request = make_request(wanted)
    text = base64.b64encode(request.text.encode()).decode()
    return sign({"spec": {"request": text, "usages": wanted.usages}}) + request.key.reveal().encode()
