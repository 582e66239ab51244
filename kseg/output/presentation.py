"""How a command shows its results, by the options that all commands have."""

from dataclasses import dataclass

from kseg.output.notices import Color, Notices


@dataclass(frozen=True, slots=True)
class Presentation:
    """``form``: text or json, of ``kseg verify`` also junit or html. ``as_page``: the JSON becomes a page of HTML.

    ``report``: the file for the plan of a dry run, None for standard output.
    """

    form: str = "text"
    color: Color = "auto"
    quiet: bool = False
    verbose: bool = False
    as_page: bool = False
    report: str | None = None

    @property
    def is_json(self) -> bool:
        return self.form == "json"

    def notices(self) -> Notices:
        return Notices(self.color, self.quiet, self.verbose)
