"""Whether the API server answers, agrees on the time, and lets the node's user do what the node does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from nodeagent.base import identity
from nodeagent.contracts.api import ApiProbe, Resource
from nodeagent.contracts.checks import CheckInconclusive, Finding, NodeCheck, problem, warning
from nodeagent.contracts.context import ImageContext
from nodeagent.errors import ApiError, ApiUnavailable, ConfigError

PROBE_SECONDS = 8.0
SKEW_SECONDS, LONG_SKEW_SECONDS = 2.0, 10.0
"""Leases and tokens suffer from the longer one; the shorter one comes from slow answers too."""
REVIEWS = Resource("authorization", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False)


def checks(context: ImageContext) -> Sequence[NodeCheck]:
    """Return the checks of the API server; none in standalone mode."""
    if not context.settings.kubeconfig:
        return ()
    looks = ApiChecks(context)
    return (
        NodeCheck("API server", looks.answers),
        NodeCheck("clock", looks.clock),
        NodeCheck("permissions", looks.permissions),
    )


class ApiChecks:
    """Asks the API server with the node's own credentials."""

    def __init__(self, context: ImageContext) -> None:
        self._context = context

    async def answers(self) -> Sequence[Finding]:
        try:
            response, _ = await self._probe()
        except ConfigError as error:
            return [problem(f"the kubeconfig cannot be used: {error}", "correct the file that --kubeconfig names")]
        except ApiUnavailable as error:
            text = f"the API server does not respond: {error}"
            return [problem(text, "see whether this node reaches it: name, route, firewall, its certificate")]
        if response.status == 401:
            return [
                problem("the API server does not know the node's user (401)", "issue a new client certificate or token")
            ]
        if response.status >= 500:
            return [problem(f"the API server responds with {response.status}", "look at the API server")]
        return []

    async def clock(self) -> Sequence[Finding]:
        try:
            response, ours = await self._probe()
        except (ConfigError, ApiUnavailable) as error:
            raise CheckInconclusive from error
        if response.date is None:
            raise CheckInconclusive
        return judge_skew((ours - response.date).total_seconds())

    async def permissions(self) -> Sequence[Finding]:
        api, missing = self._context.api, []
        if api is None:
            raise CheckInconclusive
        for verb, group, resource, name, namespace in wanted_permissions(self._context.node_name):
            group = f"{group}.{identity.current().api_domain}" if group else ""  # noqa: PLW2901
            resource, _, subresource = resource.partition("/")  # noqa: PLW2901
            attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
            spec = {"resourceAttributes": {**attributes, "name": name, "namespace": namespace}}
            try:
                answer: Mapping[str, Any] = await api.create(REVIEWS, {"metadata": {}, "spec": spec})
            except ApiError as error:
                if error.transient or error.code == 401:
                    raise CheckInconclusive from error
                return [_unknown(error)]
            if not (answer.get("status") or {}).get("allowed"):
                missing.append(f"{verb} {resource}{'/' + subresource if subresource else ''}")
        if not missing:
            return []
        remedy = "authorize the node's user: mode Node, or a binding to the role system:node"
        return [problem(f"the node's user may not: {', '.join(missing)}", remedy)]

    async def _probe(self) -> tuple[ApiProbe, datetime]:
        """Return the response, and the local time halfway between request and response."""
        clock = self._context.clock
        connection = self._context.connect_api(Path(self._context.settings.kubeconfig))
        try:
            before = clock.wall()
            response = await connection.probe(PROBE_SECONDS)
            return response, before + (clock.wall() - before) / 2
        finally:
            await connection.close()


def wanted_permissions(node: str) -> Sequence[tuple[str, str, str, str, str]]:
    """Return what the node does on the API server: verb, short group, resource, name, namespace."""
    return (
        ("list", "", "pods", "", ""),
        ("watch", "", "pods", "", ""),
        ("patch", "", "pods/status", "", ""),
        ("get", "", "nodes", node, ""),
        ("patch", "", "nodes/status", node, ""),
        ("list", "", "services", "", ""),
        ("create", "", "events", "", ""),
        ("update", "coordination", "leases", node, "kube-node-lease"),
    )


def judge_skew(seconds: float) -> Sequence[Finding]:
    """Return a finding when the clocks are *seconds* apart by more than answers take; positive is ahead."""
    if abs(seconds) < SKEW_SECONDS:
        return []
    way = "ahead of" if seconds > 0 else "behind"
    text = f"this machine's clock is {abs(seconds):.0f} s {way} the API server's"
    severe = abs(seconds) >= LONG_SKEW_SECONDS
    return [(problem if severe else warning)(text, "set up time synchronization (chrony, systemd-timesyncd)")]


def _unknown(error: ApiError) -> Finding:
    return warning(f"the API server does not tell what the node's user may do: {error}", "authorize it to ask")
