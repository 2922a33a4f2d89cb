"""From wanted pods to one worker a pod: merging of sources, the state of a pod's life, the loop around the syncer."""
