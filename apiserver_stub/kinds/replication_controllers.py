"""ReplicationControllers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.label_selectors import format_labels
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.workloads import REPLICATION_CONTROLLER
from apiserver_stub.kinds.deployments import replica_columns
from apiserver_stub.kinds.pod_templates import PodTemplateRules, container_columns
from apiserver_stub.kinds.registry import SCALE, Column, Resource, ScalePaths, Strategy, Subresource
from apiserver_stub.validation.deployments import validate_replica_set_status, validate_replication_controller
from apiserver_stub.validation.metadata import MetadataRules, repetitions

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings


class ReplicationControllerStrategy(Strategy):
    """ReplicationControllers."""

    counted = ("spec",)
    orphans_dependents = True

    def __init__(self, settings: KindSettings) -> None:
        self._template = PodTemplateRules(settings)
        self._repetitions = repetitions(settings.compatibility_version)

    def default(self, new: Object) -> None:
        REPLICATION_CONTROLLER.apply(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {"replicas": 0}
        self._template.drop_disabled(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_replication_controller(new, self._template.options())

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if subresource != "status":
            self._template.drop_disabled(new, old)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource == "status":
            return validate_replica_set_status(new.get("status") or {})
        return validate_replication_controller(new, self._template.options(old)) * self._repetitions

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return self._template.warnings(new, old, in_pod_names=True)


def resources(settings: KindSettings) -> list[Resource]:
    repeated = repetitions(settings.compatibility_version) - 1
    return [
        Resource(
            "",
            "v1",
            "ReplicationController",
            "replicationcontrollers",
            short_names=("rc",),
            categories=("all",),
            storage_key="controllers",
            metadata_rules=MetadataRules(whole=repeated, generated_names=repeated > 0),
            strategy=ReplicationControllerStrategy(settings),
            subresources=(SCALE, Subresource("status")),
            scale=ScalePaths(selector=_selector),
            fields={"status.replicas": ("status", "replicas")},
            columns=(
                *replica_columns(),
                *container_columns("spec", "template"),
                Column("Selector", lambda obj: _selector(obj) or "<none>", wide=True),
            ),
        )
    ]


def _selector(obj: Object) -> str:
    return format_labels(dig(obj, ("spec", "selector")))
