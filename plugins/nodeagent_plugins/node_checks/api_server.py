"""API server checks: availability, clock skew and permissions of the node's user."""

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
"""Limits of the clock skew: the higher one affects leases and tokens; the lower one allows for slow responses."""
REVIEWS = Resource("authorization", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False)


def checks(context: ImageContext) -> Sequence[NodeCheck]:
    """Return the checks of the API server; none in standalone mode."""
    if not context.settings.kubeconfig:
        return ()
    checks = ApiChecks(context)
    return (
        NodeCheck("API server", checks.available),
        NodeCheck("clock", checks.clock),
        NodeCheck("permissions", checks.permissions),
    )


class ApiChecks:
    """Checks the API server with the node's credentials."""

    def __init__(self, context: ImageContext) -> None:
        self._context = context

    async def available(self) -> Sequence[Finding]:
        try:
            response, _ = await self._probe()
        except ConfigError as error:
            return [problem(f"invalid kubeconfig: {error}", "correct the file in --kubeconfig")]
        except ApiUnavailable as error:
            text = f"the API server does not respond: {error}"
            return [problem(text, "check the connection from this node: name, route, firewall, server certificate")]
        if response.status == 401:
            return [problem("the API server rejects the credentials (401)", "issue a new client certificate or token")]
        if response.status >= 500:
            return [problem(f"the API server responds with {response.status}", "check the API server")]
        return []

    async def clock(self) -> Sequence[Finding]:
        try:
            response, ours = await self._probe()
        except (ConfigError, ApiUnavailable) as error:
            raise CheckInconclusive from error
        if response.date is None:
            raise CheckInconclusive
        return check_skew((ours - response.date).total_seconds())

    async def permissions(self) -> Sequence[Finding]:
        api, missing = self._context.api, []
        if api is None:
            raise CheckInconclusive
        for verb, group, resource, name, namespace in required_permissions(self._context.node_name):
            group = f"{group}.{identity.current().api_domain}" if group else ""  # noqa: PLW2901
            resource, _, subresource = resource.partition("/")  # noqa: PLW2901
            attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
            spec: dict[str, Any] = {"resourceAttributes": {**attributes, "name": name, "namespace": namespace}}
            if resource == "pods" and verb in ("list", "watch"):
                # A node may only list the pods that are bound to it.
                bound = {"key": "spec.nodeName", "operator": "In", "values": [self._context.node_name]}
                spec["resourceAttributes"]["fieldSelector"] = {"requirements": [bound]}
            try:
                response: Mapping[str, Any] = await api.create(REVIEWS, {"metadata": {}, "spec": spec})
            except ApiError as error:
                if error.transient or error.code == 401:
                    raise CheckInconclusive from error
                return [_unknown(error)]
            if not (response.get("status") or {}).get("allowed"):
                missing.append(f"{verb} {resource}{'/' + subresource if subresource else ''}")
        if not missing:
            return []
        remedy = "authorize the node's user: mode Node, or a binding to the role system:node"
        return [problem(f"the node's user is not authorized to: {', '.join(missing)}", remedy)]

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


def required_permissions(node: str) -> Sequence[tuple[str, str, str, str, str]]:
    """Return the requests of a node: verb, short group, resource, name, namespace."""
    return (
        ("list", "", "pods", "", ""),
        ("watch", "", "pods", "", ""),
        ("patch", "", "pods/status", "", ""),
        ("get", "", "nodes", node, ""),
        ("patch", "", "nodes/status", node, ""),
        ("list", "", "services", "", ""),
        ("create", "", "events", "", ""),
        ("update", "coordination", "leases", node, "kube-node-lease"),
        ("update", "storage", "csinodes", node, ""),
        ("list", "storage", "csidrivers", "", ""),
    )


def check_skew(seconds: float) -> Sequence[Finding]:
    """Return a finding if the clocks differ by more than response times explain; positive *seconds* are ahead."""
    if abs(seconds) < SKEW_SECONDS:
        return []
    direction = "ahead of" if seconds > 0 else "behind"
    text = f"the clock of this host is {abs(seconds):.0f} s {direction} the API server's"
    severe = abs(seconds) >= LONG_SKEW_SECONDS
    return [(problem if severe else warning)(text, "set up time synchronization (chrony, systemd-timesyncd)")]


def _unknown(error: ApiError) -> Finding:
    return warning(f"failed to check the permissions of the node's user: {error}", "authorize selfsubjectaccessreviews")
