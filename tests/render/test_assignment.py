"""Dry runs as objects for programs, and as rows."""

from dataclasses import replace

from kgroup.operation.assign import what_if
from kgroup.operation.assign.run import bounced, settled
from kgroup.operation.assign.spec import read_spec
from kgroup.render.group.assign_object import run_object
from kgroup.render.group.assignment import bounces_sheet


def test_the_lag_of_what_moves_from_a_member_that_has_left() -> None:
    members = [
        {"member_id": name, "topics": ["t"], "owned": [["t", number]], "generation": 1}
        for number, name in enumerate("abc")
    ]
    spec = read_spec({"strategy": "sticky", "topics": {"t": {"partitions": 3}}, "members": members})
    spec = what_if.changed(spec, what_if.Changes(remove=["a"], leader="b"))
    row = run_object(settled(replace(spec, lags={("t", 0): 7, ("t", 1): 100})))
    (move,) = row["moves"] or []
    assert (move["partition"], move["from"], move["lag"]) == (0, "a", 7)
    assert row["lag_moved"] == 7
    assert row["leader_id"] == "b"
    unknown = run_object(settled(spec))
    (move,) = unknown["moves"] or []
    assert (move["lag"], unknown["lag_moved"]) == (None, None)


def test_rows_of_a_rolling_restart_tell_members_of_one_client_id_apart() -> None:
    members = [
        {"member_id": f"{client}-{at}", "client_id": client, "topics": ["t"]}
        for at, client in enumerate(("rdkafka", "pay", "rdkafka"))
    ]
    spec = read_spec({"topics": {"t": {"partitions": 3}}, "members": members})
    bounce = bounced(spec)

    def steps(*names: str) -> list[str]:
        return [f"{name} {what}" for name in names for what in ("leaves", "comes back")]

    sheet = bounces_sheet([bounce])
    at = [column.name for column in sheet.columns].index("what")
    assert [row[at] for row in sheet.rows] == steps("rdkafka-0", "pay", "rdkafka-2")
    objects = [run_object(run) for run in bounce.runs]
    assert [each["what"] for each in objects] == steps("rdkafka", "pay", "rdkafka")
