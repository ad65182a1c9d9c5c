"""The model as the boards `held-out-spikes` and `decode-stimulus` call it, and its export to ONNX."""

from __future__ import annotations

import io

import torch
from torch import Tensor, nn

from .model import OrganoidModel
from .statistics import statistics

OPSET = 18
"""The sandbox of the boards takes 9 to 24."""


class ExpectedSpikes(nn.Module):
    """`held-out-spikes`: what follows each window. The figures of the electrodes come from the windows themselves."""

    def __init__(self, model: OrganoidModel, place_um: Tensor, embedded: Tensor | None = None) -> None:
        """Take a model.

        Args:
            model: The model.
            place_um: Of the electrodes, from the middle of the array, shape (E, 2).
            embedded: Embeddings of the electrodes where the board has one known specimen, shape (E, unit_width).
        """
        super().__init__()
        self.model = model
        self.place_um = nn.Buffer(place_um)
        self.embedded = None if embedded is None else nn.Buffer(embedded)

    def forward(self, past: Tensor) -> Tensor:
        """Return the expected spikes, shape (windows, E), for `past`, shape (windows, bins, E)."""
        figures = statistics(past)
        units = self.model.units(figures[None], self.place_um[None], self.embedded)
        wide = units._replace(
            tokens=units.tokens.expand(past.shape[0], -1, -1), log_mean=units.log_mean.expand(past.shape[0], -1)
        )
        return torch.exp(self.model.expected(wide, past, None, None)).sum(dim=2)


class StimulatedElectrode(nn.Module):
    """`decode-stimulus`: a score for each of the sites, for one specimen whose figures are known from a recording."""

    def __init__(
        self, model: OrganoidModel, place_um: Tensor, figures: Tensor, sites: Tensor, embedded: Tensor | None = None
    ) -> None:
        """Take a model.

        Args:
            model: The model.
            place_um: As for :class:`ExpectedSpikes`.
            figures: Of the electrodes, shape (E, `FIGURES`).
            sites: The electrodes of the classes.
            embedded: Embeddings of the electrodes, shape (E, unit_width).
        """
        super().__init__()
        self.model = model
        self.place_um, self.figures, self.sites = nn.Buffer(place_um), nn.Buffer(figures), nn.Buffer(sites)
        self.embedded = None if embedded is None else nn.Buffer(embedded)

    def forward(self, spikes: Tensor) -> Tensor:
        """Return logits, shape (trials, sites), for `spikes`, shape (trials, bins, E)."""
        units = self.model.units(self.figures[None], self.place_um[None], self.embedded)
        wide = units._replace(tokens=units.tokens.expand(spikes.shape[0], -1, -1))
        return self.model.located(wide, spikes)[:, self.sites]


def exported(model: nn.Module, shape: tuple[int, ...], given: str, returned: str) -> bytes:
    """Return the ONNX file of a board's model.

    Args:
        model: As the board calls it.
        shape: Of its input.
        given: Name of its input.
        returned: Name of its output.
    """
    model.eval()
    program = torch.onnx.export(
        model,
        (torch.zeros(shape),),
        dynamo=True,
        verbose=False,
        opset_version=OPSET,
        input_names=[given],
        output_names=[returned],
    )
    file = io.BytesIO()
    program.save(file)
    return file.getvalue()
