"""The node authorizer: nodes have the rules of kubelets and read only objects of their pods.

spec: opt.authorization-mode
"""

from __future__ import annotations

from collections.abc import Callable

from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.authz import ALLOW, NO_OPINION, AuthorizationResult, Rules
from apiserver_stub.authz.bootstrap import node_rules
from apiserver_stub.authz.graph import NodeGraph
from apiserver_stub.authz.store_index import IndexUpdater
from apiserver_stub.storage import Store
from nodeagent.base.gates import FeatureGates
from nodeagent.base.identity import Identity
from nodeagent.base.release import OLDEST, Release

_PREFIX = "system:node:"
_GROUP = "system:nodes"
_OWN = frozenset(["get", "create", "update", "patch", "delete"])
_READ = frozenset(["get", "list", "watch"])
_UNSELECTED = "can only list/watch pods with spec.nodeName field selector"
_ACCOUNT_GATES = ("NodeAgentServiceAccountTokenForCredentialProviders", "PodCertificateRequest")
"""Gates with which nodes may read the service accounts of their pods."""
_RESOURCE_SLICES = Release(1, 30)
"""First release with resource slices."""
_SLICE_VERBS = (
    "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, "
    "deletecollection"
)
_NO_RULES = "node authorizer does not support user rule resolution"


