"""Validation of Jobs, and of the job templates of CronJobs."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.label_selectors import read_selector
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    duplicate,
    invalid_value,
    invalid_without_value,
    not_supported,
    quote,
    required,
    too_long,
    too_many,
)
from apiserver_stub.validation.domain_paths import validate_domain_path
from apiserver_stub.validation.job_indexes import IndexesError, parse_intervals
from apiserver_stub.validation.labels import validate_label_name, validate_selector
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.pod_templates import (
    validate_immutable,
    validate_not_negative,
    validate_pod_template,
)
from nodeagent.base.identity import Identity
from nodeagent.base.names import label_problems
from nodeagent.base.structs import Struct

INDEXED, NON_INDEXED = "Indexed", "NonIndexed"
LEGACY_UID, LEGACY_NAME = "controller-uid", "job-name"
_NO_MATCH = "`selector` does not match template `labels`"
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_ACTIONS, _OPERATORS = ("Count", "FailIndex", "FailJob", "Ignore"), ("In", "NotIn")
_STATUSES, _REPLACEMENTS = ("False", "True", "Unknown"), ("Failed", "TerminatingOrFailed")
_MAX_INDEXED, _MANY_COMPLETIONS, _LIMIT_OF_MANY = 100_000, 100_000, 10_000
_MAX_RULES, _MAX_CODES, _MAX_PATTERNS = 20, 255, 20
_MANAGER_LIMIT = 63
_RESTARTS = ("OnFailure", "Never")


class JobLabels(Struct, frozen=True):
    """Labels of the pods of a Job."""

    uid: str
    name: str

    @classmethod
    def of(cls, identity: Identity) -> JobLabels:
        return cls(identity.label("controller-uid", "batch"), identity.label("job-name", "batch"))


def validate_job(
    job: Object, options: PodOptions, labels: JobLabels, *, any_values: bool = False, prefixed: bool = True
) -> list[Cause]:
    """Return the errors in the specification of a Job.

    :param any_values: do not validate the values of the selector.
    :param prefixed: generated labels with a prefix are required.
    """
    spec, name = job["spec"], job["metadata"].get("name") or ""
    causes = _validate_generated(job, labels, prefixed=prefixed) + _validate_spec(spec, options, any_values=any_values)
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == INDEXED and completions > 0:
        host_name = f"{name}-{completions - 1}"
        if label_problems(host_name):
            detail = f"will not able to create pod with invalid DNS label: {host_name}"
            causes.append(invalid_value("metadata.name", name, detail))
    return causes


def validate_job_update(
    new: Object,
    old: Object,
    options: PodOptions,
    *,
    elastic: bool,
    any_values: bool = False,
    resources: bool = False,
    scheduling: bool = False,
) -> list[Cause]:
    """Return the errors in the change of a Job, including those of its new specification, which upstream repeats.

    :param elastic: the completions of indexed Jobs may change together with the parallelism.
    :param any_values: do not validate the values of the selector.
    :param resources: the resources of the pods of a suspended Job may change.
    :param scheduling: the scheduling directives of a suspended Job may change also after it was started.
    """
    spec, before = new["spec"], old["spec"]
    completions = spec.get("completions")
    causes = _validate_spec(spec, options, any_values=any_values)
    if not elastic or spec.get("completionMode") != INDEXED:
        causes += validate_immutable(new, old, "completions")
    elif completions is not None and completions not in (before.get("completions"), spec.get("parallelism")):
        detail = "can only be modified in tandem with spec.parallelism"
        causes.append(invalid_value("spec.completions", completions, detail))
    causes += validate_immutable(new, old, "selector")
    template, template_before = spec.get("template") or {}, before.get("template") or {}
    status, suspended = old.get("status") or {}, before.get("suspend")
    started = bool(status.get("startTime"))
    stopped = suspended and not status.get("active") and (not started or _is_suspended(status))
    if (suspended and not started) or (stopped and scheduling):
        template_before = _with_scheduling_of(template, template_before)
    if stopped and resources:
        template_before = _with_resources_of(template, template_before)
    if stopped and resources:
        if template.get("spec") != template_before.get("spec"):
            causes.append(invalid_value("spec.template.spec", template.get("spec"), "field is immutable"))
    elif template != template_before:
        causes.append(invalid_value("spec.template", template, "field is immutable"))
    for name in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex"):
        causes += validate_immutable(new, old, name)
    for name in ("managedBy", "successPolicy"):
        causes += validate_immutable(new, old, name)
    return causes


def validate_job_template(template: Object, field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in the job template of a CronJob."""
    spec = template.get("spec") or {}
    causes = validate_job_spec(spec, f"{field}.spec", options)
    if spec.get("selector") is not None:
        causes.append(invalid_value(f"{field}.spec.selector", spec["selector"], "`selector` will be auto-generated"))
    if spec.get("manualSelector"):
        causes.append(not_supported(f"{field}.spec.manualSelector", "true", ("nil", "false")))
    return causes


