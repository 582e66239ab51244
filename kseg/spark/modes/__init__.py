"""The modes of the data source, one module each; `reading` imports that of a task."""
