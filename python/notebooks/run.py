"""Executes the notebooks of this folder and writes them back with their outputs.

    target/python/check/bin/python python/notebooks/run.py                # cora.ipynb
    target/python/check/bin/python python/notebooks/run.py FILE.ipynb ..  # other notebooks

Run it after each change of a notebook or of what it shows. The environment is that of python/check.sh, with the packages of
python/tests/requirements.txt. A notebook whose cell fails is not written. What depends on the machine or the time of the
run, such as the version of Python and timestamps, is left out.
"""

import copy
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent


def execute(notebook, folder, timeout=300):
    """Returns an executed copy of a notebook; its cells run in `folder`. Raises `CellExecutionError` if one fails."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        # Otherwise the prints of a cell may end up in one output or in several, depending on timing.
        coalesce_streams=True,
        # The kernel warns on each start that its connections on this machine are not encrypted.
        extra_arguments=["--log-level=ERROR"],
    ).execute()
    return notebook


def strip(notebook):
    """Removes what depends on the machine or the time of the run."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    for cell in notebook.cells:
        # Editors keep timestamps and their own settings here; the test reads only the tags.
        cell.metadata = nbformat.from_dict({key: cell.metadata[key] for key in ("tags",) if key in cell.metadata})
    return notebook


def main(paths):
    for path in paths or [HERE / "cora.ipynb"]:
        # The folder of the notebook is where Jupyter would run it.
        path = Path(path).resolve()
        notebook = strip(execute(nbformat.read(path, as_version=4), path.parent))
        nbformat.validate(notebook)
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main(sys.argv[1:])
