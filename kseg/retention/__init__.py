"""Which segments go by retention, and why: the rules of brokers, as a plan for `kseg.changes`."""
