"""Node agents: streams, proxies and connections to nodes, pods and services."""
