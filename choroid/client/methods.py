"""Methods that are declared once for two clients: in one they block, in the other they are coroutines.

A declaration builds a :class:`ClientRequest`, and sends nothing. The client on which the method is called sends it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

P = ParamSpec("P")
T = TypeVar("T")
B = TypeVar("B")
A = TypeVar("A")


class ClientRequest(Generic[T]):
    """Describes what a method asks for: an answer of the type `T`, or a stream of them."""


class Blocking:
    """Waits for the answer in each of its methods, and returns it."""

    def _ask(self, request: Any) -> Any:
        raise NotImplementedError

    def _listen(self, request: Any) -> Generator[Any]:
        raise NotImplementedError


class Asynchronous:
    """Has coroutines for methods."""

    async def _ask(self, request: Any) -> Any:
        raise NotImplementedError

    def _listen(self, request: Any) -> AsyncGenerator[Any]:
        raise NotImplementedError


class Method(Generic[P, B, A]):
    """Returns `B` when it is called on a :class:`Blocking` client, and `A` on an :class:`Asynchronous` one."""

    def __init__(self, blocking: Callable[..., Any], asynchronous: Callable[..., Any]) -> None:
        self._blocking = blocking
        self._asynchronous = asynchronous

    @overload
    def __get__(self, client: Blocking, owner: Any) -> Callable[P, B]: ...
    @overload
    def __get__(self, client: Asynchronous, owner: Any) -> Callable[P, A]: ...
    @overload
    def __get__(self, client: None, owner: Any) -> Callable[..., Any]: ...
    def __get__(self, client: Any, owner: Any) -> Any:
        """Return the method of a client; without a client, the function of its class."""
        function = self._asynchronous if issubclass(owner, Asynchronous) else self._blocking
        return function if client is None else function.__get__(client)


def answered(declared: Callable[Concatenate[Any, P], ClientRequest[T]]) -> Method[P, T, Coroutine[None, None, T]]:
    """Make a method with one answer from its declaration.

    Args:
        declared: A method that returns the request and sends nothing.

    Returns:
        The method of both clients, with the name, docstring and parameters of the declaration.
    """
    # Not Coroutine[Any, Any, T]: a type checker that sees Any cannot choose among the forms of asyncio.gather.

    def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._ask(declared(self, *args, **kwargs))

    async def ask_async(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await self._ask(declared(self, *args, **kwargs))

    return Method(_as(declared, ask, "{}"), _as(declared, ask_async, "{}"))


def streamed(declared: Callable[Concatenate[Any, P], ClientRequest[T]]) -> Method[P, Generator[T], AsyncGenerator[T]]:
    """Make a method with a stream of answers from its declaration. The stream lasts until it ends or its caller leaves
    it.

    Args:
        declared: A method that returns the request and sends nothing.

    Returns:
        The method of both clients, with the name, docstring and parameters of the declaration.
    """

    def listen(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._listen(declared(self, *args, **kwargs))

    def listen_async(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._listen(declared(self, *args, **kwargs))

    return Method(_as(declared, listen, "Generator[{}]"), _as(declared, listen_async, "AsyncGenerator[{}]"))


def _as(declared: Callable[..., Any], method: Callable[..., Any], returns: str) -> Callable[..., Any]:
    """Give a method the name, documentation and signature of its declaration; `returns` is the form of what it returns."""
    signature = inspect.signature(declared)
    answer = str(signature.return_annotation).partition("[")[2][:-1]
    made: Any = functools.wraps(declared)(method)
    made.__signature__ = signature.replace(return_annotation=returns.format(answer))
    return method
