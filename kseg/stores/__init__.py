"""Where bytes come from: local files, opened without following links and read around bad sectors."""
