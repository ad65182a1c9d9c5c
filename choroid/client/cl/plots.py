"""Drawings of spikes and stimulations, with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from choroid.client.cl.readings import BEFORE, Spike
from choroid.client.errors import optional


def uV_formatter(value: float, _position: object) -> str:
    """Return the label of a tick of an axis; `matplotlib.ticker.FuncFormatter` calls it.

    Args:
        value: Where the tick is (µV).

    Returns:
        The label.
    """
    return f"{value:g} µV"


def plot_spike(
    spike: Any,
    figsize: tuple[float, float] = (6, 2),
    title: str | None = None,
    save_path: str | None = None,
    ax: Any = None,
) -> None:
    """Plot the samples of a spike (µV).

    Args:
        spike: A :class:`Spike`, or a row (timestamp, channel, samples) of a recording.
        figsize: Width and height of a new figure (inch).
        title: Title; None means the channel and the timestamp.
        save_path: File to write; None shows the figure.
        ax: Axes to draw into, which are then neither written nor shown; None makes a figure.

    Raises:
        MissingPackage: matplotlib is not installed.
    """
    row = (spike.timestamp, spike.channel, spike.samples) if isinstance(spike, Spike) else spike
    timestamp, channel, samples = row
    figure, axes = (None, ax) if ax is not None else _figure(figsize)
    axes.plot(samples)
    axes.axvline(BEFORE, color="grey", linewidth=0.8, linestyle=":")
    axes.yaxis.set_major_formatter(uV_formatter)
    axes.set_title(title or f"channel {channel}, frame {timestamp}")
    if figure is not None:
        finish(figure, save_path)


def plot_events(
    spikes: NDArray[Any],
    stims: NDArray[Any],
    window_s: tuple[float, float],
    channels: Sequence[int],
    figsize: tuple[float, float],
    title: str,
    save_path: str | None,
) -> None:
    """Plot spikes and stimulations of each channel over time.

    Args:
        spikes: Channel and time (s) of each, shape (n, 2).
        stims: The same of each delivered pulse.
        window_s: Beginning and end of the time axis (s).
        channels: The channels that are shown.
        figsize: Width and height (inch).
        title: Title of the figure.
        save_path: File to write; None shows the figure.

    Raises:
        MissingPackage: matplotlib is not installed.
    """
    figure, axes = _figure(figsize)
    for events, colour in ((spikes, "black"), (stims, "red")):
        shown = events[np.isin(events[:, 0], channels)]
        axes.plot(shown[:, 1], shown[:, 0], "|", color=colour, markersize=4)
    axes.set(xlim=window_s, xlabel="time (s)", ylabel="channel", title=title)
    finish(figure, save_path)


def _figure(figsize: tuple[float, float]) -> tuple[Any, Any]:
    figure, axes = optional("matplotlib.pyplot", "cl", "a plot").subplots(figsize=figsize)
    return figure, axes


def finish(figure: Any, save_path: str | None) -> None:
    """Write a figure and close it, or show it.

    Args:
        figure: The figure.
        save_path: File to write; None shows it.
    """
    pyplot = optional("matplotlib.pyplot", "cl", "a plot")
    if save_path is None:
        pyplot.show()
        return
    figure.savefig(save_path, bbox_inches="tight")
    pyplot.close(figure)
