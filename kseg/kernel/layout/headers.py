"""Where fields lie in the headers of batches and messages, and what their attributes mean: the constants of layout.pxd.

Compiled modules take them from there at compile time.
"""

from kseg.kernel.cython import constants

globals().update(constants(__name__))
