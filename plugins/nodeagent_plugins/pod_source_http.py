"""Static pods from a URL (spec: config.staticPodURL, config.staticPodURLHeader, config.httpCheckFrequency).

The response is one Pod or a PodList. An invalid response does not change the pods; header values are never logged.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from nodeagent import hookimpl
from nodeagent.base import yamlsafe
from nodeagent.base.aio import Clock
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.pods import PodSource, PublishPods
from nodeagent.errors import ConfigError, NodeAgentError, Problem
from nodeagent.model.pod import Pod
from nodeagent.model.static_pod import static_pod
from nodeagent.model.unknown_fields import UNKNOWN_FIELDS_IGNORED, unknown_fields

if TYPE_CHECKING:
    import aiohttp

_log = logging.getLogger(__name__)

MAX_BYTES = 10 * 1024 * 1024
REQUEST_SECONDS = 10.0
_LIMITS = yamlsafe.Limits(max_bytes=MAX_BYTES)
_MAX_SHOWN = 1000


@hookimpl
def nodeagent_provide_pod_sources(context: AgentContext) -> Sequence[PodSource]:
    config = context.config
    if not config.static_pod_url:
        return ()
    fetch = Fetcher(config.static_pod_url, config.static_pod_url_header)
    seconds = config.http_check_frequency.seconds
    allowed = not context.gates.enabled("PreventStaticPodAPIReferences")
    source = HttpPodSource(
        config.static_pod_url, fetch, context.node_name, context.clock, seconds, references_allowed=allowed
    )
    return (source,)


class FetchError(NodeAgentError):
    """The response is missing or invalid."""

    transient = True


class HttpPodSource:
    """Publishes the pods at a URL.

    :param fetch: returns the body, raising :class:`FetchError`.
    :param check_seconds: interval of requests.
    :param references_allowed: whether pods may refer to API objects.
    """

    name = "http"

    def __init__(
        self,
        url: str,
        fetch: Callable[[], Any],
        node_name: str,
        clock: Clock,
        check_seconds: float,
        *,
        references_allowed: bool = True,
    ) -> None:
        self._url, self._fetch, self._node_name = url, fetch, node_name
        self._clock, self._check, self._references_allowed = clock, check_seconds, references_allowed
        self._failures = 0

    async def run(self, publish: PublishPods) -> None:
        """Request immediately and every *check_seconds* until cancelled; publish changes."""
        digest = b""
        while True:
            due = self._clock.now() + self._check
            try:
                body = await self._fetch()
                new = hashlib.blake2b(body, digest_size=16).digest()
                if new != digest:
                    pods = await asyncio.to_thread(
                        read_pods,
                        body,
                        self._url,
                        self._node_name,
                        self._clock.wall(),
                        references_allowed=self._references_allowed,
                    )
                    digest = new
                    publish(pods)
            except (FetchError, ConfigError, yamlsafe.YamlError) as error:
                self._failed(error)
            else:
                self._succeeded()
            await self._clock.sleep_until(due)

    def _failed(self, error: Exception) -> None:
        """Log the first of consecutive failures, then at increasing intervals."""
        self._failures += 1
        if self._failures & (self._failures - 1) == 0:
            shown = str(error).replace("\n", "; ")[:_MAX_SHOWN]
            detail = {"url": self._url, "err": shown, "failures": self._failures}
            _log.error("Failed to read pods from URL", extra=detail)

    def _succeeded(self) -> None:
        if self._failures:
            _log.info("Successfully read pods from URL", extra={"url": self._url, "failures": self._failures})
        self._failures = 0


def read_pods(
    body: bytes, url: str, node_name: str, seen_at: datetime, *, references_allowed: bool = True
) -> list[Pod]:
    """Return the pods in *body*: a Pod, the items of a PodList, or none if it is empty.

    :raises ConfigError: a pod is invalid; then all are rejected.
    :raises YamlError: the body is not YAML or JSON.
    """
    if not body.strip():
        return []
    plain = yamlsafe.load(body, _LIMITS)
    items = [plain]
    if isinstance(plain, dict) and plain.get("kind") in ("PodList", "List"):
        items = plain.get("items") or []
    pods: list[Pod] = []
    problems: list[Problem] = []
    for item in items:
        if item is not plain and isinstance(item, dict):  # Items of a typed list can omit kind and apiVersion.
            item = {"apiVersion": "v1", "kind": "Pod", **item}  # noqa: PLW2901
        try:
            pods.append(_pod(item, url, node_name, seen_at, references_allowed=references_allowed))
            if unknown := ", ".join(map(str, unknown_fields(item))):
                _log.warning(  # wording: ok
                    UNKNOWN_FIELDS_IGNORED,  # wording: ok
                    extra={"url": url, "fields": unknown[:_MAX_SHOWN]},
                )
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError(problems)
    return pods


def _pod(item: Any, url: str, node_name: str, seen_at: datetime, *, references_allowed: bool) -> Pod:
    return static_pod(
        item,
        node_name=node_name,
        source="http",
        origin=f"url:{url}",
        seen_at=seen_at,
        tolerate_everything=False,
        references_allowed=references_allowed,
    )


class Fetcher:
    """Requests a URL with limits on time and size.

    Redirects are followed only to the same host, because headers may contain secrets.
    """

    _MAX_REDIRECTS = 5

    def __init__(self, url: str, headers: Mapping[str, Sequence[str]], *, timeout_seconds: float = REQUEST_SECONDS):
        self._url, self._timeout = url, timeout_seconds
        self._headers = [(name, value) for name, values in (headers or {}).items() for value in values]

    def __repr__(self) -> str:
        return f"Fetcher({self._url!r}, headers={[(name, '***') for name, _ in self._headers]})"

    async def __call__(self) -> bytes:
        """Return the body.

        :raises FetchError: there is no response with status 200 in time, or it is too large.
        """
        import aiohttp
        from multidict import CIMultiDict

        try:
            async with (
                asyncio.timeout(self._timeout),
                aiohttp.ClientSession(
                    headers=CIMultiDict(self._headers), timeout=aiohttp.ClientTimeout(total=None)
                ) as session,
            ):
                return await self._get(session)
        except TimeoutError as error:
            raise FetchError(f"timed out after {self._timeout:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise FetchError(f"request failed: {error}") from error

    async def _get(self, session: aiohttp.ClientSession) -> bytes:
        from yarl import URL

        url = URL(self._url)
        for _ in range(self._MAX_REDIRECTS + 1):
            async with session.get(url, allow_redirects=False) as response:
                if response.status in (301, 302, 303, 307, 308):
                    target = url.join(URL(response.headers.get("Location", "")))
                    if target.origin() != url.origin():
                        raise FetchError(f"redirect to another host ({target.host}) is not followed")
                    url = target
                    continue
                if response.status != 200:
                    raise FetchError(f"status {response.status} {response.reason}")
                return await _body(response)
        raise FetchError(f"more than {self._MAX_REDIRECTS} redirects")


async def _body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(1 << 16):
        body += chunk
        if len(body) > MAX_BYTES:
            raise FetchError(f"the response exceeds {MAX_BYTES} bytes")
    return bytes(body)
