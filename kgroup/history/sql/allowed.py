"""Check that queries only read a warehouse's tables and compute from them.

DuckDB's parser writes a query as JSON. Every node of it must be on a list here: operators,
expressions, function names, relation names. The check comes before names are resolved or anything
is executed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import orjson

from kgroup.errors import UsageError
from kgroup.history.warehouse.table import TABLES

_RULE = (
    "A query may read the tables of the warehouse and call functions that compute from their "
    "arguments; for the rules see sql in docs/history.md"
)


@dataclass(frozen=True, slots=True)
class Functions:
    """Functions of an engine; those on neither list are refused too.

    Attributes:
        allowed: functions that compute from their arguments, the time of day or random numbers.
        refused: names or name patterns of other functions, separated by spaces, by reason.
    """

    allowed: frozenset[str]
    refused: Mapping[str, str]

    def reason(self, name: str) -> str | None:
        """Return why a query may not call a function; None if no reason is listed."""
        for reason, patterns in self.refused.items():
            if any(fnmatchcase(name, pattern) for pattern in patterns.split()):
                return reason
        return None

    def check(self, name: str) -> None:
        """Check that a query may call a function.

        Raises:
            UsageError: it may not.
        """
        if name.lower() not in self.allowed:
            raise self.refusal(name)

    def refusal(self, name: str) -> UsageError:
        """Return the error for a function that a query may not call."""
        reason = self.reason(name.lower()) or "kgroup does not know it"
        return UsageError(f"function {name} is not allowed: {reason}. {_RULE}")


def names(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


def check_table(name: str, ctes: Collection[str] = ()) -> None:
    """Check that a query may read a relation.

    Args:
        name: qualified name of the relation.
        ctes: names of the query's common table expressions (WITH), in lower case.

    Raises:
        UsageError: it is neither a table of the warehouse nor a common table expression.
    """
    if name.lower() not in TABLES and name.lower() not in ctes:
        raise missing_table(name)


def missing_table(name: str) -> UsageError:
    """Return the error for an unknown table, with the known ones: engines suggest their own."""
    return UsageError(f"no table {name}; the tables are: {', '.join(TABLES)}")


def refused_statement(what: str) -> UsageError:
    """Return the error for a text that is not a query, or has a clause that is not allowed."""
    return UsageError(
        f"expected one query: SELECT ..., WITH ... or DESCRIBE a table; found {what}. {_RULE}"
    )


FUNCTIONS = Functions(
    allowed=names(
        """
