"""Parts that the simulations of the agent and of the API server share: time, threads, disk, trace and shrinking."""
