"""Columns that sheets share."""

from __future__ import annotations

from kgroup.render.cell import Column, Kind

CLUSTER = Column("cluster", Kind.NAME, "name of the cluster in the warehouse")
GROUP = Column("group_id", Kind.NAME, "id of the group")
GROUP_TYPE = Column("group_type", Kind.TEXT, "classic, consumer, share or streams")
TOPIC = Column("topic", Kind.TEXT, "name of the topic")
PARTITION = Column("partition", Kind.NUMBER, "partition of that topic")
PARTS = (Column("part", Kind.TEXT, ""), Column("text", Kind.TEXT, ""))
"""Columns of a table that has a kind of line in each row: why, run, else."""
