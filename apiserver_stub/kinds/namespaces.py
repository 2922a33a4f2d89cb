"""Namespaces; their contents are deleted by :mod:`apiserver_stub.controllers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting import namespaces as defaulting
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.registry import STANDARD_VERBS, Resource, Strategy, Subresource
from apiserver_stub.validation.namespaces import validate_finalizers, validate_namespace, validate_phase
from nodeagent.base.names import label_problems

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.identity import Identity


class NamespaceStrategy(Strategy):
    """Namespaces: Active until they are deleted, then Terminating until their finalizers are removed."""

    def __init__(self, identity: Identity) -> None:
        self._name_label = defaulting.name_label(identity)
        self._defaults = defaulting.namespace_defaults(self._name_label)

    def default(self, new: Object) -> None:
        self._defaults.apply(new)

    def default_status(self, new: Object) -> None:
        self._defaults.apply(new)

    def prepare_create(self, new: Object) -> None:
        spec = new.setdefault("spec", {})
        if "kubernetes" not in (finalizers := spec.get("finalizers") or []):
            spec["finalizers"] = [*finalizers, "kubernetes"]
        new["status"] = {"phase": "Active"}

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        spec = old.get("spec") or {}
        if subresource == "finalize":
            spec = {name: value for name, value in spec.items() if name != "finalizers"}
            if finalizers := dig(new, ("spec", "finalizers")):
                spec["finalizers"] = finalizers
        super().prepare_update(new, old, subresource)
        new["spec"] = spec

    def validate(self, new: Object) -> list[Cause]:
        return validate_namespace(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource == "finalize":
            return validate_finalizers(new["spec"].get("finalizers") or ())
        return validate_phase(new) if subresource == "status" else validate_namespace(new)

    def canonicalize(self, new: Object, old: Object | None) -> None:
        """Set the label with the name, which new namespaces may not have until their name is generated."""
        labels = new["metadata"].get("labels") or {}
        new["metadata"]["labels"] = {**labels, self._name_label: new["metadata"]["name"]}

    def lingers(self, obj: Object) -> bool:
        """Return ``True`` also without a deletion timestamp: the first deletion only makes a namespace Terminating."""
        return "deletionTimestamp" not in obj["metadata"] or bool((obj.get("spec") or {}).get("finalizers"))

    def prepare_delete(self, obj: Object) -> None:
        obj["metadata"].pop("deletionGracePeriodSeconds", None)
        obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}


def resources(settings: KindSettings) -> list[Resource]:
    return [
        Resource(
            "",
            "v1",
            "Namespace",
            "namespaces",
            namespaced=False,
            short_names=("ns",),
            verbs=tuple(verb for verb in STANDARD_VERBS if verb != "deletecollection"),
            strategy=NamespaceStrategy(settings.identity),
            subresources=(Subresource("finalize", ("update",)), Subresource("status")),
            columns=(NAME, at("Status", "status.phase"), AGE),
            fields={"status.phase": ("status", "phase")},
            returns_deleted=True,
            name_problems=label_problems,
        )
    ]
