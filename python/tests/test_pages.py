"""The Python on the pages runs."""

import re

import pytest

from conftest import ROOT

pytest.importorskip("torch_geometric")


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def test_the_first_page_has_a_short_program_that_runs(tmp_path, monkeypatch, capsys):
    (code,) = blocks("README.md")
    assert len(code.splitlines()) <= 15
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "page"})
    assert "chosen" in capsys.readouterr().out


def test_the_programs_of_the_page_about_python_run_one_after_the_other(tmp_path, monkeypatch):
    found = blocks("docs/python.md")
    assert len(found) > 3
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    names = {"__name__": "page"}
    for code in found:
        exec(compile(code, "docs/python.md", "exec"), names)
