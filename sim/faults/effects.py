"""Effects of the kinds of faults on a lab. Faults of one target at the same time are combined, and undone one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import numpy as np

from sim.devices.vici_actuator import ViciActuator
from sim.devices.wire import Inward
from sim.faults import wires
from sim.faults.schedule import Fault
from sim.faults.targets import address_of, next_on_bus
from sim.lab import SimulatedLab

Undo = Callable[[], None]


class Effects:
    """All effects that are active on one lab."""

    def __init__(self, lab: SimulatedLab) -> None:
        self._lab = lab
        self._lines = dict(lab.lines)
        """By the names in the rig file, also while an adapter has another name."""
        self._lasting: dict[tuple[str, str], _Lasting] = {}

    def begin(self, fault: Fault, amount: float, rng: np.random.Generator) -> Undo:
        """Apply `fault` with `amount` in the unit of its kind; return the function that undoes it."""
        if (effect := getattr(self, f"_{fault.kind}", None)) is None:
            raise ValueError(f"{fault.kind} is a fault of the controller's computer, not of a lab")
        undo: Undo = effect(fault.target, amount, rng)
        return undo

    def _hold(self, effect: str, target: str, amount: float, apply: Callable[[list[float]], None]) -> Undo:
        """Call `apply` with the amounts of all active faults of (effect, target): now, and when this one ends.

        The `apply` of the first fault is used while any is active, because it knows the state before them.
        """
        key = (effect, target)
        lasting = self._lasting.setdefault(key, _Lasting(apply))
        lasting.amounts.append(amount)
        lasting.apply(lasting.amounts)

        def undo() -> None:
            lasting.amounts.remove(amount)
            if not lasting.amounts:
                del self._lasting[key]
            lasting.apply(lasting.amounts)

        return undo

    # --- links ------------------------------------------------------------------------------------------

    def _drop(self, link: str, amount: float, rng: np.random.Generator) -> Undo:
        line, lose = self._lines[link], wires.losing(amount, rng)
        inward = wires.put(line.inward, lose)
        outward = wires.put(line.outward, wires.on_time(lose))
        return _both(inward, outward)

    def _garble(self, link: str, amount: float, rng: np.random.Generator) -> Undo:
        return self._both_ways(link, wires.flipping(amount, rng))

    def _lost_byte(self, link: str, amount: float, rng: np.random.Generator) -> Undo:
        return self._both_ways(link, wires.losing_bytes(amount, rng))

    def _doubled_byte(self, link: str, amount: float, rng: np.random.Generator) -> Undo:
        return self._both_ways(link, wires.doubling_bytes(amount, rng))

    def _both_ways(self, link: str, change: Inward) -> Undo:
        line = self._lines[link]
        return _both(wires.put(line.inward, change), wires.put(line.outward, wires.on_time(change)))

    def _delay(self, link: str, amount: float, rng: np.random.Generator) -> Undo:
        return wires.put(self._lines[link].outward, wires.late(amount))

    def _truncate(self, link: str, amount: float, rng: np.random.Generator) -> Undo:
        return wires.put(self._lines[link].outward, wires.on_time(wires.cutting(amount, rng)))

    def _duplicate(self, link: str, amount: float, rng: np.random.Generator) -> Undo:
        line = self._lines[link]
        return wires.put(line.outward, wires.doubling(amount, rng, lambda data: len(data) * line.byte_s))

    def _wrong_address(self, link: str, amount: float, rng: np.random.Generator) -> Undo:
        line = self._lines[link]
        return wires.put(line.outward, wires.on_time(wires.readdressing(amount, rng, line.devices)))

    def _echo(self, link: str, amount: float, rng: np.random.Generator) -> Undo:
        line = self._lines[link]
        own = line.echo

        def apply(lasting: list[float]) -> None:
            line.echo = own or bool(lasting)

        return self._hold("echo", link, 1.0, apply)

    def _half_open(self, link: str, amount: float, rng: np.random.Generator) -> Undo:
        line = self._lines[link]
        dead = list(line.clients)
        line.ghosts.update(dead)

        def undo() -> None:
            for client in dead:
                if client in line.ghosts:
                    client.hang_up()
                    line.disconnect(client)

        return undo

    def _unplug(self, link: str, amount: float, rng: np.random.Generator) -> Undo:
        line = self._lines[link]

        def apply(lasting: list[float]) -> None:
            if lasting and line.plugged:
                line.unplug()
            elif not lasting:
                line.plug()

        return self._hold("unplug", link, 1.0, apply)

    def _replug(self, link: str, amount: float, rng: np.random.Generator) -> Undo:
        line = self._lines[link]

        def apply(lasting: list[float]) -> None:
            if line.elsewhere == bool(lasting):
                return
            plugged = line.plugged
            if plugged:
                line.unplug()
            line.elsewhere = bool(lasting)  # before it is plugged in again: that is when it gets its name
            if plugged:
                line.plug()
            self._rename()

        return self._hold("replug", link, 1.0, apply)

    def _rename(self) -> None:
        """Give every line its present name; a line cannot be found under its former name."""
        now = {other_name(link) if line.elsewhere else link: line for link, line in self._lines.items()}
        self._lab.lines.clear()
        self._lab.lines.update(now)

    # --- devices ----------------------------------------------------------------------------------------

    def _reboot(self, name: str, amount: float, rng: np.random.Generator) -> Undo:
        if self._lab.devices[name].powered:
            self._lab.devices[name].power_cycle()
        return _nothing

    def _power_cut(self, name: str, amount: float, rng: np.random.Generator) -> Undo:
        device = self._lab.devices[name]

        def apply(lasting: list[float]) -> None:
            if lasting:
                device.power_off()
            else:
                device.power_on()

        return self._hold("power_cut", name, 1.0, apply)

    def _silent(self, name: str, amount: float, rng: np.random.Generator) -> Undo:
        device = self._lab.devices[name]

        def apply(lasting: list[float]) -> None:
            device.hung = bool(lasting)

        return self._hold("silent", name, 1.0, apply)

    def _ignores(self, name: str, amount: float, rng: np.random.Generator) -> Undo:
        device = self._lab.devices[name]

        def apply(lasting: list[float]) -> None:
            device.obeys = not lasting

        return self._hold("ignores", name, 1.0, apply)

    def _other_address(self, name: str, amount: float, rng: np.random.Generator) -> Undo:
        device = self._lab.devices[name]
        wanted = address_of(self._lab.rig, next_on_bus(self._lab.rig, name))
        own = address_of(self._lab.rig, name)

        def apply(lasting: list[float]) -> None:
            device.readdress(wanted if lasting else own)

        return self._hold("other_address", name, 1.0, apply)

    def _eeprom(self, name: str, amount: float, rng: np.random.Generator) -> Undo:
        device = self._lab.devices[name]
        again: list[Undo] = []

        def apply(lasting: list[float]) -> None:
            if lasting and not again:
                again.append(device.forget())
                if device.powered:
                    device.power_cycle()
            elif not lasting:
                again.pop()()
                if device.powered:
                    device.power_cycle()

        return self._hold("eeprom", name, 1.0, apply)

    def _reversed(self, point: str, amount: float, rng: np.random.Generator) -> Undo:
        return self._hold("reversed", point, 1.0, lambda lasting: self._lab.drives.reverse(point, bool(lasting)))

    def _slipped(self, name: str, amount: float, rng: np.random.Generator) -> Undo:
        valve, drives = self._lab.devices[name], self._lab.drives
        if not isinstance(valve, ViciActuator):
            raise TypeError(f"{name} turns no selector valve")

        def apply(lasting: list[float]) -> None:
            drives.slip(f"{name}.valve", sum(lasting), valve.positions)
            drives.set_position(f"{name}.valve", valve.position)

        return self._hold("slipped", name, amount, apply)

    # --- readings ---------------------------------------------------------------------------------------

    def _stuck(self, point: str, amount: float, rng: np.random.Generator) -> Undo:
        table = self._lab.plant.faults.sensor_stuck
        return self._hold("stuck", point, self._lab.plant.sense(point) + amount, _last(table, point))

    def _offset(self, point: str, amount: float, rng: np.random.Generator) -> Undo:
        return self._table("sensor_offset", point, amount, sum, 0.0)

    def _drift(self, point: str, amount: float, rng: np.random.Generator) -> Undo:
        return self._table("sensor_drift_per_day", point, amount, sum, 0.0)

    def _noise(self, point: str, amount: float, rng: np.random.Generator) -> Undo:
        return self._table("sensor_noise", point, amount, max, 1.0)

    # --- fluids -----------------------------------------------------------------------------------------

    def _occlusion(self, line: str, amount: float, rng: np.random.Generator) -> Undo:
        return self._table("flow_scale", line, 1.0 - amount, prod, 1.0)

    def _heart_occlusion(self, heart: str, amount: float, rng: np.random.Generator) -> Undo:
        return self._occlusion(self._lab.rig.organs.hearts[heart].line, amount, rng)

    def _leak(self, line: str, amount: float, rng: np.random.Generator) -> Undo:
        return self._table("leak_ul_min", line, amount, sum, 0.0)

    def _worn_tubing(self, line: str, amount: float, rng: np.random.Generator) -> Undo:
        return self._table("wear", line, amount, max, 0.0)

    def _bubble(self, line: str, amount: float, rng: np.random.Generator) -> Undo:
        self._lab.plant.advance()
        table = self._lab.plant.faults.bubble_ul
        table[line] = table.get(line, 0.0) + amount
        return _nothing

    def _clogged_filter(self, name: str, amount: float, rng: np.random.Generator) -> Undo:
        plant = self._lab.plant

        def apply(lasting: list[float]) -> None:
            plant.advance()
            plant.faults.clog = prod(lasting, start=1.0)

        return self._hold("clog", name, amount, apply)

    def _torn_filter(self, name: str, amount: float, rng: np.random.Generator) -> Undo:
        plant = self._lab.plant

        def apply(lasting: list[float]) -> None:
            plant.advance()
            plant.faults.filter_torn = bool(lasting)

        return self._hold("filter_torn", name, 1.0, apply)

    def _empty(self, vessel: str, amount: float, rng: np.random.Generator) -> Undo:
        rig = self._lab.rig
        lines = [
            name
            for name, line in rig.lines.items()
            if line.from_ == vessel and (line.pump is not None or line.port is not None)
        ]
        undos = [self._occlusion(name, 1.0, rng) for name in lines]
        return _both(*undos)

    def _contaminated(self, vessel: str, amount: float, rng: np.random.Generator) -> Undo:
        self._lab.plant.advance()
        table = self._lab.plant.faults.contamination
        table[vessel] = table.get(vessel, 0.0) + amount
        return _nothing

    def _wrong_medium(self, vessel: str, amount: float, rng: np.random.Generator) -> Undo:
        plant, rig = self._lab.plant, self._lab.rig
        own = rig.vessels[vessel].contains
        media = list(rig.media)
        number = int(amount) or next(i for i, medium in enumerate(media, start=1) if medium != own)

        def apply(lasting: list[float]) -> None:
            plant.advance()
            # The medium stays in the vessel. Its own medium returns only by filling it again, so the entry remains.
            plant.faults.wrong_medium[vessel] = media[int(lasting[-1]) - 1] if lasting else own or media[0]

        return self._hold("wrong_medium", vessel, float(min(number, len(media))), apply)

    # --- inside -----------------------------------------------------------------------------------------

    def _table(
        self, field: str, key: str, amount: float, combine: Callable[[list[float]], float], neutral: float
    ) -> Undo:
        """Set `key` of a table of the plant's faults to the combination of all active amounts; delete it without any."""
        plant = self._lab.plant
        table: dict[str, float] = getattr(plant.faults, field)

        def apply(lasting: list[float]) -> None:
            plant.advance()
            if lasting and (value := combine(lasting)) != neutral:
                table[key] = value
            else:
                table.pop(key, None)

        return self._hold(field, key, amount, apply)


@dataclass(slots=True)
class _Lasting:
    """The amounts of all active faults of one kind on one target, and the function that applies them."""

    apply: Callable[[list[float]], None]
    amounts: list[float] = field(default_factory=list)


def other_name(link: str) -> str:
    """Return the name of a link while its adapter is plugged in elsewhere."""
    name, mark, options = link.partition("?")
    return f"{name}-replugged{mark}{options}"


def _last(table: dict[str, float], key: str) -> Callable[[list[float]], None]:
    def apply(lasting: list[float]) -> None:
        if lasting:
            table[key] = lasting[-1]
        else:
            table.pop(key, None)

    return apply


def _both(*undos: Undo) -> Undo:
    def undo() -> None:
        for each in undos:
            each()

    return undo


def _nothing() -> None:
    """Do nothing: the fault needs no undoing."""
