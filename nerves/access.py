"""Issue, list, renew and revoke the credentials of agents while the engine runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nerves.credentials import AgentCredential, AgentCredentials, AgentRole
from nerves.envelope import AgentBudget


class AgentAccess:
    """The credentials of one rig's agents. When a call returns, its change is in force: a revoked agent has no lease."""

    def __init__(self, credentials: AgentCredentials, apply: Callable[[], Awaitable[None]]) -> None:
        """`apply` has the engine that runs, if any, read the credentials."""
        self._credentials = credentials
        self._apply = apply

    def every(self) -> list[AgentCredential]:
        """Return every credential, the revoked too. Raises :class:`CredentialsProblem`."""
        return self._credentials.every()

    async def issue(self, name: str, role: AgentRole, electrodes: tuple[int, ...] | None, budget: AgentBudget) -> str:
        """Add an agent; return its token, which is shown once. Raises :class:`CredentialsProblem`."""
        token = self._credentials.issue(name, role, electrodes=electrodes, budget=budget)
        await self._apply()
        return token

    async def renew(self, name: str) -> str:
        """Replace the token of an agent; return the new one. Raises :class:`CredentialsProblem`."""
        token = self._credentials.renew(name)
        await self._apply()
        return token

    async def revoke(self, name: str) -> None:
        """Make the token of an agent invalid. Raises :class:`CredentialsProblem`."""
        self._credentials.revoke(name)
        await self._apply()
