"""The table of findings: every code with its severity, sentence, meaning and repair."""
