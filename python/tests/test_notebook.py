"""The notebook runs, and what it shows is what its cells compute."""

import re
import runpy

import pytest

from conftest import ROOT

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("pandas")
# Also builds Matplotlib's cache of fonts. The first import on a machine may print that it does, which a cell must not.
pytest.importorskip("matplotlib.font_manager")

FILE = ROOT / "python/notebooks/cora.ipynb"
AGAIN = "run python/notebooks/run.py"
TOOLS = runpy.run_path(str(FILE.with_name("run.py")))
DECIMAL = re.compile(r"\d+\.\d+")


def committed():
    return nbformat.read(FILE, as_version=4)


def code_of(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(cell):
    """What a cell printed and the text of its result. A figure's text has only its size and is left out."""
    for output in cell.outputs:
        if output.output_type == "stream":
            yield output.text
        elif "image/png" not in output.data:
            yield output.data["text/plain"]


def kinds(cell):
    """What kinds of output a cell has, whichever comes first."""
    return sorted([output.output_type, *sorted(output.get("data", ()))] for output in cell.outputs)


def test_the_cells_run_and_show_what_the_file_shows(tmp_path, monkeypatch):
    # The user's own settings of IPython and Matplotlib must not change what is shown.
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    expected = committed()
    found = TOOLS["execute"](expected, ROOT)  # raises the error of a cell that fails

    outputs = [output for cell in code_of(found) for output in cell.outputs]
    assert sum("image/png" in output.get("data", ()) for output in outputs) >= 4
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []

    compared = set()
    for old, new in zip(code_of(expected), code_of(found)):
        assert kinds(old) == kinds(new), f"cell `{old.id}` shows something else: {AGAIN}"
        tags = set(old.metadata.get("tags", ()))
        compared |= tags
        if tags & {"same", "close"}:
            before, after = "".join(texts(old)), "".join(texts(new))
            if "close" in tags:
                # Processors with other instructions round otherwise, which may move an accuracy by a point.
                numbers = [[float(number) for number in DECIMAL.findall(text)] for text in (before, after)]
                assert numbers[1] == pytest.approx(numbers[0], abs=0.0101), f"cell `{old.id}`: {AGAIN}"
                before, after = (DECIMAL.sub("#", text) for text in (before, after))
            assert after == before, f"cell `{old.id}` prints something else: {AGAIN}"
    assert compared == {"same", "close"}


def test_the_file_is_complete_and_says_nothing_of_the_machine():
    text = FILE.read_text()
    assert len(text.encode()) < 300_000
    notebook = committed()
    nbformat.validate(notebook)
    cells = code_of(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), AGAIN
    assert all(cell.outputs for cell in cells if "print(" in cell.source or "plt.show()" in cell.source), AGAIN
    assert TOOLS["strip"](committed()) == notebook, AGAIN
    # Letters and slashes of images may look like any path.
    written = re.sub(r'"image/png": "[^"]*"', "", text)
    assert re.findall(r"(?<![\w.])/(?:work|tmp|home|root|Users)\b.{0,40}", written) == []
