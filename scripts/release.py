#!/usr/bin/env python3
"""Prepares, checks and tags a release.

    scripts/release.py prepare 0.2.0   # writes the version into Cargo.toml and Cargo.lock, and a section into CHANGELOG.md
    scripts/release.py check           # says what keeps this commit from being the release that Cargo.toml names
    scripts/release.py tag             # the same, then tags the commit; pushing the tag is left to you

A release is a commit with no other changes, whose version is the same in Cargo.toml, Cargo.lock and the newest section of
CHANGELOG.md, which has a date and says something. Nothing is left under "Unreleased". The version is newer than every tag
`vX.Y.Z`, and its own tag is missing or is this commit's. Exit code 1 if something is wrong, with all of it said.
"""

import argparse
import datetime
import re
import subprocess
import sys
from pathlib import Path

VERSION = r"(\d+)\.(\d+)\.(\d+)"
# The workspace's own version, and those by which its crates need each other.
DECLARED = re.compile(r'^(version = |gnnc-\w+ = \{ path = "\w+", version = )"([^"]*)"', re.M)
# The fuzz targets are no part of a release.
LOCKED = re.compile(r'^name = "(gnnc(?:-(?!fuzz")\w+)?)"\nversion = "([^"]*)"$', re.M)
SECTION = re.compile(r"^## \[(.*?)\](?: - (.*))?$", re.M)


def numbers(version):
    """A version as numbers that can be compared; None if it is not one."""
    found = re.fullmatch(VERSION, version)
    return tuple(map(int, found.groups())) if found else None


def git(root, *words):
    """What a command of git prints."""
    return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout.rstrip()


def declared(root):
    """The version that Cargo.toml says first."""
    return DECLARED.search((root / "Cargo.toml").read_text())[2]


def sections(root):
    """Names, dates and texts of the sections of the changelog, the newest first."""
    text = (root / "CHANGELOG.md").read_text()
    found = list(SECTION.finditer(text))
    ends = [*(section.start() for section in found[1:]), len(text)]
    return [(section[1], section[2], text[section.end() : end].strip()) for section, end in zip(found, ends)]


def wrong_versions(root, version):
    """Versions of files that are not this one."""
    if numbers(version) is None:
        yield f"Cargo.toml: found the version {version}, expected three numbers such as 0.2.0"
    for name, file, pattern in (("Cargo.toml", "Cargo.toml", DECLARED), ("Cargo.lock", "Cargo.lock", LOCKED)):
        for found in pattern.finditer((root / file).read_text()):
            if found[2] != version:
                yield f"{name}: found {found[0].splitlines()[-1]}, expected {version} as in its first lines; run prepare {version}"


def wrong_changelog(root, version):
    """What the changelog lacks."""
    found = sections(root)
    if found and found[0][0] == "Unreleased":
        if found[0][2]:
            yield f"CHANGELOG.md: found lines under Unreleased, expected them in a section [{version}]; run prepare {version}"
        found = found[1:]
    if not found or found[0][0] != version:
        newest = f"[{found[0][0]}]" if found else "none"
        yield f"CHANGELOG.md: expected [{version}] as the newest section, found {newest}; run prepare {version}"
        return
    _, date, text = found[0]
    try:
        day = datetime.date.fromisoformat(date or "")
    except ValueError:
        yield f"CHANGELOG.md: found the date {date}, expected one such as 2026-01-31 behind [{version}]"
    else:
        if day > datetime.date.today():
            yield f"CHANGELOG.md: {day} of [{version}] is in the future"
    if not re.search(r"^- ", text, re.M):
        yield f"CHANGELOG.md: the section [{version}] lists no change"


def wrong_commit(root, version):
    """What keeps the commit from being tagged."""
    changed = git(root, "status", "--porcelain")
    if changed:
        yield f"found changes that are not committed: {', '.join(line[3:] for line in changed.splitlines()[:5])}"
    tags = git(root, "tag", "--list", "v*").split()
    head, own = git(root, "rev-parse", "HEAD"), f"v{version}"
    if own in tags and git(root, "rev-parse", f"{own}^{{commit}}") != head:
        yield f"the tag {own} is that of another commit; choose the next version"
    known = {numbers(tag[1:]): tag for tag in tags if tag != own}
    newest = max((one for one in known if one), default=None)
    if newest and numbers(version) and newest > numbers(version):
        yield f"the tag {known[newest]} is newer than {version}; choose a later version"


def check(root):
    """Everything that is wrong."""
    version = declared(root)
    return [*wrong_versions(root, version), *wrong_changelog(root, version), *wrong_commit(root, version)]


def prepare(root, version):
    """Writes a version into the files that say it."""
    if numbers(version) is None:
        sys.exit(f"found the version {version}, expected three numbers such as 0.2.0")
    manifest = root / "Cargo.toml"
    manifest.write_text(DECLARED.sub(rf'\g<1>"{version}"', manifest.read_text()))
    lock = root / "Cargo.lock"
    lock.write_text(LOCKED.sub(rf'name = "\g<1>"\nversion = "{version}"', lock.read_text()))
    found = sections(root)
    if version in [name for name, _, _ in found]:
        return
    if not found or found[0][0] != "Unreleased" or not found[0][2]:
        sys.exit("CHANGELOG.md: expected lines under `## [Unreleased]`, found none to release")
    changelog = root / "CHANGELOG.md"
    heading = f"## [Unreleased]\n\n## [{version}] - {datetime.date.today()}"
    changelog.write_text(changelog.read_text().replace("## [Unreleased]", heading, 1))


def main(arguments):
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1], help="the repository")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("prepare", help="write a version into the files that say it").add_argument("version")
    commands.add_parser("check", help="say what keeps this commit from being a release")
    commands.add_parser("tag", help="check, then tag")
    options = parser.parse_args(arguments)
    if options.command == "prepare":
        return prepare(options.root, options.version)
    wrong = check(options.root)
    if wrong:
        sys.exit("\n".join(wrong))
    tag = f"v{declared(options.root)}"
    if options.command == "tag" and tag not in git(options.root, "tag").split():
        git(options.root, "tag", "--annotate", tag, "--message", f"gnnc {tag[1:]}")
    print(tag)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
