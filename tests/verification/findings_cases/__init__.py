"""A case for each finding: what lies in testdata/damaged/findings, how it was made, and what must be told of it.

The modules are the sections of the table of findings. `written_to` of each case writes its files; what it says of
positions, lengths and offsets comes from the edit, never from what kseg finds.
"""

from verification.findings_cases import comparisons, directories, indexes, log, producers, remote
from verification.findings_cases.case import Case

CASES: dict[str, Case] = {
    code: case
    for section in (log, indexes, producers, directories, comparisons, remote)
    for code, case in section.CASES.items()
}
