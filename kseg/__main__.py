"""``python -m kseg`` and the ``kseg`` program."""

import gc
import sys

from kseg.signals import Terminated, raise_on_signals

COLLECT_AFTER = 50_000
"""Objects made: what kseg keeps is hardly ever cyclic, and importing it alone would be searched 40 times."""


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
