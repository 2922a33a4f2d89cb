"""Demo: a complete node on this host, with API server, runtime, agent and a pod."""
