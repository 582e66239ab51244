"""What all work runs on: the number of cores, pools of ordered work, buffers that are used again, progress."""
