"""What the site needs beside MkDocs; mkdocs.yml names this file."""

import re


def on_page_content(html, **_):
    """Code in tables has `|` as `\\|`, as code hosts want it; Python's Markdown keeps the backslash."""
    return re.sub(r"<td\b.*?</td>", lambda cell: cell[0].replace("\\|", "|"), html, flags=re.S)


def on_page_markdown(markdown, **_):
    """The words behind a language, such as `gir set=depth=8`, are for gnnc's tests."""
    return re.sub(r"^```(\w+) .*$", r"```\1", markdown, flags=re.M)
