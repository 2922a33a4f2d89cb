"""Checks of the Node object that a node agent writes: its own one, without changes reserved for administrators."""

from __future__ import annotations

from apiserver_stub.admission.listers import labels_of
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct

_ALLOWED = (
    *(("", name) for name in ("hostname", "os", "arch")),
    *((prefix, name) for prefix in ("topology", "failure-domain.beta") for name in ("zone", "region")),
    *(("beta", name) for name in ("instance-type", "os", "arch")),
    ("node", "instance-type"),
)
"""Prefixes and names of the labels in the reserved domains that a node agent may set on its node."""


class ReservedLabels(Struct, frozen=True):
    """Labels of nodes in the domains of the cluster."""

    restricted: str
    """Domain of labels that only administrators may set."""
    domains: tuple[str, ...]
    """Reserved domains."""
    own_domains: tuple[str, ...]
    """Domains within the reserved ones whose labels node agents may set."""
    allowed: frozenset[str]

    @classmethod
    def of(cls, identity: Identity) -> ReservedLabels:
        domain = identity.label_domain
        return cls(
            f"node-restriction.{domain}",
            (domain, identity.api_domain),
            (f"kubelet.{domain}", f"node.{domain}"),
            frozenset(identity.label(name, prefix) for prefix, name in _ALLOWED),
        )

    def forbidden(self, new: dict[str, str], old: dict[str, str]) -> list[str]:
        """Return the changed labels that a node agent must not set."""
        changed = {key for key in {*new, *old} if new.get(key) != old.get(key)}
        return sorted(key for key in changed if not self._may_set(key))

    def _may_set(self, key: str) -> bool:
        domain = key.partition("/")[0] if "/" in key else ""
        if _within(domain, (self.restricted,)):
            return False
        return not _within(domain, self.domains) or key in self.allowed or _within(domain, self.own_domains)


def check_node(call: AdmissionRequest, node: str, labels: ReservedLabels) -> None:
    """Reject the write of a Node that the agent of *node* must not make.

    :raises ApiError: 403.
    """
    name = call.target
    if name != node:
        raise call.forbidden(f'node "{node}" is not allowed to modify node "{name}"')
    if call.operation == "DELETE":
        return
    new, old = call.obj, call.old or {}
    source = dig(new, ("spec", "configSource"))
    if call.operation == "CREATE":
        if source is not None:
            raise call.forbidden(f'node "{node}" is not allowed to create pods with a non-nil configSource')
        if names := labels.forbidden(labels_of(new), {}):
            raise call.forbidden(f'node "{node}" is not allowed to set the following labels: {", ".join(names)}')
        return
    if source is not None and source != dig(old, ("spec", "configSource")):
        raise call.forbidden(f'node "{node}" is not allowed to update configSource to a new non-nil configSource')
    if _differ(new, old, ("spec", "taints")):
        raise call.forbidden(f'node "{node}" is not allowed to modify taints')
    if _differ(new, old, ("metadata", "ownerReferences")):
        raise call.forbidden(f'node "{node}" is not allowed to modify ownerReferences')
    if names := labels.forbidden(labels_of(new), labels_of(old)):
        raise call.forbidden(f"is not allowed to modify labels: {', '.join(names)}")


def _differ(new: Object, old: Object, path: tuple[str, str]) -> bool:
    return (dig(new, path) or []) != (dig(old, path) or [])


def _within(domain: str, roots: tuple[str, ...]) -> bool:
    return any(domain == root or domain.endswith("." + root) for root in roots)
