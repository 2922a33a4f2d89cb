"""Ingresses and IngressClasses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting import networking as defaulting
from apiserver_stub.kinds.columns import AGE, NAME, at, load_balancer_addresses
from apiserver_stub.kinds.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.validation.address_rules import EARLY_RULES, AddressRules
from apiserver_stub.validation.ingresses import (
    class_annotation,
    validate_ingress,
    validate_ingress_class,
    validate_ingress_class_update,
    validate_ingress_update,
)
from apiserver_stub.validation.services import (
    ServiceRules,
    balancer_warnings,
    service_name_rule,
    validate_balancer_status,
)
from nodeagent.base.names import service_name_problems

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.identity import Identity

_SHOWN_HOSTS = 3


class IngressStrategy(Strategy):
    """Ingresses; controllers report load balancer addresses in the status."""

    counted = ("spec",)

    def __init__(
        self,
        identity: Identity,
        rules: AddressRules = EARLY_RULES,
        service_names: Callable[[str], list[str]] = service_name_problems,
    ) -> None:
        self._identity, self._rules, self._service_names = identity, rules, service_names

    def prepare_create(self, new: Object) -> None:
        new["status"] = {"loadBalancer": {}}

    def validate(self, new: Object) -> list[Cause]:
        return validate_ingress(new, self._identity, self._service_names)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource:
            path, rules = ("status", "loadBalancer"), ServiceRules(self._rules)
            return validate_balancer_status(dig(new, path) or {}, "status.loadBalancer", rules, dig(old, path))
        return validate_ingress_update(new, old, self._service_names)

    def status_warnings(self, new: Object) -> list[str]:
        return balancer_warnings(dig(new, ("status", "loadBalancer")) or {}, "status.loadBalancer", self._rules)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        annotations, key = new["metadata"].get("annotations") or {}, class_annotation(self._identity)
        if old is not None or key not in annotations or "ingressClassName" in new["spec"]:
            return []
        return [f"annotation \"{key}\" is deprecated, please use 'spec.ingressClassName' instead"]


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
    group = settings.identity.group("networking")
    return [
        Resource(
            group,
            "v1",
            "Ingress",
            "ingresses",
            storage_key="ingress",
            short_names=("ing",),
            strategy=IngressStrategy(
                settings.identity,
                AddressRules.of(settings.gates, settings.compatibility_version),
                service_name_rule(settings.gates),
            ),
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
            group,
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