!= !__postfix !~~ !~~* % & && * ** + - -> ->> / // < <-> << <= <=> <@ = > >= >> @ @> ^ ^@ abs acos
acosh add age aggregate ago alias any_value apply approx_count_distinct approx_quantile
approx_top_k arbitrary arg_max arg_max_null arg_max_nulls_last arg_min arg_min_null
arg_min_nulls_last argmax argmin array_agg array_aggr array_aggregate array_append array_apply
array_cat array_concat array_contains array_cosine_distance array_cosine_similarity
array_cross_product array_distance array_distinct array_dot_product array_extract array_filter
array_grade_up array_has array_has_all array_has_any array_indexof array_inner_product
array_intersect array_length array_negative_dot_product array_negative_inner_product
array_pop_back array_pop_front array_position array_prepend array_push_back array_push_front
array_reduce array_resize array_reverse array_reverse_sort array_select array_slice array_sort
array_to_json array_to_string array_to_string_comma_default array_transform array_unique
array_value array_where array_zip ascii asin asinh atan atan2 atanh avg bar base64 bin binom
bit_and bit_count bit_length bit_or bit_position bit_xor bitstring bitstring_agg
bitstring_byte_comparable bool_and bool_or can_cast_implicitly cardinality cbrt ceil ceiling
century char_length character_length chr concat concat_ws contains corr cos cosh cot count
count_if count_star countif covar_pop covar_samp cume_dist current_date current_localtime
current_localtimestamp damerau_levenshtein date_add date_diff date_part date_sub date_trunc
datediff datepart datesub datetrunc day dayname dayofmonth dayofweek dayofyear days_in_month
decade decimal_average decimal_division decode degrees dense_rank divide editdist3 element_at
encode ends_with entropy enum_code enum_first enum_last enum_range enum_range_boundary epoch
epoch_ms epoch_ns epoch_us equi_width_bins era even exp factorial favg fdiv fill filter first
first_value flatten floor fmod format formatReadableDecimalSize formatReadableSize format_bytes
from_base64 from_binary from_hex from_json from_json_strict fsum gamma gcd gen_random_uuid
generate_series generate_subscripts geomean geometric_mean get_bit get_current_time
get_current_timestamp grade_up greatest greatest_common_divisor group_concat hamming hash hex
histogram histogram_exact hive_partition_component hour icu_sort_key if ilike_escape instr
isfinite isinf isnan isodow isoyear jaccard jaro_similarity jaro_winkler_similarity json
json_array json_array_length json_contains json_deep_merge json_each json_exists json_extract
json_extract_path json_extract_path_text json_extract_string json_group_array json_group_object
json_group_structure json_insert json_keys json_merge_patch json_merge_patch_diff json_normalize
json_object json_pretty json_quote json_remove json_replace json_set json_strip_nulls
json_structure json_transform json_transform_strict json_tree json_type json_valid json_value
julian kahan_sum kurtosis kurtosis_pop lag last last_day last_value lcase lcm lead least
least_common_multiple left left_grapheme len length length_grapheme levenshtein lgamma like_escape
list list_aggr list_aggregate list_any_value list_append list_apply list_approx_count_distinct
list_avg list_bit_and list_bit_or list_bit_xor list_bool_and list_bool_or list_cat list_concat
list_contains list_cosine_distance list_cosine_similarity list_count list_distance list_distinct
list_dot_product list_element list_entropy list_extract list_filter list_first list_grade_up
list_has list_has_all list_has_any list_histogram list_indexof list_inner_product list_intersect
list_kurtosis list_kurtosis_pop list_last list_mad list_max list_median list_min list_mode
list_negative_dot_product list_negative_inner_product list_pack list_position list_prepend
list_product list_reduce list_resize list_reverse list_reverse_sort list_select list_sem
list_skewness list_slice list_sort list_stddev_pop list_stddev_samp list_string_agg list_sum
list_transform list_unique list_value list_var_pop list_var_samp list_where list_zip listagg ln
log log10 log2 lower lpad ltrim lttb mad make_date make_time make_timestamp make_timestamp_ms
make_timestamp_ns make_timestamptz map map_concat map_contains map_contains_entry
map_contains_value map_entries map_extract map_extract_value map_from_entries map_keys map_values
max max_by md5 md5_number md5_number_lower md5_number_upper mean median microsecond millennium
millisecond min min_by minute mismatches mod mode month monthname multiply nanosecond nextafter
nfc_normalize normalized_interval not_ilike_escape not_like_escape now nth_value ntile nullif
octet_length ord overlay parse_dirname parse_dirpath parse_filename parse_formatted_bytes
parse_path path_join percent_rank pi position pow power prefix printf product quantile
quantile_cont quantile_disc quarter radians random range rank rank_dense reduce regexp_escape
regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace
regexp_split_to_array regexp_split_to_table regr_avgx regr_avgy regr_count regr_intercept regr_r2
regr_slope regr_sxx regr_sxy regr_syy repeat repeat_row replace reservoir_quantile reverse right
right_grapheme round round_even roundbankers row row_number row_to_json rpad rtrim second sem
set_bit sha1 sha256 sign signbit sin sinh skewness split split_part sqrt st_asbinary st_asgeojson
st_astext st_aswkb st_aswkt st_crs st_geomfromgeojson st_geomfromwkb st_intersects_extent
st_setcrs starts_with stddev stddev_pop stddev_samp str_split str_split_regex strftime string_agg
string_split string_split_regex string_to_array strip_accents strlen strpos strptime struct_concat
struct_contains struct_extract struct_extract_at struct_has struct_indexof struct_insert
struct_keys struct_pack struct_position struct_update struct_values substr substring
substring_grapheme subtract suffix sum sum_no_overflow sumkahan switch tan tanh time_bucket
timetz_byte_comparable timezone timezone_hour timezone_minute to_base to_base64 to_binary
to_centuries to_days to_decades to_hex to_hours to_json to_microseconds to_millennia
to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks to_years today
transaction_timestamp translate trim trunc try_strptime typeof ucase unbin unhex unicode
union_extract union_tag union_value unnest unpivot_list upper url_decode url_encode uuid
uuid_extract_timestamp uuid_extract_version uuidv4 uuidv7 var_pop var_samp variance
variant_array_length variant_comparator variant_contains variant_exists variant_extract
variant_extract_string variant_group_array variant_group_object variant_keys variant_type
variant_typeof vertex_extract wavg week weekday weekofyear weighted_avg xor year yearweek | || ~
~~ ~~* ~~~
        """
    ),
    refused={
        "it reads, writes or lists files": (
            "*_metadata glob parquet_* read_* sniff_csv which_secret"
        ),
        "it reads memory by address, or calls Python": (
            "*arrow_scan* pandas_scan python_map_function seq_scan"
        ),
        "it runs a query of its own": (
            "histogram histogram_values json_*serialize* query query_table summary"
        ),
        "it changes the engine": (
            "*checkpoint *external_resource* *_logging *_profiling currval nextval setseed setval "
            "truncate_duckdb_logs write_log"
        ),
        "it describes the engine, not the tables": (
            "*_privilege col_description current_catalog current_connection_id current_database "
            "current_query* current_role current_schema* current_setting current_transaction_id "
            "current_user duckdb_* format_pg_type format_type get_block_size getvariable "
            "icu_calendar_names in_search_path inet_* map_to_pg_oid obj_description pg_* pragma_* "
            "session_user shobj_description txid_current user version"
        ),
        "it waits": "sleep_ms",
        "it ends the query with an error": "assert_true error",
        "it is internal to DuckDB": (
            "__* _* cast_to_type combine combine_aggr constant_or_null create_sort_key finalize "
            "get_type index_key invoke is_histogram_other_bin json_copy_strftime_* make_type "
            "parse_duckdb_log_message remap_struct replace_type stats test_* to_aggregate_state "
            "variant_bytes_to_variant variant_normalize variant_to_parquet_variant vector_type"
        ),
        "it is written COLLATE": "collate_* icu_collate_*",
    },
)
"""Built-in functions of DuckDB 1.3 to 2.0."""

TABLE_FUNCTIONS = names(
    """
