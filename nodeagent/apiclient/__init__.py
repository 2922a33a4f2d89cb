"""The agent's only client of the API server."""

from nodeagent.apiclient.client import Client
from nodeagent.apiclient.connect import connect

__all__ = ["Client", "connect"]
