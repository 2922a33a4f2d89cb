"""Type checks of the expressions of admission policies against the kinds that the policies match. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.cel import CelError
from apiserver_stub.cel.admission import KindChecker
from apiserver_stub.validation.schema_rules.kind_types import KindTypes

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Registry, Resource

_MAX_KINDS = 10


class PolicyTypeChecker:
    """Type checker of policies for the kinds of *registry* in minor release *minor*.

    :param api_domain: domain of API groups.
    """

    def __init__(self, registry: Registry, api_domain: str, minor: int) -> None:
        self._registry, self._api_domain, self._minor = registry, api_domain, minor

    def warnings(self, policy: Object) -> Iterator[Object | None]:
        """Yield a warning for each expression with errors for a kind, ``None`` after the checks for one kind.

        A check for a kind takes milliseconds, so that callers can pause between kinds. Warnings are yielded last.
        """
        expressions = dict(_expressions(policy))
        found: dict[str, list[str]] = {field: [] for field in expressions}
        for resource in self._matched(policy):
            checker = self._checker(policy, resource)
            kind = f"{resource.api_version}, Kind={resource.kind}"
            for field, text in expressions.items():
                if issues := checker.issues(text):
                    found[field].append(f"{kind}: {issues}")
            yield None
        for field, texts in found.items():
            if texts:
                yield {"fieldRef": field, "warning": "\n".join(texts)}

    def _matched(self, policy: Object) -> list[Resource]:
        """Return the kinds that the policy names, without wildcards, in order; a limited number."""
        found: dict[tuple[str, str, str], Resource] = {}
        for rule in dig(policy, ("spec", "matchConstraints", "resourceRules")) or ():
            groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
            resources = [name for name in rule.get("resources") or () if not {"*", "/"} & set(name)]
            if "*" in groups or "*" in versions:
                continue
            names = sorted((group, version, name) for group in groups for version in versions for name in resources)
            for name in names[: _MAX_KINDS - len(found)]:
                if (resource := self._registry.find(*name)) is not None:
                    found[resource.group, resource.version, resource.kind] = resource
        return [found[key] for key in sorted(found)]

    def _checker(self, policy: Object, resource: Resource) -> KindChecker:
        types, kind, params = KindTypes(self._api_domain, self._minor), dig(policy, ("spec", "paramKind")), None
        if kind is not None:
            group, _, version = str(kind.get("apiVersion") or "").rpartition("/")
            params = self._type_of(types, self._registry.find_kind(group, version, str(kind.get("kind") or "")))
        variables = dig(policy, ("spec", "variables")) or ()
        checker = KindChecker(self._type_of(types, resource), types.messages, params=params, composed=bool(variables))
        for variable in variables:
            with suppress(CelError):  # Its uses have any type.
                checker.define(variable.get("name") or "", variable.get("expression") or "")
        return checker

    def _type_of(self, types: KindTypes, resource: Resource | None) -> str:
        if resource is None:
            return "dyn"
        if resource.schema is not None:
            return types.add_custom(resource.schema.source)
        return types.add_defined(resource.api_version, resource.kind) or "dyn"


def _expressions(policy: Object) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each expression that is checked."""
    for index, item in enumerate(dig(policy, ("spec", "validations")) or ()):
        for name in ("expression", "messageExpression"):
            if text := item.get(name):
                yield f"spec.validations[{index}].{name}", text
