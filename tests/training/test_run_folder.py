import fcntl
import json
import shutil

import pytest

from ssp_env.errors import RunError
from training.run_folder import STATE, RunFolder, read_checkpoint

CONFIG = {"seed": 0, "n_rounds": 4}


def written(folder, name="checkpoint-1"):
    """Write what a trainer would."""
    path = folder.staging / name
    path.mkdir()
    (path / "model.bin").write_bytes(b"weights")
    return path


def with_checkpoint(path, *, rounds=(2,), keep=2):
    with RunFolder.create(path, CONFIG) as folder:
        for number in range(1, max(rounds) + 1):
            folder.append("metrics.jsonl", [{"round": number}])
            folder.append("rounds.jsonl", [{"round": number, "question": "ü"}] * 2)
            if number in rounds:
                folder.publish(written(folder), number, {"pool": {"round": number}}, keep=keep)
    return path


def test_the_last_checkpoint_before_a_round_can_be_kept(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG) as folder:
        for number, good_before in ((1, None), (2, None), (3, 3), (4, 3), (5, 3), (6, None)):
            folder.publish(written(folder), number, {}, keep=2, good_before=good_before)
            names = [int(p.name[-6:]) for p in folder.checkpoints]
            assert names == {1: [1], 2: [1, 2], 3: [2, 3], 4: [2, 3, 4], 5: [2, 4, 5], 6: [5, 6]}[number]
        assert folder.last_before(6).name == "round-000005"
        assert folder.last_before(1) is None


def test_the_best_checkpoint_stays_beside_the_last_ones_and_is_named(tmp_path):
    path = tmp_path / "run"

    def publish(folder, number, best):
        folder.append("metrics.jsonl", [{"round": number}])
        folder.publish(written(folder), number, {}, keep=1, best=best)

    def named():
        return json.loads((path / "checkpoints.json").read_text())

    with RunFolder.create(path, CONFIG) as folder:
        publish(folder, 1, None)
        assert named() == {"last": "checkpoints/round-000001", "best": None}
        publish(folder, 2, 2)
        publish(folder, 3, 2)
    with RunFolder.reopen(path, CONFIG) as folder:
        publish(folder, 4, 2)
        assert folder.checkpoints == [folder.of_round(2), folder.of_round(4)]
        assert named() == {"last": "checkpoints/round-000004", "best": "checkpoints/round-000002"}
        publish(folder, 5, 5)
        assert folder.checkpoints == [folder.of_round(5)]
        assert named() == {"last": "checkpoints/round-000005", "best": "checkpoints/round-000005"}


def test_a_best_round_whose_checkpoint_is_gone_is_not_named(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG) as folder:
        folder.publish(written(folder), 2, {}, keep=1, best=1)
        assert json.loads((folder.path / "checkpoints.json").read_text())["best"] is None


def test_a_closed_run_holds_nothing_that_only_an_open_one_needs(tmp_path):
    path = with_checkpoint(tmp_path / "run")
    whole = {"config.json", "metrics.jsonl", "rounds.jsonl", "checkpoints", "checkpoints.json"}
    assert {p.name for p in path.iterdir()} == whole
    with pytest.raises(RunError, match="seed"):
        RunFolder.reopen(path, {**CONFIG, "seed": 1})
    assert {p.name for p in path.iterdir()} == whole


def test_a_lock_that_its_last_holder_removed_meanwhile_keeps_nobody_out_and_is_refused(tmp_path, monkeypatch):
    path, taken = with_checkpoint(tmp_path / "run"), fcntl.flock

    def slow(lock, how):
        (path / ".lock").unlink()
        taken(lock, how)

    monkeypatch.setattr(fcntl, "flock", slow)
    with pytest.raises(RunError, match="no process"):
        RunFolder.reopen(path, CONFIG)


def test_a_new_run_starts_empty_and_a_second_start_is_refused_with_a_remedy(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG) as folder:
        assert folder.round == 0
        assert folder.metrics() == []
    with pytest.raises(RunError, match="--resume"):
        RunFolder.create(tmp_path / "run", CONFIG)


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(RunError, match=r"thesis\.txt"):
        RunFolder.create(tmp_path, CONFIG)


def test_a_run_that_never_wrote_its_configuration_can_start_again(tmp_path):
    (tmp_path / ".lock").touch()
    (tmp_path / ".config.json.0123").write_text("{")
    with RunFolder.create(tmp_path, CONFIG):
        pass


def test_reopening_without_a_run_is_refused_with_a_remedy(tmp_path):
    with pytest.raises(RunError, match="without --resume"):
        RunFolder.reopen(tmp_path / "none", CONFIG)


