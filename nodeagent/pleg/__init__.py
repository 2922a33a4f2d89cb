"""PLEG (pod lifecycle event generator): detect changes in the runtime by relisting or from its event stream."""
