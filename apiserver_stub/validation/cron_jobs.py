"""Validation of CronJobs."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from apiserver_stub.apimachinery.cron import CronError, parse_schedule
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value, not_supported, required
from apiserver_stub.validation.jobs import validate_job_template
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.pod_templates import validate_not_negative

_NAME_LIMIT = 52
"""Names of Jobs have at most 63 characters, of which the suffix with the time takes 11."""
_POLICIES = ("Allow", "Forbid", "Replace")
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def validate_cron_job(cron_job: Object, options: PodOptions, old: Object | None = None) -> list[Cause]:
    """Return the errors in the specification of a CronJob; *old* is its stored state."""
    spec, before = cron_job["spec"], (old or {}).get("spec") or {}
    schedule, zone = spec.get("schedule") or "", spec.get("timeZone")
    causes = []
    if not schedule:
        causes.append(required("spec.schedule"))
    else:
        causes += _validate_schedule(schedule, zone, allows_zone="TZ" in (before.get("schedule") or ""))
    causes += validate_not_negative(spec, ("startingDeadlineSeconds",), "spec")
    if zone is not None and (old is None or before.get("timeZone") != zone):
        causes += _validate_zone(zone)
    policy = spec.get("concurrencyPolicy") or ""
    if not policy:
        causes.append(required("spec.concurrencyPolicy"))
    elif policy not in _POLICIES:
        causes.append(not_supported("spec.concurrencyPolicy", policy, _POLICIES))
    causes += validate_job_template(spec.get("jobTemplate") or {}, "spec.jobTemplate", options)
    causes += validate_not_negative(spec, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"), "spec")
    name = cron_job["metadata"].get("name") or ""
    if old is None and len(name) > _NAME_LIMIT:
        causes.append(invalid_value("metadata.name", name, f"must be no more than {_NAME_LIMIT} characters"))
    return causes


def _validate_schedule(schedule: str, zone: str | None, *, allows_zone: bool) -> list[Cause]:
    causes = []
    try:
        parse_schedule(schedule)
    except CronError as error:
        causes.append(invalid_value("spec.schedule", schedule, str(error)))
    if "TZ" not in schedule:
        return causes
    if allows_zone and zone is not None:
        detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        causes.append(invalid_value("spec.schedule", schedule, detail))
    elif not allows_zone:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        causes.append(invalid_value("spec.schedule", schedule, detail))
    return causes


def _validate_zone(zone: str) -> list[Cause]:
    field = "spec.timeZone"
    if not zone:
        return [invalid_value(field, zone, "timeZone must be nil or non-empty string")]
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part):
            return [invalid_value(field, zone, f"unknown time zone {zone}")]
    causes = []
    if zone.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        causes.append(invalid_value(field, zone, detail))
    try:
        if zone not in ("UTC", "Local"):
            ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        causes.append(invalid_value(field, zone, f"unknown time zone {zone}"))
    return causes
