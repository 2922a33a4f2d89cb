"""Defaulting of static pods as by the API server, on plain data. No I/O."""

from __future__ import annotations

from typing import Any

from nodeagent.base.nulls import without_nulls
from nodeagent.base.quantity import Quantity

Plain = dict[str, Any]

_FILE_MODE = 0o644
_TOKEN_SECONDS = 3600
_MILLI = 10**6
_CONTAINER_LISTS = ("initContainers", "containers")


def default_pod(pod: Plain) -> Plain:
    """Return a copy of *pod*, in the shape of its JSON form, with the defaults of the API.

    Nulls are treated as absent. Values of the wrong type are kept, for the decoder to report.
    """
    pod = without_nulls(pod)
    spec = pod.get("spec")
    if isinstance(spec, dict):
        _default_spec(spec)
    return pod


def _default_spec(spec: Plain) -> None:
    for key, value in (
        ("dnsPolicy", "ClusterFirst"),
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("schedulerName", "default-scheduler"),
        ("enableServiceLinks", True),
        ("securityContext", {}),
    ):
        _fill(spec, key, value)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:  # The deprecated name has the same value.
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in _objects(spec, "volumes"):
        _default_volume(volume)
    for name in _CONTAINER_LISTS:
        for container in _objects(spec, name):
            _default_container(container, on_host=spec.get("hostNetwork") is True)
    _round(spec, "overhead")
    if isinstance(resources := spec.get("resources"), dict):
        _round(resources, "limits")
        _round(resources, "requests")


# --- containers -----------------------------------------------------------------------------------------------


def _default_container(container: Plain, *, on_host: bool) -> None:
    _fill(container, "terminationMessagePath", "/dev/termination-log")
    _fill(container, "terminationMessagePolicy", "File")
    _fill(container, "imagePullPolicy", default_pull_policy(container.get("image", "")))
    for port in _objects(container, "ports"):
        _fill(port, "protocol", "TCP")
        if on_host and not port.get("hostPort") and "containerPort" in port:
            port["hostPort"] = port["containerPort"]
    for variable in _objects(container, "env"):
        _default_source(variable.get("valueFrom"))
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        _default_probe(container.get(name))
    lifecycle = container.get("lifecycle")
    for handler in ("postStart", "preStop"):
        if isinstance(lifecycle, dict) and isinstance(lifecycle.get(handler), dict):
            _default_http(lifecycle[handler].get("httpGet"))
    _default_resources(container)


def default_pull_policy(image: object) -> str:
    """Return ``Always`` for an image without tag and digest or with the tag ``latest``, else ``IfNotPresent``."""
    if not isinstance(image, str) or "@" in image:
        return "IfNotPresent"
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return "Always" if not colon or tag == "latest" else "IfNotPresent"


def _default_resources(container: Plain) -> None:
    resources = container.setdefault("resources", {})
    if not isinstance(resources, dict):
        return
    limits, requests = resources.get("limits"), resources.get("requests", {})
    if isinstance(limits, dict) and limits and isinstance(requests, dict):
        resources["requests"] = {**limits, **requests}
    for name in ("limits", "requests"):
        _round(resources, name)


def _round(owner: Plain, name: str) -> None:
    """Round quantities up to thousandths, the precision of the API."""
    resources = owner.get(name)
    if not isinstance(resources, dict):
        return
    for key, value in resources.items():
        text = str(value)
        if text[-1:] in ("n", "u") or "." in text or "e" in text:
            try:
                amount = Quantity.parse(text)
            except ValueError:
                continue
            if amount.nanos % _MILLI:
                resources[key] = str(Quantity(nanos=-(-amount.nanos // _MILLI) * _MILLI, format=amount.format))


def _default_probe(probe: Any) -> None:
    if not isinstance(probe, dict):
        return
    for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(key):  # Zero means absent here.
            probe[key] = value
    _default_http(probe.get("httpGet"))
    if isinstance(probe.get("grpc"), dict):
        probe["grpc"].setdefault("service", "")


def _default_http(action: Any) -> None:
    if isinstance(action, dict):
        _fill(action, "path", "/")
        _fill(action, "scheme", "HTTP")


def _default_source(source: Any) -> None:
    """Set the defaults of a reference to a field or resource of the pod."""
    if not isinstance(source, dict):
        return
    if isinstance(source.get("fieldRef"), dict):
        _fill(source["fieldRef"], "apiVersion", "v1")
    if isinstance(source.get("resourceFieldRef"), dict):
        _fill(source["resourceFieldRef"], "divisor", "0")


# --- volumes --------------------------------------------------------------------------------------------------


def _default_volume(volume: Plain) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for name in ("secret", "configMap", "downwardAPI", "projected"):
        if isinstance(volume.get(name), dict):
            volume[name].setdefault("defaultMode", _FILE_MODE)
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")
    if isinstance(volume.get("iscsi"), dict):
        _fill(volume["iscsi"], "iscsiInterface", "default")
    if isinstance(volume.get("downwardAPI"), dict):
        _default_items(volume["downwardAPI"])
    if isinstance(volume.get("projected"), dict):
        for source in _objects(volume["projected"], "sources"):
            if isinstance(source.get("downwardAPI"), dict):
                _default_items(source["downwardAPI"])
            if isinstance(source.get("serviceAccountToken"), dict):
                source["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_SECONDS)


def _default_items(downward: Plain) -> None:
    for item in _objects(downward, "items"):
        _default_source(item)


# --- plain data -----------------------------------------------------------------------------------------------


def _fill(owner: Plain, key: str, value: Any) -> None:
    """Set the value of *key* if it is absent or an empty string."""
    if owner.get(key, "") == "":
        owner[key] = value


def _objects(owner: Plain, key: str) -> list[Plain]:
    value = owner.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
