"""Records of `__share_group_state` (KIP-932): how far a share group has come in each partition.

Records are laid out as `record_family` says, as in Kafka's `ShareCoordinatorRecordSerde`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kgroup.protocol.record.record_family import RecordFamily

KEY_TYPES: Mapping[int, str] = {0: "ShareSnapshot", 1: "ShareUpdate"}
"""The record types by the number that their keys begin with."""

# Early access (4.0) had a shorter epoch and no timestamps. The final shape does not take its bytes:
# they end too early, or give it the zero of an offset or a count where an array must be.
_FAMILY = RecordFamily(
    KEY_TYPES, dict.fromkeys(KEY_TYPES.values(), ("share_state", "share_state_4_0"))
)

decode_record = _FAMILY.decode_record
encode_key = _FAMILY.encode_key
encode_value = _FAMILY.encode_value
