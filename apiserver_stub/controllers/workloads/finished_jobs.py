"""TTL controller: deletes finished Jobs after their time to live."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar

from apiserver_stub.apimachinery.objects import Object, parse_time
from apiserver_stub.controllers.views import OwnerView, View
from apiserver_stub.controllers.workloads.job_progress import finished_condition
from apiserver_stub.controllers.workloads.owner_controller import OwnerController

_JOBS = "batch/jobs"


class FinishedJobs(OwnerController):
    """Jobs that have completed or failed."""

    name, alias, kind = "ttl-after-finished-controller", "ttl-after-finished", "Job"
    owners = ("batch", "v1", "jobs")
    dependents = ()
    resources = ("jobs.batch",)
    views: ClassVar[Mapping[str, type[View]]] = {_JOBS: OwnerView}

    async def sync(self, owner: Object) -> None:
        seconds, finished = owner["spec"].get("ttlSecondsAfterFinished"), finished_condition(owner)
        metadata = owner["metadata"]
        if seconds is None or finished is None or "deletionTimestamp" in metadata:
            return
        end = parse_time(finished.get("lastTransitionTime"))
        if end is None:
            return
        left = (end + timedelta(seconds=seconds) - self.context.clock.wall()).total_seconds()
        if left > 0:
            self.queue.add_after(self.owner.key(metadata["namespace"], metadata["name"]), left)
        else:
            await self.writer.delete(self.owner, metadata, "Foreground")
