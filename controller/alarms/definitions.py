"""Alarm definitions (ISA-18.2): each demands an action of a person and states the time to respond (L7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from controller.rig.quantities import parse_quantity

Priority = Literal["critical", "high", "medium", "low"]
URGENCY: dict[Priority, int] = {"critical": 0, "high": 1, "medium": 2, "low": 3}


@dataclass(frozen=True, slots=True)
class Definition:
    """One kind of alarm. `on_delay_s` and `off_delay_s` filter a flickering cause (L2)."""

    kind: str
    priority: Priority
    consequence: str
    response: str
    respond_within: str
    on_delay_s: float = 0.0
    off_delay_s: float = 30.0
    event: bool = False
    """Whether it is an event: without a lasting cause, it returns to normal as soon as it is acknowledged."""
    holds_stimulation: bool = False
    """Whether the tissue is not stimulated until this alarm is normal again (:mod:`controller.process.parts.stimulation`)."""
    suppressed_by: tuple[str, ...] = ()
    """Kinds of more urgent alarms with the same cause: while one of them is announced, this one is suppressed by design."""

    @property
    def respond_within_s(self) -> float:
        """Time to respond (s)."""
        return parse_quantity(self.respond_within, "s")


DEFINITIONS: dict[str, Definition] = {
    each.kind: each
    for each in (
        Definition(
            "no_heart_flow", "critical", "the tissue runs out of oxygen within minutes",
            "look at the pump: tubing, power, cassette; start it by hand if you must", "5 min", 5.0,
            holds_stimulation=True,
        ),
        Definition(
            "heart_short", "critical", "the tissue gets less medium than it needs, although the pump is restarted each time",
            "look who or what stops it: another controller, a person at its panel, the protection of its motor, its supply;"
            " then look for what makes it heavy to turn", "5 min", 0.0, 60.0, holds_stimulation=True,
        ),
        Definition(
            "output_short", "high", "gas, heat, agitation or flow is less than it should be, and what depends on it drifts",
            "look at the output named: an empty bottle, a closed valve, a supply that breaks down, another controller",
            "15 min", 0.0, 60.0,
        ),
        Definition(
            "line_flow", "critical", "the tissue behind it gets other medium than the pump reports, perhaps none",
            "look at the line: a kink, a leak, air, a loose or worn tube; then compare the sensor with a weighed dose",
            "15 min", 60.0, suppressed_by=("no_heart_flow", "over_pressure_heart"),
            holds_stimulation=True,
        ),
        Definition(
            "air_in_line", "high", "air reaches the chamber and stays on the tissue; nothing flows while it blocks the line",
            "look where air is drawn in: an empty bottle, a loose fitting; remove it (recipe debubble)", "30 min", 10.0,
        ),
        Definition(
            "temperature", "critical", "heat kills tissue within an hour, cold slows it",
            "compare with a thermometer; check heater, relay and probe", "15 min", 5.0,
            holds_stimulation=True,
        ),
        Definition(
            "storage_temperature", "medium", "medium ages by the day in warmth, and is spoilt by frost",
            "look at the refrigerator or the room; compare with a thermometer; replace medium that was warm for a day", "4 h",
            300.0, 60.0,
        ),
        Definition(
            "over_pressure_heart", "critical", "the heart is stopped: no circulation",
            "look for a kink or a clot in the heart line; it is tried again by itself, ever more seldom", "5 min", 2.0,
            holds_stimulation=True,
        ),
        Definition(
            "over_pressure_filter", "high", "no medium can be given back",
            "check the return valve and replace the sterile filter", "2 h", 2.0,
        ),
        Definition(
            "over_pressure", "high", "its pump stands, and nothing moves through the line",
            "look for a kink, a closed clamp or a clogged dialyser in the line named", "2 h", 2.0,
        ),
        Definition(
            "agitation_stopped", "high", "tissue settles and clumps, and gets less oxygen",
            "look at the stirrer, shaker or rocker: power, coupling, what blocks it; start it slowly", "30 min", 60.0,
            holds_stimulation=True,
        ),
        Definition(
            "disposable_due", "low", "a part nears the end of its life or of its label",
            "have the next one ready; change it and write its lot and day into the rig file", "3 d",
        ),
        Definition(
            "disposable_over", "medium", "a part is used beyond its life: leaks, particles, lost sterility",
            "change it, and write its lot and day into the rig file", "1 d",
        ),
        Definition(
            "not_commissioned", "low", "a pump, gas, probe or valve may be another than the rig file says",
            "run `choroid commission` before tissue goes in, and after every change of the wiring", "1 d",
        ),
        Definition(
            "hazard_accepted", "low", "a hazard of this rig has no interlock; the rig file names who accepted that and why",
            "see `choroid check --hazards`; add the sensor and the interlock when you can", "1 d",
        ),
        Definition(
            "device_lost", "high", "its reading is missing, and what depends on it stops or is refused",
            "check power, cable and address; it reconnects by itself", "30 min", 20.0, 10.0,
            holds_stimulation=True,
        ),
        Definition(
            "command_failed", "high", "an output may not be as it was commanded; it was brought to its basal state",
            "look at the device named", "15 min", event=True,
        ),
        Definition(
            "chamber_left_out", "high", "a chamber could not be dosed and gets nothing more from this run; the others go on",
            "look at its line, port and level; feed it by hand, enter its volume, and start a run for it", "2 h", event=True,
        ),
        Definition(
            "foreign_command", "critical", "two masters at one output: a dose may go out twice, flow and gas may be wrong",
            "find who else commands it (another controller, a tool, a person at its panel) and end that; read the levels",
            "15 min", event=True,
            holds_stimulation=True,
        ),
        Definition(
            "stray_flow", "high", "liquid went into a vessel that was not to get it; it is booked by the pump's count",
            "look at the pump's cable and at what it pumps into; read the level", "15 min", event=True,
        ),
        Definition(
            "transfer_overlong", "high", "a transfer was stopped before its end",
            "check the line for a kink; see the ledger for what was moved", "30 min", event=True,
        ),
        Definition(
            "lease_expired", "medium", "an output went to its basal state because its lease was not renewed",
            "see who held it in the journal", "1 h", event=True,
        ),
        Definition(
            "gas_mixture", "critical", "with too much CO2 the medium turns acid within minutes; CO2 was shut",
            "check the air supply and its flow controller", "10 min", 5.0,
            holds_stimulation=True,
        ),
        Definition(
            "air_lost", "critical",
            "without power it is closed; oxygen carries the CO2 in its place, several times what tissue needs",
            "check power and cable of the air's flow controller, and that the oxygen lasts", "30 min", 30.0, 30.0,
            holds_stimulation=True,
        ),
        Definition(
            "acidity", "critical", "beyond 0.3 pH for an hour tissue suffers; if the gas has failed, pH drifts on",
            "check the gas bottles and their flow controllers, then the pH probe", "10 min", 60.0, 60.0,
            holds_stimulation=True,
        ),
        Definition(
            "heart_backwards", "critical", "the chamber is drained within minutes",
            "stop the heart by hand, look which way it turns and how its tubing lies", "2 min", 5.0,
            holds_stimulation=True,
        ),
        Definition(
            "sensor_flat", "high", "a stuck probe is not used: what depends on it rests or goes to its basal state",
            "check the probe and its cable; restart it", "30 min",
        ),
        Definition(
            "probe_disagreement", "high",
            "one of the probes named is wrong, and what is regulated by it may follow it; heat is limited meanwhile",
            "compare with an instrument of your own; clean, calibrate or replace what is wrong; then `choroid commission`",
            "1 h", 0.0, 300.0,
        ),
        Definition(
            "viability_loss", "high", "by the estimate the tissue has lost viability, and what harmed it may go on",
            "read the causes on the viability card; assay the medium; see that medium is exchanged (`recycle` does so by"
            " itself) until the estimate is stable", "4 h",
        ),
        Definition(
            "score_unknown", "medium", "what this score or input would show of the tissue is not seen; the others go on",
            "look at the readings and results behind it; it comes back by itself when they are well, else send the log to the"
            " developers", "1 d", 60.0,
        ),
        Definition(
            "recycle_retreat", "high", "`recycle` returns no medium for now and exchanges some daily: it suspects a loss",
            "read why and until when; assay the medium, look at the tissue; when it is well, start a run as the alarm says",
            "8 h", event=True,
        ),
        Definition(
            "activity_fall", "high", "a fall by half of the own baseline may be the first sign of dying tissue",
            "look at medium, oxygen and warmth of the last hours, then at the array", "1 h",
            holds_stimulation=True,
        ),
        Definition(
            "hypersynchrony", "high",
            "nearly all spikes are in network bursts, as in a seizure: by ammonia, lost inhibition or excitotoxicity",
            "assay ammonia and exchange medium if it is high; end stimulation; look at temperature and pH of the last hours",
            "1 h", 180.0, 600.0, holds_stimulation=True,
        ),
        Definition(
            "response_lost", "high", "the tissue answers stimulation far less than usual: exhausted, harmed or dying",
            "let it rest; look at medium, oxygen and warmth; then compare one electrode's response with an earlier session",
            "2 h", 60.0, 300.0,
        ),
        Definition(
            "closed_valve", "high", "a pump pressed against a closed valve; it was stopped",
            "check the return valve and its relay", "30 min",
        ),
        Definition(
            "journal_lost", "critical",
            "heart, temperature and gas go on with a record of their own; no dose, no stimulation; protocols wait",
            "stop the controller, run `choroid repair` on its data folder, start it again", "30 min",
        ),
        Definition(
            "journal_unwritten", "critical", "rows wait in memory and are lost if this process ends; no dose is given",
            "do what the alarm says: a full disk, a quota, a read-only file system and a failed disk need different things;"
            " it goes on by itself then", "30 min", 2.0, 10.0,
        ),
        Definition(
            "data_folder_lost", "critical",
            "records go to a spare folder that a restart of the computer empties; no dose, no stimulation; protocols wait",
            "make the data folder writable as the alarm says (space, quota, mount, owner), then start controller and guard"
            " again", "30 min",
        ),
        Definition(
            "credentials_lost", "high",
            "the tokens that people have are refused by page and API; new ones end with this controller",
            "use the page link of this start or the command line; restore or remove credentials.json, then start again",
            "1 h",
        ),
        Definition(
            "file_quarantined", "medium", "a damaged file was replaced by an empty one; what it held is not used",
            "see the file named; restore it from a backup, or move it elsewhere, then start the controller again", "1 d",
        ),
        Definition(
            "stimulation_ledger_lost", "high",
            "what the tissue was given is not known: the electrode engine does not start, nothing is recorded or stimulated",
            "do what the alarm says with the file that it names; the engine starts by itself within 5 minutes", "4 h",
        ),
        Definition(
            "recording_incomplete", "medium",
            "frames of the electrode array are missing in the recording, or it ended too soon",
            "look at free space, quota, speed of the disk and load of the machine; then begin another recording", "1 h",
        ),
        Definition(
            "history_lost", "medium", "readings wait in memory and are lost with it",
            "do what the alarm says: space, quota, mount or disk", "4 h", 30.0, suppressed_by=("journal_unwritten",),
        ),
        Definition(
            "telemetry_lost", "low", "dashboards and archives elsewhere see no new readings; they wait in the outbox",
            "see whether the broker runs and the network reaches it", "1 d", 60.0, 10.0,
        ),
        Definition(
            "edge_lost", "high",
            "the part named (page, health port, electrode engine) cannot be used; heart, temperature, gas and runs go on",
            "do what the alarm says; the part is tried again by itself. `choroid stop` works without the page", "1 h",
            2.0, 10.0,
        ),
        Definition(
            "certificate_failed", "medium",
            "browsers refuse the page, or will in some days; commands on this machine, the guard and the rig go on",
            "renew the certificate as the alarm says; its files are read again by themselves", "8 h", 2.0, 10.0,
        ),
        Definition(
            "journal_contradicted", "high",
            "rows of the journal are not those that were signed: who did what to the tissue is not proven",
            "keep a copy of the data folder; run `choroid audit verify`; compare with backups, exports and witnesses; after a"
            " repair, `choroid audit renew`", "4 h",
        ),
        Definition(
            "checkpoint_failed", "medium", "a later change of the journal's rows may not be noticed",
            "make key, witness, hub or authority usable, as the alarm says", "1 d",
        ),
        Definition(
            "clock_stepped", "low", "times of records before and after do not fit; what is due at a time of day shifts",
            "see whether the time is right now, and which time service or person set it; look at what was due meanwhile",
            "1 d", event=True,
        ),
        Definition(
            "data_discarded", "medium", "data that were recorded are gone for good where the alarm says",
            "read what and why; make room, or correct what refuses them", "1 d",
        ),
        Definition(
            "name_shared", "medium", "readings, status and heartbeat of two rigs are mixed under one name",
            "give one of the rigs another name or prefix in its rig file; stop a second controller of one data folder", "4 h",
            0.0, 60.0,
        ),
        Definition(
            "channel_failed", "high", "people are not told of alarms over this channel; the other channels are used",
            "check its account, its secret file and the network, then run `choroid alarm test-channels`", "4 h",
        ),
        Definition(
            "monitor_lost", "medium", "the external monitor gets no heartbeat and reports this controller as silent",
            "check the network and the address of the monitor", "1 d", 180.0,
        ),
        Definition(
            "defect", "high", "a part of this program failed; the rig is looked after without it",
            "send the log to the developers, then restart the controller", "4 h", event=True,
        ),
        Definition(
            "balance_drift", "high", "a vessel does not weigh what was moved into it: a leak, a drip, or the balance drifts",
            "look at the vessel and its lines, and enter its volume", "1 h", event=True,
        ),
        Definition(
            "pump_drift", "high", "a pump delivers more or less than it believes",
            "change the tubing and calibrate the pump", "1 d", event=True,
        ),
        Definition(
            "calibration_due", "low", "when the calibration has expired, the pump gives no volumes any more",
            "calibrate the pump", "3 d",
        ),
        Definition(
            "calibration_invalid", "high", "the pump gives no volumes, and protocols are held; the heart goes on",
            "read why, and calibrate the pump", "4 h",
        ),
        Definition(
            "probe_calibration_over", "low", "the readings of the probe are not assured: grades and pH may be wrong",
            "calibrate the probe: the recipe sensor-calibration, or `choroid device calibrate-sensor`", "3 d",
        ),
        Definition(
            "probe_worn", "medium",
            "its readings drift and are wrong between calibrations: what is regulated and graded by them follows the error",
            "read which figure is out of range; replace the electrode or do what the alarm says, then calibrate it", "1 d",
            0.0, 60.0,
        ),
        Definition(
            "tubing_due", "low", "the tubing nears the end of its life: less flow, then a crack",
            "have new tubing ready and fit it at the next pause", "3 d",
        ),
        Definition(
            "tubing_over", "high", "tubing beyond its life may crack and spill medium",
            "fit new tubing, enter it (`choroid tubing replace`) and calibrate the pump", "1 d",
        ),
        Definition(
            "medium_expired", "medium", "medium past its date may be spoilt, and goes on being fed",
            "put in a fresh bottle and enter its lot (on the page, or `choroid vessel load`)", "1 d",
        ),
        Definition(
            "bottle_due", "low", "soon the supplements and the glutamine of a bottle have declined too far",
            "have a fresh bottle ready; put it in and enter its lot (on the page, or `choroid vessel load`)", "3 d",
        ),
        Definition(
            "bottle_over", "medium", "a bottle past its limit goes on being fed: less insulin and factors, more ammonia",
            "put in a fresh bottle and enter its lot (on the page, or `choroid vessel load`)", "1 d",
        ),
        Definition(
            "stock_low", "medium", "when it is used up the protocol is held, and the tissue lives on what is in the loop",
            "put in a fresh bottle and enter its lot (on the page, or `choroid vessel load`)", "1 d",
        ),
        Definition(
            "waste_full", "medium", "when it is full nothing is discarded any more, and the protocol is held",
            "empty it and enter that (on the page, or `choroid vessel measure … --changed`)", "1 d",
        ),
        Definition(
            "task_due", "low", "a task that a person does by hand is late, and what depends on it waits",
            "do it, then confirm it (on the page, or `choroid task confirm`)", "2 h",
        ),
        Definition(
            "task_overdue", "high", "where it changes medium, the tissue lives on what is spent",
            "do it now, or find who can; then confirm it (on the page, or `choroid task confirm`)", "1 h",
        ),
        Definition(
            "tissue_unsafe", "high", "tissue lives in a chamber that the rig does not protect as it should",
            "move it to another chamber and enter that (`choroid tissue move`), or change the rig as the alarm says", "4 h",
            holds_stimulation=True,
        ),
        Definition(
            "camera_lost", "low", "the size of the tissue is not followed while no image is taken",
            "check the camera's cable and power, and that no other program uses it", "1 d", 0.0,
        ),
        Definition(
            "images_unkept", "low", "images are measured and then lost; the time-lapse has a gap",
            "free some space on the disk, or raise the camera's `quota` in the rig file", "1 d", 0.0,
        ),
        Definition(
            "level_due", "low", "the volume of the loop is uncertain: draws become smaller from day to day, then none",
            "read the loop's level and enter it (on the page, or `choroid vessel measure`)", "7 d",
        ),
        Definition(
            "assay_doubtful", "medium", "an assay contradicts the estimate, or its analyser doubts it; it is not used",
            "look again or assay again; if it is right, enter it with --sure", "1 d", event=True,
        ),
        Definition(
            "medium_doubtful", "medium", "assays show that the label of the medium or the method of an assay is wrong",
            "do what it says: assay a bottle of fresh medium, or measure a control", "1 d", event=True,
        ),
        Definition(
            "analyser_silent", "low", "results of an at-line analyser do not arrive by themselves",
            "switch it on, and look at its cable and its host interface; enter results with `choroid assay enter` meanwhile",
            "1 d", 3600.0,
        ),
        Definition(
            "assay_wanted", "low", "fresh medium is exchanged that an assay would save, or a loss of tissue stays in doubt",
            "assay the analytes that it names and enter the results (on the page, or `choroid assay enter`), which ends the"
            " alarm",
            "2 d",
        ),
        Definition(
            "sensor_doubtful", "medium", "a sensor on line contradicts the estimate of the medium; one of the two is wrong",
            "take an assay; calibrate or replace the sensor if the assay agrees with the estimate", "1 d", event=True,
        ),
        Definition(
            "run_held", "high", "a protocol waits for a person",
            "read its message, then resume or abort it", "2 h", event=True,
        ),
        Definition(
            "run_unanswered", "critical", "a protocol has waited for hours without an answer",
            "call a person who can; the organoid is circulated, warmed and gassed, and nothing else", "30 min", event=True,
        ),
        Definition(
            "emergency_stop", "critical", "everything but the basal circulation stands",
            "make the rig safe, then reset with a reason", "5 min", event=True,
        ),
        Definition(
            "guard_lost", "high", "if this computer fails, nothing brings the rig to rest",
            "nothing if it comes once: another guard is started within 5 s; if it comes again, read guard.log", "2 h",
            event=True,
        ),
        Definition(
            "guard_gave_way", "high", "outputs on that link were left as they were while there was no controller",
            "look at the rig and at what answers at that link; give each rig addresses of its own", "30 min", event=True,
        ),
        Definition(
            "controller_restarted", "high", "the rig was at its basal state meanwhile; what was in work may have been held",
            "read why and what is held; nothing more if it comes once, else find what ends the controller", "2 h", event=True,
        ),
        Definition(
            "restart_unsure", "low", "what ends controller and guard together leaves the rig without care",
            "do what the alarm says, best before tissue goes in", "1 d",
        ),
        Definition(
            "interlock_bypassed", "high", "an interlock does not act: what it prevents can happen",
            "stay at the rig, replace the probe, then end the bypass (docs/safety.md)", "30 min", 0.0, 0.0,
        ),
        Definition(
            "slow_loop", "medium", "the controller reacts late",
            "find what loads this computer", "1 h", 10.0,
        ),
    )
}  # fmt: skip


def alarm_kind(interlock: str) -> str | None:
    """Return the kind of alarm that an interlock raises, or None. What follows a full stop names one of several hearts."""
    kind = interlock.partition(".")[0]
    if kind in DEFINITIONS:
        return kind
    return "over_pressure" if interlock.startswith("over_pressure_") else None
