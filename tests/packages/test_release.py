"""What scripts/release.py refuses and does, in a small repository."""

import datetime
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "release.py"
MANIFEST = '[workspace.package]\nversion = "0.1.0"\n\n[workspace.dependencies]\ngnnc-ir = { path = "ir", version = "0.1.0" }\negg = "0.11"\n'
LOCK = "".join(
    f'[[package]]\nname = "{name}"\nversion = "{version}"\n\n'
    for name, version in [("egg", "0.11.0"), ("gnnc", "0.1.0"), ("gnnc-fuzz", "0.0.0"), ("gnnc-ir", "0.1.0")]
)
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- Plans.\n"


class Release(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name, text in (("Cargo.toml", MANIFEST), ("Cargo.lock", LOCK), ("CHANGELOG.md", CHANGELOG)):
            (self.root / name).write_text(text)
        self.git("init", "--quiet")
        self.commit()

    def git(self, *words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        done = subprocess.run(["git", *identity, *words], cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "Change")

    def run_script(self, *words):
        identity = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        command = [sys.executable, SCRIPT, "--root", self.root, *words]
        return subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", **identity})

    def refused(self, *parts):
        done = self.run_script("check")
        self.assertEqual(done.returncode, 1, done.stdout)
        for part in parts:
            self.assertIn(part, done.stderr)
        return done.stderr

    def replace(self, name, old, new):
        path = self.root / name
        text = path.read_text()
        self.assertIn(old, text)
        path.write_text(text.replace(old, new))

    def test_a_release_is_prepared_checked_and_tagged(self):
        self.refused("lines under Unreleased", "[0.1.0] as the newest section, found none")
        done = self.run_script("prepare", "0.2.0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused("not committed: CHANGELOG.md, Cargo.lock, Cargo.toml")
        self.commit()
        self.assertEqual(self.run_script("check").stdout, "v0.2.0\n")
        self.assertEqual(self.git("tag"), "")
        self.assertEqual(self.run_script("tag").stdout, "v0.2.0\n")
        self.assertEqual(self.run_script("tag").stdout, "v0.2.0\n")
        self.assertEqual(self.git("rev-parse", "v0.2.0^{commit}"), self.git("rev-parse", "HEAD"))
        text = (self.root / "CHANGELOG.md").read_text()
        self.assertIn(f"## [Unreleased]\n\n## [0.2.0] - {datetime.date.today()}\n\n### Added", text)
        manifest, lock = ((self.root / name).read_text() for name in ("Cargo.toml", "Cargo.lock"))
        self.assertEqual(manifest, MANIFEST.replace("0.1.0", "0.2.0"))
        self.assertEqual(lock, LOCK.replace("0.1.0", "0.2.0"))
        self.commit()
        self.refused("the tag v0.2.0 is that of another commit")

    def test_what_differs_is_named(self):
        self.run_script("prepare", "0.2.0")
        self.replace("Cargo.toml", 'path = "ir", version = "0.2.0"', 'path = "ir", version = "0.1.0"')
        self.replace("Cargo.lock", 'name = "gnnc"\nversion = "0.2.0"', 'name = "gnnc"\nversion = "0.1.0"')
        self.replace("CHANGELOG.md", f"[0.2.0] - {datetime.date.today()}", "[0.2.0]")
        self.commit()
        said = self.refused("found the date None", 'gnnc-ir = { path = "ir", version = "0.1.0"', "Cargo.lock")
        self.assertEqual(len(said.splitlines()), 3, said)

    def test_empty_and_future_sections_are_refused(self):
        self.run_script("prepare", "0.2.0")
        self.replace("CHANGELOG.md", "- Plans.\n", "")
        self.replace("CHANGELOG.md", str(datetime.date.today()), "2999-01-01")
        self.commit()
        self.refused("[0.2.0] is in the future", "[0.2.0] lists no change")

    def test_versions_only_grow(self):
        self.git("tag", "v0.10.0")
        self.run_script("prepare", "0.2.0")
        self.commit()
        self.refused("the tag v0.10.0 is newer than 0.2.0")

    def test_versions_are_three_numbers(self):
        done = self.run_script("prepare", "next")
        self.assertEqual(done.returncode, 1)
        self.assertIn("found the version next", done.stderr)
        self.assertEqual((self.root / "Cargo.toml").read_text(), MANIFEST)
        self.run_script("prepare", "0.2.0")
        self.assertEqual(self.run_script("prepare", "0.3.0").returncode, 1)


if __name__ == "__main__":
    unittest.main()
