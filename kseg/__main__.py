"""``python -m kseg`` and the ``kseg`` program, which import nothing from the current directory: it may be anyone's."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # before any import: it is the current directory

import gc
import os

from kseg.signals import Terminated, raise_on_signals

COLLECT_AFTER = 50_000
"""New objects between two runs of the garbage collector, which finds next to nothing: objects of kseg are hardly ever
cyclic. With Python's default it would run 40 times during the imports alone."""


def main() -> None:
    os.environ.setdefault("PYTHONSAFEPATH", "1")  # for the Pythons that PySpark and multiprocessing start
    gc.set_threshold(COLLECT_AFTER, 20, 20)
    raise_on_signals()
    try:
        from kseg.cli.main import run
    except KeyboardInterrupt as interrupt:
        sys.exit(interrupt.exit_status if isinstance(interrupt, Terminated) else 130)
    run()


if __name__ == "__main__":
    main()
