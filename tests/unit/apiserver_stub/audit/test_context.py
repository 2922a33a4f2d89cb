"""Tests for audit contexts: the stages of a request."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

from apiserver_stub.apimachinery.request import Query, parse_path
from apiserver_stub.audit.context import Audit
from apiserver_stub.audit.event import Event
from apiserver_stub.audit.policy import read_policy
from nodeagent.base.identity import Identity

POLICY = b"{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}"


class SlowBackend:
    """Backend that records stages and never finishes writing."""

    strict = False

    def __init__(self) -> None:
        self.stages: list[str] = []

    def submit(self, event: Event) -> asyncio.Future[bool]:
        self.stages.append(event.stage)
        return asyncio.get_running_loop().create_future()

    async def wait(self, delivered: asyncio.Future[bool]) -> bool:
        return await delivered


async def test_disconnect_after_the_response_adds_no_second_end() -> None:
    backend: Any = SlowBackend()
    audit = Audit(read_policy(POLICY, Identity()), [backend], Counter(), Identity())
    http: Any = SimpleNamespace(headers={"Audit-ID": "a"}, target="/version", remote=None)
    context = audit.begin(http, parse_path("GET", "/version", Query("")), None)
    assert context is not None

    ending = asyncio.ensure_future(context.ended())
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.gather(ending, return_exceptions=True)
    context.abandoned()

    assert backend.stages == ["ResponseComplete"]


async def test_body_with_a_malformed_key_is_left_out_of_the_event() -> None:
    events: list[Event] = []
    backend: Any = SimpleNamespace(strict=False, submit=events.append)
    policy = read_policy(POLICY.replace(b"Metadata", b"Request"), Identity())
    http: Any = SimpleNamespace(headers={"Audit-ID": "a"}, target="/api/v1/pods", remote=None)
    context = Audit(policy, [backend], Counter(), Identity()).begin(
        http, parse_path("POST", "/api/v1/namespaces/a/pods", Query("")), None
    )
    assert context is not None

    context.sent({"Content-Type": "application/json"}, b'{"kin\xe5d": "Pod"}')

    assert context.event.request_object is None