def validate_job_spec(spec: Object, field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in the specification of a Job, apart from its selector."""
    causes = validate_not_negative(spec, _COUNTS, field)
    per_index, most = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    if most is not None and per_index is None:
        causes.append(required(f"{field}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    mode = spec.get("completionMode")
    if mode is not None and mode not in (NON_INDEXED, INDEXED):
        causes.append(not_supported(f"{field}.completionMode", mode, (NON_INDEXED, INDEXED)))
    if mode == INDEXED:
        causes += _validate_indexed(spec, field)
    if mode in (None, NON_INDEXED):
        for name, value in (("backoffLimitPerIndex", per_index), ("maxFailedIndexes", most)):
            if value is not None:
                causes.append(invalid_value(f"{field}.{name}", value, "requires indexed completion mode"))
    policy = spec.get("podFailurePolicy")
    if policy is not None:
        causes += _validate_failure_policy(spec, f"{field}.podFailurePolicy")
    if spec.get("successPolicy") is not None:
        causes += _validate_success_policy(spec, f"{field}.successPolicy")
    replacement = spec.get("podReplacementPolicy")
    allowed = _REPLACEMENTS[:1] if policy is not None else _REPLACEMENTS
    if replacement is not None and replacement not in allowed:
        causes.append(not_supported(f"{field}.podReplacementPolicy", replacement, allowed))
    if (manager := spec.get("managedBy")) is not None:
        causes += validate_domain_path(manager, f"{field}.managedBy")
        if len(manager) > _MANAGER_LIMIT:
            causes.append(too_long(f"{field}.managedBy", _MANAGER_LIMIT, options.release))
    template = spec.get("template") or {}
    causes += validate_pod_template(template, f"{field}.template", options)
    restarts, path = (template.get("spec") or {}).get("restartPolicy") or "", f"{field}.template.spec.restartPolicy"
    if restarts in ("", "Always"):
        causes.append(required(path, f"valid values: {quote(_RESTARTS[0])}, {quote(_RESTARTS[1])}"))
    elif restarts not in _RESTARTS:
        causes.append(not_supported(path, restarts, _RESTARTS))
    elif policy is not None and restarts != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        causes.append(invalid_value(path, restarts, detail))
    return causes


def _validate_spec(spec: Object, options: PodOptions, *, any_values: bool) -> list[Cause]:
    causes, selector = validate_job_spec(spec, "spec", options), spec.get("selector")
    if selector is None:
        causes.append(required("spec.selector"))
    else:
        causes += validate_selector(selector, "spec.selector", any_values=any_values)
        if validate_selector(selector, ""):
            return causes  # An invalid selector is not compared with the labels.
    found = _template_labels(spec)
    if selector is None or not read_selector(selector).matches(found):
        causes.append(invalid_value("spec.template.metadata.labels", found, _NO_MATCH))
    return causes


def _validate_generated(job: Object, labels: JobLabels, *, prefixed: bool) -> list[Cause]:
    """Return the errors in the generated labels and selector of a Job without a manual selector."""
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    expected = {
        LEGACY_UID: metadata.get("uid") or "",
        LEGACY_NAME: metadata.get("name") or "",
    }
    if prefixed:
        expected |= {labels.uid: expected[LEGACY_UID], labels.name: expected[LEGACY_NAME]}
    found, causes = _template_labels(spec), []
    for key, value in expected.items():
        path = f"spec.template.metadata.labels[{key}]"
        if key not in found:
            causes.append(required(path, f"must be '{value}'"))
        elif found[key] != value:
            causes.append(invalid_value(path, found, f"must be '{value}'"))
    if not validate_selector(spec["selector"], "") and not read_selector(spec["selector"]).matches(expected):
        causes.append(invalid_value("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return causes


def _template_labels(spec: Object) -> Object:
    labels: Object = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return labels


def _with_scheduling_of(template: Object, before: Object) -> Object:
    """Return *before* with the scheduling directives of *template*, which may change before a Job starts."""
    result: Object = objects.clone(before)
    spec, source = result.setdefault("spec", {}), template.get("spec") or {}
    affinity: Any = {**(spec.get("affinity") or {})}
    affinity.pop("nodeAffinity", None)
    if (given := (source.get("affinity") or {}).get("nodeAffinity")) is not None:
        affinity["nodeAffinity"] = given
    _put(spec, "affinity", affinity or ({} if source.get("affinity") == {} else None))
    for name in ("nodeSelector", "tolerations", "schedulingGates"):
        _put(spec, name, source.get(name))
    metadata, given_metadata = result.setdefault("metadata", {}), template.get("metadata") or {}
    for name in ("annotations", "labels"):
        _put(metadata, name, given_metadata.get(name))
    return result


def _with_resources_of(template: Object, before: Object) -> Object:
    """Return *before* with the resources of the containers of *template*."""
    result: Object = objects.clone(before)
    for kind in ("initContainers", "containers"):
        given = {item.get("name"): item for item in (template.get("spec") or {}).get(kind) or ()}
        for container in (result.get("spec") or {}).get(kind) or ():
            if (source := given.get(container.get("name"))) is not None:
                _put(container, "resources", source.get("resources"))
    return result


def _is_suspended(status: Object) -> bool:
    conditions = status.get("conditions") or ()
    return any((item.get("type"), item.get("status")) == ("Suspended", "True") for item in conditions)


def _put(obj: Object, name: str, value: Any) -> None:
    if value is None:
        obj.pop(name, None)
    else:
        obj[name] = value


def _validate_indexed(spec: Object, field: str) -> list[Cause]:
    causes = []
    completions, parallelism = spec.get("completions"), spec.get("parallelism") or 0
    most = spec.get("maxFailedIndexes")
    if completions is None:
        causes.append(required(f"{field}.completions", f"when completion mode is {INDEXED}"))
    if parallelism > _MAX_INDEXED:
        detail = f"must be less than or equal to {_MAX_INDEXED} when completion mode is {INDEXED}"
        causes.append(invalid_value(f"{field}.parallelism", parallelism, detail))
    if completions is not None and most is not None and most > completions:
        causes.append(invalid_value(f"{field}.maxFailedIndexes", most, "must be less than or equal to completions"))
    if most is not None and most > _MAX_INDEXED:
        causes.append(invalid_value(f"{field}.maxFailedIndexes", most, f"must be less than or equal to {_MAX_INDEXED}"))
    if (completions or 0) <= _MANY_COMPLETIONS or spec.get("backoffLimitPerIndex") is None:
        return causes
    if most is None:
        detail = f"must be specified when completions is above {_MANY_COMPLETIONS}"
        causes.append(required(f"{field}.maxFailedIndexes", detail))
    detail = (
        f"must be less than or equal to {_LIMIT_OF_MANY} when completions are above {_MANY_COMPLETIONS} and used with "
        "backoff limit per index"
    )
    if parallelism > _LIMIT_OF_MANY:
        causes.append(invalid_value(f"{field}.parallelism", parallelism, detail))
    if most is not None and most > _LIMIT_OF_MANY:
        causes.append(invalid_value(f"{field}.maxFailedIndexes", most, detail))
    return causes


def _validate_success_policy(spec: Object, field: str) -> list[Cause]:
    rules, completions = spec["successPolicy"].get("rules") or [], spec.get("completions") or 0
    if spec.get("completionMode") != INDEXED:
        return [invalid_value(field, spec["successPolicy"], "requires indexed completion mode")]
    causes = []
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        causes.append(required(f"{field}.rules", detail))
    if len(rules) > _MAX_RULES:
        causes.append(too_many(f"{field}.rules", len(rules), _MAX_RULES))
    for index, rule in enumerate(rules):
        path, count, indexes = f"{field}.rules[{index}]", rule.get("succeededCount"), rule.get("succeededIndexes")
        if count is None and indexes is None:
            causes.append(required(path, "at least one of succeededCount or succeededIndexes must be specified"))
        total = completions
        if indexes is not None:
            total = 0
            try:
                total = sum(last - first + 1 for first, last in parse_intervals(indexes, completions))
            except IndexesError as error:
                detail = f"error parsing succeededIndexes: {error}"
                causes.append(invalid_value(f"{path}.succeededIndexes", indexes, detail))
        if count is None:
            continue
        causes += validate_not_negative(rule, ("succeededCount",), path)
        if count > completions:
            detail = f"must be less than or equal to {completions} (the number of specified completions)"
            causes.append(invalid_value(f"{path}.succeededCount", count, detail))
        if indexes is not None and count > total:
            shown = f"{total} (the number of indexes in the specified succeededIndexes field)"
            causes.append(invalid_value(f"{path}.succeededCount", count, f"must be less than or equal to {shown}"))
    return causes


def _validate_failure_policy(spec: Object, field: str) -> list[Cause]:
    rules, causes = spec["podFailurePolicy"].get("rules") or [], []
    if len(rules) > _MAX_RULES:
        causes.append(too_many(f"{field}.rules", len(rules), _MAX_RULES))
    pod = (spec.get("template") or {}).get("spec") or {}
    names = {item.get("name") for kind in ("containers", "initContainers") for item in pod.get(kind) or ()}
    for index, rule in enumerate(rules):
        path = f"{field}.rules[{index}]"
        action = rule.get("action") or ""
        if not action:
            causes.append(required(f"{path}.action", f"valid values: [{' '.join(map(quote, _ACTIONS))}]"))
        elif action not in _ACTIONS:
            causes.append(not_supported(f"{path}.action", action, _ACTIONS))
        elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            causes.append(invalid_value(f"{path}.action", action, "requires the backoffLimitPerIndex to be set"))
        codes, patterns = rule.get("onExitCodes"), rule.get("onPodConditions") or []
        if codes is not None:
            causes += _validate_exit_codes(codes, names, f"{path}.onExitCodes")
        causes += _validate_patterns(patterns, f"{path}.onPodConditions")
        if (codes is not None) == bool(patterns):
            problem = "both OnExitCodes and OnPodConditions is not supported"
            if codes is None:
                problem = "one of OnExitCodes and OnPodConditions is required"
            causes.append(invalid_without_value(path, f"specifying {problem}"))
    return causes


def _validate_patterns(patterns: list[Object], field: str) -> list[Cause]:
    causes = [too_many(field, len(patterns), _MAX_PATTERNS)] if len(patterns) > _MAX_PATTERNS else []
    for index, pattern in enumerate(patterns):
        path, status = f"{field}[{index}]", pattern.get("status") or ""
        causes += validate_label_name(pattern.get("type") or "", f"{path}.type")
        if not status:
            causes.append(required(f"{path}.status", f"valid values: [{' '.join(map(quote, _STATUSES))}]"))
        elif status not in _STATUSES:
            causes.append(not_supported(f"{path}.status", status, _STATUSES))
    return causes


def _validate_exit_codes(codes: Object, names: set[Any], field: str) -> list[Cause]:
    causes, operator = [], codes.get("operator") or ""
    if not operator:
        causes.append(required(f"{field}.operator", f"valid values: [{' '.join(map(quote, _OPERATORS))}]"))
    elif operator not in _OPERATORS:
        causes.append(not_supported(f"{field}.operator", operator, _OPERATORS))
    name = codes.get("containerName")
    if name is not None and name not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        causes.append(invalid_value(f"{field}.containerName", name, detail))
    values = codes.get("values") or []
    if not values:
        causes.append(invalid_value(f"{field}.values", values, "at least one value is required"))
    elif len(values) > _MAX_CODES:
        causes.append(too_many(f"{field}.values", len(values), _MAX_CODES))
    seen: set[int] = set()
    for index, value in enumerate(values):
        path = f"{field}.values[{index}]"
        if operator == "In" and value == 0:
            causes.append(invalid_value(path, value, "must not be 0 for the In operator"))
        if value in seen:
            causes.append(duplicate(path, value))
        seen.add(value)
    if values != sorted(values):
        causes.append(invalid_value(f"{field}.values", values, "must be ordered"))
    return causes
