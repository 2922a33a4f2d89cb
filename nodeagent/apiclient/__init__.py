"""API server client, the only one of the agent."""

from nodeagent.apiclient.client import Client
from nodeagent.apiclient.connect import connect

__all__ = ["Client", "connect"]
