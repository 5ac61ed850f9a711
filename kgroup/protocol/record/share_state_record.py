"""Records of `__share_group_state` (KIP-932): the progress of share groups in each partition.

Records have the layout described in `record_family`, as in Kafka's `ShareCoordinatorRecordSerde`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kgroup.protocol.record.record_family import RecordFamily

KEY_TYPES: Mapping[int, str] = {0: "ShareSnapshot", 1: "ShareUpdate"}
"""Record types by the number at the start of their keys."""

# Early access (4.0) had a shorter epoch and no timestamps. The final layout rejects its bytes:
# they end too early, or have a zero (of an offset or a count) in place of an array.
_FAMILY = RecordFamily(
    KEY_TYPES, dict.fromkeys(KEY_TYPES.values(), ("share_state", "share_state_4_0"))
)

decode_record = _FAMILY.decode_record
encode_key = _FAMILY.encode_key
encode_value = _FAMILY.encode_value
