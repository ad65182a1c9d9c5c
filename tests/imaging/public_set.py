"""Images that this project did not make: agreement of the analysis with masks that people drew.

`python -m tests.imaging.public_set` reports on the images in tests/imaging/public; with `IMAGES MASKS` on two folders whose
files have the same beginnings of their names, such as those of the data set 10.1038/s41597-024-03330-z.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from controller.imaging.quality import analyse

SHEET = Path(__file__).parent / "public" / "brain_organoids.png"
WIDTH, HEIGHT = 224, 168
PIXEL_UM = 10.0
"""Assumed: the images state no scale. It decides what is too small to be tissue (250 µm)."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """One image: intersection over union with the mask, area over the mask's, and why it is not used."""

    name: str
    iou: float
    area_ratio: float
    defects: str


def agreements(pairs: Iterable[tuple[str, NDArray[np.uint8], NDArray[np.bool_]]]) -> list[Agreement]:
    """Analyse images of eight bits and compare with their masks."""
    found = []
    for name, grey, mask in pairs:
        analysis = analyse(grey, 8, PIXEL_UM)
        tissue = np.zeros(mask.shape, dtype=bool) if analysis.tissue is None else analysis.tissue
        iou = float((tissue & mask).sum() / (tissue | mask).sum())
        found.append(Agreement(name, iou, float(tissue.sum() / mask.sum()), "+".join(analysis.defects)))
    return found


def shipped() -> Iterator[tuple[str, NDArray[np.uint8], NDArray[np.bool_]]]:
    """Return name, image and mask of the images in the repository."""
    sheet = np.asarray(Image.open(SHEET))
    for row, day in enumerate((2, 2, 8, 8, 10, 10, 16, 16, 30, 30)):
        part = sheet[row * HEIGHT : (row + 1) * HEIGHT]
        yield f"day {day}, laboratory {'AB'[row % 2]}", part[:, :WIDTH], part[:, WIDTH:] > 127


def of_folders(images: Path, masks: Path) -> Iterator[tuple[str, NDArray[np.uint8], NDArray[np.bool_]]]:
    """Return name, image and mask of two folders."""
    for path in sorted(images.iterdir()):
        mask = next((each for each in sorted(masks.iterdir()) if each.stem.startswith(path.stem)), None)
        if mask is not None:
            grey = np.asarray(Image.open(path).convert("L"))
            yield path.stem, grey, np.asarray(Image.open(mask).convert("L")) > 0


def main() -> None:
    """Print the agreement of each image, and the means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, metavar="IMAGES MASKS")
    folders = parser.parse_args().folders
    found = agreements(of_folders(*folders) if folders else shipped())
    for each in found:
        print(
            f"{each.name:<24} IoU {each.iou:.3f}  area {each.area_ratio:.3f} of the mask's  {each.defects or 'usable'}"
        )
    used = [each for each in found if not each.defects]
    error = np.median([abs(each.area_ratio - 1) for each in used])
    print(f"all {len(found)}: mean IoU {np.mean([each.iou for each in found]):.3f}")
    print(
        f"usable {len(used)}: mean IoU {np.mean([each.iou for each in used]):.3f}, median error of the area {error:.1%}"
    )


if __name__ == "__main__":
    main()
