"""Tables for notebooks."""

from kseg.output.html_table import MAX_ROWS, html_table


def test_cells_are_escaped_and_none_is_empty() -> None:
    html = html_table("a & b", ["<x>", "y"], [("<script>", None), ("\udcff", 3)])
    assert "a &amp; b" in html
    assert "<th>&lt;x&gt;</th>" in html
    assert "<td>&lt;script&gt;</td><td></td>" in html
    assert "<td>\\udcff</td><td>3</td>" in html


def test_many_rows_are_counted() -> None:
    html = html_table("many", ["n"], [(n,) for n in range(MAX_ROWS + 7)])
    assert html.count("<tr>") == 1 + MAX_ROWS + 1
    assert "and 7 more" in html


def test_without_rows_there_is_no_table() -> None:
    assert html_table("nothing < 1", ["n"], []) == "<p>nothing &lt; 1</p>"
