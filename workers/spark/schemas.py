"""The types of columns as Arrow, Spark and PostgreSQL name them, and the shapes of rows that tasks hand back."""

import pyarrow as pa

_TYPES = (
    (pa.int64(), "long", "int8"),
    (pa.int32(), "int", "int4"),
    (pa.string(), "string", "text"),
    (pa.binary(), "binary", "bytea"),
    (pa.timestamp("us", tz="UTC"), "timestamp", "timestamptz"),
    (pa.bool_(), "boolean", "bool"),
    (pa.float64(), "double", "float8"),
)
SPARK_TYPES = {arrow: spark for arrow, spark, _ in _TYPES}
POSTGRES_TYPES = {arrow: postgres for arrow, _, postgres in _TYPES}
_ARROW_TYPES = {spark: arrow for arrow, spark, _ in _TYPES}


class RowSchema:
    """The columns of rows, as Spark declares them (`spark`) and as Arrow carries them (`arrow`)."""

    def __init__(self, spark: str) -> None:
        self.spark = spark
        columns = (column.split(" ") for column in spark.split(", "))
        self.arrow = pa.schema([(name, _arrow_type(kind)) for name, kind in columns])


def _arrow_type(spark: str) -> pa.DataType:
    inner = spark.removeprefix("array<").removesuffix(">")
    return _ARROW_TYPES[spark] if inner == spark else pa.list_(_ARROW_TYPES[inner])
