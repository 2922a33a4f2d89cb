"""CEL rules of structural schemas (``x-kubernetes-validations``): types, values and evaluation. No I/O."""
