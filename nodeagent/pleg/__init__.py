"""Pod lifecycle events: what changed in the runtime, found by listing it or told by its event stream."""
