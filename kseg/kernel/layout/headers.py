"""Where fields lie in the headers of batches and messages, and what their attributes mean: see headers.pxd."""
