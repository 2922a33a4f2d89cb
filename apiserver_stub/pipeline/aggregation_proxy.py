"""Proxy of requests that an API service assigns to an extension API server (spec: opt.proxy-client-cert-file)."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from apiserver_stub.aggregation.identity_headers import headers_of
from apiserver_stub.aggregation.remotes import Remote
from apiserver_stub.aggregation.service_resolver import Unresolved
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.nodes.agents import Unreachable
from apiserver_stub.nodes.reverse_proxy import relay
from apiserver_stub.pipeline.error_responses import PlainError
from nodeagent.base.tunnel import is_upgrade

if TYPE_CHECKING:
    from apiserver_stub.aggregation.extension_client import ExtensionClient
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.audit.context import AuditContext
    from apiserver_stub.nodes.stream import Stream
    from apiserver_stub.pipeline.limits import Limits
    from apiserver_stub.pipeline.stream_response import StreamResponder
    from apiserver_stub.transport.http import HttpRequest
    from apiserver_stub.transport.rendered import Rendered

_log = logging.getLogger(__name__)

LONG_RUNNING = frozenset(["attach", "exec", "log", "portforward", "proxy"])
"""Subresources whose responses have no time limit, as those of watches."""


class AggregationProxy:
    """Proxy to extension API servers.

    :param rejects_redirects: whether redirects do not reach the client (spec:
        opt.aggregator-reject-forwarding-redirect).
    :param sends_uids: whether requests contain the UIDs of users.
    """

    def __init__(
        self,
        extensions: ExtensionClient,
        limits: Limits,
        streams: StreamResponder,
        *,
        rejects_redirects: bool,
        sends_uids: bool,
    ) -> None:
        self._extensions, self._limits, self._streams = extensions, limits, streams
        self._rejects_redirects, self._sends_uids = rejects_redirects, sends_uids

    async def run(
        self, http: HttpRequest, request: Request, remote: Remote, audit_context: AuditContext | None
    ) -> Rendered | None:
        """Forward *request* to *remote*, within the limits of requests, and send its response.

        :returns: the response to send if the request was not forwarded because of a limit.

        :raises ApiError: the request is rejected before the response starts.
        :raises ConnectionError: the response ended early.
        """
        info = request.info
        passing = self._streams.stream(http, info, request.query, audit_context)

        async def respond() -> None:
            handler = partial(self._proxy, request, remote)
            await self._streams.carry(passing, handler, info, None, audit_context)

        if info.verb == "watch" or info.subresource in LONG_RUNNING or is_upgrade(http):
            await respond()
            return None
        try:
            return await self._limits.limited(http, request, None, audit_context, respond)
        except ApiError as error:
            if passing.started:
                raise ConnectionResetError(str(error)) from error
            raise

    async def _proxy(self, request: Request, remote: Remote, passing: Stream) -> Rendered | None:
        if not remote.available:
            raise _unavailable("service unavailable")
        try:
            endpoint = await self._extensions.endpoint_of(remote)
            caller = list(headers_of(request.user, with_uid=self._sends_uids))
        except Unresolved as error:
            _log.error("error resolving %s/%s", remote.namespace, remote.service, extra={"err": error})
            raise _unavailable("service unavailable") from error
        except (OSError, ValueError) as error:
            raise PlainError(500, "InternalError", str(error)) from error
        redirects = not self._rejects_redirects
        try:
            return await relay(passing, endpoint, passing.http.target, "", caller=caller, redirects=redirects)
        except Unreachable as error:
            raise _unavailable(error.message) from error


def _unavailable(message: str) -> PlainError:
    return PlainError(503, "ServiceUnavailable", message)
