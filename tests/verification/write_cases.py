"""Writes testdata/damaged/findings anew: ``python tests/verify/write_cases.py`` from the repository's root, which must
be on PYTHONPATH where kseg is not installed. What is there and no case any more is removed."""

import shutil

from verification.findings_cases import CASES
from verification.partitions import TESTDATA

FINDINGS = TESTDATA / "damaged" / "findings"


def main() -> None:
    for folder in FINDINGS.iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
    for code, case in CASES.items():
        case.written_to(FINDINGS / code)


if __name__ == "__main__":
    main()
