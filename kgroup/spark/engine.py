"""Run SQL over the tables of a warehouse on Spark, for tables too large for one machine.

`PlanCheck` admits only queries that read the tables of a warehouse.

Spark runs a statement as soon as it gets one, and some functions and clauses of a query run
programs, read files or reveal secrets. Therefore a text is parsed first, and every node of the
parsed plan must be on a list here: operators, expressions, function names, relation names. Only
then does Spark analyze it. The analyzed plan is checked again, because its names are resolved: its
relations must be the views of the tables, and its functions Spark's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from kgroup.columnar.chunk_size import processor_count
from kgroup.errors import KgroupError, UsageError
from kgroup.history.sql.allowed import (
    Functions,
    check_table,
    missing_table,
    names,
    refused_statement,
)
from kgroup.history.sql.engine import (
    DuckEngine,
    Engine,
    Parameter,
    check_texts,
    in_order,
    unreadable_file,
)
from kgroup.history.warehouse.store import Location
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import check_columns, damaged_file
from kgroup.spark.session import first_line, run_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Job = TypeVar("_Job")
_Answer = TypeVar("_Answer")


class SparkEngine:
    """An engine on a Spark session; see `history.sql.engine.Engine`.

    Args:
        session: Spark session; a view of each table is added to it.
        files: Parquet files of each table, by its name; tables without files are empty. Executors
            must see them under the same paths.
    """

    has_infinities = False

    def __init__(self, session: SparkSession, files: Mapping[str, Sequence[Location]]) -> None:
        self._session = session
        self._files = {name: in_order(files.get(name, ())) for name in TABLES}
        own = {name: list(map(str, paths)) for name, paths in self._files.items()}
        self._paths = [path for paths in own.values() for path in paths]
        self._unchecked = dict(own)
        self._check = PlanCheck(session)
        session.conf.set("spark.sql.runSQLOnFiles", "false")
        session.conf.set("spark.sql.variable.substitute", "false")  # texts may contain ${env:HOME}
        with self._errors():
            for name, paths in own.items():
                self._make_view(name, paths)

    def query(
        self, sql: str, parameters: Sequence[Parameter] = (), *, is_trusted: bool = False
    ) -> pa.Table:
        """Run a query; see `Engine.query`."""
        check_texts(sql, *parameters)
        is_query = False
        if not is_trusted:
            with self._errors(UsageError):
                is_query = self._check.is_query(sql)
        with self._errors():
            for name in [name for name in self._unchecked if name in sql.lower()]:
                for path in self._unchecked[name]:
                    check_columns(Path(path), TABLES[name].full_schema)
                del self._unchecked[name]
            frame: Any = self._session.sql(sql, args=list(parameters))
            if is_query:
                self._check.check_analyzed(frame._jdf.queryExecution().analyzed())
            answer: pa.Table = frame.toArrow()
        return answer

    def each(
        self, function: Callable[[Engine, _Job], _Answer], jobs: Iterable[_Job]
    ) -> Iterator[_Answer]:
        """Run jobs in the executors, each with DuckDB on the same files; see `Engine.each`.

        Without DuckDB, the driver runs them and asks Spark.
        """
        from importlib.util import find_spec

        if find_spec("duckdb") is None:
            return (function(self, job) for job in jobs)
        files = self._files

        def run(job: _Job) -> _Answer:
            # an executor runs as many jobs as it has processors
            with DuckEngine(files, count=processor_count()) as engine:
                return function(engine, job)

        return run_on(self._session, run, list(jobs))

    def _make_view(self, name: str, paths: Sequence[str]) -> None:
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(TABLES[name].full_schema)
        if paths:
            rows = self._session.read.schema(schema).parquet(*map(_escaped, paths))
        else:
            rows = self._session.createDataFrame([], schema)
        rows.createOrReplaceTempView(name)

    @contextmanager
    def _errors(self, otherwise: type[KgroupError] = KgroupError) -> Iterator[None]:
        """Convert errors of Spark and its dependencies into those of `Engine.query`.

        Args:
            otherwise: error to raise if Spark does not say that the query is wrong.
        """
        from pyspark import errors

        of_the_query = (
            errors.AnalysisException,
            errors.ArithmeticException,
            errors.ArrayIndexOutOfBoundsException,
            errors.DateTimeException,
            errors.IllegalArgumentException,
            errors.NumberFormatException,
            errors.ParseException,
            errors.PySparkNotImplementedError,
            errors.PySparkTypeError,
            errors.UnsupportedOperationException,
        )
        try:
            yield
        except (KgroupError, MemoryError):
            raise
        except Exception as error:  # including errors of py4j, pyarrow and pandas
            reason = re.sub(r"^\[([A-Z_.]+)\] ", "", first_line(error))
            for path in self._paths:
                if (unreadable := unreadable_file(path)) is not None:
                    raise unreadable from error
                if path in unquote(str(error)):  # the error has the file as a URI
                    raise damaged_file(path, reason) from error
            if missing := re.match(r"The table or view (.*?) cannot be found", reason):
                raise missing_table(missing[1].replace("`", "")) from error
            kind = UsageError if isinstance(error, of_the_query) else otherwise
            raise kind(reason) from error


def _escaped(path: str) -> str:
    """Escape a path for use as a Spark path pattern."""
    return re.sub(r"([][*?{}\\])", r"\\\1", path)


FUNCTIONS = Functions(
    allowed=names(
        """
