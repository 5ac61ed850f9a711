"""`kgroup history sql`."""

from __future__ import annotations

from dataclasses import replace

import click

from kgroup.cli.option.common import examples, output_options
from kgroup.cli.option.warehouse import WarehouseChoice, warehouse_options
from kgroup.cli.output.context import documented, show
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus, UsageError


@click.command(
    "sql",
    epilog=examples(
        "kgroup history sql --warehouse warehouse 'SELECT group_id, COUNT(*) AS commits "
        "FROM offset_commits GROUP BY group_id'",
        "kgroup history sql --warehouse warehouse 'DESCRIBE assignments'",
    ),
)
@click.argument("query", metavar="SELECT")
@warehouse_options
@output_options
def command(query: str, warehouse: WarehouseChoice, output: Output) -> ExitStatus:
    """Answer any other question, by a SELECT on the tables.

    \b
    offset_commits         a row for each commit
    group_generations      for each record of a classic group
    consumer_group_epochs  for each record of a consumer, share or streams group
    members                for each member in such a record
    assignments            for each stretch of time in which a member owned a partition
    tombstones             for each record without a value
    transactions           for each end of a transaction
    other_records          for each record that is none of these
    log_ends               for each end of a partition that a snapshot recorded
    damage                 for each stretch of bytes that could not be read

    Times are epoch milliseconds; each table also has the columns cluster and date. Tables can be
    read, and nothing else. DESCRIBE shows the columns of a table; docs/history.md says what each
    means.
    """
    from kgroup.history.sql.user_query import ask_sql
    from kgroup.render.history import answer_sheet

    with documented("history sql", output), warehouse.open() as engine:
        try:
            answer = ask_sql(engine, query)
        except UsageError as error:  # followed by where the names of the tables are
            raise click.UsageError(str(error)) from None
    # All columns, also those that have no value in any row: they were asked for.
    output = replace(output, columns=output.columns or tuple(answer.columns))
    return show("history sql", answer, output, lambda rows: answer_sheet(answer))
