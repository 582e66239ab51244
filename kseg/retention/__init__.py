"""Plans the deletion of segments by retention, by the rules of brokers; `kseg.changes` applies the plan."""
