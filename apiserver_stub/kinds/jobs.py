"""Jobs and CronJobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.label_selectors import format_selector
from apiserver_stub.apimachinery.objects import Object, dig, parse_time
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.workloads import CRON_JOB, job_defaults
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.pod_templates import PodTemplateRules, container_columns, selector_column
from apiserver_stub.kinds.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.kinds.tables import short, since
from apiserver_stub.validation.cron_jobs import validate_cron_job
from apiserver_stub.validation.job_status import JobStatusRules, validate_job_status_update
from apiserver_stub.validation.jobs import (
    LEGACY_NAME,
    LEGACY_UID,
    JobLabels,
    validate_job,
    validate_job_update,
)
from apiserver_stub.validation.labels import validate_selector
from apiserver_stub.validation.metadata import MetadataRules
from nodeagent.base.release import Release

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.gates import FeatureGates

JOBS, CRON_JOBS = "batch/jobs", "batch/cronjobs"
"""Collections in the store."""
_TEMPLATE_LABELS = ("spec", "template", "metadata", "labels")
_GATED = (
    ("JobPodFailurePolicy", ("podFailurePolicy",)),
    ("JobBackoffLimitPerIndex", ("backoffLimitPerIndex", "maxFailedIndexes")),
    ("JobPodReplacementPolicy", ("podReplacementPolicy",)),
    ("JobSuccessPolicy", ("successPolicy",)),
    ("JobManagedBy", ("managedBy",)),
)
"""Feature gates and their fields in the spec of a Job."""
_SUCCESS_CRITERIA = Release(1, 30)
"""First release in which Jobs have the condition SuccessCriteriaMet."""


class JobStrategy(Strategy):
    """Jobs; selector and labels of the pods are generated from the UID, unless the selector is manual."""

    counted = ("spec",)
    orphans_dependents = True
    deletion_warning = (
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or "
        "set propagationPolicy=Orphan to suppress this warning"
    )

    def __init__(self, settings: KindSettings) -> None:
        self._template, self._gates = PodTemplateRules(settings), settings.gates
        self._labels = JobLabels.of(settings.identity)
        self._status_rules = _status_rules(settings)
        self._defaults = job_defaults(replacement_policy=_is_enabled(settings.gates, "JobPodReplacementPolicy"))

    def default(self, new: Object) -> None:
        self._defaults.apply(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {}
        if not new["spec"].get("manualSelector"):
            self._generate_selector(new)
        drop_disabled_job_fields(self._gates, new["spec"], {})
        self._template.drop_disabled(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_job(new, self._template.options(), self._labels)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if subresource != "status":
            drop_disabled_job_fields(self._gates, new["spec"], old["spec"])
            self._template.drop_disabled(new, old)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource == "status":
            return validate_job_status_update(new, old, self._status_rules)
        options = self._template.options(old)
        any_values = bool(validate_selector(old["spec"].get("selector"), ""))
        had_labels = {self._labels.uid, self._labels.name} <= (dig(old, _TEMPLATE_LABELS) or {}).keys()
        causes = validate_job(new, options, self._labels, any_values=any_values, prefixed=had_labels)
        return causes + validate_job_update(
            new,
            old,
            options,
            elastic=_is_enabled(self._gates, "ElasticIndexedJob"),
            any_values=any_values,
            resources=self._gates.enabled("MutablePodResourcesForSuspendedJobs"),
            scheduling=self._gates.enabled("MutableSchedulingDirectivesForSuspendedJobs"),
        )

    def canonicalize(self, new: Object, old: Object | None) -> None:
        if not new["metadata"].get("labels") and (labels := dig(new, _TEMPLATE_LABELS)):
            new["metadata"]["labels"] = {**labels}  # Generated ones, if the template had none before.

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return self._template.warnings(new, old, in_pod_names=True)

    def _generate_selector(self, job: Object) -> None:
        spec, metadata = job["spec"], job["metadata"]
        template = spec.setdefault("template", {}).setdefault("metadata", {})
        labels = template["labels"] = template.get("labels") or {}
        for key, value in (
            (LEGACY_NAME, metadata.get("name") or ""),
            (self._labels.name, metadata.get("name") or ""),
            (LEGACY_UID, metadata["uid"]),
            (self._labels.uid, metadata["uid"]),
        ):
            labels.setdefault(key, value)
        if metadata.get("labels") is labels:  # The default, which contains the generated labels.
            metadata["labels"] = {**labels}
        selector = spec["selector"] = spec.get("selector") or {}
        selector["matchLabels"] = {self._labels.uid: metadata["uid"], **(selector.get("matchLabels") or {})}


class CronJobStrategy(Strategy):
    """CronJobs."""

    counted = ("spec",)

    def __init__(self, settings: KindSettings) -> None:
        self._template, self._gates = (
            PodTemplateRules(settings, "spec", "jobTemplate", "spec", "template"),
            settings.gates,
        )

    def default(self, new: Object) -> None:
        CRON_JOB.apply(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {}
        self._drop_disabled(new, None)

    def validate(self, new: Object) -> list[Cause]:
        return validate_cron_job(new, self._template.options())

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if subresource != "status":
            self._drop_disabled(new, old)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return [] if subresource == "status" else validate_cron_job(new, self._template.options(old), old)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return self._template.warnings(new, old, in_pod_names=True)

    def _drop_disabled(self, new: Object, old: Object | None) -> None:
        path = ("spec", "jobTemplate", "spec")
        drop_disabled_job_fields(self._gates, dig(new, path) or {}, dig(old, path) or {})
        self._template.drop_disabled(new, old)


def drop_disabled_job_fields(gates: FeatureGates, spec: Object, before: Object) -> None:
    """Drop the fields of disabled features from the spec of a Job, unless *before* uses them.

    spec: gate.JobPodFailurePolicy, gate.JobBackoffLimitPerIndex, gate.JobPodReplacementPolicy, gate.JobSuccessPolicy,
    gate.JobManagedBy
    """
    for gate, names in _GATED:
        if gates.exists(gate) and not gates.enabled(gate):
            for name in names:
                if before.get(name) is None:
                    spec.pop(name, None)


def _status_rules(settings: KindSettings) -> JobStatusRules:
    gates = settings.gates
    return JobStatusRules(
        transitions=gates.enabled("JobManagedBy"),
        criteria=settings.compatibility_version >= _SUCCESS_CRITERIA,
        criteria_of_all=gates.enabled("JobManagedBy") or gates.enabled("JobPodReplacementPolicy"),
    )


def _is_enabled(gates: FeatureGates, gate: str) -> bool:
    return not gates.exists(gate) or gates.enabled(gate)


def resources(settings: KindSettings) -> list[Resource]:
    return [
        Resource(
            "batch",
            "v1",
            "Job",
            "jobs",
            categories=("all",),
            storage=JOBS,
            strategy=JobStrategy(settings),
            subresources=(Subresource("status"),),
            fields={"status.successful": ("status", "succeeded")},
            columns=(
                NAME,
                *((Column("Status", _status, description="Status of the Job."),) if _shows_status(settings) else ()),
                Column("Completions", _completions, description="Numbers of completed and of desired pods."),
                Column("Duration", _duration, description="Time that the Job took to complete."),
                AGE,
                *container_columns("spec", "template"),
                selector_column("spec", "selector"),
            ),
        ),
        Resource(
            "batch",
            "v1",
            "CronJob",
            "cronjobs",
            short_names=("cj",),
            categories=("all",),
            storage=CRON_JOBS,
            metadata_rules=MetadataRules(whole=0),
            strategy=CronJobStrategy(settings),
            subresources=(Subresource("status"),),
            columns=(
                NAME,
                at("Schedule", "spec.schedule", default=""),
                *((Column("Timezone", _zone),) if _shows_status(settings) else ()),
                Column("Suspend", lambda obj: "True" if dig(obj, ("spec", "suspend")) else "False", type="boolean"),
                Column("Active", lambda obj: len(dig(obj, ("status", "active")) or ()), type="integer"),
                Column("Last Schedule", _last_schedule, description="Time since a Job was created."),
                AGE,
                *container_columns("spec", "jobTemplate", "spec", "template"),
                Column("Selector", _job_selector, wide=True),
            ),
        ),
    ]


def _shows_status(settings: KindSettings) -> bool:
    """Return whether the release has the columns that 1.31 added."""
    return settings.compatibility_version.minor >= _NEWER_COLUMNS


_NEWER_COLUMNS = 31


def _status(job: Object) -> str:
    found = {item["type"] for item in dig(job, ("status", "conditions")) or () if item.get("status") == "True"}
    order = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")
    if "deletionTimestamp" in job["metadata"] and not found & {"Complete", "Failed"}:
        return "Terminating"
    return next((kind for kind in order if kind in found), "Running")


def _zone(cron_job: Object) -> str:
    return dig(cron_job, ("spec", "timeZone")) or "<none>"


def _completions(job: Object) -> str:
    succeeded, spec = dig(job, ("status", "succeeded")) or 0, job.get("spec") or {}
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(job: Object) -> str:
    status = job.get("status") or {}
    start, end = parse_time(status.get("startTime")), parse_time(status.get("completionTime"))
    return "" if start is None else short(((end or datetime.now(UTC)) - start).total_seconds())


def _last_schedule(cron_job: Object) -> str:
    time = dig(cron_job, ("status", "lastScheduleTime"))
    return since(time) if time else "<none>"


def _job_selector(cron_job: Object) -> str:
    return format_selector(dig(cron_job, ("spec", "jobTemplate", "spec", "selector"))) or "<none>"
