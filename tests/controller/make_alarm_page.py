"""`python -m tests.controller.make_alarm_page`: write docs/alarms.md from the definitions."""

from __future__ import annotations

from pathlib import Path

from controller.alarms.definitions import DEFINITIONS, URGENCY, Definition

PAGE = Path(__file__).resolve().parents[2] / "docs" / "alarms.md"

HEAD = """\
# Alarms

An alarm requires a timely response by a person (ISA-18.2). A condition that requires no response is a row of the
journal, not an alarm. Each alarm states its consequence without a response, the response, and the time to respond.
Alarms are at the top of the page, in `GET /api/alarms`, and with their whole history in the journal (rows `alarm.…`).

| state | meaning | ends |
|---|---|---|
| unacknowledged | the cause is present, and no one has acknowledged it | acknowledged by a person, or return-to-normal unacknowledged when its cause ends |
| acknowledged | the cause is present, and a person has acknowledged it | normal when its cause ends |
| return-to-normal unacknowledged | the cause has ended without acknowledgement | normal by acknowledgement; unacknowledged when the cause comes back |
| shelved | an operator suppressed it for a limited time, with a reason: at most 1 h critical, 8 h high, 1 d medium, 7 d low | by time, or by a person |
| suppressed by design | a more urgent alarm with the same cause is present (`history_lost` during `journal_unwritten`) | when the other alarm ends |
| out of service | an engineer removed it from service | when it is returned to service |

* Alarms that are shelved, suppressed or out of service are not announced. The page lists them below the others. When
  this state ends and the cause is present, the alarm is announced again. Interlocks act in all of these states.
* An **event** has no cause that can end. It stays until it is acknowledged, and counts its occurrences.
* Delays: a cause must be present for the delay given here before the alarm is raised, and absent for another delay
  before it returns. At the fourth occurrence within one hour the second delay doubles, and so on: an intermittent
  cause gives few notifications.
* While the cause cannot be observed (its probe does not answer), the alarm does not change.
* A line of several devices that is lost is one alarm: when none of them answers, `device_lost:line of NAME` (NAME is the first
  device of the line) names them all, and those that were not announced before are not announced one by one.
* A restart keeps all alarms and their acknowledgements.
* A journal that cannot be written suppresses no alarm.

While an alarm that is marked “rests” is not normal, the electrode engine stimulates nothing: leases end, waiting
pulses are cancelled, and clients get the event `STIMULATION_STOPPED`. Suppressing the alarm does not change that.
`device_lost` is meant of the array and of the devices of hearts, lung and skin.

The three alarms of the interlocks (`temperature`, `over_pressure_heart`, `over_pressure_filter`) take their limits
from the rig file. [safety.md](safety.md) describes what the interlocks do.

| alarm | priority | stimulation | consequence without response | response | time to respond | delay |
|---|---|---|---|---|---|---|
"""
DELIVERY = """
## How alarms reach people

The rig file lists the channels and the order of escalation:

```yaml
time_zone: Europe/Zurich
alarms:
  notify:
    channels:
      anna-phone:                        # an SMS gateway, a mail account, a chat: any Apprise service
        url_file: /etc/choroid/anna-phone
        min_priority: high               # critical, high, medium (default) or low
      lab-mail:
        url_file: /etc/choroid/lab-mail
        min_priority: low
        quiet: {from: "22:00", to: "07:00"}   # local time; with days: [fri, sat] only on these days
      bert-phone:
        url_env: BERT_PHONE              # from an environment variable
        min_priority: critical
      display: {mqtt: true}              # JSON to <prefix>/<rig>/alarms at the broker of `telemetry`
    escalation: [[lab-mail, anna-phone, display], [bert-phone]]
    test_at: "09:00"
    monitor: {url_file: /etc/choroid/monitor, every: 1 min}
```

A secret file holds one [Apprise URL](https://appriseit.com/services/), such as
`mailtos://rig:PASSWORD@smtp.lab.example?from=rig@lab.example&to=anna@lab.example` or
`json://hooks.lab.example/choroid`. Only the user of the controller should be able to read it. It is read at each
delivery. The rig file contains no secret, and none is written to a log, the journal or a reply.

Example. At 02:10 the heart stops. `no_heart_flow` is critical and gives 5 min.

| time | what happens |
|---|---|
| 02:10:05 | raised; two seconds later lab-mail (quiet hours do not apply to critical alarms), anna-phone and display have it |
| 02:11:45 | not acknowledged for a third of the time to respond: bert-phone is notified, as step 2 |
| 02:26:45 | not acknowledged for another 15 min: all channels are notified again, from the first step |
| 02:27:30 | Bert acknowledges (page, or `choroid alarm acknowledge …`): escalation ends, and the others are notified of it |

* A step waits for a third of the time to respond: at least 1 min; at most 5 min for a critical alarm, 30 min high, 4
  h medium, 1 d low. After the last step all channels are notified again after 15 min, 2 h, 1 d, 7 d. `escalate_after`
  and `repeat` set other times: `escalate_after: {critical: 2 min}`.
* Escalation stops when a person acknowledges or shelves the alarm, and when its cause ends. Channels that were
  notified of a critical or high alarm are notified of its end; of a return to normal only after it has lasted ten
  minutes.
* **Delivered** means that the channel confirmed: the mail server, the web server or the broker took the message. A
  critical alarm that no channel of a step could deliver continues with the next step immediately. An undelivered
  message waits in `notices.db`, also over a restart, and is delivered with its age when the network is back, unless
  the alarm was acknowledged in the meantime.
* A failed channel is retried after 10 s, then with growing pauses up to 5 min (1 min for a critical alarm). It raises
  the alarm `channel_failed`, which the other channels deliver. A delivery that takes longer than 20 s has failed. It
  runs in a separate process, which is then ended. The control loop never waits for a delivery.
* Alarms of the same moment share a message. More than five in a message are summarised: how many of which priority,
  the most urgent in full. In a flood (more than ten alarms in ten minutes) alarms that are not critical are collected
  for five minutes.
* Every channel gets a test message each day at `test_at`, local time, also on days with a clock change. The result is
  in the journal (`notice.tested`). `choroid alarm test-channels` sends one now; `choroid alarm list-channels` shows the state of
  each channel.
* **Silence.** `monitor` is the address of an external monitor (healthchecks.io, Uptime Kuma and the like) that the
  controller calls only while the control loop ticks. Configure it to raise an alarm when no call arrives for some
  minutes. This covers a dead computer, a dead network and a hung program, which cannot send a message. For programs,
  `<prefix>/<rig>/heartbeat` at the MQTT broker is retained, contains the time and is sent every ten seconds while the
  control loop ticks.
"""
FOOT = "\nWritten by `python -m tests.controller.make_alarm_page` from `controller/alarms/definitions.py`.\n"


def text() -> str:
    """Return the page."""
    rows = "".join(map(_row, sorted(DEFINITIONS.values(), key=lambda each: URGENCY[each.priority])))
    return HEAD + rows + DELIVERY + FOOT


def _row(each: Definition) -> str:
    delay = "none; event" if each.event else f"{each.on_delay_s:g} s" if each.on_delay_s else "none"
    stimulation = "rests" if each.holds_stimulation else "–"
    cells = (
        f"`{each.kind}`",
        each.priority,
        stimulation,
        each.consequence,
        each.response,
        each.respond_within,
        delay,
    )
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
