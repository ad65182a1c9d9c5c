"""An executor whose work are tasks on a Ray cluster (extra `bulk`)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import TracebackType
from typing import Any, TypeVar

from choroid.common.extras import load_extra

T = TypeVar("T")
RETRIES = 3
"""How often a task is run again whose worker process, or node, was lost; tasks give the same result each time."""


class RayExecutor(Executor):
    """Hands each call to Ray as one task. `address` is a cluster's, or `local` for one on this machine.

    Every node needs this release of Choroid. Raises :class:`UserError` when Ray is not installed.
    """

    def __init__(self, address: str) -> None:
        ray: Any = load_extra("ray", "bulk", needed_for="--ray", otherwise="leave --ray out")
        self._ray = ray
        ray.init(
            address=None if address == "local" else address,
            log_to_driver=False,
            include_dashboard=False,
            configure_logging=False,
        )

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """As :meth:`Executor.submit`; a task that fails raises its error where the result is read.

        A task whose worker was killed is run again, up to three times. One whose future is cancelled is ended.
        """
        task = self._ray.remote(max_retries=RETRIES)(fn).remote(*args, **kwargs)
        future: Future[T] = task.future()
        future.add_done_callback(lambda done: self._ray.cancel(task) if done.cancelled() else None)
        return future

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the cluster; tasks that are still running are given up."""
        self._ray.shutdown()
