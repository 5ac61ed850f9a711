"""Kafka's CSV plans; the texts are what Jackson 2 writes, as the broker test asks Kafka's tool."""

from __future__ import annotations

import pytest

from kgroup.errors import InputError, UsageError
from kgroup.model.offset import StoredOffset
from kgroup.protocol.kafka_csv import kafka_csv_lines, read_kafka_csv

ROWS = {
    "g,orders,0,5\n": StoredOffset("g", "orders", 0, 5),
    '"g 1",orders,2147483647,9223372036854775807\n': StoredOffset(
        "g 1", "orders", (1 << 31) - 1, (1 << 63) - 1
    ),
    'g-1,"a-topic-of-25-characters.",1,0\n': StoredOffset("g-1", "a-topic-of-25-characters.", 1, 0),
    "g-1,a-topic-of-24-characters,1,0\n": StoredOffset("g-1", "a-topic-of-24-characters", 1, 0),
    '"say ""hi""",t,3,4\n': StoredOffset('say "hi"', "t", 3, 4),
    '"a,b",t,3,4\n': StoredOffset("a,b", "t", 3, 4),
    '"a\\b",t,3,4\n': StoredOffset("a\\b", "t", 3, 4),
    '"\\""x",t,3,4\n': StoredOffset('\\"x', "t", 3, 4),
    "grün-😀,t,3,4\n": StoredOffset("grün-😀", "t", 3, 4),
    '"a\rb",t,3,4\n': StoredOffset("a\rb", "t", 3, 4),
    ",t,3,4\n": StoredOffset("", "t", 3, 4),
    "{a,t,3,4\n": StoredOffset("{a", "t", 3, 4),
    "\x7f\x85\u2028\u3000,t,3,4\n": StoredOffset("\x7f\x85\u2028\u3000", "t", 3, 4),
    '"😀😀😀😀😀😀😀😀😀😀😀😀x",t,3,4\n': StoredOffset("😀" * 12 + "x", "t", 3, 4),
}


@pytest.mark.parametrize(("line", "row"), ROWS.items())
def test_lines_with_groups(line: str, row: StoredOffset) -> None:
    assert list(kafka_csv_lines([row], with_group=True)) == [line.encode()]
    assert [offset for _, offset in read_kafka_csv(line.split("\n"), None)] == [row]


def test_lines_of_one_group() -> None:
    rows = [StoredOffset("g", "orders", 0, 5), StoredOffset("g", "a,b", 1, 6)]
    text = b"".join(kafka_csv_lines(rows, with_group=False))
    assert text == b'orders,0,5\n"a,b",1,6\n'
    assert list(read_kafka_csv(text.decode().split("\n"), "g")) == [(1, rows[0]), (2, rows[1])]


def test_what_has_no_commit_is_left_out() -> None:
    assert list(kafka_csv_lines([StoredOffset("g", "t", 0, None)], with_group=True)) == []


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("a\nb", r"'a\\nb': expected a name without a line break, which Kafka's CSV cannot hold"),
        ("a\ud800", r"'a\\ud800': expected a name of Unicode characters, without half of a "),
    ],
)
def test_names_that_cannot_be_written(name: str, error: str) -> None:
    for row in (StoredOffset(name, "t", 0, 1), StoredOffset("g", name, 0, 1)):
        with pytest.raises(UsageError, match=error):
            list(kafka_csv_lines([row], with_group=True))
    assert list(kafka_csv_lines([StoredOffset(name, "t", 0, 1)], with_group=False)) == [b"t,0,1\n"]


def test_a_byte_order_mark_in_a_name_is_kept_by_quotes() -> None:
    """Jackson writes no quotes here, and reads them."""
    row = StoredOffset('\ufeffa"', "t", 0, 1)
    assert list(kafka_csv_lines([row], with_group=True)) == ['"\ufeffa""",t,0,1\n'.encode()]


def test_blank_lines_and_carriage_returns_are_passed_over() -> None:
    found = list(read_kafka_csv(["t,0,1\r", "\r", "", "t, 1 ,2", ""], "g"))
    assert found == [(1, StoredOffset("g", "t", 0, 1)), (4, StoredOffset("g", "t", 1, 2))]


@pytest.mark.parametrize(
    "text",
    [
        "topic,partition,offset\nt,0,4\n",
        "\n\nTOPIC,PARTITION,OFFSET\nt,0,4\n",
        '"group","topic","partition","offset"\r\ng,t,0,4\r\n',
        "group_id,topic,partition,committed_offset\ng,t,0,4\n",
        "t 0 4\n",
        "t\t0\t4\r\n",
        "  t   0  4  \n \n",
        "TOPIC PARTITION OFFSET\nt 0 4\n",
        "\nGROUP   TOPIC   PARTITION  NEW-OFFSET     \ng       t       0          4     ",
        "\nTOPIC       PARTITION  NEW-OFFSET     \nt           0          4              \n",
        "\nWarn: Partition 3 from topic t is empty. Falling back to latest known offset.\nt,0,4\n",
    ],
)
def test_what_other_tools_and_people_write(text: str) -> None:
    offsets = [row for _, row in read_kafka_csv(text.split("\n"), "g")]
    assert offsets == [StoredOffset("g", "t", 0, 4)]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("t,0,1", "line 1: expected group,topic,partition,offset, found three fields: name the"),
        ("g,t,0,1\ng,t,x,1", "line 2: partition: expected a whole number from 0 to 2147483647, fo"),
        ("g,t,-1,1", "line 1: partition: expected a whole number from 0 to 2147483647, found '-1'"),
        ("g,t,2147483648,1", "found '2147483648'"),
        (
            "g,t,0,9223372036854775808",
            "offset: expected a whole number from 0 to 922337203685477580",
        ),
        ("g,t,0,1e3", "found '1e3'"),
        ("g,t,0,1_0", "found '1_0'"),
        ("g,t,0,٣", "found '٣'"),
        ("g,t,0", None),
        ("t,0", "line 1: expected topic,partition,offset or group,topic,partition,offset (or "),
        ("g,t,0,1,2", "found 'g,t,0,1,2'"),
        ("g\rh,t,0,1", "line 1: expected CSV, found 'g"),  # Jackson takes it for two lines
        ('g,"t,0,1', "line 1: expected CSV, found"),
        ("t 0", "line 1: expected topic,partition,offset or group"),
        ("g t 0 1 2", "found 'g t 0 1 2'"),
        ("g,t,0,1\ngroup,topic,partition,offset", "line 2: partition: expected a whole number"),
        ("group,topic,partition,target_offset", "line 1: partition: expected a whole number"),
        ("Warn: Partition 3 from topic t is full.", "line 1: expected topic,partition,offset"),
    ],
)
def test_what_is_none(text: str, error: str | None) -> None:
    with pytest.raises(InputError, match=error and error.replace("(", r"\(")):
        list(read_kafka_csv(text.split("\n"), None))
