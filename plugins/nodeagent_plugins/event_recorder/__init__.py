"""Event recorder: reports as Events of the API server what happened on this node.

spec: config.eventRecordQPS, config.eventBurst
"""

from __future__ import annotations

from nodeagent import hookimpl
from nodeagent.contracts.context import ApiContext
from nodeagent.contracts.events import EventRecorder
from nodeagent_plugins.event_recorder.aggregator import EventAggregator
from nodeagent_plugins.event_recorder.log import LogRecorder
from nodeagent_plugins.event_recorder.recorder import ApiRecorder
from nodeagent_plugins.event_recorder.sink import Sink


@hookimpl
def nodeagent_provide_event_recorder(context: ApiContext) -> EventRecorder:
    """Provide a recorder with a separate API client, so that events and other requests do not delay each other."""
    if context.new_api is None:
        return LogRecorder()
    api = context.new_api(context.config.event_record_qps, context.config.event_burst)
    return ApiRecorder(Sink(api, context.node_name), EventAggregator(context.clock), context.clock, context.tasks)
