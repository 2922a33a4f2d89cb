"""Persistent claims: the PersistentVolumes of PersistentVolumeClaims, and CSI migration of in-tree volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent_plugins.persistent_claims.resolver import Resolver

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext
    from nodeagent.contracts.persistent_volumes import ClaimResolver


@hookimpl
def nodeagent_provide_claim_resolver(context: CgroupsContext) -> ClaimResolver:
    return Resolver(context.api)
