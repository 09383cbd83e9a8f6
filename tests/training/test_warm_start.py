import json
import shlex
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from ssp_env.game.prompts import fill
from ssp_env.tags import RESERVED_TAGS, explain_invalid
from ssp_env.types import Completion, Final, Invalid, Sampling, Turn
from ssp_env.world import KINDS, World, WorldConfig
from ssp_env.world.experts import ExpertAgent
from ssp_env.world.language import parse
from ssp_env.world.names import N_SINGLE, WORDS

pytest.importorskip("transformers")
tyro = pytest.importorskip("tyro")

from ssp_agents.hf import HFAgent  # noqa: E402
from training.tiny import traces, warm_start  # noqa: E402
from training.tiny.vocabulary import SPECIAL, TAGS, build_tokenizer, words  # noqa: E402
from training.tiny.warm_start import CARD, MIX, WEIGHTS, WarmStartConfig, build_model, command, main, run, save  # noqa: E402

WORLD = World(WorldConfig(seed=31))
TOKENIZER = build_tokenizer()
SMALL = traces.Mix(solver={"1-hop": 4, "2-hop": 2}, proposer={1: 4, 2: 2}, reader={"1-hop": 4}, drills=3, patience=0.4)


def encode(text):
    return TOKENIZER.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("seed", [0, 31, 1000, 100_000])
def test_every_word_of_a_small_world_has_a_token(seed):
    world = World(WorldConfig(seed=seed))
    rng = np.random.default_rng(0)
    texts = [f"Doc 9 (Title: {passage.title}) {passage.text}" for passage in world.passages]
    texts += [task.question for kind in KINDS for task in world.tasks(kind, 50, rng)]
    texts += [
        explain_invalid(Invalid(reason), tools=("search",), final="answer") for reason in ("unclosed", "too_long")
    ]
    texts += [message["content"] for message in fill("compact", "proposer", {"answer": "Beladu", "n_searches": "4"})]
    texts += WORDS[:N_SINGLE]
    assert TOKENIZER.unk_token_id not in [token for text in texts for token in encode(text)]


def test_the_vocabulary_is_a_few_hundred_words_without_repeats():
    assert len(words()) == len(set(words())) == len(TOKENIZER) < 700


@pytest.mark.parametrize("tag", RESERVED_TAGS)
def test_a_tag_is_one_token_that_decoding_keeps(tag):
    for text in (f"<{tag}>", f"</{tag}>"):
        (token,) = TOKENIZER.encode(text, add_special_tokens=False, split_special_tokens=True)
        assert TOKENIZER.decode([token], skip_special_tokens=True) == text


@pytest.mark.parametrize("kind", KINDS)
def test_a_question_that_went_through_tokens_reads_the_same(kind):
    for task in WORLD.tasks(kind, 30, np.random.default_rng(0)):
        assert parse(TOKENIZER.decode(encode(task.question))) == parse(task.question)


def test_a_longer_chat_begins_with_the_tokens_of_a_shorter_one():
    chat = [
        {"role": role, "content": text} for role, text in (("user", "Question: a"), ("assistant", "b"), ("user", "c"))
    ]
    whole = TOKENIZER.apply_chat_template(chat, return_dict=False)
    for n in (1, 2, 3):
        part = TOKENIZER.apply_chat_template(chat[:n], return_dict=False)
        assert whole[: len(part)] == part
    asked = TOKENIZER.apply_chat_template(chat[:1], add_generation_prompt=True, return_dict=False)
    assert whole[: len(asked)] == asked


def test_a_trace_is_the_token_stream_that_an_agent_continues():
    tool = traces.world_tool(WORLD)
    agent = HFAgent(build_model(TOKENIZER, seed=0), TOKENIZER)
    tasks = WORLD.tasks("2-hop", 10, np.random.default_rng(0))
    for record in traces.rollout(ExpertAgent(), "solver", tasks, tool, sampling=Sampling()):
        trace = traces.tokenize(record, TOKENIZER)
        end = 0
        for turn in record.conversation.turns:
            before = replace(
                record.conversation, turns=record.conversation.turns[: record.conversation.turns.index(turn)]
            )
            context = agent.context_ids(before)
            assert list(trace.ids[: len(context)]) == context
            written = encode(turn.completion.text)
            end = len(context) + len(written)
            assert list(trace.ids[len(context) : end]) == written
            assert all(trace.written[len(context) : end])
        assert end == len(trace.ids)
        assert sum(trace.written) == sum(len(encode(turn.completion.text)) for turn in record.conversation.turns)


def test_traces_are_the_same_for_a_seed_and_come_from_games_that_ended_well():
    made = [traces.world_traces(WORLD, SMALL, TOKENIZER, np.random.default_rng(5)) for _ in range(2)]
    assert made[0] == made[1]
    assert len(made[0]) >= 8
    for trace in made[0]:
        assert len(trace.ids) == len(trace.written)
        assert TOKENIZER.unk_token_id not in trace.ids
        text = TOKENIZER.decode([i for i, own in zip(trace.ids, trace.written, strict=True) if own])
        assert text.endswith(("</answer>", "</question>"))


