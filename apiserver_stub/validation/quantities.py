"""Validation of resource names and amounts. Names and amounts repeat, so results are cached."""

from __future__ import annotations

from apiserver_stub.apimachinery.status import Cause, invalid_each, invalid_value
from nodeagent.base.names import qualified_name_problems
from nodeagent.base.quantity import Quantity
from nodeagent.base.text_cache import text_cache

_CACHED = 4096
_ZERO = Quantity()
_HUGE_PAGES = "hugepages-"
_CONTAINER_RESOURCES = frozenset(("cpu", "memory", "ephemeral-storage"))
_COUNTS = frozenset(
    (
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    )
)
_STANDARD = (
    _COUNTS
    | _CONTAINER_RESOURCES
    | {f"{kind}.{name}" for kind in ("requests", "limits") for name in _CONTAINER_RESOURCES}
    | {"storage", "requests.storage"}
)
_QUOTA_RESOURCES = _STANDARD - {"storage"}


@text_cache(_CACHED)
def amount(text: str) -> Quantity:
    """Return the amount that *text* of a decoded object stands for.

    :raises ValueError: *text* is not a quantity; the decoder rejects these.
    """
    return Quantity.parse(text)


def is_huge_pages(name: str) -> bool:
    """Return whether *name* is a resource of huge pages."""
    return name.startswith(_HUGE_PAGES)


def is_native(name: str, label_domain: str) -> bool:
    """Return whether *name* is defined by Kubernetes: it has no domain, or *label_domain*."""
    return "/" not in name or f"{label_domain}/" in name


@text_cache(_CACHED)
def is_extended(name: str, label_domain: str) -> bool:
    """Return whether *name* is a resource of a device plugin or an administrator."""
    if is_native(name, label_domain) or name.startswith("requests."):
        return False
    return not qualified_name_problems(f"requests.{name}")


def is_overcommit_allowed(name: str, label_domain: str) -> bool:
    """Return whether limits of the resource may exceed its requests."""
    return is_native(name, label_domain) and not is_huge_pages(name)


def is_integer(name: str, label_domain: str) -> bool:
    """Return whether amounts of the resource are whole numbers."""
    return name in _COUNTS or is_extended(name, label_domain)


def validate_resource_name(name: str, field: str) -> list[Cause]:
    """Return the errors in the name of a resource."""
    return invalid_each(field, name, _problems(name))


def validate_container_resource_name(name: str, field: str, label_domain: str) -> list[Cause]:
    """Return the errors in the name of a resource that a container requests."""
    return invalid_each(field, name, _container_problems(name, label_domain))


def is_quota_resource(name: str) -> bool:
    """Return whether *name* is a resource that quotas can limit in every cluster."""
    return name in _QUOTA_RESOURCES or _is_quota_huge_pages(name)


def validate_quota_resource_name(name: str, field: str) -> list[Cause]:
    """Return the errors in the name of a resource that a quota limits."""
    problems = list(_problems(name))
    if "/" not in name and not is_quota_resource(name):
        problems.append("must be a standard resource for quota")
    return invalid_each(field, name, problems)


def validate_amount(name: str, text: str, field: str, label_domain: str) -> list[Cause]:
    """Return the errors in the amount of a resource: a negative one, or a fraction of a countable resource."""
    quantity = amount(text)
    causes = []
    if quantity < _ZERO:
        causes.append(invalid_value(field, text, "must be greater than or equal to 0"))
    if is_integer(name, label_domain) and quantity.milli_value() % 1000:
        causes.append(invalid_value(field, text, "must be an integer"))
    return causes


def validate_nonnegative_amount(text: str, field: str) -> list[Cause]:
    """Return the error in an amount that must not be negative."""
    return [invalid_value(field, text, "must be greater than or equal to 0")] if amount(text) < _ZERO else []


def validate_positive_amount(text: str, field: str) -> list[Cause]:
    """Return the error in an amount that must be greater than zero."""
    return [] if amount(text) > _ZERO else [invalid_value(field, text, "must be greater than zero")]


def is_whole_pages(name: str, text: str) -> bool:
    """Return whether the amount of a huge page resource is a multiple of its page size."""
    try:
        size = amount(name.removeprefix(_HUGE_PAGES))
    except ValueError:
        return False
    if size <= _ZERO or size.milli_value() % 1000:
        return False
    return amount(text).value() % size.value() == 0


def is_fractional_bytes(text: str) -> bool:
    """Return whether the amount of a resource that is measured in bytes has a fraction."""
    return bool(amount(text).milli_value() % 1000)


@text_cache(_CACHED)
def _problems(name: str) -> tuple[str, ...]:
    if problems := qualified_name_problems(name):
        return tuple(problems)
    if "/" not in name and not (name in _STANDARD or _is_quota_huge_pages(name)):
        return ("must be a standard resource type or fully qualified",)
    return ()


@text_cache(_CACHED)
def _container_problems(name: str, label_domain: str) -> tuple[str, ...]:
    problems = _problems(name)
    if "/" not in name:
        if name not in _CONTAINER_RESOURCES and not is_huge_pages(name):
            return (*problems, "must be a standard resource for containers")
    elif not is_native(name, label_domain) and not is_extended(name, label_domain):
        return (*problems, "doesn't follow extended resource name standard")
    return problems


def _is_quota_huge_pages(name: str) -> bool:
    return name.startswith((_HUGE_PAGES, f"requests.{_HUGE_PAGES}"))
