"""Columns of the tables that kernel modules share."""

from kseg.kernel.layout import rows


def test_every_row_constant_stands_where_its_table_has_it():
    for table in ("FRAME", "ROW", "HEADER", "BATCH"):
        columns = {name: value for name, value in vars(rows).items() if name.startswith(table + "_")}
        width = columns.pop(table + "_WIDTH")
        assert sorted(columns.values()) == list(range(width)), table