def test_repeats_say_the_same_tokens_twice():
    low = len(SPECIAL) + len(TAGS)
    for trace in traces.repeat_batch(8, range(low, len(TOKENIZER)), np.random.default_rng(0)):
        half = len(trace.ids) // 2
        assert sorted(trace.ids[:half]) == sorted(trace.ids[half:])
        assert len(set(trace.ids)) == half and min(trace.ids) >= low
        assert sum(trace.written) == half - 1


def test_the_warm_start_writes_a_loadable_policy_and_its_card_last(tmp_path, monkeypatch):
    # An untrained policy never ends its turns, so that playing it takes minutes; the next test measures a trained one.
    monkeypatch.setattr(warm_start, "measure_start", lambda model, tokenizer, *, n_tasks: {"seen": n_tasks})
    config = WarmStartConfig(
        output=tmp_path / "out", n_repeat_batches=1, n_batches=1, batch_size=2, n_tasks=4, threads=1
    )
    run(config)
    card = json.loads((config.output / CARD).read_text(encoding="utf-8"))
    agent = HFAgent.from_path(config.output)
    assert agent.model.num_parameters() == card["n_parameters"]
    assert card["start"] == {"seen": 4}
    assert not list(config.output.glob("*.partial"))


def test_the_warm_start_goes_on_from_given_weights(tmp_path):
    config = WarmStartConfig(
        start=WEIGHTS, proposer_patience=0.5, output=tmp_path / "out", n_repeat_batches=0, n_batches=1, batch_size=2,
        lr=1e-5, n_tasks=4, threads=1,
    )  # fmt: skip
    run(config)
    card = json.loads((config.output / CARD).read_text(encoding="utf-8"))
    assert set(card["start"]["greedy"]) == set(KINDS)
    assert card["mix"]["proposer_patience"] == 0.5 and card["config"]["start"] == WEIGHTS.as_posix()
    before, after = (HFAgent.from_path(folder).model.state_dict() for folder in (WEIGHTS, config.output))
    moved = max((before[name] - after[name]).abs().max().item() for name in before)
    assert 0 < moved < 1e-3


def given_by(line):
    """Return the configuration that a recorded command gives."""
    assert (words := shlex.split(line))[:2] == ["python", "training/tiny/warm_start.py"]
    return tyro.cli(WarmStartConfig, args=words[2:])


@pytest.mark.parametrize("start", [None, Path("a start")])
def test_the_command_on_the_card_gives_the_same_configuration(tmp_path, start):
    config = WarmStartConfig(
        output=tmp_path / "an output", start=start, proposer_patience=0.02, seed=1, n_repeat_batches=0, n_batches=2,
        batch_size=3, repeat_lr=1e-3, lr=1e-5, context_weight=0.5, bfloat16=True, threads=1, n_tasks=4,
    )  # fmt: skip
    save(config, build_model(TOKENIZER, seed=0), TOKENIZER, {})
    assert given_by(json.loads((config.output / CARD).read_text(encoding="utf-8"))["command"]) == config


def test_the_command_leaves_out_what_is_as_usual():
    assert command(WarmStartConfig()) == "python training/tiny/warm_start.py"
    assert command(WarmStartConfig(output=WEIGHTS / ".." / WEIGHTS.name)) == "python training/tiny/warm_start.py"
    assert command(WarmStartConfig(output=Path("x"))) == "python training/tiny/warm_start.py --output x"


