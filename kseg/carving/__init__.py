"""Brings logs back out of raw bytes: disk images, block devices, unallocated blocks, damaged archives."""
