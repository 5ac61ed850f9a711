"""Columns that answers about the past share."""

from kgroup.render.cell import Column, Kind

__all__ = ["CLUSTER", "GROUP", "GROUP_TYPE"]

CLUSTER = Column("cluster", Kind.NAME, "name of the cluster in the warehouse")
GROUP = Column("group_id", Kind.NAME, "id of the group")
GROUP_TYPE = Column("group_type", Kind.TEXT, "classic, consumer, share or streams")
