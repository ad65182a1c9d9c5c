"""The report's section of images: first and last image of each camera, and the growth curve."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import asdict
from datetime import datetime, tzinfo
from html import escape

from choroid.report.chart import chart
from choroid.report.pieces import section
from choroid.report.wording import moment
from controller.figures.course import Slot
from controller.figures.image_record import ImageRecord, Picture
from controller.figures.records import Period
from controller.imaging.time_lapse import DAY_S, GROWTH_IMAGES, thinned

CURVE_POINTS = 400


def images(period: Period, zone: tzinfo) -> str:
    """Return the section; an empty text if no image was taken."""
    if not period.images:
        return ""
    return section("images", "Images", "".join(_camera(record, period, zone) for record in period.images))


def growth_over(record: ImageRecord) -> dict[str, float] | None:
    """Return the growth of the area over the period, of the tissue that is there at its end.

    None for too few images, or without the extra `[imaging]`.
    """
    try:
        from controller.imaging.growth import growth_of
    except ModuleNotFoundError:
        return None
    some = thinned(record.of_the_present_tissue, GROWTH_IMAGES)
    found = growth_of([at / DAY_S for at, _, _ in some], [area for _, area, _ in some])
    return None if found is None else asdict(found)


def _camera(record: ImageRecord, period: Period, zone: tzinfo) -> str:
    body = f"<h3>{escape(record.chamber)} ({escape(record.camera)})</h3><p>{escape(_summary(record, zone))}</p>"
    if record.first is not None and record.last is not None:
        same = record.first.frame.utc == record.last.frame.utc
        shown = [("Last", record.last)] if same else [("First", record.first), ("Last", record.last)]
        body += f'<div class="frames">{"".join(_figure(name, of, record.chamber, zone) for name, of in shown)}</div>'
    slots = [Slot(at, area, area - sd, area + sd) for at, area, sd in thinned(record.areas, CURVE_POINTS)]
    title = f"projected area in {record.chamber}; the bar is its standard deviation"
    return body + chart(title, "mm²", slots, (period.begin, period.end), zone=zone, dots=True)


def _summary(record: ImageRecord, zone: tzinfo) -> str:
    growth = growth_over(record)
    spoilt = ", ".join(f"{count} {verdict}" for verdict, count in record.spoilt.most_common())
    text = f"{record.taken} images, {len(record.areas)} of them usable" + (f" (others: {spoilt})." if spoilt else ".")
    if growth is None:
        return f"{text} Growth: no data; it takes three usable images over half a day, and choroid[imaging]."
    ends = f"{100 * growth['low']:+.1f} to {100 * growth['high']:+.1f}"
    since = "" if record.placed_s is None else f"Since the tissue came here ({moment(record.placed_s, zone)}), the"
    return f"{text} {since or 'The'} area changed by {100 * growth['per_day']:+.1f} % a day (90 % interval {ends} %)."


def _figure(name: str, picture: Picture, chamber: str, zone: tzinfo) -> str:
    frame, features = picture.frame, picture.frame.features or {}
    at = moment(datetime.fromisoformat(frame.utc).timestamp(), zone)
    facts = f"area {features['area_mm2']:.2f} mm², diameter {features['diameter_mm']:.2f} mm"
    caption = f"<figcaption>{name}: {at}; {facts}</figcaption>"
    if not picture.content:
        return f"<figure><p>No data: the file of this image is gone.</p>{caption}</figure>"
    alt = escape(f"Brightfield image of {chamber}, {at}: {facts}")
    src = f"data:{picture.media_type};base64,{b64encode(picture.content).decode()}"
    outline = (
        f'<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" aria-hidden="true">'
        f'<polygon points="{escape(frame.outline)}"/></svg>'
    )
    return f'<figure><div><img src="{src}" alt="{alt}">{outline}</div>{caption}</figure>'
