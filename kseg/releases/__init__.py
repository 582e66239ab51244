"""What differs between releases of Kafka: one module a subject; a rule and its release stand here and nowhere else."""
