"""Memory of training: what each member holds of parameters, gradients and optimizer.

Sources: Rajbhandari et al. 2020 (ZeRO, arXiv:1910.02054, table 1 and figure 1) for mixed precision; the engines of
torch.distributed and of outer steps for single precision.
"""

from __future__ import annotations

MIXED_PARAMETER_BYTES = 2.0
MIXED_GRADIENT_BYTES = 2.0
MIXED_OPTIMIZER_BYTES = 12.0
"""ZeRO's K: parameters, momentum and variance of Adam in single precision, bytes a parameter."""
SINGLE_BYTES = 4.0
ADAM_BYTES = 8.0
"""Momentum and variance of Adam in single precision, bytes a parameter."""
STAGES = (0, 1, 2, 3)


def zero_bytes(parameters: float, members: int, stage: int, *, optimizer_bytes: float = MIXED_OPTIMIZER_BYTES) -> float:
    """Return the memory of model states at each member in mixed precision (bytes), without activations.

    Args:
        parameters: Parameters of the model.
        members: How many members share the work.
        stage: 0 nothing is split; 1 the optimizer; 2 the gradients too; 3 the parameters too.
        optimizer_bytes: Bytes of the optimizer a parameter (K of the source).

    Raises:
        ValueError: The stage is not 0 to 3.
    """
    if stage not in STAGES:
        raise ValueError(f"stage {stage} of ZeRO: 0 to 3 exist")
    shares = [MIXED_PARAMETER_BYTES, MIXED_GRADIENT_BYTES, optimizer_bytes]
    split = len(shares) - stage
    whole, divided = sum(shares[:split]), sum(shares[split:])
    return parameters * (whole + divided / members)


def fsdp_bytes(members: int) -> float:
    """Return what FSDP2 holds in single precision with AdamW: its share of all states (bytes a parameter).

    Args:
        members: How many share parameters, gradients and optimizer.
    """
    return (2 * SINGLE_BYTES + ADAM_BYTES) / members
