"""asyncio helpers: clock, backoff, rate limits, commands, owned tasks."""

from nodeagent.base.aio.backoff import Backoff, BackoffTable
from nodeagent.base.aio.clock import Clock, SystemClock
from nodeagent.base.aio.limits import TokenBucket, TokenBuckets
from nodeagent.base.aio.tasks import TaskOwner

__all__ = ["Backoff", "BackoffTable", "Clock", "SystemClock", "TaskOwner", "TokenBucket", "TokenBuckets"]
