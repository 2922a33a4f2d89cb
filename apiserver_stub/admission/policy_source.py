"""Admission policies in effect: those of manifests, then stored ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.manifests import Manifests
from apiserver_stub.apimachinery.objects import Object

Policy = TypeVar("Policy")
_Compiled = tuple[list[Object], list[Policy]]


class PolicySource(Generic[Policy]):
    """Compiled policies in the order of their names, each with the bindings that can refer to it.

    :param group: the API group of the policies.
    :param policies: plural of the policies.
    :param bindings: plural of their bindings.
    :param compiled: compile a policy.
    """

    def __init__(
        self,
        lister: Lister,
        group: str,
        policies: str,
        bindings: str,
        compiled: Callable[[Object], Policy],
        manifests: Manifests | None,
    ) -> None:
        self._lister, self._compiled, self._manifests = lister, compiled, manifests
        self._policies, self._bindings = (f"{group}/{policies}", policies), (f"{group}/{bindings}", bindings)
        self._stored: _Compiled[Policy] = ([], [])
        self._static: _Compiled[Policy] = ([], [])

    @property
    def has_manifests(self) -> bool:
        return self._manifests is not None

    def current(self, *, only_static: bool) -> list[tuple[Policy, list[Object]]]:
        """Return the policies and their bindings.

        :param only_static: leave out stored policies.
        """
        found: list[tuple[Policy, list[Object]]] = []
        if self._manifests is not None:
            self._static = self._compile(self._static, self._manifests.every(self._policies[1]))
            bindings = self._manifests.every(self._bindings[1])
            found += [(policy, bindings) for policy in self._static[1]]
        if not only_static:
            self._stored = self._compile(self._stored, self._lister.every(self._policies[0]))
            if self._stored[1]:
                bindings = self._lister.every(self._bindings[0])
                found += [(policy, bindings) for policy in self._stored[1]]
        return found

    def _compile(self, before: _Compiled[Policy], policies: list[Object]) -> _Compiled[Policy]:
        if policies is before[0]:
            return before
        ordered = sorted(policies, key=lambda item: str(item["metadata"]["name"]))
        return policies, [self._compiled(item) for item in ordered]
