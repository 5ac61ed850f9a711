"""Columns of `kgroup profile`."""

from __future__ import annotations

from kgroup.render.cell import Column, Kind, columns_of

PROFILE_COLUMNS = columns_of(
    "kgroup.source.config.profile.ListedProfile",
    Column("name", Kind.NAME),
    Column("current", Kind.FLAG),
    Column("bootstrap_servers", Kind.NAME),
    Column("security_protocol", Kind.TEXT),
)
SETTING_COLUMNS = columns_of(
    "kgroup.source.config.profile.ProfileSetting",
    Column("key", Kind.NAME),
    Column("value", Kind.NAME),
    Column("origin", Kind.TEXT),
)
