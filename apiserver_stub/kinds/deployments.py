"""Deployments and ReplicaSets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.workloads import DEPLOYMENT, REPLICA_SET
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.disabled_fields import drop_from_replica_counts
from apiserver_stub.kinds.pod_templates import PodTemplateRules, container_columns, selector_column
from apiserver_stub.kinds.registry import SCALE, Column, Resource, ScalePaths, Strategy, Subresource
from apiserver_stub.validation.deployments import (
    validate_deployment,
    validate_deployment_status,
    validate_replica_set,
    validate_replica_set_status,
)
from apiserver_stub.validation.metadata import MetadataRules, repetitions
from apiserver_stub.validation.pod_templates import validate_immutable

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

DEPLOYMENTS, REPLICA_SETS = "apps/deployments", "apps/replicasets"
"""Collections in the store."""


class DeploymentStrategy(Strategy):
    """Deployments; annotations are copied to ReplicaSets, so the generation counts their changes too."""

    counted = ("spec",)
    status_keeps = ("labels",)

    def __init__(self, settings: KindSettings) -> None:
        self._template, self._gates = PodTemplateRules(settings), settings.gates

    def default(self, new: Object) -> None:
        DEPLOYMENT.apply(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {}
        self._template.drop_disabled(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_deployment(new, self._template.options())

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if subresource == "status":
            drop_from_replica_counts(self._gates, new, old)
        else:
            self._template.drop_disabled(new, old)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource == "status":
            return validate_deployment_status(new, old)
        return validate_deployment(new, self._template.options(old)) + validate_immutable(new, old, "selector")

    def is_counted(self, new: Object, old: Object) -> bool:
        annotations = new["metadata"].get("annotations") or {}
        return super().is_counted(new, old) or annotations != (old["metadata"].get("annotations") or {})

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return self._template.warnings(new, old, in_pod_names=True)


class ReplicaSetStrategy(Strategy):
    """ReplicaSets."""

    counted = ("spec",)

    def __init__(self, settings: KindSettings) -> None:
        self._template, self._gates = PodTemplateRules(settings), settings.gates
        self._repetitions = repetitions(settings.compatibility_version)

    def default(self, new: Object) -> None:
        REPLICA_SET.apply(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {"replicas": 0}
        self._template.drop_disabled(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_replica_set(new, self._template.options())

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if subresource == "status":
            drop_from_replica_counts(self._gates, new, old)
        else:
            self._template.drop_disabled(new, old)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource == "status":
            return validate_replica_set_status(new.get("status") or {})
        causes = validate_replica_set(new, self._template.options(old)) * self._repetitions
        return causes + validate_immutable(new, old, "selector")

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return self._template.warnings(new, old, in_pod_names=True)


def resources(settings: KindSettings) -> list[Resource]:
    template = ("spec", "template")
    return [
        Resource(
            "apps",
            "v1",
            "Deployment",
            "deployments",
            short_names=("deploy",),
            categories=("all",),
            storage=DEPLOYMENTS,
            metadata_rules=MetadataRules(whole=0),
            strategy=DeploymentStrategy(settings),
            subresources=(SCALE, Subresource("status")),
            scale=ScalePaths(),
            reset_fields={"status": ("spec", "metadata.labels")},
            columns=(
                NAME,
                Column("Ready", ready_of_desired, description="Number of ready pods and of desired pods."),
                at("Up-to-date", "status.updatedReplicas", default=0),
                at("Available", "status.availableReplicas", default=0),
                AGE,
                *container_columns(*template),
                selector_column("spec", "selector"),
            ),
        ),
        Resource(
            "apps",
            "v1",
            "ReplicaSet",
            "replicasets",
            short_names=("rs",),
            categories=("all",),
            storage=REPLICA_SETS,
            metadata_rules=MetadataRules(whole=repetitions(settings.compatibility_version) - 1),
            strategy=ReplicaSetStrategy(settings),
            subresources=(SCALE, Subresource("status")),
            scale=ScalePaths(),
            fields={"status.replicas": ("status", "replicas")},
            columns=(*replica_columns(), *container_columns(*template), selector_column("spec", "selector")),
        ),
    ]


def ready_of_desired(obj: Object) -> str:
    """Return the numbers of ready and of desired replicas."""
    return f"{dig(obj, ('status', 'readyReplicas')) or 0}/{dig(obj, ('spec', 'replicas')) or 0}"


def replica_columns() -> tuple[Column, ...]:
    """Return the columns that ReplicaSets and ReplicationControllers share."""
    return (
        NAME,
        at("Desired", "spec.replicas", type="integer", default=0),
        at("Current", "status.replicas", type="integer", default=0),
        at("Ready", "status.readyReplicas", type="integer", default=0),
        AGE,
    )
