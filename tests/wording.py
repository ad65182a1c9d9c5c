"""`python -m tests.wording`: refuse private metaphors and vague words; part of `make lint`.

tests/wording.json holds the number of banned words that each file still contains. The check fails when a file is above its
number, and when it is below, so that the numbers can only shrink. `--write` stores the present numbers, if their sum has not
grown. `--count` prints totals by package and by word.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "wording.json"
READ = (".py", ".md", ".js", ".html", ".css", ".yaml", ".yml", ".toml", ".proto", ".json", ".ipynb", ".sh")
PASSED_OVER = re.compile(
    r"^(docs/sources/|choroid/client/wire/|grid/wire/|tests/(test_)?wording\.(py|json)$|tests/docs/)|\.lock$|^LICENSE$"
)
"""Cited facts, generated code, and this check."""

BANNED: dict[str, str] = {
    r"doormans?|doormen": "authentication, access control",
    r"(?:front )?doors?": "interface, API, port, entry point",
    r"faces?": "interface, view",
    r"ears?": "receiver, detector",
    r"hears?|heard|hearing": "receive, read; “no reading”",
    r"deeds?": "action, record",
    r"house|houses": "system, controller, Choroid",
    r"rooms? of|floors? of": "package, layer",
    r"nobody": "no one named: say which role, client or process does not act",
    r"somebody|someone": "a person, an operator, a client",
    r"whoever|whomever": "the caller, the user, the client that …",
    r"(?:is|are|was|were|be|been|being|gets?|got) told": "is notified, is informed, receives",
    r"plainly": "(leave it out)",
    r"so long": "while, as long as, maximum duration",
    r"asides?": "moved to, except for, ignored",
    r"besides?": "next to, in addition to, in the same folder",
    r"befalls?|befell|befallen": "occurs, happens to, is injected",
    r"farewells?": "end message, disconnect",
    r"mend(?:s|ed|ing)?": "repair, correct, fix",
    r"couriers?": "sender, delivery",
    r"lobby|lobbies": "queue of unauthenticated connections",
    r"owes|owed": "is pending, must still",
    r"wish(?:es|ed)?": "request, target, goal",
    r"times life|× life": "× real time",
    r"strangers?": "unknown user, unknown client",
    r"crowds?": "many connections",
    r"honest(?:ly|y)?": "(leave it out), accurate",
    r"(?:is|are|not) content": "passes, is satisfied, is clear",
    r"ailing": "slow, failing",
    r"amiss|awry": "wrong, faulty",
    r"alike": "both … and …, the same",
    r"anew": "again, new",
    r"as ever": "as before, unchanged",
    r"in vain": "without effect",
    r"goes by": "uses, depends on",
    r"ours": "of this controller, of this rig",
    r"greatest": "maximum, largest",
    r"thrown away|throws? away": "discarded, discard",
    r"eats?|eaten": "uses, consumes",
    r"lest|nought|naught|whence|thither|hither|betimes": "(rephrase)",
    r"least_(?!squares)\w+|(?<=_)least": "min_…",
    r"most_(?!common)\w+|(?<=_)most": "max_…",
}
"""Patterns (whole words, case-insensitive) and their plain alternatives."""


def _compiled() -> re.Pattern[str]:
    """Return one pattern with a group per entry of :data:`BANNED`; underscores and digits bound a word like spaces."""
    words = "|".join(f"(?P<w{number}>{entry})" for number, entry in enumerate(BANNED))
    return re.compile(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])", re.IGNORECASE)


PATTERN = _compiled()
ALTERNATIVES = {f"w{number}": plain for number, plain in enumerate(BANNED.values())}


@dataclass(frozen=True, slots=True)
class Hit:
    """One banned word: where it stands, and what to write instead."""

    path: str
    line: int
    word: str
    plain: str

    def __str__(self) -> str:
        """`path:line: “word”: write …`."""
        return f"{self.path}:{self.line}: “{self.word}”: write {self.plain}"


def hits(path: str, text: str) -> Iterator[Hit]:
    """Yield every banned word of a text, in order."""
    for number, line in enumerate(text.splitlines(), 1):
        for match in PATTERN.finditer(line):
            yield Hit(path, number, match[0], ALTERNATIVES[match.lastgroup or ""])


def texts() -> Iterator[tuple[str, str]]:
    """Yield path and text of each tracked file that is checked."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if name.endswith(READ) and not PASSED_OVER.search(name) and path.is_file():
            yield name, path.read_text(encoding="utf-8")


def judge(found: dict[str, list[Hit]], allowed: dict[str, int]) -> list[str]:
    """Return what fails: each hit of a file above its number, and each file below it.

    Args:
        found: Hits by path.
        allowed: Numbers by path, as in the table; a path without a number has zero.
    """
    lines = []
    for path in sorted(found.keys() | allowed.keys()):
        here, limit = found.get(path, []), allowed.get(path, 0)
        if len(here) > limit:
            lines.append(f"{path}: {len(here)} banned words, {limit} allowed:")
            lines += [f"  {hit}" for hit in here]
        elif len(here) < limit:
            lines.append(
                f"{path}: {len(here)} banned words, the table says {limit}. Run: python -m tests.wording --write"
            )
    return lines


def summary(found: dict[str, list[Hit]]) -> str:
    """Return totals by top-level folder and by word, for reports."""
    folders = Counter(path.split("/")[0] for path, here in found.items() for _ in here)
    words = Counter(hit.plain for here in found.values() for hit in here)
    lines = [f"{count:6}  {name}" for name, count in folders.most_common()]
    lines += [f"{sum(folders.values()):6}  total", ""]
    return "\n".join(lines + [f"{count:6}  → {plain}" for plain, count in words.most_common()])


def main(words: Sequence[str] | None = None) -> int:
    """Check, count or write; return 1 when the check fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.wording", description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the present numbers, if their sum has not grown")
    parser.add_argument("--count", action="store_true", help="print totals by package and by word")
    parser.add_argument("--show", metavar="PATH", help="list the hits of the files whose path starts so")
    options = parser.parse_args(words)
    found = {name: here for name, text in texts() if (here := list(hits(name, text)))}
    allowed: dict[str, int] = json.loads(TABLE.read_text(encoding="utf-8"))
    if options.count:
        print(summary(found))
        return 0
    if options.show is not None:
        print(
            "\n".join(str(hit) for path, here in sorted(found.items()) if path.startswith(options.show) for hit in here)
        )
        return 0
    if options.write:
        return write(found, allowed)
    failed = judge(found, allowed)
    print("\n".join(failed) if failed else f"wording: {sum(map(len, found.values()))} banned words left, none new")
    return 1 if failed else 0


def write(found: dict[str, list[Hit]], allowed: dict[str, int]) -> int:
    """Store the present numbers; return 1, and store nothing, when their sum has grown."""
    now = {path: len(here) for path, here in sorted(found.items())}
    if sum(now.values()) > sum(allowed.values()):
        print(f"{sum(now.values())} banned words, {sum(allowed.values())} in the table: it may only shrink")
        return 1
    TABLE.write_text(json.dumps(now, indent=0) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
