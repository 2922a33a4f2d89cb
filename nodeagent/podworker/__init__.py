"""Pod workers: merge the pods of all sources and run one worker per pod through its lifecycle."""
