"""``python -m kseg`` and the ``kseg`` program."""

import gc
import sys

from kseg.signals import Terminated, raise_on_signals

COLLECT_AFTER = 50_000
"""New objects between two runs of the garbage collector, which finds next to nothing: objects of kseg are hardly ever
cyclic. With Python's default it would run 40 times during the imports alone."""


def main() -> None:
    gc.set_threshold(COLLECT_AFTER, 20, 20)
    raise_on_signals()
    try:
        from kseg.cli.main import run
    except KeyboardInterrupt as interrupt:
        sys.exit(interrupt.exit_status if isinstance(interrupt, Terminated) else 130)
    run()


if __name__ == "__main__":
    main()
