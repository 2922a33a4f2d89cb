"""Validation of updates of the status of Jobs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from apiserver_stub.apimachinery.objects import Object, parse_time
from apiserver_stub.apimachinery.status import Cause, duplicate, invalid_value, invalid_without_value, required
from apiserver_stub.validation.job_indexes import IndexesError, first_overlap, parse_intervals
from apiserver_stub.validation.pod_templates import validate_not_negative
from nodeagent.base.structs import Struct

COMPLETE, FAILED = "Complete", "Failed"
FAILURE_TARGET, CRITERIA_MET, SUSPENDED = "FailureTarget", "SuccessCriteriaMet", "Suspended"
_INDEXED = "Indexed"
_FIELD, _CONDITIONS = "status", "status.conditions"
_COUNTS = ("active", "succeeded", "failed", "ready", "terminating")
_TIMES = ("startTime", "completionTime")
_INDEXES = ("completedIndexes", "failedIndexes")
_invalid_conditions = partial(invalid_without_value, _CONDITIONS)


class JobStatusRules(Struct, frozen=True):
    """Rules of a release for updates of the status of Jobs."""

    transitions: bool
    """Changes must be possible ones, since controllers of other vendors may make them (``JobManagedBy``)."""
    criteria: bool
    """The condition SuccessCriteriaMet must agree with the others."""
    criteria_of_all: bool
    """Jobs without success policy may have the condition too."""


class _Change:
    """A change of the status of a Job."""

    def __init__(self, new: Object, old: Object) -> None:
        self.spec = new["spec"]
        self.new, self.old = new.get("status") or {}, old.get("status") or {}
        self.reached, self.reached_before = _reached(self.new), _reached(self.old)
        self.finished = bool(self.reached & {COMPLETE, FAILED})
        self.indexed = self.spec.get("completionMode") == _INDEXED

    def of(self, *names: str) -> bool:
        """Return whether one of the fields *names* changes."""
        return any(_value(self.new, name) != _value(self.old, name) for name in names)

    def between(self, *kinds: str) -> bool:
        """Return whether one of the conditions *kinds* becomes true, or all of them become false."""
        return self.reached.isdisjoint(kinds) != self.reached_before.isdisjoint(kinds)

    @property
    def finishes(self) -> bool:
        return self.between(COMPLETE, FAILED)

    @property
    def resumes(self) -> bool:
        return SUSPENDED in self.reached_before and (SUSPENDED, "False") in _states(self.new)


def validate_job_status_update(new: Object, old: Object, rules: JobStatusRules) -> list[Cause]:
    """Return the errors in an update of the status of a Job.

    A rule about several fields applies if one of them changes: the specification may have changed before.
    """
    change = _Change(new, old)
    causes = _validate_values(change.new)
    if rules.transitions:
        causes += _validate_end(change)
        causes += _validate_indexes(change)
        causes += _validate_counts(change)
        causes += _validate_times(change)
    if rules.criteria:
        causes += _validate_criteria(change, of_all=rules.criteria_of_all or CRITERIA_MET in change.reached_before)
    return causes


def _validate_values(status: Object) -> list[Cause]:
    causes = validate_not_negative(status, _COUNTS, _FIELD)
    uncounted, seen = status.get("uncountedTerminatedPods") or {}, set[str]()
    for name in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(name) or ()):
            field = f"{_FIELD}.uncountedTerminatedPods.{name}[{index}]"
            if not uid:
                causes.append(invalid_value(field, uid, "must not be empty"))
            elif uid in seen:
                causes.append(duplicate(field, uid))
            seen.add(uid)
    return causes


def _validate_end(change: _Change) -> Iterator[Cause]:
    """Yield the errors in the conditions with which a Job ends, and in the other fields of an ended Job."""
    reached, status = change.reached, change.new
    is_complete, has_failed = COMPLETE in reached, FAILED in reached
    if is_complete and has_failed and (change.between(COMPLETE) or change.between(FAILED)):
        yield _invalid_conditions("cannot set Complete=True and Failed=true conditions")
    if is_complete and FAILURE_TARGET in reached and (change.between(COMPLETE) or change.between(FAILURE_TARGET)):
        yield _invalid_conditions("cannot set Complete=True and FailureTarget=true conditions")
    if has_failed and FAILURE_TARGET not in reached and (change.between(FAILED) or change.of("failedIndexes")):
        yield _invalid_conditions("cannot set Failed=True condition without the FailureTarget=true condition")
    if is_complete and CRITERIA_MET not in reached and (change.between(COMPLETE) or change.between(CRITERIA_MET)):
        yield _invalid_conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    for kind in (FAILED, COMPLETE, FAILURE_TARGET):
        if kind in change.reached_before and kind not in reached:
            yield _invalid_conditions(f"cannot disable the terminal {kind}=True condition")
    if not change.finished:
        return
    for name in ("active", "terminating"):
        if (count := status.get(name) or 0) > 0 and (change.finishes or change.of(name)):
            yield invalid_value(f"{_FIELD}.{name}", count, f"{name}>0 is invalid for finished job")
    uncounted = status.get("uncountedTerminatedPods") or {}
    if any(uncounted.values()) and (change.finishes or change.of("uncountedTerminatedPods")):
        yield invalid_value(f"{_FIELD}.uncountedTerminatedPods", uncounted, "must be empty for finished job")


def _validate_indexes(change: _Change) -> Iterator[Cause]:
    completed, failed = change.new.get("completedIndexes") or "", change.new.get("failedIndexes")
    completed_field, failed_field = (f"{_FIELD}.{name}" for name in _INDEXES)
    completions, limit = change.spec.get("completions"), change.spec.get("backoffLimitPerIndex")
    if change.of("completedIndexes"):
        if completions is not None:
            yield from _validate_format(completed, "completedIndexes", completions)
        if completed and not change.indexed:
            detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
            yield invalid_value(completed_field, completed, detail)
    if failed is None:
        return
    if change.of("failedIndexes"):
        if limit is None:
            detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
            yield invalid_value(failed_field, failed, detail)
        elif completions is not None:
            yield from _validate_format(failed, "failedIndexes", completions)
    if completions is not None and change.of(*_INDEXES):
        overlap = first_overlap(completed, failed, completions)
        if overlap is not None:
            detail = f"failedIndexes and completedIndexes overlap at index: {overlap}"
            yield invalid_value(failed_field, failed, detail)


def _validate_format(indexes: str, name: str, completions: int) -> Iterator[Cause]:
    try:
        parse_intervals(indexes, completions)
    except IndexesError as error:
        yield invalid_value(f"{_FIELD}.{name}", indexes, f"error parsing {name}: {error}")


def _validate_counts(change: _Change) -> Iterator[Cause]:
    ready = change.new.get("ready")
    if ready is not None and ready > (change.new.get("active") or 0) and change.of("ready", "active"):
        yield invalid_value(f"{_FIELD}.ready", ready, "cannot set more ready pods than active")
    # Indexed Jobs whose completions follow their parallelism can be scaled down.
    elastic = change.indexed and change.spec.get("completions") == change.spec.get("parallelism")
    for name in ("failed",) if elastic else ("failed", "succeeded"):
        count = change.new.get(name) or 0
        if count < (change.old.get(name) or 0):
            yield invalid_value(f"{_FIELD}.{name}", count, f"cannot decrease the {name} counter")


def _validate_times(change: _Change) -> Iterator[Cause]:
    start, end = (parse_time(change.new.get(name)) for name in _TIMES)
    start_before, end_before = (parse_time(change.old.get(name)) for name in _TIMES)
    start_field, end_field = (f"{_FIELD}.{name}" for name in _TIMES)
    shown = change.new.get("completionTime")
    is_complete = COMPLETE in change.reached
    if change.between(COMPLETE) or end != end_before:
        if end is not None and not is_complete:
            detail = "cannot set completionTime when there is no Complete=True condition"
            yield invalid_value(end_field, shown, detail)
        if end is None and is_complete:
            yield required(end_field, "completionTime is required for Complete jobs")
    if start is not None and end is not None and end < start and change.of(*_TIMES):
        yield invalid_value(end_field, shown, "must be equal to or after `startTime`")
    if end is not None and end_before is not None and end != end_before:
        yield invalid_value(end_field, shown, "field is immutable")
    suspended = change.spec.get("suspend") or False
    never_starts = suspended and change.spec.get("completions") == 0
    if start is None and change.finished and not never_starts and (change.finishes or start_before is not None):
        yield required(start_field, "startTime is required for finished job")
    if start_before is not None and start != start_before and not suspended and not change.resumes:
        detail = "field is immutable for unsuspended job once set"
        yield invalid_value(start_field, change.new.get("startTime"), detail)


def _validate_criteria(change: _Change, *, of_all: bool) -> Iterator[Cause]:
    reached, before = change.reached, change.reached_before
    has_policy = change.spec.get("successPolicy") is not None
    if CRITERIA_MET in reached:
        if not of_all and not change.indexed:
            yield _invalid_conditions("cannot set SuccessCriteriaMet to NonIndexed Job")
        for kind in (FAILED, FAILURE_TARGET):
            if kind in reached:
                yield _invalid_conditions(f"cannot set SuccessCriteriaMet=True and {kind}=true conditions")
        if not of_all and not has_policy:
            yield _invalid_conditions("cannot set SuccessCriteriaMet=True for Job without SuccessPolicy")
        if COMPLETE in before and CRITERIA_MET not in before:
            detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
            yield _invalid_conditions(detail)
        return
    if has_policy and COMPLETE in reached:
        detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        yield _invalid_conditions(detail)
    if CRITERIA_MET in before:
        yield _invalid_conditions("cannot disable the SuccessCriteriaMet=True condition")


def _value(status: Object, name: str) -> object:
    """Return the comparable value of a field: times parsed, and empty values of required fields as zero values."""
    value = status.get(name)
    if name in _TIMES:
        return parse_time(value)
    if name == "uncountedTerminatedPods":
        return {kind: uids for kind, uids in (value or {}).items() if uids}
    return value or None if name in ("active", "completedIndexes") else value


def _states(status: Object) -> set[tuple[str, str]]:
    return {(item.get("type") or "", item.get("status") or "") for item in status.get("conditions") or ()}


def _reached(status: Object) -> set[str]:
    """Return the conditions that are true."""
    return {kind for kind, state in _states(status) if state == "True"}
