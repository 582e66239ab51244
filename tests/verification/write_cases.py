"""Writes testdata/damaged/findings anew; folders of cases that no longer exist are removed.

From the root of the repository: ``PYTHONPATH=tests python -m verification.write_cases``.
"""

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
