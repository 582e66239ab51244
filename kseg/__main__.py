"""``python -m kseg`` and the ``kseg`` program."""

import sys


def main() -> None:
    try:
        from kseg.cli.main import run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