@pytest.mark.parametrize("content", [b"", b'{"seed": 0', b"[]", b"null", b'{"seed": "\xff"}'])
def test_a_damaged_configuration_is_refused_with_a_way_out(tmp_path, content):
    path = with_checkpoint(tmp_path / "run")
    (path / "config.json").write_bytes(content)
    with pytest.raises(RunError, match=r"config\.json.* restore it, .*another --out") as refusal:
        RunFolder.reopen(path, CONFIG)
    assert "--resume" not in str(refusal.value)


def test_reopening_goes_on_from_the_last_checkpoint_and_cuts_the_logs_back(tmp_path):
    path = with_checkpoint(tmp_path / "run", rounds=(1, 2))
    whole = (path / "metrics.jsonl").read_bytes(), (path / "rounds.jsonl").read_bytes()
    with open(path / "metrics.jsonl", "a") as file:
        file.write('{"round": 3}\n{"rou')
    (path / ".staging" / "checkpoint-9").mkdir(parents=True)
    with RunFolder.reopen(path, CONFIG) as folder:
        assert folder.round == 2
        assert folder.checkpoint.state["pool"] == {"round": 2}
        assert [line["round"] for line in folder.metrics()] == [1, 2]
        assert list(folder.staging.iterdir()) == []
    assert whole == ((path / "metrics.jsonl").read_bytes(), (path / "rounds.jsonl").read_bytes())


@pytest.mark.parametrize("damage", ["cut", "missing", "state", "torn state"])
def test_a_damaged_checkpoint_is_passed_over(tmp_path, damage):
    path = with_checkpoint(tmp_path / "run", rounds=(1, 2))
    last = path / "checkpoints" / "round-000002"
    {
        "cut": lambda: (last / "model.bin").write_bytes(b"wei"),
        "missing": lambda: (last / "model.bin").unlink(),
        "state": lambda: (last / STATE).unlink(),
        "torn state": lambda: (last / STATE).write_text((last / STATE).read_text()[:-20]),
    }[damage]()
    assert read_checkpoint(last) is None
    with RunFolder.reopen(path, CONFIG) as folder:
        assert folder.round == 1
        assert [line["round"] for line in folder.metrics()] == [1]


def test_a_run_without_a_checkpoint_starts_over(tmp_path):
    path = tmp_path / "run"
    with RunFolder.create(path, CONFIG) as folder:
        folder.append("metrics.jsonl", [{"round": 0}])
    with RunFolder.reopen(path, CONFIG) as folder:
        assert folder.round == 0
        assert folder.metrics() == []


def test_another_configuration_is_refused_by_name_unless_it_may_change(tmp_path):
    path = with_checkpoint(tmp_path / "run")
    with pytest.raises(RunError, match="seed"):
        RunFolder.reopen(path, {**CONFIG, "seed": 1}, may_change=["n_rounds"])
    with RunFolder.reopen(path, {**CONFIG, "n_rounds": 9}, may_change=["n_rounds"]):
        assert json.loads((path / "config.json").read_text())["n_rounds"] == 9


def test_a_log_that_was_shortened_is_refused(tmp_path):
    path = with_checkpoint(tmp_path / "run")
    (path / "rounds.jsonl").write_text("")
    with pytest.raises(RunError, match=r"rounds\.jsonl"):
        RunFolder.reopen(path, CONFIG)


def test_only_the_last_checkpoints_stay(tmp_path):
    path = with_checkpoint(tmp_path / "run", rounds=(1, 2, 3), keep=2)
    assert [p.name for p in sorted((path / "checkpoints").iterdir())] == ["round-000002", "round-000003"]


def test_publishing_a_round_again_replaces_its_checkpoint(tmp_path):
    path = with_checkpoint(tmp_path / "run")
    with RunFolder.reopen(path, CONFIG) as folder:
        place = folder.publish(written(folder), 2, {"pool": "new"}, keep=2)
    assert read_checkpoint(place).state["pool"] == "new"


def test_one_process_at_a_time_uses_a_folder(tmp_path):
    path = tmp_path / "run"
    with RunFolder.create(path, CONFIG), pytest.raises(RunError, match="no process"):
        RunFolder.reopen(path, CONFIG)
    with RunFolder.reopen(path, CONFIG):
        pass


