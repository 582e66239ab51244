"""``python -m kseg`` and the ``kseg`` program."""

from kseg.cli.main import run


def main() -> None:
    run()


if __name__ == "__main__":
    main()
