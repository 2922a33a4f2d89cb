"""Ingresses and their classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiserver_stub.objects import Object, dig
from apiserver_stub.resources.columns import AGE, NAME, at
from apiserver_stub.resources.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.status import Cause, invalid_value, not_supported, required
from apiserver_stub.validation.names import subdomain_problems
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.options import Options

_GROUP = identity.current().group("networking")
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")


class IngressStrategy(Strategy):
    """Paths say how they match, and lead somewhere."""

    counted = ("spec",)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {"loadBalancer": {}}

    def validate(self, new: Object) -> list[Cause]:
        spec = new.get("spec") or {}
        causes = []
        if not spec.get("rules") and not spec.get("defaultBackend"):
            detail = "either `defaultBackend` or `rules` must be specified"
            causes.append(invalid_value("spec", "", detail))
        for index, rule in enumerate(spec.get("rules") or ()):
            for number, path in enumerate(dig(rule, ("http", "paths")) or ()):
                field = f"spec.rules[{index}].http.paths[{number}]"
                kind = path.get("pathType")
                if not kind:
                    causes.append(required(f"{field}.pathType", "pathType must be specified"))
                elif kind not in _PATH_TYPES:
                    causes.append(not_supported(f"{field}.pathType", kind, _PATH_TYPES))
                elif kind != "ImplementationSpecific" and not str(path.get("path") or "").startswith("/"):
                    causes.append(invalid_value(f"{field}.path", path.get("path") or "", "must be an absolute path"))
                if not path.get("backend"):
                    causes.append(required(f"{field}.backend"))
        name = spec.get("ingressClassName")
        if name is not None:
            causes += [invalid_value("spec.ingressClassName", name, problem) for problem in subdomain_problems(name)]
        return causes


class IngressClassStrategy(Strategy):
    """The controller stays."""

    counted = ("spec",)

    def validate(self, new: Object) -> list[Cause]:
        return []

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        after, before = (dig(item, ("spec", "controller")) for item in (new, old))
        return [] if after == before else [invalid_value("spec.controller", after or "", "field is immutable")]


def resources(options: Options) -> list[Resource]:
    return [
        Resource(
            _GROUP,
            "v1",
            "Ingress",
            "ingresses",
            storage_key="ingress",
            short_names=("ing",),
            strategy=IngressStrategy(),
            subresources=(Subresource("status"),),
            columns=(
                NAME,
                at("Class", "spec.ingressClassName"),
                Column("Hosts", _hosts),
                Column("Address", _addresses),
                Column("Ports", lambda obj: "80, 443" if dig(obj, ("spec", "tls")) else "80"),
                AGE,
            ),
        ),
        Resource(
            _GROUP,
            "v1",
            "IngressClass",
            "ingressclasses",
            namespaced=False,
            strategy=IngressClassStrategy(),
            columns=(NAME, at("Controller", "spec.controller"), Column("Parameters", _parameters), AGE),
        ),
    ]


def _hosts(obj: Object) -> str:
    return ",".join(filter(None, (rule.get("host") for rule in dig(obj, ("spec", "rules")) or ()))) or "*"


def _addresses(obj: Object) -> str:
    found = dig(obj, ("status", "loadBalancer", "ingress")) or ()
    return ",".join(item.get("ip") or item.get("hostname") or "" for item in found)


def _parameters(obj: Object) -> Any:
    found = dig(obj, ("spec", "parameters"))
    if not found:
        return "<none>"
    group = found.get("apiGroup")
    return f"{found.get('kind')}{f'.{group}' if group else ''}/{found.get('name')}"
