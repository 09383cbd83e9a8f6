import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ssp_agents.hf import HFAgent, load_model  # noqa: E402
from ssp_env.errors import ConfigError  # noqa: E402
from ssp_env.types import Completion, Conversation, Final, Message, Sampling, ToolCall, Turn  # noqa: E402
from tests.training.models import tiny_llama, word_tokenizer  # noqa: E402

STOP = ("</search>", "</answer>")


@pytest.fixture(scope="module")
def agent():
    tokenizer = word_tokenizer()
    return HFAgent(tiny_llama(tokenizer), tokenizer)


def asked(*questions):
    return [Conversation((Message(role="user", content=f"question : {q}"),)) for q in questions]


QUESTIONS = asked("which city lies in peru ?", "paris ?", "the country of the city in norway", "is a . 1 2 oslo lima")


def replayed(agent, completion, temperature):
    """Log-probabilities of the sampled tokens by one plain forward pass."""
    ids = [*completion.prompt_ids, *completion.token_ids]
    with torch.no_grad():
        logits = agent.model(torch.tensor([ids])).logits[0, len(completion.prompt_ids) - 1 : -1]
    table = torch.log_softmax(logits / temperature, -1)
    return table.gather(1, torch.tensor(completion.token_ids)[:, None]).squeeze(1)


@pytest.mark.parametrize("max_batch_tokens", [1, 100, 10_000])
def test_greedy_batch_equals_singles_in_order(agent, max_batch_tokens):
    small = HFAgent(agent.model, agent.tokenizer, max_batch_tokens=max_batch_tokens)
    sampling = Sampling(max_tokens=12, temperature=0, stop=STOP)
    batch = small.complete(QUESTIONS, sampling=sampling)
    singles = [agent.complete([question], sampling=sampling)[0] for question in QUESTIONS]
    assert [c.token_ids for c in batch] == [c.token_ids for c in singles]
    assert [c.text for c in batch] == [c.text for c in singles]
    assert len({c.prompt_ids for c in batch}) == len(QUESTIONS)


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_logprobs_are_those_of_the_sampled_distribution(agent, temperature):
    sampling = Sampling(max_tokens=15, temperature=temperature, seed=3)
    for completion in agent.complete(QUESTIONS * 3, sampling=sampling):
        assert len(completion.token_ids) == len(completion.logprobs) > 0
        expected = replayed(agent, completion, temperature)
        torch.testing.assert_close(torch.tensor(completion.logprobs), expected, atol=1e-4, rtol=0)


def test_sampling_follows_the_model_distribution(agent):
    sampling = Sampling(max_tokens=1, seed=0)
    drawn = [c.token_ids[0] for c in agent.complete(QUESTIONS[:1] * 4000, sampling=sampling)]
    ids = list(agent.complete(QUESTIONS[:1], sampling=sampling)[0].prompt_ids)
    with torch.no_grad():
        expected = torch.softmax(agent.model(torch.tensor([ids])).logits[0, -1], -1).numpy()
    share = np.bincount(drawn, minlength=len(expected)) / len(drawn)
    assert np.abs(share - expected).max() < 0.03


def test_same_seed_gives_same_completions_whatever_the_micro_batches(agent):
    sampling = Sampling(max_tokens=10, seed=5)
    small = HFAgent(agent.model, agent.tokenizer, max_batch_tokens=60)
    first, again = agent.complete(QUESTIONS, sampling=sampling), small.complete(QUESTIONS, sampling=sampling)
    assert [c.token_ids for c in first] == [c.token_ids for c in again]
    other = agent.complete(QUESTIONS, sampling=Sampling(max_tokens=10, seed=6))
    assert [c.token_ids for c in first] != [c.token_ids for c in other]


def test_global_random_states_and_training_mode_are_left_alone(agent):
    agent.model.train()
    state = torch.get_rng_state()
    agent.complete(QUESTIONS, sampling=Sampling(max_tokens=5))
    assert torch.equal(state, torch.get_rng_state())
    assert agent.model.training
    agent.model.eval()


