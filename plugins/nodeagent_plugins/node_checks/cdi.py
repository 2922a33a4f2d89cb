"""CDI check: invalid and conflicting specs of devices, and a runtime that ignores them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nodeagent.base.cdi.catalog import Catalog, read_catalog
from nodeagent.base.cdi.support import CdiSupport, cdi_support
from nodeagent.contracts.checks import CheckInconclusive, Finding, NodeCheck, problem, warning
from nodeagent.contracts.context import ImageContext
from nodeagent.contracts.runtime import RuntimeInfoProvider
from nodeagent.errors import RuntimeFailure


def checks(context: ImageContext) -> Sequence[NodeCheck]:
    """Return the check of CDI specs, in the directories that the runtime reads."""

    async def specs() -> Sequence[Finding]:
        runtime = context.runtime
        try:
            version = await runtime.version()
            info = await runtime.info() if isinstance(runtime, RuntimeInfoProvider) else {}
        except RuntimeFailure as error:
            raise CheckInconclusive from error
        support = cdi_support(version.name, version.version, info)
        return check_specs(support, await asyncio.to_thread(read_catalog, support.directories))

    return (NodeCheck("CDI", specs),)


def check_specs(support: CdiSupport, catalog: Catalog) -> Sequence[Finding]:
    """Return the findings for the specs in *catalog*; none on a node without specs."""
    if support.problem:
        if not catalog.specs and not catalog.problems:
            return []
        where = ", ".join(catalog.directories)
        return [warning(f"the CDI specs in {where} have no effect: {support.problem}", support.remedy)]
    remedy = "correct or remove the file, or update the driver that generates it"
    return [problem(found.text, remedy) for found in catalog.problems]
