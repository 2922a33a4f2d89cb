"""Everything on this machine: API server, agent and a pod, started for a person to look at."""
