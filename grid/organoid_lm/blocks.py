"""Attention and feed-forward blocks, normalised before each."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Let tokens look at others, in several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, looking: Tensor, at: Tensor, there: Tensor | None = None) -> Tensor:
        """Return what each token has seen.

        Args:
            looking: Tokens that look, shape (rows, n, width).
            at: Tokens that are looked at, shape (rows, m, width).
            there: Which of them exist, shape (rows, m); None: all.
        """
        rows, count, width = looking.shape
        query = self.query(looking).view(rows, count, self.heads, -1).transpose(1, 2)
        key, value = self.key_value(at).view(rows, at.shape[1], 2, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        mask = None if there is None else there[:, None, None, :]
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        found: Tensor = self.out(seen.transpose(1, 2).reshape(rows, count, width))
        return found


class FeedForward(nn.Module):
    """Two layers for each token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, 4 * width)
        self.outer = nn.Linear(4 * width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the tokens with what the layers add."""
        added: Tensor = self.outer(functional.gelu(self.inner(self.norm(tokens))))
        return tokens + added


class Cross(nn.Module):
    """Let tokens look at others, then feed forward."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.norm_at = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed = FeedForward(width)

    def forward(self, looking: Tensor, at: Tensor, there: Tensor | None = None) -> Tensor:
        """Return the tokens that looked, with what was added."""
        seen = self.attention(self.norm(looking), self.norm_at(at), there)
        found: Tensor = self.feed(looking + seen)
        return found


class Own(nn.Module):
    """Let tokens look at one another, then feed forward."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed = FeedForward(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the tokens with what was added."""
        normed = self.norm(tokens)
        found: Tensor = self.feed(tokens + self.attention(normed, normed))
        return found


def started(model: nn.Module, seed: int) -> None:
    """Draw the weights of all layers by a seed, whatever was drawn before: normal, width 0.02 as in GPT-2, biases 0."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in sorted(model.named_parameters()):
            if value.dim() > 1:
                value.normal_(0.0, value.shape[-1] ** -0.5, generator=generator)
            elif name.endswith("bias"):
                value.zero_()
