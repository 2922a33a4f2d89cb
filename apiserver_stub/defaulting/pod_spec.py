"""Defaults of pods and of the pod specs in pod templates."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.defaulting.images import image_pull_policy
from apiserver_stub.defaulting.pod_level_resources import default_pod_level_resources
from apiserver_stub.defaulting.table import Defaults
from apiserver_stub.defaulting.volumes import FIELD_REF, VOLUME
from nodeagent.base.identity import Identity

_INIT_ANNOTATIONS = tuple(
    (name, f"pod.{level}") for name in ("init-containers", "init-container-statuses") for level in ("beta", "alpha")
)
_HTTP_GET = Defaults({"path": "/", "scheme": "HTTP"})
_HOOK = Defaults(below={"httpGet": _HTTP_GET})
_FILE_REF = Defaults({"optional": False})
_PROBE = Defaults(
    {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    below={"httpGet": _HTTP_GET, "grpc": Defaults({"service": ""})},
)


def init_annotations(identity: Identity) -> tuple[str, ...]:
    """Return the annotations that held init containers before the field existed."""
    return tuple(identity.label(name, prefix) for name, prefix in _INIT_ANNOTATIONS)


def drop_annotations(metadata: Object, keys: Sequence[str]) -> None:
    """Drop the annotations *keys* of *metadata*."""
    annotations = metadata.get("annotations")
    if not annotations:
        return
    for key in keys:
        annotations.pop(key, None)
    if not annotations:
        del metadata["annotations"]


def _default_container(container: Object) -> None:
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = image_pull_policy(container.get("image") or "")


def _default_spec(spec: Object) -> None:
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _default_pod(pod: Object) -> None:
    spec = pod.setdefault("spec", {})
    spec.setdefault("enableServiceLinks", True)
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            if limits := (container.get("resources") or {}).get("limits"):
                requests = container["resources"].setdefault("requests", {})
                for name, text in limits.items():
                    requests.setdefault(name, text)
            if spec.get("hostNetwork"):
                for port in container.get("ports") or ():
                    if not port.get("hostPort") and (number := port.get("containerPort")):
                        port["hostPort"] = number
    default_pod_level_resources(spec)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1


def _default_addresses(status: Object) -> None:
    """Make the single address and the list of addresses agree; the single one has precedence."""
    address, addresses = status.get("podIP"), status.get("podIPs")
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and (first := addresses[0].get("ip")):
        status["podIP"] = first


_CONTAINER = Defaults(
    {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"},
    _default_container,
    {
        "ports": Defaults({"protocol": "TCP"}),
        "env": Defaults(below={"valueFrom": Defaults(below={"fieldRef": FIELD_REF, "fileKeyRef": _FILE_REF})}),
        "livenessProbe": _PROBE,
        "readinessProbe": _PROBE,
        "startupProbe": _PROBE,
        "lifecycle": Defaults(below={"postStart": _HOOK, "preStop": _HOOK}),
    },
)

POD_SPEC = Defaults(
    {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "securityContext": {},
    },
    _default_spec,
    {
        "volumes": VOLUME,
        "initContainers": _CONTAINER,
        "containers": _CONTAINER,
        "ephemeralContainers": _CONTAINER,
    },
)
"""Defaults of every pod spec."""

POD_STATUS = Defaults(rule=_default_addresses)

POD = Defaults(rule=_default_pod, below={"spec": POD_SPEC, "status": POD_STATUS})
"""Defaults of pods, which have more than the pod specs of other kinds."""
