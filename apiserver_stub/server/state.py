"""The server as its parts see it: what a request needs, whether it is ready, and how it stops."""

from __future__ import annotations

import asyncio
import contextlib
import time

from apiserver_stub.admission import Admission
from apiserver_stub.aggregation.extension_client import ExtensionClient
from apiserver_stub.aggregation.remotes import Remotes
from apiserver_stub.audit.context import Audit
from apiserver_stub.authn import Authenticator
from apiserver_stub.authn.service_account import ServiceAccountTokens
from apiserver_stub.authz import Chain
from apiserver_stub.endpoints.health import Outcomes
from apiserver_stub.endpoints.page import Page
from apiserver_stub.flowcontrol.priority_and_fairness import PriorityAndFairness
from apiserver_stub.kinds import Registry, Resource
from apiserver_stub.nodes.agents import NodeAgents
from apiserver_stub.options import Options
from apiserver_stub.pipeline.cors import CorsAndHsts
from apiserver_stub.pipeline.deadlines import Deadlines
from apiserver_stub.storage import Store
from apiserver_stub.storage.monitor import Check, StoreMonitor
from apiserver_stub.storage.request_metrics import StoreRequestMetrics
from apiserver_stub.telemetry.request_metrics import Metrics
from apiserver_stub.telemetry.tracing import Tracing
from nodeagent.base.profiling.contention import ContentionProfile
from nodeagent.base.profiling.profiles import Profiles

_MAX_PROFILE_SECONDS = 300
_DRAIN_POLL_SECONDS = 0.02


class ApiServer:
    """Everything that requests need, and what controllers and verbs share."""

    def __init__(
        self,
        options: Options,
        store: Store,
        registry: Registry,
        *,
        authenticator: Authenticator,
        authorizer: Chain,
        tokens: ServiceAccountTokens,
        ca_certificate: str,
        agents: NodeAgents,
        audit: Audit | None = None,
    ) -> None:
        self.options: Options = options
        self.store: Store = store
        self.registry: Registry = registry
        self.authenticator, self.authorizer = authenticator, authorizer
        self.admission = Admission()
        self.tokens, self.ca_certificate = tokens, ca_certificate
        self.agents = agents
        self.audit = audit
        self.metrics = Metrics()
        self.polls = StoreMonitor(store)
        self.store_calls = StoreRequestMetrics()
        self.storage_checks: dict[str, Check] = {}
        """Health checks of the store, by name."""
        self.health = Outcomes()
        self.metric_choice = options.metric_choice()
        origins, directives = options.cors_allowed_origins, options.strict_transport_security_directives
        self.front = CorsAndHsts(origins, directives) if origins or directives else None
        self.fairness: PriorityAndFairness | None = None
        if options.enable_priority_and_fairness:
            total = options.max_requests_inflight + options.max_mutating_requests_inflight
            self.fairness = PriorityAndFairness(total, options.request_timeout_seconds / 4)
        self.remotes = Remotes()
        """Group versions that other servers serve."""
        self.extensions: ExtensionClient | None = None
        """Leads to those servers; set once the server starts."""
        self.tracing: Tracing | None = None
        self.page: Page | None = None
        """Set while there is a page for browsers."""
        self.contention: ContentionProfile | None = None
        """Runs while contention is profiled."""
        if options.contention_profiling and (options.profiling or options.debug_socket_path is not None):
            self.contention = ContentionProfile()
        max_profile_seconds = min(_MAX_PROFILE_SECONDS, options.request_timeout_seconds)
        self.profiles = Profiles(self.contention, max_seconds=max_profile_seconds)
        self.ready: bool = False
        self.leaving: bool = False
        """A stop was asked for: requests are still served, and ``/readyz`` sends callers elsewhere."""
        self.draining: bool = False
        """New requests are refused; those under way end."""
        self.stopping: asyncio.Event = asyncio.Event()
        """Watches end."""
        self._started = time.monotonic()
        self.address = ""
        self.deadlines = Deadlines()
        self.under_way = {True: 0, False: 0}
        """How many requests are under way, by whether they may write; watches and streams are not counted."""
        self.compresses = options.gates.enabled("APIResponseCompression")
        self.parts_with_strangers = options.http2_max_streams_per_connection > 0 and options.gates.enabled(
            "UnauthenticatedHTTP2DOSMitigation"
        )
        """Who is nobody and speaks HTTP/2 gets one answer a connection."""

    # Its life

    @property
    def in_livez_grace(self) -> bool:
        """Whether an unfinished start still counts as a good one."""
        return time.monotonic() - self._started < self.options.livez_grace_seconds

    async def drain(self) -> None:
        """Refuse new requests and return when those under way have ended, at the latest after the request timeout."""
        self.draining = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.options.request_timeout_seconds):
                while sum(self.under_way.values()):  # noqa: ASYNC110 - counted on every request, waited for once
                    await asyncio.sleep(_DRAIN_POLL_SECONDS)

    async def end_watches(self) -> None:
        """End watches, and wait for them as long as they are given."""
        self.stopping.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.options.shutdown_watch_grace_seconds):
                while self.metrics.watches:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(_DRAIN_POLL_SECONDS)

    # What controllers and verbs use

    def ttl_of(self, resource: Resource) -> int | None:
        """Return the lifetime in seconds of objects of *resource*, ``None`` when they stay."""
        return self.options.event_ttl_seconds or None if resource.ttl else None

    def positions(self, *collections: str) -> dict[str, int]:
        """Return where the logs of *collections* end now, for :meth:`changed_since`."""
        return {name: self.store.collection(name).end for name in collections}

    async def changed_since(self, positions: dict[str, int], *, timeout_seconds: float | None = None) -> None:
        """Return when one of the collections has moved on, or after *timeout_seconds*."""
        waits = [
            asyncio.ensure_future(self.store.collection(name).wait(position)) for name, position in positions.items()
        ]
        try:
            await asyncio.wait(waits, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
