"""Event recorder: reports as Events of the API server what happened on this node.

spec: config.eventRecordQPS, config.eventBurst
"""

from __future__ import annotations

from nodeagent import hookimpl
from nodeagent.contracts.context import ApiContext
from nodeagent.contracts.events import EventRecorder
from nodeagent.contracts.hooks import PluginHost
from nodeagent.model.pod import Pod
from nodeagent_plugins.event_recorder.aggregator import EventAggregator
from nodeagent_plugins.event_recorder.log import LogRecorder
from nodeagent_plugins.event_recorder.recorder import ApiRecorder
from nodeagent_plugins.event_recorder.sink import Sink


@hookimpl
def nodeagent_configure(plugins: PluginHost) -> None:
    plugins.register(EventSeries(), name="event_recorder.series")


class EventSeries:
    """Hooks of the plugin, which share the series of events."""

    def __init__(self) -> None:
        self._aggregator: EventAggregator | None = None

    @hookimpl
    def nodeagent_provide_event_recorder(self, context: ApiContext) -> EventRecorder:
        """Provide a recorder with a separate API client, so that events and other requests do not delay each other."""
        if context.new_api is None:
            return LogRecorder()
        api = context.new_api(context.config.event_record_qps, context.config.event_burst)
        self._aggregator = EventAggregator(context.clock)
        return ApiRecorder(Sink(api, context.node_name), self._aggregator, context.clock, context.tasks)

    @hookimpl
    async def nodeagent_pod_terminated(self, pod: Pod) -> None:
        """Drop the series of the pod, so that those of deleted pods do not accumulate."""
        if self._aggregator is not None:
            self._aggregator.end(pod.reference())
