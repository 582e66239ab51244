"""What the lines of one batch's records have in common: the flags and, for the interpreted kernel, the structs of
lines.pxd."""

from kseg.kernel.cython import constants, structs
from kseg.kernel.native.escape import Counters

globals().update(constants(__name__))
globals().update(structs(__name__, Counters=Counters))
