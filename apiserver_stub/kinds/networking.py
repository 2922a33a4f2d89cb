"""Ingresses and IngressClasses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting import networking as defaulting
from apiserver_stub.kinds.columns import AGE, NAME, at, load_balancer_addresses
from apiserver_stub.kinds.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.validation.ingresses import (
    CLASS_ANNOTATION,
    validate_ingress,
    validate_ingress_class,
    validate_ingress_class_update,
    validate_ingress_update,
)
from apiserver_stub.validation.services import validate_balancer_status
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

_GROUP = identity.current().group("networking")
_SHOWN_HOSTS = 3


class IngressStrategy(Strategy):
    """Ingresses; controllers report load balancer addresses in the status."""

    counted = ("spec",)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {"loadBalancer": {}}

    def validate(self, new: Object) -> list[Cause]:
        return validate_ingress(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource:
            return validate_balancer_status(dig(new, ("status", "loadBalancer")) or {}, "status.loadBalancer")
        return validate_ingress_update(new, old)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        annotations = new["metadata"].get("annotations") or {}
        if old is not None or CLASS_ANNOTATION not in annotations or "ingressClassName" in new["spec"]:
            return []
        return [f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"]


class IngressClassStrategy(Strategy):
    """IngressClasses; the controller is immutable."""

    counted = ("spec",)

    def default(self, new: Object) -> None:
        defaulting.INGRESS_CLASS.apply(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_ingress_class(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_ingress_class_update(new, old)


def resources(settings: KindSettings) -> list[Resource]:
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
    rules = dig(obj, ("spec", "rules")) or ()
    hosts: list[str] = []
    for rule in rules:
        if len(hosts) == _SHOWN_HOSTS:
            return f"{','.join(hosts)} + {len(rules) - _SHOWN_HOSTS} more..."
        if host := rule.get("host"):
            hosts.append(host)
    return ",".join(hosts) or "*"


def _addresses(obj: Object) -> str:
    return ",".join(load_balancer_addresses(obj))


def _parameters(obj: Object) -> Any:
    found = dig(obj, ("spec", "parameters"))
    if not found:
        return "<none>"
    group = found.get("apiGroup")
    return f"{found.get('kind')}{f'.{group}' if group else ''}/{found.get('name')}"