! % & * + - / < << <= <=> = == > >= >> >>> ^ abs acos acosh add_months aes_decrypt aes_encrypt
aggregate and any any_value approx_count_distinct approx_percentile approx_top_k
approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate array array_agg array_append
array_compact array_contains array_distinct array_except array_insert array_intersect array_join
array_max array_min array_position array_prepend array_remove array_repeat array_size array_sort
array_union arrays_overlap arrays_zip ascii asin asinh atan atan2 atanh avg base64 between bigint
bin binary bit_and bit_count bit_get bit_length bit_or bit_xor bitmap_and_agg bitmap_bit_position
bitmap_bucket_number bitmap_construct_agg bitmap_count bitmap_or_agg bool_and bool_or boolean
bround btrim cardinality cast cbrt ceil ceiling char char_length character_length chr coalesce
collate collation collect_list collect_set concat concat_ws contains conv convert_timezone corr
cos cosh cot count count_if count_min_sketch covar_pop covar_samp crc32 csc cume_dist curdate
current_date current_time current_timestamp date date_add date_diff date_format
date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth
dayofweek dayofyear decimal decode degrees dense_rank div double e element_at elt encode endswith
equal_null every exists exp explode explode_outer expm1 extract factorial filter find_in_set first
first_value flatten float floor forall format_number format_string from_csv from_json
from_unixtime from_utc_timestamp get get_json_object getbit greatest grouping grouping_id hash hex
histogram_numeric hll_sketch_agg hll_sketch_estimate hll_union hll_union_agg hour hypot if ifnull
ilike in initcap inline inline_outer instr int is_valid_utf8 is_valid_variant is_variant_null
isnan isnotnull isnull json_array_length json_object_keys json_tuple kll_merge_agg_bigint
kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
kll_sketch_agg_float kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float
kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float
kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float
kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint
kll_sketch_to_string_double kll_sketch_to_string_float kurtosis lag last last_day last_value lcase
lead least left len length levenshtein like listagg ln localtimestamp locate log log10 log1p log2
lower lpad ltrim luhn_check make_date make_dt_interval make_interval make_time make_timestamp
make_timestamp_ltz make_timestamp_ntz make_valid_utf8 make_ym_interval map map_concat
map_contains_key map_entries map_filter map_from_arrays map_from_entries map_keys map_values
map_zip_with mask max max_by md5 mean median min min_by minute mod mode month monthname
months_between named_struct nanvl negative next_day not now nth_value ntile nullif nullifzero nvl
nvl2 octet_length or overlay parse_json parse_url percent_rank percentile percentile_approx
percentile_cont percentile_disc pi pmod posexplode posexplode_outer position positive pow power
printf quarter quote radians rand randn random randstr range rank reduce regexp regexp_count
regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr regr_avgx
regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat replace
reverse right rint rlike round row_number rpad rtrim schema_of_csv schema_of_json
schema_of_variant schema_of_variant_agg sec second sentences sequence session_window sha sha1 sha2
shiftleft shiftright shiftrightunsigned shuffle sign signum sin sinh size skewness slice smallint
some sort_array soundex space split split_part sqrt st_asbinary st_geogfromwkb st_geomfromwkb
st_setsrid st_srid stack startswith std stddev stddev_pop stddev_samp str_to_map string string_agg
struct substr substring substring_index sum tan tanh theta_difference theta_intersection
theta_intersection_agg theta_sketch_agg theta_sketch_estimate theta_union theta_union_agg time
time_bucket time_diff time_from_micros time_from_millis time_from_seconds time_to_micros
time_to_millis time_to_seconds time_trunc timestamp timestamp_micros timestamp_millis
timestamp_seconds tinyint to_binary to_char to_csv to_date to_json to_number to_time to_timestamp
to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar to_variant_object
to_xml transform transform_keys transform_values translate trim trunc try_add try_aes_decrypt
try_avg try_divide try_element_at try_make_interval try_make_timestamp try_make_timestamp_ltz
try_make_timestamp_ntz try_mod try_multiply try_parse_json try_parse_url try_subtract try_sum
try_to_binary try_to_date try_to_number try_to_time try_to_timestamp try_url_decode
try_validate_utf8 try_variant_get tuple_difference_double tuple_difference_integer
tuple_difference_theta_double tuple_difference_theta_integer tuple_intersection_agg_double
tuple_intersection_agg_integer tuple_intersection_double tuple_intersection_integer
tuple_intersection_theta_double tuple_intersection_theta_integer tuple_sketch_agg_double
tuple_sketch_agg_integer tuple_sketch_estimate_double tuple_sketch_estimate_integer
tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double
tuple_sketch_theta_integer tuple_union_agg_double tuple_union_agg_integer tuple_union_double
tuple_union_integer tuple_union_theta_double tuple_union_theta_integer typeof ucase unbase64 unhex
uniform unix_date unix_micros unix_millis unix_seconds unix_timestamp upper url_decode url_encode
uuid validate_utf8 var_pop var_samp variance variant_explode variant_explode_outer variant_get
vector_avg vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm
vector_normalize vector_sum weekday weekofyear when width_bucket window window_time xxhash64 year
zeroifnull zip_with | ~
        """
    ),
    refused={
        "it runs code of the JVM": "java_method reflect try_reflect",
        "it reads files, or passes data to a library that does": (
            "from_avro from_protobuf from_xml schema_of_avro schema_of_xml to_avro to_protobuf "
            "xpath*"
        ),
        "it describes the session, the machine or how the work is split, not the tables": (
            "collations current_catalog current_database current_path current_schema "
            "current_timezone current_user input_file_block_length input_file_block_start "
            "input_file_name monotonically_increasing_id python_worker_logs session_user "
            "spark_partition_id sql_keywords user version"
        ),
        "it is for metric views, and there are none": "measure",
        "it ends the query with an error of its own": "assert_true raise_error",
    },
)
"""Built-in functions of Spark 4.2."""

_CATALYST = "org.apache.spark.sql.catalyst."
_RELATION = "analysis.UnresolvedRelation"
_DESCRIBED = "analysis.UnresolvedTableOrView"
_TABLE_FUNCTION = "analysis.UnresolvedTableValuedFunction"
_GENERATOR = "analysis.UnresolvedGenerator"
_FUNCTION = "analysis.UnresolvedFunction"
_WITH = "plans.logical.UnresolvedWith"
_VIEW = "plans.logical.View"
_DESCRIBE = "plans.logical.DescribeRelation"


def _below(package: str, text: str) -> frozenset[str]:
    return frozenset(f"{package}.{name}" for name in names(text))


_OPERATORS = _below(
    "plans.logical",
    """
    Aggregate Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin LimitAll
    LocalLimit LocalRelation NearestByJoin Offset OneRowRelation Project RepartitionByExpression
    Sample Sort SubqueryAlias Union
    """,
)
_PARSED = (
    _OPERATORS
    | _below(
        "plans.logical",
        "DescribeRelation Pivot UnresolvedHint UnresolvedWith Unpivot WithWindowDefinition",
    )
    | _below(
        "analysis",
        """
        MultiAlias PosParameter UnresolvedAlias UnresolvedAttribute UnresolvedExtractValue
        UnresolvedFunction UnresolvedGenerator UnresolvedHaving UnresolvedInlineTable
        UnresolvedOrdinal UnresolvedPipeAggregateOrdinal UnresolvedQualify UnresolvedRegex
        UnresolvedRelation UnresolvedStar UnresolvedStarExceptOrReplace
        UnresolvedSubqueryColumnAliases UnresolvedTVFAliases UnresolvedTableOrView
        UnresolvedTableValuedFunction
        """,
    )
    | _below(
        "expressions",
        """
        Add Alias And AttributeReference BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast
        Coalesce Collate Concat CreateNamedStruct Cube CurrentDate CurrentRow$ CurrentTime
        CurrentTimestamp Divide EqualNullSafe EqualTo Exists GreaterThan GreaterThanOrEqual
        GroupingSets ILike In InSubquery IntegralDivide IsNotNull IsNotUnknown IsNull IsUnknown
        LambdaFunction LateralSubquery LessThan LessThanOrEqual Like LikeAll LikeAny ListQuery
        Literal Lower Multiply NamedArgumentExpression Not NotLikeAll NotLikeAny Or Overlay
        PipeExpression PipeOperator RLike Remainder Rollup ScalarSubquery SemiStructuredExtract
        ShiftLeft ShiftRight ShiftRightUnsigned SortOrder SpecifiedWindowFrame StringLocate
        StringTrim StringTrimLeft StringTrimRight Substring Subtract TimestampAdd TimestampDiff
        UnaryMinus UnaryPositive UnboundedFollowing$ UnboundedPreceding$ UnresolvedCollation
        UnresolvedNamedLambdaVariable UnresolvedWindowExpression UnspecifiedFrame$
        WindowExpression WindowSpecDefinition aggregate.AggregateExpression aggregate.AnyValue
        aggregate.First aggregate.Last
        """,
    )
)
"""Classes of nodes, below Spark's package Catalyst, that are allowed in a parsed query."""

