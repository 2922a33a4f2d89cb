"""Namespaces: they end by emptying themselves (:mod:`apiserver_stub.controllers`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.objects import Object
from apiserver_stub.resources.columns import AGE, NAME, at
from apiserver_stub.resources.registry import STANDARD_VERBS, Resource, Strategy, Subresource
from apiserver_stub.status import Cause, invalid_value
from apiserver_stub.validation.names import finalizer_problems, label_problems
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.options import Options


class NamespaceStrategy(Strategy):
    """A namespace is Active until it is deleted, then Terminating until its finalizers are gone."""

    def prepare_create(self, new: Object) -> None:
        labels = new["metadata"].get("labels") or {}
        new["metadata"]["labels"] = {
            **labels,
            identity.current().label("metadata.name"): new["metadata"].get("name", ""),
        }
        spec = new.setdefault("spec", {})
        if "kubernetes" not in (finalizers := spec.get("finalizers") or []):
            spec["finalizers"] = [*finalizers, "kubernetes"]
        new["status"] = {"phase": "Active"}

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        finalizers = (new.get("spec") or {}).get("finalizers")
        super().prepare_update(new, old, subresource)
        labels = new["metadata"].get("labels") or {}
        new["metadata"]["labels"] = {**labels, identity.current().label("metadata.name"): old["metadata"]["name"]}
        if subresource == "finalize":
            new["spec"] = {**old.get("spec", {}), "finalizers": finalizers or []}
        else:
            new["spec"] = old.get("spec", {})

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource == "finalize":
            return [
                invalid_value(f"spec.finalizers[{index}]", name, problem)
                for index, name in enumerate(new["spec"]["finalizers"])
                for problem in finalizer_problems(name)
            ]
        if subresource != "status":
            return []
        phase = (new.get("status") or {}).get("phase") or ""
        ends = bool(new["metadata"].get("deletionTimestamp"))
        if phase == ("Terminating" if ends else "Active"):
            return []
        detail = "may only be 'Active' if `deletionTimestamp` is empty"
        if ends:
            detail = "may only be 'Terminating' if `deletionTimestamp` is not empty"
        return [invalid_value("status.Phase", phase, detail)]

    def lingers(self, obj: Object) -> bool:
        return bool((obj.get("spec") or {}).get("finalizers"))

    def prepare_delete(self, obj: Object) -> None:
        obj["metadata"].pop("deletionGracePeriodSeconds", None)
        obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}


def resources(options: Options) -> list[Resource]:
    return [
        Resource(
            "",
            "v1",
            "Namespace",
            "namespaces",
            namespaced=False,
            short_names=("ns",),
            verbs=tuple(verb for verb in STANDARD_VERBS if verb != "deletecollection"),
            strategy=NamespaceStrategy(),
            subresources=(Subresource("finalize", ("update",)), Subresource("status")),
            columns=(NAME, at("Status", "status.phase"), AGE),
            fields={"status.phase": ("status", "phase")},
            returns_deleted=True,
            name_problems=label_problems,
        )
    ]
