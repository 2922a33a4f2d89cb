"""What reaches past this server to nodes, pods and services: streams, logs, proxies and the way out to them."""
