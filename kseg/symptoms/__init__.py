"""From a message of a broker, client or tool to its cause and to the commands that help."""
