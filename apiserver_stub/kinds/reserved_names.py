"""Names of webhook configurations and policies that are reserved for manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.kinds.registry import NameProblems
from nodeagent.base.names import subdomain_problems

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.identity import Identity


def static_suffix(identity: Identity) -> str:
    """Return the suffix of names of objects in manifests, by default ``.static.k8s.io``."""
    return f".{identity.group('static')}"


def unreserved_names(settings: KindSettings) -> NameProblems:
    """Return the rule for names of objects that are created with the API."""
    if not settings.gates.enabled("ManifestBasedAdmissionControlConfig"):
        return subdomain_problems
    suffix = static_suffix(settings.identity)
    text = (
        f'names ending with "{suffix}" are reserved for static manifest-based configurations and cannot be managed '
        "via the API"
    )
    return lambda name: subdomain_problems(name) + [text] * name.endswith(suffix)
