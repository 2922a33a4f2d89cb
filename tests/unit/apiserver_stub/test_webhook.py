"""Tests for the client of webhooks that are configured with a kubeconfig."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub import webhook as module
from apiserver_stub.webhook import Webhook, WebhookError, WebhookResponse
from nodeagent.base.kubeconfig import Kubeconfig, KubeconfigError
from nodeagent.testing import FakeClock


def kubeconfig(directory: Path, **cluster: str) -> Path:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://service.test", **cluster}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = directory / "config"
    path.write_text(json.dumps(config))
    return path


@pytest.mark.parametrize("proxy", [True, False])
@pytest.mark.parametrize("dialer", [object(), None], ids=["egress", "direct"])
def test_proxy_is_rejected_with_an_egress_selection(tmp_path: Path, proxy: bool, dialer: Any) -> None:
    path = kubeconfig(tmp_path, **({"proxy-url": "http://proxy.test:8080"} if proxy else {}))

    if proxy and dialer is not None:
        with pytest.raises(KubeconfigError, match="cannot be used with an egress selection"):
            Webhook(path, dialer=dialer)
    else:
        Webhook(path, dialer=dialer)


class Service:
    """Service that returns the responses of the test."""

    def __init__(self) -> None:
        self.responses: list[WebhookResponse | Exception] = []
        self.contexts: list[Any] = []
        self.authorizations: list[str] = []

    async def exchange(self, _session: Any, _url: str, _data: bytes, **options: Any) -> WebhookResponse:
        self.contexts.append(options["context"])
        self.authorizations.append(options["authorization"])
        found = self.responses.pop(0) if self.responses else WebhookResponse(200, b"{}", "")
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    found = Service()
    monkeypatch.setattr(module, "exchange", found.exchange)
    return found


def status(code: int, retry_after: str = "") -> WebhookResponse:
    return WebhookResponse(code, b"{}", retry_after)


@pytest.mark.parametrize(
    ("response", "attempts", "retry_all"),
    [
        (status(200), 1, False),
        (status(299), 1, False),
        (status(500), 3, False),
        (status(429), 3, False),
        (status(400, "1"), 3, False),
        (OSError("refused"), 3, False),
        (TimeoutError(), 3, False),
        (status(400), 1, False),
        (status(300), 1, False),
        (status(401), 1, False),
        (status(400), 3, True),
    ],
    ids=str,
)
async def test_transient_failures_are_retried(
    tmp_path: Path, service: Service, response: Any, attempts: int, retry_all: bool, clock: FakeClock
) -> None:
    service.responses = [response] * 3
    succeeds = isinstance(response, WebhookResponse) and 200 <= response.status < 300
    path = kubeconfig(tmp_path)
    async with Webhook(path, clock=clock, attempts=3, first_pause_seconds=0, retry_all=retry_all) as webhook:
        sending = webhook.send(b"{}")
        if succeeds:
            assert await run(sending, clock) == response
        else:
            with pytest.raises(WebhookError):
                await run(sending, clock)

    assert service.authorizations == ["Bearer t"] * attempts


async def run(sending: Any, clock: FakeClock) -> Any:
    """Return the result of a request, whose pauses end immediately."""
    task = asyncio.ensure_future(sending)
    while not task.done():
        await clock.advance(30)
        await asyncio.sleep(0.001)
    return task.result()


async def test_changed_certificates_are_reloaded(
    tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("first")
    problems: list[KubeconfigError] = []

    def context(config: Kubeconfig) -> Any:
        if problems:
            raise problems[0]
        return f"trusts {authority.read_text()}"

    monkeypatch.setattr(Kubeconfig, "ssl_context", context)
    async with Webhook(kubeconfig(tmp_path, **{"certificate-authority": str(authority)})) as webhook:
        assert await webhook.post({}) == {}
        await webhook.post({})
        authority.write_text("the second")
        await webhook.post({})
        authority.write_text("the invalid one")
        problems.append(KubeconfigError([]))
        await webhook.post({})

    assert service.contexts == ["trusts first", "trusts first", "trusts the second", "trusts the second"]
