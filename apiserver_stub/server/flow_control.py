"""Priority and fairness: the queues of requests, configured by API objects."""

from __future__ import annotations

from apiserver_stub.controllers.flow_control_config import FlowControlConfig
from apiserver_stub.defaulting.flow_control_objects import mandatory_levels, mandatory_schemas
from apiserver_stub.flowcontrol.priority_and_fairness import PriorityAndFairness
from apiserver_stub.flowcontrol.priority_levels import read_level
from apiserver_stub.flowcontrol.schemas import read_schema
from apiserver_stub.kinds import Registry
from apiserver_stub.options import Options
from apiserver_stub.storage import Store
from nodeagent.base.aio import SystemClock, TaskOwner


async def start_flow_control(
    options: Options, store: Store, registry: Registry, tasks: TaskOwner
) -> PriorityAndFairness | None:
    """Return the queues, ``None`` if they are disabled; the objects that configure them exist in both cases."""
    flow_control = _build(options)
    if flow_control is not None:
        tasks.start(flow_control.run_seat_borrowing(SystemClock()), "flow-control")
    if registry.find(options.identity.group("flowcontrol.apiserver"), "v1", "flowschemas") is not None:
        config = FlowControlConfig(store, flow_control, options.identity, release=options.compatibility_version)
        await config.start()
        tasks.start(config.run(), "flow-control-config")
    return flow_control


def _build(options: Options) -> PriorityAndFairness | None:
    if not options.enable_priority_and_fairness:
        return None
    total = options.max_requests_inflight + options.max_mutating_requests_inflight
    levels = {name: read_level(spec) for name, spec in mandatory_levels().items()}
    schemas = [read_schema(name, spec, {}) for name, spec in mandatory_schemas().items()]
    return PriorityAndFairness(total, options.request_timeout_seconds / 4, levels, schemas)
