"""Validation of ingresses and ingress classes."""

from __future__ import annotations

from collections.abc import Callable

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    forbidden_value,
    invalid_each,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from apiserver_stub.validation.addresses import parse_address
from apiserver_stub.validation.container_ports import validate_port_number
from apiserver_stub.validation.domain_paths import validate_domain_path
from apiserver_stub.validation.names import path_problems
from nodeagent.base.identity import Identity
from nodeagent.base.names import (
    label_problems,
    port_name_problems,
    service_name_problems,
    subdomain_problems,
    wildcard_problems,
)

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_FORBIDDEN_PARTS, _FORBIDDEN_ENDS = ("//", "/./", "/../", "%2f", "%2F"), ("/..", "/.")
_SCOPES = ("Cluster", "Namespace")
_CONTROLLER_LIMIT_BYTES = 250
Problems = Callable[[str], list[str]]


def class_annotation(identity: Identity) -> str:
    """Return the deprecated annotation that contains the name of the ingress class."""
    return identity.label("ingress.class")


def validate_ingress(
    ingress: Object, identity: Identity, service_names: Problems = service_name_problems
) -> list[Cause]:
    """Return the errors in a new ingress, metadata aside.

    :param service_names: validates the names of services.
    """
    causes = _validate_spec(ingress["spec"], service_names, are_secrets_lenient=False, are_wildcards_lenient=False)
    key = class_annotation(identity)
    annotation = (ingress["metadata"].get("annotations") or {}).get(key)
    name = ingress["spec"].get("ingressClassName")
    if annotation is not None and name is not None and annotation != name:
        detail = "must match `ingressClassName` when both are specified"
        causes.append(invalid_value(f"annotations.{key}", annotation, detail))
    return causes


def validate_ingress_update(
    ingress: Object, old: Object, service_names: Problems = service_name_problems
) -> list[Cause]:
    """Return the errors in a changed ingress, metadata aside; what stored objects contain stays valid."""
    before = old["spec"]
    return _validate_spec(
        ingress["spec"],
        service_names,
        are_secrets_lenient=any(_secret_problems(tls) for tls in before.get("tls") or ()),
        are_wildcards_lenient=any(
            "*" in (rule.get("host") or "") and _validate_paths(rule, "", service_names)
            for rule in before.get("rules") or ()
        ),
    )


def validate_ingress_class(ingress_class: Object) -> list[Cause]:
    """Return the errors in an ingress class, metadata aside."""
    spec = ingress_class["spec"]
    controller, field = spec.get("controller") or "", "spec.controller"
    causes = []
    if len(controller.encode()) > _CONTROLLER_LIMIT_BYTES:
        causes.append(too_long(field, _CONTROLLER_LIMIT_BYTES))
    causes += validate_domain_path(controller, field)
    if (parameters := spec.get("parameters")) is not None:
        causes += _validate_parameters(parameters, "spec.parameters")
    return causes


def validate_ingress_class_update(ingress_class: Object, old: Object) -> list[Cause]:
    """Return the errors in a changed ingress class, metadata aside."""
    controller = ingress_class["spec"].get("controller") or ""
    changed = controller != (old["spec"].get("controller") or "")
    causes = [invalid_value("spec.controller", controller, "field is immutable")] if changed else []
    return causes + validate_ingress_class(ingress_class)


def _validate_spec(
    spec: Object, service_names: Problems, *, are_secrets_lenient: bool, are_wildcards_lenient: bool
) -> list[Cause]:
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    causes: list[Cause] = []
    if not rules and backend is None:
        detail = "either `defaultBackend` or `rules` must be specified"
        causes.append(Cause("FieldValueInvalid", f"Invalid value: []networking.IngressRule(nil): {detail}", "spec"))
    if backend is not None:
        causes += _validate_backend(backend, "spec.defaultBackend", service_names)
    for index, rule in enumerate(rules):
        field, host = f"spec.rules[{index}]", rule.get("host") or ""
        causes += _validate_host(host, f"{field}.host")
        if "*" not in host or not are_wildcards_lenient:
            causes += _validate_paths(rule, f"{field}.http.paths", service_names)
    for index, tls in enumerate(spec.get("tls") or ()):
        field = f"spec.tls[{index}]"
        for number, host in enumerate(tls.get("hosts") or ()):
            causes += invalid_each(f"{field}.hosts[{number}]", host, _host_problems(host))
        if not are_secrets_lenient:
            causes += invalid_each(f"{field}.secretName", tls.get("secretName") or "", _secret_problems(tls))
    if (name := spec.get("ingressClassName")) is not None:
        causes += invalid_each("spec.ingressClassName", name, subdomain_problems(name))
    return causes


