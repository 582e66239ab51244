"""The one way to change a partition or log directory: a plan, carried out so that a kill at any moment is survived."""
