"""Assignors of other client libraries against what these answered, see `answers`."""

from __future__ import annotations

import pytest

from tests.assignor.case.notation import answer_of
from tests.assignor.client.answers import MODELS, Answers, Model, digest, history
from tests.examples import some_of

_TELLING = {"franz-go": (162, 234), "librdkafka": (1113, 1908)}
"""Histories that tell apart what hardly any others do, as mutants have shown."""


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_random_histories(model: Model) -> None:
    recorded = Answers.read(model)
    for seed, told in enumerate(recorded.in_full):
        assert [answer_of(said) for _, said in history(model, seed)] == told, seed
    # Versions share most of their code: each tries other histories.
    seeds = some_of(range(MODELS.index(model), len(recorded.digests)), 160)
    for seed in (*seeds, *_TELLING.get(model.library, ())):
        answers = [said for _, said in history(model, seed)]
        assert digest(answers) == recorded.digests[seed], seed
