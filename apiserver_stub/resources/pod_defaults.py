"""What the server fills into a pod that leaves it out."""

from __future__ import annotations

from typing import Any

from apiserver_stub.objects import Object

_SOURCES_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")
_SERVICE_ACCOUNT_TOKEN_SECONDS = 3600


def apply_defaults(pod: Object) -> None:
    """Fill in the defaults of *pod*, in place; values of a wrong type are left for validation to find."""
    spec = pod.setdefault("spec", {})
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("enableServiceLinks", True)
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    grace = spec.setdefault("terminationGracePeriodSeconds", 30)
    if isinstance(grace, int) and grace < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    _write_amounts(spec.get("overhead"))
    host_network = spec.get("hostNetwork") is True
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in _objects(spec.get(kind)):
            _default_container(container, host_network=host_network)
    for volume in _objects(spec.get("volumes")):
        _default_volume(volume)


def image_pull_policy(image: str) -> str:
    """Return the policy for *image*: one without a tag, or with tag ``latest``, is always pulled."""
    if "@" in image:
        return "IfNotPresent"
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return "IfNotPresent" if colon and tag != "latest" else "Always"


def _default_container(container: Object, *, host_network: bool) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = image_pull_policy(str(container.get("image") or ""))
    if container.get("resources") is None:
        container["resources"] = {}
    resources = container["resources"]
    for amounts in resources.values() if isinstance(resources, dict) else ():
        _write_amounts(amounts)
    if isinstance(resources, dict) and isinstance(limits := resources.get("limits"), dict):
        requests = resources.setdefault("requests", {})
        if isinstance(requests, dict):
            for name, amount in limits.items():
                requests.setdefault(name, amount)
    for port in _objects(container.get("ports")):
        port.setdefault("protocol", "TCP")
        if host_network and not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(probe := container.get(name), dict):
            probe.setdefault("timeoutSeconds", 1)
            probe.setdefault("periodSeconds", 10)
            probe.setdefault("successThreshold", 1)
            probe.setdefault("failureThreshold", 3)
            _default_handler(probe)
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict):
            _default_handler(handler)
    for variable in _objects(container.get("env")):
        source = variable.get("valueFrom")
        field = source.get("fieldRef") if isinstance(source, dict) else None
        if isinstance(field, dict):
            field.setdefault("apiVersion", "v1")


def _write_amounts(amounts: Any) -> None:
    """Write amounts as text, as everyone reads them; JSON lets clients write numbers too."""
    if isinstance(amounts, dict):
        for name, amount in amounts.items():
            if isinstance(amount, int | float):
                amounts[name] = str(amount)


def _default_handler(handler: Object) -> None:
    http = handler.get("httpGet")
    if isinstance(http, dict):
        http.setdefault("path", "/")
        http.setdefault("scheme", "HTTP")
    rpc = handler.get("grpc")
    if isinstance(rpc, dict):
        rpc.setdefault("service", "")


def _default_volume(volume: Object) -> None:
    if not any(isinstance(value, dict) for value in volume.values()):
        volume["emptyDir"] = {}
    _write_amounts(volume.get("emptyDir"))
    for name in _SOURCES_WITH_MODE:
        if isinstance(source := volume.get(name), dict):
            source.setdefault("defaultMode", 420)
    if isinstance(path := volume.get("hostPath"), dict):
        path.setdefault("type", "")
    for source in _objects((volume.get("projected") or {}).get("sources")):
        if isinstance(token := source.get("serviceAccountToken"), dict):
            token.setdefault("expirationSeconds", _SERVICE_ACCOUNT_TOKEN_SECONDS)
        _default_items(source.get("downwardAPI"))
    _default_items(volume.get("downwardAPI"))


def _default_items(source: Any) -> None:
    for item in _objects(source.get("items") if isinstance(source, dict) else None):
        if isinstance(field := item.get("fieldRef"), dict):
            field.setdefault("apiVersion", "v1")


def _objects(items: Any) -> list[Object]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