@pytest.mark.parametrize("inside", ["", "deep"])
def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path, inside):
    (tmp_path / "file").write_text("precious")
    with pytest.raises(RunError, match="name another --out"):
        RunFolder.create(tmp_path / "file" / inside, CONFIG)
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize("logs", [None, [1], {"metrics.jsonl": "a", "rounds.jsonl": 0}, {"metrics.jsonl": -1}])
def test_a_checkpoint_with_a_damaged_state_does_not_count(tmp_path, logs):
    path = with_checkpoint(tmp_path / "run", rounds=(1, 2))
    state = path / "checkpoints" / "round-000002" / STATE
    state.write_text(json.dumps({**json.loads(state.read_text()), "logs": logs}))
    with RunFolder.reopen(path, CONFIG) as folder:
        assert folder.round == 1


DAMAGED_LINES = [
    *(b'{"round": 1!\n', b"\0" * 12 + b"\n", b"[1234567890]\n", b'"\xff345678901"\n'),
    *(b'{"rounds":1}\n', b'{"round":""}\n', b'{"round":.5}\n', b'{"round":true}\n'),
]


@pytest.mark.parametrize("line", DAMAGED_LINES)
def test_a_damaged_log_is_refused_with_its_line(tmp_path, line):
    path = with_checkpoint(tmp_path / "run", rounds=(1,))
    (path / "metrics.jsonl").write_bytes(line)
    with pytest.raises(RunError, match=r"metrics\.jsonl:1.*restore it"):
        RunFolder.reopen(path, CONFIG)


def contents(path):
    return {p.relative_to(path): p.read_bytes() for p in path.rglob("*") if p.is_file()}


@pytest.mark.parametrize("damage", ["other seed", "no rounds", "short rounds", "folder", "metrics", "checkpoint"])
def test_a_refused_resume_changes_nothing(tmp_path, damage):
    path = with_checkpoint(tmp_path / "run", rounds=(1, 2))
    with open(path / "metrics.jsonl", "a") as file:
        file.write('{"round": 3}\n')
    rounds, config = path / "rounds.jsonl", {**CONFIG, "n_rounds": 9}
    if damage == "other seed":
        config["seed"] = 1
    elif damage == "short rounds":
        rounds.write_text("{}\n")
    elif damage == "metrics":
        (path / "metrics.jsonl").write_text('{"round":\n' * 4)
    elif damage == "checkpoint":
        for model in path.rglob("model.bin"):
            model.unlink()
    else:
        rounds.unlink()
        if damage == "folder":
            rounds.mkdir()
    before = contents(path)
    with pytest.raises(RunError):
        RunFolder.reopen(path, config, may_change=["n_rounds"])
    assert contents(path) == before


@pytest.mark.parametrize("link", [False, True])
def test_a_file_in_the_place_of_the_staging_folder_is_removed(tmp_path, link):
    path = with_checkpoint(tmp_path / "run")
    (path / ".staging").symlink_to(tmp_path) if link else (path / ".staging").write_text("")
    with RunFolder.reopen(path, CONFIG) as folder:
        assert folder.staging.is_dir() and not folder.staging.is_symlink()


def test_a_text_that_is_no_unicode_does_not_end_a_run(tmp_path):
    """An external reader or judge may say anything; it is logged with what cannot be written replaced."""
    with RunFolder.create(tmp_path / "run", CONFIG) as folder:
        folder.append("metrics.jsonl", [{"round": 1, "response": "Lake \ud800"}])
        assert folder.metrics() == [{"round": 1, "response": "Lake ?"}]


def test_damaged_checkpoints_alone_are_refused_and_the_logs_stay(tmp_path):
    path = with_checkpoint(tmp_path / "run")
    before = (path / "metrics.jsonl").read_bytes()
    (path / "checkpoints" / "round-000002" / "model.bin").write_bytes(b"cut")
    with pytest.raises(RunError, match=r"damaged ones only .*restore one"):
        RunFolder.reopen(path, CONFIG)
    assert (path / "metrics.jsonl").read_bytes() == before != b""


@pytest.mark.parametrize("replaced", [False, True])
def test_checkpoints_that_were_removed_are_missed_and_the_logs_stay(tmp_path, replaced):
    path = with_checkpoint(tmp_path / "run")
    shutil.rmtree(path / "checkpoints")
    if replaced:
        (path / "checkpoints").write_text("")
    before = contents(path)
    with pytest.raises(RunError, match=r"got none: they were removed; restore one"):
        RunFolder.reopen(path, CONFIG)
    assert contents(path) == before


def test_a_new_run_where_another_was_removed_may_be_killed_early(tmp_path):
    path = with_checkpoint(tmp_path / "run")
    shutil.rmtree(path / "checkpoints")
    for file in path.glob("[!.]*"):
        file.unlink()
    for start in (RunFolder.create, RunFolder.reopen):
        with start(path, CONFIG) as folder:
            assert folder.round == 0
