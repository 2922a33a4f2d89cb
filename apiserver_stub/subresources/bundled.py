"""Handlers of the bundled kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from apiserver_stub.kinds.pod_binding import BindingRules
from apiserver_stub.nodes import pods, proxy
from apiserver_stub.subresources import Action, Handlers, Key
from apiserver_stub.subresources.bindings import Bindings
from apiserver_stub.subresources.component_statuses import Check, ComponentStatuses
from apiserver_stub.subresources.evictions import Evictions, EvictionSettings
from apiserver_stub.subresources.reviews import Reviews
from apiserver_stub.subresources.scale import Scales
from apiserver_stub.subresources.token_requests import TokenRequests
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.authn import Authenticator
    from apiserver_stub.authn.service_account import ServiceAccountTokens
    from apiserver_stub.authz import Chain
    from apiserver_stub.kinds.registry import Registry
    from apiserver_stub.nodes.stream import StreamHandler
    from apiserver_stub.verbs.context import VerbContext
    from nodeagent.base.gates import FeatureGates

_STREAM_GATE = "PodLogsQuerySplitStreams"
_STREAMS: dict[Key, StreamHandler] = {
    ("", "nodes", "proxy"): proxy.proxy_node,
    ("", "services", "proxy"): proxy.proxy_service,
    ("", "pods", "proxy"): pods.proxy_pod,
}


def bundled_handlers(
    context: VerbContext,
    registry: Registry,
    gates: FeatureGates,
    identity: Identity,
    *,
    authenticator: Authenticator,
    authorizer: Chain,
    tokens: ServiceAccountTokens,
    component_checks: Callable[[], Mapping[str, Check]],
    translations: Counter[int],
) -> Handlers:
    """Return the handlers of the bundled kinds.

    :param component_checks: return the checks of ComponentStatuses by name.
    :param translations: counts translated streams by code.
    """
    bindings = Bindings(context, BindingRules.of(gates))
    reviews = Reviews(context, authenticator, authorizer, selects=gates.enabled("AuthorizeWithSelectors"))
    settings = EvictionSettings(
        marks_pods=gates.enabled("PodDisruptionConditions"),
        reads_unhealthy_policy=gates.enabled("PDBUnhealthyPodEvictionPolicy"),
    )
    token_requests = TokenRequests(context, tokens, gates)
    authentication, authorization = (identity.group(name) for name in ("authentication", "authorization"))
    actions: dict[Key, Action] = {
        ("", "bindings", ""): bindings.create,
        ("", "pods", "binding"): bindings.create,
        ("", "pods", "eviction"): Evictions(context, registry, settings).create,
        ("", "serviceaccounts", "token"): token_requests.create,
        (authentication, "tokenreviews", ""): reviews.review_token,
        (authentication, "selfsubjectreviews", ""): reviews.review_self,
        (authorization, "subjectaccessreviews", ""): reviews.review_access,
        (authorization, "selfsubjectaccessreviews", ""): reviews.review_own_access,
        (authorization, "selfsubjectrulesreviews", ""): reviews.review_own_rules,
        (authorization, "localsubjectaccessreviews", ""): reviews.review_access,
    }
    readers: dict[tuple[str, str], Action] = {("", "componentstatuses"): ComponentStatuses(component_checks).read}
    rules = pods.WebSocketRules(
        translations if gates.enabled("TranslateStreamCloseWebsocketRequests") else None,
        gates.enabled("PortForwardWebsockets"),
        gates.enabled("ExtendWebSocketsToNodeAgent"),
    )
    selects_stream = gates.enabled(_STREAM_GATE) if gates.exists(_STREAM_GATE) else None
    streams = _STREAMS | {
        ("", "pods", "attach"): partial(pods.attach, rules=rules),
        ("", "pods", "exec"): partial(pods.exec_, rules=rules),
        ("", "pods", "log"): partial(pods.log, selects_stream=selects_stream),
        ("", "pods", "portforward"): partial(pods.port_forward, rules=rules),
    }
    return Handlers(actions, readers, Scales(context).handle, streams)
