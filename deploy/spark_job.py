"""Judge images with Spark: `paths.txt` names one a line, verdicts go to the folder `verdicts`.

    spark-submit deploy/spark_job.py

Chunks are parts of Spark's batches, so they depend on its partitions; the seed decides about pools.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

SCHEMA = "path string, status string, score double"


def judge(batches: Iterator[Any]) -> Iterator[Any]:
    """Verdicts on the column `path` of data frames; runs on the workers."""
    import pandas

    from poolsieve import Moderator

    moderator = Moderator.load("firearms", scheme="glance", seed=7, threads=1)
    run = moderator.new_run()
    for batch in batches:
        for start in range(0, len(batch), moderator.chunk_size(run)):
            paths = batch["path"][start : start + moderator.chunk_size(run)]
            verdicts = moderator.judge_chunk([moderator.prepare(path) for path in paths], run)
            rows = [(verdict.path, verdict.status, verdict.score) for verdict in verdicts]
            yield pandas.DataFrame(rows, columns=["path", "status", "score"])


if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    listed = spark.read.text("paths.txt").withColumnRenamed("value", "path")
    listed.mapInPandas(judge, SCHEMA).write.parquet("verdicts")
