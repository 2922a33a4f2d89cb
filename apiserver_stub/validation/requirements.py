"""Validation of resource requirements and of the resource claims of pods."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    duplicate,
    forbidden_value,
    invalid_each,
    invalid_value,
    not_found_value,
    required,
)
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.quantities import (
    amount,
    is_huge_pages,
    is_overcommit_allowed,
    is_whole_pages,
    validate_amount,
    validate_container_resource_name,
)
from nodeagent.base.names import label_problems, subdomain_problems
from nodeagent.base.release import OLDEST, Release

_DIRECT_CLAIMS = Release(1, 31)
"""First release in which claims of pods refer to objects directly."""
_CLAIM_REFERENCES = ("resourceClaimName", "resourceClaimTemplateName")


def validate_requirements(
    requirements: Object,
    claim_names: Collection[str],
    field: str,
    options: PodOptions,
    *,
    validate_name: Callable[[str, str, str], list[Cause]] = validate_container_resource_name,
) -> list[Cause]:
    """Return the errors in limits, requests and claims of a container.

    :param claim_names: names of the resource claims of the pod.
    :param validate_name: returns the errors in the name of a resource at a field, for a label domain.
    """
    label_domain = options.identity.label_domain
    limits, requests = requirements.get("limits") or {}, requirements.get("requests") or {}
    causes = []
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            path = f"{field}.{kind}[{name}]"
            causes += validate_name(name, path, label_domain)
            causes += validate_amount(name, text, path, label_domain)
            if is_huge_pages(name) and not options.any_huge_pages and not is_whole_pages(name, text):
                detail = f"{text} is not positive integer multiple of {name}"
                causes.append(invalid_value(path, text, detail))
    for name, text in requests.items():
        causes += _validate_request(name, text, limits.get(name), field, label_domain)
    used = {*limits, *requests}
    if any(map(is_huge_pages, used)) and not used & {"cpu", "memory"}:
        causes.append(forbidden_value(field, "HugePages require cpu or memory"))
    if claims := requirements.get("claims"):
        has_requests = options.release >= _DIRECT_CLAIMS
        causes += _validate_claim_names(claims, claim_names, f"{field}.claims", has_requests=has_requests)
    return causes


def validate_resource_claims(
    claims: Sequence[Object], pod_name: str | None, field: str, release: Release = OLDEST
) -> list[Cause]:
    """Return the errors in the resource claims of a pod; a pod template has no *pod_name*."""
    causes = []
    names: set[str] = set()
    for index, claim in enumerate(claims):
        path = f"{field}[{index}]"
        name, at = claim.get("name") or "", path
        source = {member: claim[member] for member in _CLAIM_REFERENCES if member in claim}
        if not source and release < _DIRECT_CLAIMS:  # Releases before 1.31 nest the reference in "source".
            source, at = claim.get("source") or {}, f"{path}.source"
        claim_name, template = source.get("resourceClaimName"), source.get("resourceClaimTemplateName")
        if not name:
            causes.append(required(f"{path}.name"))
        elif name in names:
            causes.append(duplicate(f"{path}.name", name))
        else:
            if problems := label_problems(name):
                causes += invalid_each(f"{path}.name", name, problems)
            elif pod_name is not None and template is not None and release < _DIRECT_CLAIMS:
                full = f"{pod_name}-{name}"
                details = [f"final ResourceClaim name: {problem}" for problem in subdomain_problems(full)]
                causes += invalid_each(f"{path}.name", full, details)
            names.add(name)
        if (claim_name is None) == (template is None):
            both = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            none = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            shown = source
            if release >= _DIRECT_CLAIMS:
                shown = {"Name": name, "ResourceClaimName": claim_name, "ResourceClaimTemplateName": template}
            causes.append(invalid_value(at, shown, none if claim_name is None else both))
        for member, value in source.items():
            if value is not None:
                causes += invalid_each(f"{at}.{member}", value, subdomain_problems(value))
    return causes


def _validate_request(name: str, text: str, limit: str | None, field: str, label_domain: str) -> list[Cause]:
    if limit is None:
        if is_overcommit_allowed(name, label_domain):
            return []
        return [required(f"{field}.limits", "Limit must be set for non overcommitable resources")]
    request, most = amount(text), amount(limit)
    if request != most and not is_overcommit_allowed(name, label_domain):
        return [invalid_value(f"{field}.requests", text, f"must be equal to {name} limit of {limit}")]
    if request > most:
        return [invalid_value(f"{field}.requests", text, f"must be less than or equal to {name} limit of {limit}")]
    return []


def _validate_claim_names(
    claims: Sequence[Object], claim_names: Collection[str], field: str, *, has_requests: bool
) -> list[Cause]:
    causes = []
    names: set[str] = set()
    for index, claim in enumerate(claims):
        path = f"{field}[{index}]"
        if not (name := claim.get("name")):
            causes.append(required(path))
            continue
        request = (claim.get("request") or "") if has_requests else ""
        if name in names:
            causes.append(duplicate(path, name))
        else:
            key = f"{name}/{request}" if request else name
            if request:
                causes += invalid_each(f"{path}.request", request, label_problems(request))
            if key in names or (not request and any(known.startswith(f"{name}/") for known in names)):
                causes.append(duplicate(path, key))
            names.add(key)
        if name not in claim_names:
            known = f": {', '.join(sorted(claim_names))}" if claim_names else " which is empty"
            causes.append(not_found_value(path, name, f"must be one of the names in pod.spec.resourceClaims{known}"))
    return causes
