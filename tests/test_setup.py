"""`scripts/setup`: an interrupted install never passes for a finished one, and a finished one is not done again."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest


def load(root: Path) -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("labkit_setup_script", str(root / "scripts" / "setup"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class Stage:
    """The script on an empty folder, with uv played by us."""

    def __init__(self, script: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.script, self.venv, self.log, self.breaks = script, folder / ".venv", [], False
        monkeypatch.setattr(script, "VENV", self.venv)
        monkeypatch.setattr(script, "PYTHON", self.venv / "bin" / "python")
        monkeypatch.setattr(script, "MARKER", self.venv / ".labkit-unfinished")
        monkeypatch.setattr(script, "BACKEND", self.venv / ".labkit-backend")
        monkeypatch.setattr(script, "uv_path", lambda: Path("uv"))
        monkeypatch.setattr(script, "run", self.run)
        monkeypatch.setenv("UV_TORCH_BACKEND", "cpu")

    def run(self, *command: object, env: dict[str, str] | None = None) -> None:
        words = [str(word) for word in command]
        assert env is not None
        assert "UV_TORCH_BACKEND" not in env
        self.log.append(words)
        if words[1] == "venv":
            (self.venv / "bin").mkdir(parents=True, exist_ok=True)
            (self.venv / "bin" / "python").touch()
            for old in self.venv.glob(".labkit*"):
                old.unlink()
        elif self.breaks:
            raise KeyboardInterrupt

    def prepare(self, group: str = "lab", backend: str = "") -> bool:
        self.log.clear()
        return bool(self.script.prepare(group, backend))


@pytest.fixture
def stage(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(load(root), tmp_path, monkeypatch)


def test_a_second_run_does_nothing(stage: Stage) -> None:
    assert stage.prepare()
    assert [words[1] for words in stage.log] == ["venv", "pip", "pip"]
    assert all({"--require-hashes", "--compile-bytecode"} <= set(words) for words in stage.log if "-r" in words)
    assert not stage.prepare()
    assert stage.log == []


def test_an_interrupted_install_leaves_no_stamp_and_is_made_anew(stage: Stage) -> None:
    stage.breaks = True
    with pytest.raises(KeyboardInterrupt):
        stage.prepare()
    assert not list(stage.venv.glob(".labkit-lab*"))
    stage.breaks = False
    assert stage.prepare()
    assert stage.log[0][1] == "venv"
    assert not stage.prepare()


def test_an_interrupted_update_takes_the_old_stamp_with_it(stage: Stage) -> None:
    stage.prepare()
    stage.breaks = True
    with pytest.raises(KeyboardInterrupt):
        stage.prepare(backend="cpu")
    stage.breaks = False
    assert stage.prepare()


def test_other_pins_another_backend_or_a_lost_python_ask_for_a_run(stage: Stage, tmp_path: Path) -> None:
    stage.prepare()
    assert stage.prepare(backend="cpu")
    assert stage.log[0][1] == "venv"
    assert stage.prepare()
    other = tmp_path / "constraints.txt"
    other.write_text("torch==9 \\\n    --hash=sha256:0\n")
    stage.script.PINS["lab"] = other
    assert stage.prepare()
    assert stage.log[0][1] == "pip"
    (stage.venv / "bin" / "python").unlink()
    assert stage.prepare()
    assert stage.log[0][1] == "venv"


def test_another_torch_build_is_held_by_version_and_all_else_by_hash(stage: Stage) -> None:
    stage.prepare(backend="cpu")
    hashed, torch = stage.log[1], stage.log[2]
    pins = Path(hashed[hashed.index("-r") + 1]).read_text()
    assert "--require-hashes" in hashed
    assert "\nnumpy==" in pins
    assert not [line for line in pins.splitlines() if line.startswith(("torch==", "nvidia-", "cuda-", "triton=="))]
    assert torch[-1].startswith("torch==2.15")
    assert torch[torch.index("--torch-backend") + 1] == "cpu"


def test_mpi_is_laid_beside_and_an_interrupt_there_costs_nobody_the_rest(stage: Stage) -> None:
    stage.prepare()
    stage.breaks = True
    with pytest.raises(KeyboardInterrupt):
        stage.prepare("bench")
    stage.breaks = False
    assert not stage.prepare()
    assert stage.prepare("bench")
    (install,) = stage.log
    assert {"--reinstall", "--require-hashes", "--no-deps"} <= set(install)
    assert Path(install[-1]).name == "bench.txt"
    assert not stage.prepare("bench")


def test_where_mpi_can_not_be_had_that_is_told_and_all_else_goes_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise stage.script.SetupError("`uv pip install` ended with 1; mend it")

    stage.prepare()
    monkeypatch.setitem(stage.script.INSTALLS, "bench", fails)
    assert not stage.script.prepare_or_tell("bench", "")
    assert capsys.readouterr().err == "setup: `uv pip install` ended with 1; mend it; until then it goes on without MPI\n"
    assert not stage.prepare()
    monkeypatch.setitem(stage.script.INSTALLS, "docs", fails)
    with pytest.raises(stage.script.SetupError):
        stage.script.prepare_or_tell("docs", "")


def test_mpi_shares_no_package_with_what_labkit_needs(root: Path) -> None:
    names = {
        name: {line.split("==")[0] for line in (root / "requirements" / name).read_text().splitlines() if line[:1].strip()}
        for name in ("bench.txt", "constraints.txt", "docs.txt")
    }
    assert names["bench.txt"]
    assert not names["bench.txt"] & (names["constraints.txt"] | names["docs.txt"])


def test_a_python_without_pip_is_told_what_to_install(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = load(root)
    monkeypatch.setattr(script, "TOOLS", tmp_path)
    monkeypatch.setattr(script.sys, "executable", "/bin/false")
    with pytest.raises(
        script.SetupError, match=r"neither pip nor ensurepip; install one, e\.g\. `apt-get install python3\.\d+-venv`"
    ):
        script.uv_path()


def test_an_unknown_group_is_refused(root: Path) -> None:
    done = subprocess.run([sys.executable, str(root / "scripts" / "setup"), "lba"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "lba" in done.stderr
