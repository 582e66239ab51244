"""How the options of commands are declared, and how their values are written."""
