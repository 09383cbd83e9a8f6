import pytest

from ssp_env.errors import ConfigError
from training.convert_gguf import find_gguf, main


def test_a_path_is_taken_as_it_is_and_a_package_is_searched_without_importing_it(tmp_path, monkeypatch):
    package = tmp_path / "holds_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    model = package / "small.gguf"
    model.touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert find_gguf(str(model)) == model
    assert find_gguf("holds_weights") == model
    (package / "second.gguf").touch()
    with pytest.raises(ConfigError, match="with 2"):
        find_gguf("holds_weights")


@pytest.mark.parametrize("source", ["no_such_package", "missing/file.gguf", "json"])
def test_what_is_not_there_is_one_message(source, tmp_path, capsys):
    assert main(source, tmp_path / "out") == 2
    assert "ConfigError" in capsys.readouterr().err