generate_series json_each json_tree range repeat repeat_row unnest
    """
)
"""Functions that a query may use as a table."""

_EXPRESSIONS = names(
    """
AGGREGATE BETWEEN CASE CAST COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA
LAMBDA_REF OPERATOR PARAMETER POSITIONAL_REFERENCE STAR SUBQUERY TYPE WINDOW
    """
)
"""Allowed classes of expressions."""

_NODES = names(
    """
BASE_TABLE CTE_NODE EMPTY EXPRESSION_LIST JOIN PIVOT RECURSIVE_CTE_NODE SELECT_NODE
SET_OPERATION_NODE SHOW_REF SUBQUERY TABLE_FUNCTION DISTINCT_MODIFIER LIMIT_MODIFIER
LIMIT_PERCENT_MODIFIER ORDER_MODIFIER ASCENDING DESCENDING ORDER_DEFAULT
    """
)
"""Allowed types of queries, relations, modifiers and orders."""


def check_query(tree: str) -> None:
    """Check that a query only reads the tables.

    Args:
        tree: the query as JSON, from `json_serialize_sql`.

    Raises:
        UsageError: the text is not a query, or does something else.
    """
    try:
        parsed = orjson.loads(tree)
    except orjson.JSONDecodeError:  # nested more deeply than orjson allows
        raise UsageError(
            "the query is nested too deeply; move parts into WITH clauses, or use IN for lists"
        ) from None
    if parsed["error"]:
        raise refused_statement(parsed["error_message"])
    tables: list[str] = []
    ctes: set[str] = set()
    for node in _nodes(parsed["statements"]):
        kind = node.get("type")
        if "class" in node:
            if node["class"] not in _EXPRESSIONS:
                raise refused_statement(node["class"])
            if "function_name" in node:
                FUNCTIONS.check(_qualified(node, node["function_name"]))
        elif isinstance(kind, str) and kind not in _NODES:
            raise refused_statement(kind)
        elif kind == "TABLE_FUNCTION":
            name = node["function"]["function_name"]
            if name.lower() not in TABLE_FUNCTIONS:
                raise FUNCTIONS.refusal(name)
        elif kind == "BASE_TABLE":
            tables.append(_qualified(node, node["table_name"]))
        elif kind == "SHOW_REF" and node.get("table_name", '"tables"') != '"tables"':
            tables.append(node["table_name"])
        ctes.update(entry["key"].lower() for entry in _ctes(node))
    for name in tables:
        check_table(name, ctes)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects in a tree, except the values of constants."""
    left = [tree]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            yield value
            if value.get("class") != "CONSTANT":
                left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)


def _ctes(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the common table expressions of a query, by WITH or WITH RECURSIVE."""
    own = [{"key": node["cte_name"]}] if node.get("cte_name") else []
    return [*(node.get("cte_map") or {}).get("map", ()), *own]


def _qualified(node: dict[str, Any], name: str) -> str:
    """Return a name with its qualifiers, except those that every DuckDB database has."""
    parts = [node.get("catalog_name") or node.get("catalog"), node.get("schema_name")]
    parts += [node.get("schema") if parts[1] is None else None, name]
    return ".".join(part for part in parts if part).removeprefix("memory.").removeprefix("main.")