@pytest.mark.parametrize("output", [None, "{weights}", "{weights}/../weights", "{start}", "{start}/../link"])
def test_neither_the_shipped_weights_nor_those_of_the_start_are_written_over(tmp_path, capsys, output):
    start = tmp_path / "start"
    start.mkdir()
    (tmp_path / "link").symlink_to(start)
    # The folder is empty so that, were the check missing, loading would fail before anything is written over.
    flags = [] if output is None else ["--output", output.format(weights=WEIGHTS, start=start)]
    assert main(["--start", str(start), *flags]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1
    assert shown.err.startswith("ConfigError: expected an --output that is neither")
    assert not any(start.iterdir())


@pytest.fixture
def folders(tmp_path):
    """Folders that are no start: where nothing is, and copies of the shipped one with a fault."""
    for name in ("broken", "cut", "unweighted", "bert", "wordy", "deep", "shallow", "wide"):
        shutil.copytree(WEIGHTS, tmp_path / name)
    (tmp_path / "broken" / "config.json").write_text("{", encoding="utf-8")
    weights = (WEIGHTS / "model.safetensors").read_bytes()
    (tmp_path / "cut" / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    (tmp_path / "unweighted" / "model.safetensors").unlink()
    settings = json.loads((WEIGHTS / "config.json").read_text(encoding="utf-8"))
    for name, change in {
        "bert": {"model_type": "bert"},
        "wordy": {"vocab_size": 700},
        "deep": {"num_hidden_layers": 4},
        "shallow": {"num_hidden_layers": 2},
        "wide": {"intermediate_size": 256},
    }.items():
        (tmp_path / name / "config.json").write_text(json.dumps({**settings, **change}), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--start", "{folders}/none"], "expected the folder of a policy as --start"),
        (["--start", "{folders}/broken"], "expected the folder of a policy as --start"),
        (["--start", "{folders}/bert"], "got a bert of 603"),
        (["--start", "{folders}/wordy"], "got a llama of 700"),
        (["--start", "{folders}/unweighted"], "expected a policy with its weights"),
        (["--start", "{folders}/cut"], "expected a policy with its weights"),
        (["--start", "{folders}/wide"], "expected a policy with its weights"),
        (["--start", "{folders}/deep"], "got more or fewer: model.layers.3"),
        (["--start", "{folders}/shallow"], "got more or fewer: model.layers.2"),
        (["--proposer-patience", "1.5"], "expected --proposer-patience in 0 .. 1, got 1.5"),
        (["--proposer-patience", "nan"], "expected --proposer-patience in 0 .. 1, got nan"),
        (["--threads", "0"], "expected --threads of 1 or more, got 0"),
        (["--batch-size", "0"], "expected --batch-size of 1 or more, got 0"),
        (["--n-batches", "-1"], "expected --n-batches of 0 or more, got -1"),
        (["--n-tasks", "3"], "expected at least 4 tasks, one for each held-out world, got 3; raise --n-tasks"),
        (["--n-tasks", "8000"], "lower --n-tasks"),
    ],
)
def test_what_cannot_be_trained_is_one_message_before_the_training(folders, capsys, flags, message):
    output = folders / "out"
    few = ["--output", str(output), "--n-repeat-batches", "0"]
    few += [] if "--n-batches" in flags else ["--n-batches", "0"]
    few += [] if "--n-tasks" in flags else ["--n-tasks", "4"]
    assert main([*few, *(flag.format(folders=folders) for flag in flags)]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1
    assert shown.err.startswith("ConfigError: expected ") and message in shown.err
    assert not output.exists()


def test_training_worlds_are_neither_self_play_nor_held_out_worlds():
    assert warm_start.FIRST_WORLD >= 100_000
    assert MIX.patience < 0.5, "longer questions must leave something to learn"


@pytest.mark.parametrize(("name", "patience"), [("weights", None), ("reluctant_02", 0.02), ("reluctant_06", 0.06)])
def test_the_shipped_weights_are_small_and_match_their_card(name, patience):
    folder = WEIGHTS.parent / name
    card = json.loads((folder / CARD).read_text(encoding="utf-8"))
    agent = HFAgent.from_path(folder)
    config = given_by(card["command"])
    assert WEIGHTS.parents[2] / config.output == folder
    settings = {**asdict(config), "start": config.start and config.start.as_posix()}
    assert card["config"].items() <= settings.items()
    assert card["mix"].get("proposer_patience") == patience
    assert (card["start"]["proposals with 2 searches"]["searches"] > 0.5) == (patience is None)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1_000_000
    assert agent.model.num_parameters() == card["n_parameters"]
    assert agent.tokenizer.get_vocab() == TOKENIZER.get_vocab()
    assert agent.tokenizer.chat_template == TOKENIZER.chat_template


def test_the_shipped_policy_starts_where_the_card_says():
    card = json.loads((WEIGHTS / CARD).read_text(encoding="utf-8"))["start"]
    agent = HFAgent.from_path(WEIGHTS)
    world = World(WorldConfig(seed=1000))
    tasks = world.tasks("1-hop", 50, np.random.default_rng(1000))
    sampling = Sampling(max_tokens=64, temperature=0.0, stop=("</search>", "</answer>"))
    records = traces.rollout(agent, "solver", tasks, traces.world_tool(world), sampling=sampling, max_turns=6)
    right = np.mean([(record.final or "").title() in record.item.answers for record in records])
    assert right == pytest.approx(card["greedy"]["1-hop"], abs=0.1)


def test_play_lets_an_agent_end_an_episode():
    class Answers:
        def complete(self, conversations, *, sampling):
            return [Completion("<answer> x </answer>") for _ in conversations]

    tasks = WORLD.tasks("1-hop", 2, np.random.default_rng(0))
    for record in traces.rollout(Answers(), "solver", tasks, traces.world_tool(WORLD), sampling=Sampling()):
        assert record.conversation.turns == (Turn(Completion("<answer> x </answer>"), Final("x")),)