def _host_problems(host: str) -> list[str]:
    return wildcard_problems(host) if "*" in host else subdomain_problems(host)


def _secret_problems(tls: Object) -> list[str]:
    name = tls.get("secretName")
    return subdomain_problems(name) if name else []


def _validate_host(host: str, field: str) -> list[Cause]:
    if not host:
        return []
    causes = []
    if parse_address(host) is not None:
        causes.append(invalid_value(field, host, "must be a DNS name, not an IP address"))
    return causes + invalid_each(field, host, _host_problems(host))


def _validate_paths(rule: Object, field: str, service_names: Problems) -> list[Cause]:
    if (http := rule.get("http")) is None:
        return []
    paths = http.get("paths") or []
    causes = [] if paths else [required(field)]
    for index, path in enumerate(paths):
        causes += _validate_path(path, f"{field}[{index}]", service_names)
    return causes


def _validate_path(path: Object, field: str, service_names: Problems) -> list[Cause]:
    kind, text = path.get("pathType"), path.get("path") or ""
    if kind is None:
        return [required(f"{field}.pathType", "pathType must be specified")]
    problems = []
    if kind in ("Exact", "Prefix"):
        problems += [] if text.startswith("/") else ["must be an absolute path"]
        problems += [f"must not contain '{part}'" for part in _FORBIDDEN_PARTS if part in text]
        problems += [f"cannot end with '{end}'" for end in _FORBIDDEN_ENDS if text.endswith(end)]
    elif kind == "ImplementationSpecific" and text and not text.startswith("/"):
        problems.append("must be an absolute path")
    causes = invalid_each(f"{field}.path", text, problems)
    if kind not in _PATH_TYPES:
        causes.append(not_supported(f"{field}.pathType", kind, _PATH_TYPES))
    return causes + _validate_backend(path.get("backend") or {}, f"{field}.backend", service_names)


def _validate_backend(backend: Object, field: str, service_names: Problems) -> list[Cause]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [invalid_value(field, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _validate_reference(resource, f"{field}.resource")
    if service is None:
        return [invalid_value(field, "", "resource or service backend is required")]
    name, path = service.get("name") or "", f"{field}.service"
    causes = invalid_each(f"{path}.name", name, service_names(name)) if name else [required(f"{path}.name")]
    port = service.get("port") or {}
    port_name, number = port.get("name") or "", port.get("number") or 0
    if port_name and number:
        causes.append(invalid_value(field, "", "cannot set both port name & port number"))
    elif port_name:
        causes += invalid_each(f"{path}.port.name", port_name, port_name_problems(port_name))
    elif number:
        causes += validate_port_number(number, f"{path}.port.number")
    else:
        causes.append(required(field, "port name or number is required"))
    return causes


def _validate_reference(reference: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    if (group := reference.get("apiGroup")) is not None:
        causes += invalid_each(f"{field}.apiGroup", group, subdomain_problems(group))
    for name in ("kind", "name"):
        if value := reference.get(name):
            causes += invalid_each(f"{field}.{name}", value, path_problems(value))
        else:
            causes.append(required(f"{field}.{name}", f"{name} is required"))
    return causes


def _validate_parameters(parameters: Object, field: str) -> list[Cause]:
    causes = _validate_reference(parameters, field)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope not in _SCOPES:
        at = f"{field}.scope"
        return [*causes, required(at) if scope is None else not_supported(at, scope, _SCOPES)]
    at = f"{field}.namespace"
    if scope == "Cluster":
        is_set = namespace is not None
        return causes + ([forbidden_value(at, "`parameters.scope` is set to 'Cluster'")] if is_set else [])
    if namespace is None:
        return [*causes, required(at, "`parameters.scope` is set to 'Namespace'")]
    return causes + invalid_each(at, namespace, label_problems(namespace))
