"""The kinds that scenarios are about. No I/O."""

from __future__ import annotations

from tests.differential.scenarios import NAMESPACE
from tests.differential.sequences.script import Kind

CONFIG_MAP = Kind(
    "v1",
    "ConfigMap",
    "configmaps",
    {"data": {"a": "1", "b": "2"}},
    ({"data": {"a": "3"}}, {"data": {"b": None, "c": "4"}}, {"immutable": False}, {"binaryData": {"x": "QUJD"}}),
    ("metadata.name=a", "metadata.name!=a", f"metadata.namespace={NAMESPACE}", "data.a=1", "metadata.uid=x"),
)
SECRET = Kind(
    "v1",
    "Secret",
    "secrets",
    {"type": "example.com/own", "data": {"a": "QUJD"}},
    ({"data": {"a": "QQ=="}}, {"stringData": {"b": "text"}}, {"data": None}),
    ("type=example.com/own", "type=Opaque,metadata.name=a", "type!=Opaque", "immutable=true", "type==Opaque"),
)
SERVICE = Kind(
    "v1",
    "Service",
    "services",
    {"spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}, {"name": "dns", "port": 53}]}},
    ({"spec": {"selector": {"app": "db"}}}, {"spec": {"sessionAffinity": "ClientIP"}}, {"spec": {"type": "NodePort"}}),
    ("spec.type=ClusterIP", "spec.clusterIP=None", "spec.ports=80", "metadata.name=a"),
    status=({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}, {"loadBalancer": {"ingress": [{"ip": "x"}]}}, {}),
)
POD = Kind(
    "v1",
    "Pod",
    "pods",
    {
        "spec": {
            "containers": [
                {"name": "web", "image": "nginx:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
                {"name": "side", "image": "busybox:1", "command": ["sleep", "9"]},
            ],
            "tolerations": [{"key": "a", "operator": "Exists"}],
        }
    },
    (
        {"metadata": {"labels": {"app": "web"}}},
        {"spec": {"activeDeadlineSeconds": 100}},
        {"spec": {"hostNetwork": True}},
        {"spec": {"terminationGracePeriodSeconds": 1}},
    ),
    (
        "spec.nodeName=",
        "status.phase=Pending",
        "status.phase!=Running",
        "spec.restartPolicy=Always",
        "spec.serviceAccountName=default",
        "spec.schedulerName=default-scheduler",
        "status.podIP=",
        "status.podIPs=",
        "status.nominatedNodeName=",
        "spec.hostNetwork=false",
        "spec.priority=0",
    ),
    status=({"phase": "Running"}, {"phase": "Running", "podIP": "10.0.0.1"}, {"reason": "x", "phase": "Odd"}),
)
LEASE = Kind(
    "coordination.k8s.io/v1",
    "Lease",
    "leases",
    {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}},
    ({"spec": {"holderIdentity": "b"}}, {"spec": {"leaseDurationSeconds": 0}}, {"spec": None}),
    ("metadata.name=a", "spec.holderIdentity=a"),
    creates_on_update=True,
)
ROLE = Kind(
    "rbac.authorization.k8s.io/v1",
    "Role",
    "roles",
    {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    ({"rules": []}, {"rules": None}, {"rules": [{"verbs": ["get"]}]}),
    ("metadata.name=a",),
    creates_on_update=True,
)
INGRESS = Kind(
    "networking.k8s.io/v1",
    "Ingress",
    "ingresses",
    {"spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}},
    (
        {"spec": {"ingressClassName": "x"}},
        {"spec": {"rules": [{"host": "example.com"}]}},
        {"spec": {"tls": [{"hosts": ["a.example.com"], "secretName": "s"}]}},
    ),
    ("metadata.name=a", "spec.ingressClassName=x"),
    status=({"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}, {"loadBalancer": {}}),
)
BUDGET = Kind(
    "policy/v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}},
    ({"spec": {"minAvailable": "50%"}}, {"spec": {"maxUnavailable": 1}}, {"spec": {"selector": None}}),
    ("metadata.name=a", "spec.minAvailable=1"),
    status=({"disruptionsAllowed": 1}, {"currentHealthy": -1}, {"conditions": [{"type": "A"}]}),
    metadata={
        # The entry keeps the bundled server's disruption controller from writing the status.
        "managedFields": [
            {
                "manager": "kube-controller-manager",
                "operation": "Update",
                "subresource": "status",
                "apiVersion": "policy/v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:status": {"f:conditions": {}}},
            }
        ]
    },
)
QUOTA = Kind(
    "v1",
    "ResourceQuota",
    "resourcequotas",
    {"spec": {"hard": {"pods": "10", "cpu": "4"}}},
    ({"spec": {"hard": {"pods": "20"}}}, {"spec": {"hard": {"pods": "1.5"}}}, {"spec": {"scopes": ["Terminating"]}}),
    ("metadata.name=a",),
    status=({"hard": {"pods": "10"}, "used": {"pods": "1"}}, {"used": {"pods": "-1"}}, {}),
)
LIMIT_RANGE = Kind(
    "v1",
    "LimitRange",
    "limitranges",
    {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}},
    ({"spec": {"limits": []}}, {"spec": {"limits": [{"type": "Pod", "min": {"cpu": "100m"}}]}}),
    ("metadata.name=a",),
    creates_on_update=True,
)
ENDPOINTS = Kind(
    "v1",
    "Endpoints",
    "endpoints",
    {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    ({"subsets": None}, {"subsets": [{"addresses": [{"ip": "10.0.0.3"}, {"ip": "10.0.0.2"}], "ports": [{"port": 1}]}]}),
    ("metadata.name=a",),
    creates_on_update=True,
)
PRIORITY_CLASS = Kind(
    "scheduling.k8s.io/v1",
    "PriorityClass",
    "priorityclasses",
    {"value": 10},
    ({"description": "text"}, {"value": 11}, {"globalDefault": False}),
    ("metadata.name=a", "value=10"),
    namespaced=False,
)
CLUSTER_ROLE = Kind(
    "rbac.authorization.k8s.io/v1",
    "ClusterRole",
    "clusterroles",
    {"rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]},
    ({"rules": []}, {"rules": [{"apiGroups": [""], "resources": ["x"], "verbs": ["y"]}]}),
    ("metadata.name=a",),
    namespaced=False,
    creates_on_update=True,
)
EVENT = Kind(
    "v1",
    "Event",
    "events",
    {"involvedObject": {"kind": "Pod", "namespace": NAMESPACE, "name": "a"}, "reason": "Started", "type": "Normal"},
    ({"count": 2}, {"message": "text"}, {"involvedObject": {"namespace": "other"}}),
    (
        "involvedObject.kind=Pod",
        "involvedObject.name=a,reason=Started",
        "type=Warning",
        "reportingComponent=",
        "source=",
        "reason!=Started",
        "message=text",
    ),
    creates_on_update=True,
)

NAMESPACED = (
    CONFIG_MAP,
    SECRET,
    SERVICE,
    POD,
    LEASE,
    ROLE,
    INGRESS,
    BUDGET,
    QUOTA,
    LIMIT_RANGE,
    ENDPOINTS,
    EVENT,
)
KINDS = (*NAMESPACED, PRIORITY_CLASS, CLUSTER_ROLE)
