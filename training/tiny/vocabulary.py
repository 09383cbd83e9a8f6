"""The word-level tokenizer of the tiny policy: one token a word, a few hundred in all.

It covers every single-word world, the compact prompts, the tags and what the environments say; other words become
``<unk>``. Text is lower-cased and punctuation stands alone, so ``decode(encode(text))`` reads like the text to every
parser here. Tags are ordinary tokens that decoding keeps. The chat template adds two tokens and the role's name to a
message and depends on nothing before or after it: a longer chat begins with the tokens of a shorter one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, get_args

from ssp_env.tags import RESERVED_TAGS, explain_invalid
from ssp_env.types import Invalid, InvalidReason
from ssp_env.world.names import N_SINGLE, WORDS
from ssp_env.world.relations import ALIASES, INTROS, RELATIONS, TYPES, VALUES

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIAL: Final = ("<pad>", "<unk>", "<|im_start|>", "<|im_end|>")
TAGS: Final = tuple(f"<{slash}{tag}>" for tag in RESERVED_TAGS for slash in ("", "/"))
TEMPLATE: Final = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_PLAIN: Final = (
    "which what the that and or is person unknown question answer searches doc title "
    "system user assistant no passage was found invalid write . , : ? ( ) [ ] ... ' ‹ › / < > - tool error "
)


def words() -> list[str]:
    """Return the vocabulary in the order of its ids: special tokens, tags, language, numbers, names."""
    replies = [
        explain_invalid(Invalid(reason), tools=("search",), final="answer") for reason in get_args(InvalidReason)
    ]
    texts = [*_PLAIN.split(), *TYPES, *INTROS, *ALIASES, *replies]
    for relation in RELATIONS:
        texts += [*relation.find_subject, *relation.find_object, *relation.sentences, *(relation.comparatives or ())]
    plain = " ".join(texts)
    for tag in TAGS:
        plain = plain.replace(tag, " ")
    language = sorted({*re.findall(r"\w+|[^\w\s]", re.sub(r"\{\w+\}", " ", plain).lower()), "..."})
    digits = [str(n) for n in range(21)]
    numbers = [value for values in VALUES.values() for value in values]
    return list(dict.fromkeys([*SPECIAL, *TAGS, *language, *digits, *numbers, *WORDS[:N_SINGLE]]))


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Return the tokenizer; building it twice gives the same ids."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: index for index, word in enumerate(words())}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    punctuation = pre_tokenizers.Split(Regex(r"\.\.\.|[^\w\s]"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), punctuation])
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = TEMPLATE
    return fast
