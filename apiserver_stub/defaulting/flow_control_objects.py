"""Flow schemas and priority levels that every server has: the mandatory ones, and those that operators may change."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from nodeagent.base.identity import Identity
from nodeagent.base.release import OLDEST, Release

EXEMPT, CATCH_ALL = "exempt", "catch-all"
"""Names of the mandatory priority levels and flow schemas."""

_BY_USER, _BY_NAMESPACE = "ByUser", "ByNamespace"
_LEASE_VERBS = ("get", "create", "update")
_PATHS = ({"verbs": ["*"], "nonResourceURLs": ["*"]},)

_SUGGESTED_LEVELS = (
    # Name, shares, percentage of lendable seats, queues, hand size
    ("system", 30, 33, 64, 6),
    ("node-high", 40, 25, 64, 6),
    ("leader-election", 10, 0, 16, 4),
    ("workload-high", 40, 50, 128, 6),
    ("workload-low", 100, 90, 128, 6),
    ("global-default", 20, 50, 128, 6),
)
_QUEUE_LENGTH = 50
_OF_ENDPOINTS = ("endpoint-controller", "workload-leader-election")
"""Flow schemas of leader elections and controllers that write Endpoints."""
_LEASES_ONLY = Release(1, 36)
"""First release without these flow schemas."""


def update_annotation(identity: Identity) -> str:
    """Return the annotation of objects whose spec the server keeps at its default."""
    return identity.label("autoupdate-spec", "apf")


def mandatory_levels() -> dict[str, Object]:
    """Return the specs of the mandatory priority levels by name."""
    reject = {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}, "lendablePercent": 0}
    return {
        CATCH_ALL: {"type": "Limited", "limited": reject},
        EXEMPT: {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    }


def suggested_levels() -> dict[str, Object]:
    """Return the specs of the priority levels that operators may change, by name."""
    found: dict[str, Object] = {}
    for name, shares, lendable, queues, hand in _SUGGESTED_LEVELS:
        queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": _QUEUE_LENGTH}
        limited = {
            "nominalConcurrencyShares": shares,
            "limitResponse": {"type": "Queue", "queuing": queuing},
            "lendablePercent": lendable,
        }
        found[name] = {"type": "Limited", "limited": limited}
    return found


def mandatory_schemas() -> dict[str, Object]:
    """Return the specs of the mandatory flow schemas by name."""
    everyone = _groups("system:unauthenticated", "system:authenticated")
    return {
        EXEMPT: _schema(EXEMPT, 1, "", _groups("system:masters"), (_everything(),), _PATHS),
        CATCH_ALL: _schema(CATCH_ALL, 10000, _BY_USER, everyone, (_everything(),), _PATHS),
    }


def suggested_schemas(identity: Identity, release: Release = OLDEST) -> dict[str, Object]:
    """Return the specs of the flow schemas of *release* that operators may change, by name."""
    everyone = _groups("system:unauthenticated", "system:authenticated")
    manager, scheduler = _users("system:kube-controller-manager"), _users("system:kube-scheduler")
    nodes, accounts = _groups("system:nodes"), _accounts(identity, "*")
    endpoint_accounts = _accounts(identity, "endpoint-controller", "endpointslicemirroring-controller")
    leases = _resources(_LEASE_VERBS, identity.group("coordination"), "leases")
    any_leases = _resources(("*",), identity.group("coordination"), "leases")
    node_status = _resources(("*",), "", "nodes", "nodes/status", cluster=True)
    endpoints = _resources(_LEASE_VERBS, "", "endpoints")
    election_objects = _resources(_LEASE_VERBS, "", "endpoints", "configmaps")
    probes = ({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]},)
    all_resources = (_everything(),)
    found = {
        "system-nodes": _schema("system", 500, _BY_USER, nodes, all_resources, _PATHS),
        "system-node-high": _schema("node-high", 400, _BY_USER, nodes, (node_status, any_leases)),
        "probes": _schema(EXEMPT, 2, "", everyone, (), probes),
        "system-leader-election": _schema(
            "leader-election", 100, _BY_USER, [*manager, *scheduler, *accounts], (leases,)
        ),
        "workload-leader-election": _schema("leader-election", 200, _BY_USER, accounts, (election_objects, leases)),
        "endpoint-controller": _schema("workload-high", 150, _BY_USER, [*manager, *endpoint_accounts], (endpoints,)),
        "kube-controller-manager": _schema("workload-high", 800, _BY_NAMESPACE, manager, all_resources, _PATHS),
        "kube-scheduler": _schema("workload-high", 800, _BY_NAMESPACE, scheduler, all_resources, _PATHS),
        f"{identity.system_namespace}-service-accounts": _schema(
            "workload-high", 900, _BY_NAMESPACE, accounts, all_resources, _PATHS
        ),
        "service-accounts": _schema(
            "workload-low", 9000, _BY_USER, _groups("system:serviceaccounts"), all_resources, _PATHS
        ),
        "global-default": _schema("global-default", 9900, _BY_USER, everyone, all_resources, _PATHS),
    }
    return (
        found if release < _LEASES_ONLY else {name: spec for name, spec in found.items() if name not in _OF_ENDPOINTS}
    )


def _schema(
    level: str,
    precedence: int,
    method: str,
    subjects: Sequence[Object],
    resources: Sequence[Object],
    paths: Sequence[Object] = (),
) -> Object:
    rule: Object = {"subjects": list(subjects)}
    rule |= {"resourceRules": list(resources)} if resources else {}
    rule |= {"nonResourceRules": list(paths)} if paths else {}
    spec: Object = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
    spec |= {"distinguisherMethod": {"type": method}} if method else {}
    return spec | {"rules": [rule]}


def _groups(*names: str) -> list[Object]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


def _users(*names: str) -> list[Object]:
    return [{"kind": "User", "user": {"name": name}} for name in names]


def _accounts(identity: Identity, *names: str) -> list[Object]:
    namespace = identity.system_namespace
    return [{"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}} for name in names]


def _everything() -> Object:
    return _resources(("*",), "*", "*", cluster=True)


def _resources(verbs: Sequence[str], group: str, *resources: str, cluster: bool = False) -> Object:
    rule: Object = {"verbs": list(verbs), "apiGroups": [group], "resources": list(resources), "namespaces": ["*"]}
    return rule | {"clusterScope": True} if cluster else rule