class NodeAuthorizer:
    """Authorizer of nodes, which are identified by group and name; it has no opinion on other users."""

    def __init__(
        self, store: Store, identity: Identity, gates: FeatureGates | None = None, release: Release = OLDEST
    ) -> None:
        """Create the authorizer; without *gates*, all features after release 1.29 are disabled."""
        self._gates = gates
        self._graph, self._rules = NodeGraph(identity), node_rules(identity, gates, release)
        self.follower = IndexUpdater(store, self._graph.collections, self._graph)
        storage = identity.group("storage")
        self._lease_namespace = identity.node_lease_namespace
        self._judges: dict[tuple[str, str], Callable[[str, RequestInfo], AuthorizationResult]] = {
            ("", "secrets"): self._read_object,
            ("", "configmaps"): self._read_object,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._get_object,
            (identity.group("resource"), "resourceclaims"): self._get_object,
            (storage, "volumeattachments"): self._get_object,
            ("", "serviceaccounts"): self._service_account,
            (identity.group("coordination"), "leases"): self._lease,
            (storage, "csinodes"): self._csi_node,
        }
        self._has_selectors = self._is_enabled("AuthorizeNodeWithSelectors")
        if self._has_selectors:
            self._judges |= {("", "nodes"): self._node, ("", "pods"): self._pod}
        if release >= _RESOURCE_SLICES:
            self._judges[identity.group("resource"), "resourceslices"] = self._resource_slice
        if self._is_enabled("PodCertificateRequest"):
            judge = self._pod_certificate_request if self._has_selectors else _no_opinion
            self._judges[identity.group("certificates"), "podcertificaterequests"] = judge

    async def authorize(self, user: User, info: RequestInfo) -> AuthorizationResult:
        if not _is_node(user):
            return NO_OPINION
        node = user.name.removeprefix(_PREFIX)
        if not node:
            return _no(f'unknown node for user "{user.name}"')
        judge = self._judges.get((info.group, info.resource)) if info.is_resource else None
        if judge is not None:
            return judge(node, info)
        return ALLOW if any(rule.allows(info) for rule in self._rules) else NO_OPINION

    def rules(self, user: User, namespace: str) -> Rules:
        """Return no rules, since the objects that a node may read change with every pod."""
        return Rules(incomplete=True, errors=[_NO_RULES]) if _is_node(user) else Rules()

    def _read_object(self, node: str, info: RequestInfo) -> AuthorizationResult:
        if info.verb not in _READ:
            return _no("can only read resources of this type")
        if info.subresource:
            return _no("cannot read subresource")
        if not info.namespace:
            return _no("can only read namespaced object of this type")
        return self._related(node, info)

    def _get_object(self, node: str, info: RequestInfo) -> AuthorizationResult:
        if info.verb != "get":
            return _no("can only get individual resources of this type")
        if info.subresource:
            return _no("cannot get subresource")
        return self._related(node, info)

    def _claim(self, node: str, info: RequestInfo) -> AuthorizationResult:
        if info.subresource != "status":
            return self._get_object(node, info)
        if info.verb not in ("update", "patch"):
            return _no("can only get/update/patch this type")
        return self._related(node, info)

    def _node(self, node: str, info: RequestInfo) -> AuthorizationResult:
        if info.subresource == "status":
            return ALLOW if info.verb in ("update", "patch") else NO_OPINION
        if info.subresource:
            return NO_OPINION
        if info.verb in _READ and info.name != node:
            other = f"'{info.name}'" if info.name else "all nodes"
            return _no(f"node '{node}' cannot read {other}, only its own Node object")
        return ALLOW if info.verb in (*_READ, "create", "update", "patch") else NO_OPINION

    def _pod(self, node: str, info: RequestInfo) -> AuthorizationResult:
        if info.subresource:
            verbs = {"status": ("update", "patch"), "eviction": ("create",)}.get(info.subresource, ())
            return ALLOW if info.verb in verbs else NO_OPINION
        if info.verb in ("create", "delete"):
            return ALLOW
        if info.verb == "get":
            return self._get_object(node, info)
        if info.verb not in ("list", "watch"):
            return NO_OPINION
        if info.selected_node == node:
            return ALLOW
        return self._related(node, info) if info.name else _no(_UNSELECTED)

    def _resource_slice(self, node: str, info: RequestInfo) -> AuthorizationResult:
        if info.subresource:
            return _no("cannot authorize ResourceSlice subresources")
        match info.verb:
            case "create":
                return ALLOW
            case "get" | "update" | "patch" | "delete":
                return self._related(node, info)
            case "watch" | "list" | "deletecollection":
                if not self._has_selectors or info.selected_node == node:
                    return ALLOW
                return _no("can only list/watch/deletecollection resourceslices with nodeName field selector")
        return _no(_SLICE_VERBS)

    def _pod_certificate_request(self, node: str, info: RequestInfo) -> AuthorizationResult:
        if info.subresource:
            return _no("nodes may not access the status subresource of PodCertificateRequests")
        match info.verb:
            case "create":
                return ALLOW
            case "get":
                return self._related(node, info)
            case "list" | "watch":
                if info.selected_node == node:
                    return ALLOW
                return _no("can only list/watch podcertificaterequests with nodeName field selector")
        return _no(f"nodes may not {info.verb} podcertificaterequests")

    def _service_account(self, node: str, info: RequestInfo) -> AuthorizationResult:
        if info.verb != "get" or info.subresource or not self._has_account_gates:
            return self._token(node, info)
        if not any(map(self._is_enabled, _ACCOUNT_GATES)):
            return _no("not allowed to get service accounts")
        return self._read_object(node, info)

    def _is_enabled(self, gate: str) -> bool:
        return self._gates is not None and self._gates.enabled(gate)

    @property
    def _has_account_gates(self) -> bool:
        return self._gates is not None and any(map(self._gates.exists, _ACCOUNT_GATES))

    def _token(self, node: str, info: RequestInfo) -> AuthorizationResult:
        if info.verb != "create" or not info.name:
            return _no("can only create tokens for individual service accounts")
        if info.subresource != "token":
            return _no("can only create token subresource of serviceaccount")
        return self._related(node, info)

    def _lease(self, node: str, info: RequestInfo) -> AuthorizationResult:
        if info.verb not in _OWN:
            return _no("can only get, create, update, patch, or delete a node lease")
        if info.namespace != self._lease_namespace:
            return _no(f'can only access leases in the "{self._lease_namespace}" system namespace')
        if info.verb != "create" and info.name != node:  # The name is not part of the attributes of a create request.
            return _no("can only access node lease with the same name as the requesting node")
        return ALLOW

    def _csi_node(self, node: str, info: RequestInfo) -> AuthorizationResult:
        if info.verb not in _OWN:
            return _no("can only get, create, update, patch, or delete a CSINode")
        if info.subresource:
            return _no("cannot authorize CSINode subresources")
        if info.verb != "create" and info.name != node:
            return _no("can only access CSINode with the same name as the requesting node")
        return ALLOW

    def _related(self, node: str, info: RequestInfo) -> AuthorizationResult:
        if not info.name:
            return _no("No Object name found")
        self.follower.catch_up()
        if self._graph.belongs(node, (info.resource, info.namespace, info.name)):
            return ALLOW
        return _no(f"no relationship found between node '{node}' and this object")


def _is_node(user: User) -> bool:
    return user.name.startswith(_PREFIX) and _GROUP in user.groups


def _no_opinion(node: str, info: RequestInfo) -> AuthorizationResult:
    return NO_OPINION


def _no(reason: str) -> AuthorizationResult:
    return AuthorizationResult("no-opinion", reason)
