"""The protocols that one rig may start: those that are shipped, the laboratory's own files, and uploaded ones."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controller.journal.journal import Journal
from controller.recipes.catalogue import find, shipped
from controller.recipes.file import RecipeError
from controller.rig.description import Rig
from controller.runs.library import LibraryError, ProtocolLibrary
from controller.runs.python_conversation import described, known_recipe
from controller.runs.python_text import PythonText
from protocols.registry import Recipe, UnknownProtocol, get


class ProtocolCatalogue:
    """Finds protocols by name.

    Args:
        rig: The rig that they are for.
        journal: Where the first start of a file that was not reviewed is recorded.
        known: The shipped protocols (default: all).
        recipes: A folder with the laboratory's own, one NAME.yaml or NAME.py each.
        library: The uploaded protocols.
    """

    def __init__(
        self,
        rig: Rig,
        journal: Journal,
        *,
        known: Mapping[str, Recipe] | None = None,
        recipes: Path | None = None,
        library: ProtocolLibrary | None = None,
    ) -> None:
        self._rig = rig
        self._journal = journal
        self._shipped = shipped() if known is None else known
        self._recipes = recipes
        self._library = library

    def all(self) -> Mapping[str, Recipe]:
        """Return every protocol that may be started, by name; recipes of one's own that are not sound are left out."""
        found = dict(self._shipped)
        for path in sorted(self._recipes.glob("*.yaml")) if self._recipes is not None else ():
            with contextlib.suppress(UnknownProtocol, RecipeError, OSError):
                found.setdefault(path.stem, find(path.stem, own=self._recipes))
        for name, version in ({} if self._library is None else self._library.released()).items():
            with contextlib.suppress(LibraryError, RecipeError):
                if name not in found and self._library is not None:
                    found[name] = self._library.recipe(version)
        return found

    async def to_start(self, name: str, user: str, reason: str) -> Recipe:
        """Return a protocol by its name; one of a Python file computes in a locked process of its own.

        A file that a person has put on this machine has no release; a row says whose start let it run, and is on the disk
        before anything of the text runs.

        Raises:
            UnknownProtocol: There is none of that name.
            RecipeError: Its file is not sound.
        """
        source = self._python(name)
        if source is None:
            return self._find(name)  # also those of the library
        inside, _ = source.declared()
        if inside != name:
            raise UnknownProtocol(f"{source.path} is called “{inside}” inside. Next: start it by that name")
        row = {"name": name, "sha256": source.sha256, "file": str(source.path), "user": user, "reason": reason}
        self._journal.append("protocol.unreviewed", row)
        await self._journal.commit()
        return await described(source, self._rig)

    def of_run(self, body: Mapping[str, Any]) -> Recipe | None:
        """Return the protocol of a run that is taken up; None if it is not there, or not what it was.

        Args:
            body: The row of the run's start.
        """
        recipe: Recipe | None = None
        with contextlib.suppress(UnknownProtocol, RecipeError, LibraryError, OSError):
            source = self._python(body["protocol"]) if "text_sha256" in body else None
            if self._library is not None and body.get("version_sha256"):
                recipe = self._library.recipe(self._library.version(body["version_sha256"]))
            elif source is None:
                recipe = self._find(body["protocol"])
            elif source.sha256 == body["text_sha256"]:
                recipe = known_recipe(source, self._rig, body["protocol"], body["source_sha256"])
        return recipe if recipe is not None and recipe.source_sha256 == body["source_sha256"] else None

    def _python(self, name: str) -> PythonText | None:
        """Return the laboratory's own Python protocol of that name, if there is one."""
        path = None if self._recipes is None or name in self._shipped else self._recipes / f"{name}.py"
        return None if path is None or "/" in name or not path.is_file() else PythonText.read(path)

    def _find(self, name: str) -> Recipe:
        own = self._recipes is not None and name not in self._shipped and (self._recipes / f"{name}.yaml").exists()
        return find(name, own=self._recipes) if own else get(name, self.all())