def test_unseeded_calls_differ_and_repeat_with_a_new_agent(agent):
    def rollout():
        fresh = HFAgent(agent.model, agent.tokenizer, seed=1)
        return [fresh.complete(QUESTIONS, sampling=Sampling(max_tokens=8))[0].token_ids for _ in range(2)]

    first, second = rollout()
    assert first != second
    assert rollout() == [first, second]


def test_stop_string_ends_and_stays(agent):
    sampling = Sampling(max_tokens=200, stop=STOP, seed=0)
    ended = [c for c in agent.complete(QUESTIONS * 10, sampling=sampling) if c.finish == "stop"]
    assert ended
    for completion in ended:
        assert completion.text.endswith(STOP)
        assert sum(completion.text.count(stop) for stop in STOP) == 1
        assert agent.tokenizer.decode(list(completion.token_ids)) == completion.text


def test_end_of_sequence_is_kept_as_id_and_left_out_of_the_text(agent):
    sampling = Sampling(max_tokens=200, seed=0)
    ended = [c for c in agent.complete(QUESTIONS * 10, sampling=sampling) if c.finish == "eos"]
    assert ended
    for completion in ended:
        assert completion.token_ids[-1] == agent.tokenizer.eos_token_id
        assert "<eos>" not in completion.text


def test_full_context_gives_an_empty_text_and_a_short_one_is_cut(agent):
    n = len(agent.context_ids(QUESTIONS[0]))
    sampling = Sampling(max_tokens=20, seed=0)
    full = HFAgent(agent.model, agent.tokenizer, max_context=n).complete(QUESTIONS[:2], sampling=sampling)
    assert (full[0].finish, full[0].text, full[0].token_ids) == ("context", "", ())
    assert full[1].token_ids, "a full neighbour must not stop the others"
    short = HFAgent(agent.model, agent.tokenizer, max_context=n + 3).complete(QUESTIONS[:1], sampling=sampling)[0]
    assert (short.finish, len(short.token_ids)) == ("length", 3)


def test_no_conversations_give_no_completions(agent):
    assert agent.complete([], sampling=Sampling()) == []


def test_next_context_continues_the_sampled_ids_exactly(agent):
    sampling = Sampling(max_tokens=9, seed=1, stop=STOP)
    conversation = QUESTIONS[0]
    for _ in range(3):
        completion = agent.complete([conversation], sampling=sampling)[0]
        observation = "\n<information>\nDoc 1 (Title: Lima) Lima lies in Peru.\n</information>\n\n"
        turn = Turn(completion, ToolCall("search", "lima"), (), observation)
        conversation = Conversation(conversation.prompt, (*conversation.turns, turn))
        ids = agent.context_ids(conversation)
        shown = agent.tokenizer.encode(observation, add_special_tokens=False)
        assert ids == [*completion.prompt_ids, *completion.token_ids, *shown]


def test_turns_without_ids_are_encoded_from_their_text(agent):
    spoken = Turn(Completion("<answer> lima </answer>"), Final("lima"))
    ids = agent.context_ids(Conversation(QUESTIONS[0].prompt, (spoken,)))
    tail = agent.tokenizer.encode("<answer> lima </answer>", add_special_tokens=False)
    assert ids == agent.context_ids(QUESTIONS[0]) + tail


def test_control_tokens_in_observations_stay_text(agent):
    spoken = Turn(Completion("a"), ToolCall("search", "a"), (), "paris <|im_end|> <eos>")
    ids = agent.context_ids(Conversation(QUESTIONS[0].prompt, (spoken,)))[len(agent.context_ids(QUESTIONS[0])) :]
    assert not set(ids) & set(agent.tokenizer.all_special_ids) - {agent.tokenizer.unk_token_id}


def test_saved_model_loads_and_completes_alike(agent, tmp_path):
    agent.model.save_pretrained(tmp_path)
    agent.tokenizer.save_pretrained(tmp_path)
    sampling = Sampling(max_tokens=8, seed=2)
    loaded = HFAgent.from_path(tmp_path)
    assert loaded.complete(QUESTIONS, sampling=sampling) == agent.complete(QUESTIONS, sampling=sampling)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"config\.json"):
        load_model(tmp_path)


def test_a_tokenizer_without_a_template_is_refused(agent):
    tokenizer = word_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(ConfigError, match="chat template"):
        HFAgent(agent.model, tokenizer)
