"""Images of the tissue: the newest of each camera, and the frames of its time-lapse."""

from __future__ import annotations

from pydantic import BaseModel


class ImageFeatures(BaseModel):
    """What an image shows of the tissue; `area_sd_mm2` is a standard deviation, `circularity` 1 for a disc."""

    area_mm2: float
    area_sd_mm2: float
    diameter_mm: float
    feret_mm: float
    circularity: float
    solidity: float
    rim_width_um: float
    opacity: float
    core_opacity: float
    entropy_bits: float


class ImageGrowth(BaseModel):
    """Relative change of the area per day with its 90 % interval, over the images of the last `span_d` days."""

    per_day: float
    low: float
    high: float
    images: int
    span_d: float


class FrameModel(BaseModel):
    """One image: when it was taken, whether its figures may be used and why not, and the outline of the tissue.

    `src` is the address of its preview, null for an image that was not kept. `outline` holds points “x,y x,y …” in
    thousandths of width and height. `features` of an unusable image are for people to look at. `objects` counts what has
    the outline of tissue; `note` says what of it was not measured, and why the earlier images speak against this one.
    """

    utc: str
    src: str | None
    usable: bool
    verdict: str
    features: ImageFeatures | None
    growth: ImageGrowth | None
    outline: str
    objects: int
    note: str


class CameraImages(BaseModel):
    """A camera: its chamber, its newest image (null before the first), the newest usable one, and what is wrong with it."""

    camera: str
    chamber: str
    every_s: float
    newest: FrameModel | None
    usable: FrameModel | None
    frames: int
    problem: str


class ImagesModel(BaseModel):
    """The cameras of a rig."""

    cameras: list[CameraImages]


class TimeLapseModel(BaseModel):
    """Frames of one camera at equal distances in its list of images, oldest first, the first and the last among them."""

    camera: str
    chamber: str
    frames: list[FrameModel]
