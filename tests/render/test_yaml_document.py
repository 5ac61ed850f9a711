from __future__ import annotations

import json
import re

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from kgroup.render.json_document import json_document, json_rows
from kgroup.render.yaml_document import yaml_document

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(["y", "No", "0o14", "1e3", "0x1f", "~", "null", ".inf", "1_000", "12:30:45"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="ascii")), inner),
    max_leaves=10,
)
CORE_SCHEMA = re.compile(
    r"(?:null|Null|NULL|~|true|True|TRUE|false|False|FALSE|[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
    r"|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)"
    r"|\.nan|\.NaN|\.NAN)?"
)
"""Plain scalars that are no text in YAML 1.2 (10.3.2 of the specification)."""


@given(st.lists(st.dictionaries(st.text(st.characters(codec="ascii")), VALUES)), st.lists(VALUES))
@example([{"group_id": "1e3"}], ["no"])
@example([], [])
def test_it_holds_what_the_json_document_holds(rows: list[object], errors: list[object]) -> None:
    written = b"".join(yaml_document("list", json_rows(rows), errors))
    document = b"".join(json_document("list", json_rows(rows), errors))
    assert yaml.safe_load(written) == json.loads(document)
    is_tagged = False  # as floats that only YAML 1.2 reads without
    for token in yaml.scan(written):
        if isinstance(token, yaml.ScalarToken) and token.plain and not is_tagged:
            (value,) = yaml.safe_load(f"- {token.value}")
            assert isinstance(value, str) is (CORE_SCHEMA.fullmatch(token.value) is None)
        is_tagged = isinstance(token, yaml.TagToken)
