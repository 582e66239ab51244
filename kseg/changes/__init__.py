"""Changes to log directories: plans, locks, quarantine, undo. Nothing else writes into an existing log directory."""
