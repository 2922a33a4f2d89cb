"""Decisions of the Job controller: finished pods, indexes, failure policy and conditions. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig, parse_time
from apiserver_stub.controllers.workloads import conditions
from nodeagent.base.gointeger import parse_digits
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct

INDEXED = "Indexed"
COMPLETE, FAILED, SUSPENDED, FAILURE_TARGET = "Complete", "Failed", "Suspended", "FailureTarget"
SUCCESS_CRITERIA = "SuccessCriteriaMet"


class JobNames(Struct, frozen=True):
    """Labels, annotations and the finalizer of the pods of Jobs."""

    tracking: str
    index: str
    failures: str

    @classmethod
    def of(cls, identity: Identity) -> JobNames:
        names = ("job-tracking", "job-completion-index", "job-index-failure-count")
        tracking, index, failures = (identity.label(name, "batch") for name in names)
        return cls(tracking, index, failures)


def finished_condition(job: Object) -> Object | None:
    """Return the condition of a Job that has completed or failed."""
    for item in dig(job, ("status", "conditions")) or ():
        if item.get("type") in (COMPLETE, FAILED) and item.get("status") == "True":
            found: Object = item
            return found
    return None


def succeeded(pod: Object) -> bool:
    return bool(dig(pod, ("status", "phase")) == "Succeeded")


def failed(pod: Object, job: Object) -> bool:
    """Return whether *pod* has failed; a pod that is being deleted has, unless only failed pods are replaced."""
    phase = dig(pod, ("status", "phase"))
    if phase in ("Failed", "Succeeded"):
        return bool(phase == "Failed")
    return "deletionTimestamp" in pod["metadata"] and job["spec"].get("podReplacementPolicy") != "Failed"


def active(pod: Object) -> bool:
    """Return whether *pod* has neither terminated nor is being deleted."""
    return _runs(pod) and "deletionTimestamp" not in pod["metadata"]


def terminating(pod: Object) -> bool:
    """Return whether *pod* is being deleted and has not terminated yet."""
    return _runs(pod) and "deletionTimestamp" in pod["metadata"]


def _runs(pod: Object) -> bool:
    return dig(pod, ("status", "phase")) not in ("Succeeded", "Failed")


def ready(pod: Object) -> bool:
    return any(
        item.get("type") == "Ready" and item.get("status") == "True"
        for item in dig(pod, ("status", "conditions")) or ()
    )


def index_of(pod: Object, names: JobNames) -> int | None:
    """Return the completion index of *pod*."""
    text = (pod["metadata"].get("annotations") or {}).get(names.index) or ""
    return parse_digits(text)


def failures_of(pod: Object, names: JobNames) -> int:
    """Return the number of failures of the pod's index before this pod."""
    text = (pod["metadata"].get("annotations") or {}).get(names.failures) or ""
    return parse_digits(text) or 0


def parse_indexes(text: str | None, completions: int) -> set[int]:
    """Return the indexes below *completions* in a list of numbers and ranges."""
    found: set[int] = set()
    for part in filter(None, (text or "").split(",")):
        low, _, high = part.partition("-")
        first, last = parse_digits(low), parse_digits(high or low)
        if first is not None and last is not None:
            found.update(range(first, min(last, completions - 1) + 1))
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    """Return *indexes* as a list of numbers and ranges."""
    parts: list[tuple[int, int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][1] == index - 1:
            parts[-1] = parts[-1][0], index
        else:
            parts.append((index, index))
    return ",".join(
        str(low) if low == high else f"{low},{high}" if high == low + 1 else f"{low}-{high}" for low, high in parts
    )


def action_for(job: Object, pod: Object) -> tuple[str, str]:
    """Return the action of the first rule of the failure policy that matches the failed *pod*, and its message.

    Both are empty if no rule matches.
    """
    policy = job["spec"].get("podFailurePolicy") or {}
    metadata = pod["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}"
    for number, rule in enumerate(policy.get("rules") or ()):
        action = rule.get("action") or ""
        if (codes := rule.get("onExitCodes")) is not None:
            container, code = _matching_container(codes, pod)
            if container:
                text = f"Container {container} for pod {name} failed with exit code {code} matching {action} rule"
                return action, f"{text} at index {number}"
        elif dig(pod, ("status", "phase")) == "Failed":
            for pattern in rule.get("onPodConditions") or ():
                found = conditions.find(dig(pod, ("status", "conditions")), pattern.get("type") or "")
                if found is not None and found.get("status") == pattern.get("status"):
                    text = f"Pod {name} has condition {pattern['type']} matching {action} rule at index {number}"
                    return action, text
    return "", ""


def _matching_container(codes: Object, pod: Object) -> tuple[str, int]:
    values, operator = codes.get("values") or (), codes.get("operator")
    status = pod.get("status") or {}
    for item in [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]:
        code = dig(item, ("state", "terminated", "exitCode"))
        if not code or codes.get("containerName") not in (None, item.get("name")):
            continue
        if (code in values) == (operator == "In"):
            return item.get("name") or "", code
    return "", 0


def matching_success_rule(job: Object, done: set[int]) -> str:
    """Return the message about the first rule of the success policy that *done* indexes meet, empty if none is met."""
    spec = job["spec"]
    for number, rule in enumerate((spec.get("successPolicy") or {}).get("rules") or ()):
        indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
        relevant = done
        if indexes is not None:
            required = parse_indexes(indexes, spec.get("completions") or 0)
            relevant = done & required
            if required and relevant == required:
                return f"Matched rules at index {number}"
        if count is not None and relevant and len(relevant) >= count:
            return f"Matched rules at index {number}"
    return ""


def exceeds_restarts(job: Object, pods: Sequence[Object]) -> bool:
    """Return whether the containers of pods that are restarted in place have failed too often."""
    spec = job["spec"]
    if dig(spec, ("template", "spec", "restartPolicy")) != "OnFailure":
        return False
    restarts = 0
    for pod in pods:
        if dig(pod, ("status", "phase")) in ("Running", "Pending"):
            status = pod.get("status") or {}
            statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
            restarts += sum(item.get("restartCount") or 0 for item in statuses)
    limit = spec.get("backoffLimit") or 0
    return restarts > 0 if limit == 0 else restarts >= limit


def condition(kind: str, status: str, reason: str, message: str, now: datetime) -> Object:
    """Return a condition of a Job."""
    time = objects.format_time(now)
    new: Object = {"type": kind, "status": status, "lastProbeTime": time, "lastTransitionTime": time}
    if reason:
        new |= {"reason": reason, "message": message}
    return new


def seconds_left(job: Object, start: str | None, now: datetime) -> float | None:
    """Return the time until the deadline of an active Job, ``None`` without one."""
    deadline, started = job["spec"].get("activeDeadlineSeconds"), parse_time(start)
    if deadline is None or started is None or job["spec"].get("suspend"):
        return None
    return float(deadline - (now - started).total_seconds())
