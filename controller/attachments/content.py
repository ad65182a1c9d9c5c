"""Whether the content of an upload is what its question asks for: a file of a permitted type that really decodes."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Mapping

from PIL import Image, UnidentifiedImageError

from controller.recipes.answers import AnswerRefused
from protocols.answers import MEDIA_TYPES, AnswerForm

MAX_PIXELS = 60_000_000
"""Maximum number of pixels of an image: a small file may unpack into gigabytes."""
_FORMATS: Mapping[str, str] = {"jpg": "JPEG", "png": "PNG", "webp": "WEBP", "tif": "TIFF"}
"""Types of images, with their names in Pillow. Other formats of Pillow are never tried."""
_BEGINNINGS: Mapping[str, bytes] = {"pdf": b"%PDF-", "xlsx": b"PK\x03\x04"}


def media_type(form: AnswerForm, content: bytes, name: str) -> str:
    """Return the media type of an upload; the content decides, not its name.

    Args:
        form: What the question asks for.
        content: The file.
        name: Its name, for the message.

    Raises:
        AnswerRefused: It is too large, empty, damaged, or of another type.
    """
    if len(content) == 0:
        raise AnswerRefused(f"“{name}” is empty. Next: choose {form.wants}")
    if len(content) > form.max_bytes:
        raise AnswerRefused(
            f"“{name}” has {len(content) / 1e6:.1f} MB. Likely cause: full resolution of the camera. Next: choose"
            f" {form.wants}"
        )
    found = _image_type(content, name)
    if found is None:
        extension = name.rpartition(".")[2].lower()
        candidates = [each for each in form.types if each not in _FORMATS]
        candidates.sort(key=lambda each: each != extension)  # a text fits several types: the name chooses among these
        found = next((each for each in candidates if _is(each, content)), None)
    if found is None or found not in form.types:
        what = f"is of the type {found}" if found else "is of another type, or damaged"
        raise AnswerRefused(f"“{name}” {what}. Next: choose {form.wants}")
    return MEDIA_TYPES[found]


def _image_type(content: bytes, name: str) -> str | None:
    """Return the type of an image that decodes as a whole; None for content that is no image."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(content), formats=tuple(_FORMATS.values())) as image:
                width, height = image.size
                if width * height > MAX_PIXELS:
                    raise Image.DecompressionBombError
                image.load()
                return next(each for each, known in _FORMATS.items() if known == image.format)
    except UnidentifiedImageError:
        return None
    except Image.DecompressionBombError:
        raise AnswerRefused(
            f"“{name}” has too many pixels. Next: choose an image of at most {MAX_PIXELS / 1e6:g} million pixels"
        ) from None
    except (
        Exception
    ) as error:  # Pillow has no closed list of errors for a damaged file; each of them means: not readable
        raise AnswerRefused(
            f"“{name}” does not decode ({type(error).__name__}). Likely cause: it was cut off on its way. Next: take or"
            " send it again"
        ) from None


def _is(name: str, content: bytes) -> bool:
    begins = _BEGINNINGS.get(name)
    return content.startswith(begins) if begins is not None else _TEXTS[name](content)


def _text(content: bytes) -> bool:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return not any(ord(each) < 32 and each not in "\t\n\r" for each in text)


def _json(content: bytes) -> bool:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


_TEXTS: Mapping[str, Callable[[bytes], bool]] = {"csv": _text, "txt": _text, "json": _json}