_ANALYZED = _OPERATORS | _below(
    "plans.logical",
    "CTERelationDef CTERelationRef Expand Range RebalancePartitions Repartition ResolvedHint "
    "UnionLoop UnionLoopRef View Window WithCTE",
)
"""Classes of operators that are allowed in an analyzed query."""

_NOT_ANALYZED = _below(
    "expressions",
    "ApplyFunctionExpression CallMethodViaReflection CurrentCatalog CurrentDatabase CurrentPath "
    "CurrentUser PythonUDAF PythonUDF PythonUDTF ScalaUDF UnresolvedPolymorphicPythonUDTF",
)
"""Classes of expressions that are refused in it: some are called without parentheses."""

_LEAVES = frozenset(
    f"{_CATALYST}{name}"
    for name in (
        "analysis.UnresolvedAttribute",
        "analysis.PosParameter",
        "expressions.AttributeReference",
        "expressions.Literal",
        _VIEW,
    )
)
"""Nodes whose children are not checked: they have none or, below a view, kgroup created them."""


class PlanCheck:
    """Checks the plans of a session's queries."""

    def __init__(self, session: SparkSession) -> None:
        from py4j.java_gateway import JavaObject, is_instance_of

        java: Any = session
        self._parser = java._jsparkSession.sessionState().sqlParser()
        self._gateway = session.sparkContext._gateway
        self._kinds: dict[str, str] = {}
        self._object = JavaObject
        self._is_instance = is_instance_of

    def is_query(self, sql: str) -> bool:
        """Parse a text and check its plan; no name is resolved and nothing is executed.

        Returns:
            True for a query; False for DESCRIBE, which has no plan to check further.

        Raises:
            UsageError: it is neither, or does more than read the tables.
        """
        plan = self._parser.parsePlan(sql)
        tables: list[str] = []
        ctes: set[str] = set()
        is_description = False
        for kind, node in self._nodes(plan):
            if kind not in _PARSED:
                raise refused_statement(kind.rpartition(".")[2].rstrip("$"))
            if kind == _FUNCTION:
                FUNCTIONS.check(node.nameParts().mkString("."))
            elif kind == _TABLE_FUNCTION:
                FUNCTIONS.check(node.name().mkString("."))
            elif kind == _GENERATOR:
                FUNCTIONS.check(node.name().unquotedString())
            elif kind in (_RELATION, _DESCRIBED):
                tables.append(node.multipartIdentifier().mkString("."))
            elif kind == _WITH:
                ctes.update(item._1().lower() for item in _items(node.cteRelations()))
            elif kind == _DESCRIBE:
                is_description = True
        for name in tables:
            check_table(name, ctes)
        return not is_description

    def check_analyzed(self, plan: Any) -> None:
        """Check the resolved names in a query.

        Args:
            plan: analyzed plan of a text for which `is_query` returned True.

        Raises:
            UsageError: it does more than read the tables.
        """
        for kind, node in self._nodes(plan):
            is_expression = kind.startswith("expressions.") and kind not in _NOT_ANALYZED
            if not is_expression and kind not in _ANALYZED:
                raise refused_statement(kind.rpartition(".")[2].rstrip("$"))
            if kind == _VIEW:
                name = node.desc().identifier().unquotedString()
                if not node.isTempView() or name not in TABLES:
                    raise missing_table(name)

    def _nodes(self, plan: Any) -> Iterator[tuple[str, Any]]:
        """Yield all nodes of a plan and the names of their classes, below Catalyst's package.

        This includes expressions, and plans in expressions: everything in the fields of a node,
        directly or in lists, maps, options and tuples.
        """
        left = [plan]
        while left:
            value = left.pop()
            if not isinstance(value, self._object):
                continue  # a text or a number
            name = value.getClass().getName()
            if name not in self._kinds:
                self._kinds[name] = self._kind(value)
            kind = self._kinds[name]
            if kind == "node":
                yield name.removeprefix(_CATALYST), value
            if kind == "items":
                left.extend(_items(value))
            elif kind in ("node", "product") and name not in _LEAVES:
                left.extend(value.productElement(at) for at in range(value.productArity()))

    def _kind(self, value: Any) -> str:
        for kind, name in (
            ("node", f"{_CATALYST}trees.TreeNode"),
            ("type", "org.apache.spark.sql.types.DataType"),
            ("items", "scala.collection.Iterable"),
            ("product", "scala.Product"),
        ):
            if self._is_instance(self._gateway, value, name):
                return kind
        return "other"


def _items(value: Any) -> Iterator[Any]:
    """Yield the elements of a Scala collection."""
    iterator = value.iterator()
    while iterator.hasNext():
        yield iterator.next()
