"""Finds interrupted changes of kseg in a partition; `kseg.changes` completes or reverts them."""

from kseg.changes.accepted_gaps import accepted_gaps
from kseg.changes.quarantine import FOLDER, check_folder, folder_of, leftovers, pending
from kseg.errors import KsegError
from kseg.findings.table import DECISION
from kseg.stores import trees
from kseg.stores.no_follow import resolved
from kseg.verification.rule import Rule


class PendingChangeRule(Rule):
    """Reads the quarantine of a partition, if there is one."""

    def finish(self) -> None:
        directory, others = self.partition.directory, self.partition.others
        if directory is None or not self.partition.is_whole or (others is not None and FOLDER not in others):
            return
        directory = resolved(directory)  # a log directory may be a link; nothing follows links in the quarantine
        if not trees.lexists(folder_of(directory)):
            return
        try:
            check_folder(directory)
            for change in pending(directory):
                text = f"{change.command!r} was interrupted: some files are in their new state, some in the old one"
                self.report.add("pending-change", folder_of(directory), text, details={"command": change.command})
            if left := leftovers(directory):
                text = f"{len(left)} changes were interrupted while they were being prepared: nothing was changed"
                self.report.add("pending-change", folder_of(directory), text, details={"count": len(left)})
            accepted_gaps(directory)  # raises if its files cannot be read
        except KsegError as error:
            self.report.add("pending-change", folder_of(directory), str(error), needs=DECISION)
