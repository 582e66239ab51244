"""What ``kseg stats``, ``groups``, ``transactions`` and ``cluster`` show, and the walk over the files of PATHs."""
