"""`python -m tests.controller.make_alarm_page`: write docs/alarms.md from the definitions."""

from __future__ import annotations

from pathlib import Path

from controller.alarms.definitions import DEFINITIONS, URGENCY, Definition

PAGE = Path(__file__).resolve().parents[2] / "docs" / "alarms.md"

HEAD = """\
# Alarms

An alarm asks a person to do something in time (ISA-18.2); what asks for nothing is a line of the journal. Each says what
happens if nobody acts, what to do, and how long there is. They stand at the top of the page, in `GET /api/alarms` and, with
everything that happened to them, in the journal (rows `alarm.…`).

* **unacknowledged** → *acknowledged*, when somebody has seen it; → *returned*, when its cause is gone and nobody has seen it.
* **acknowledged** → gone with its cause. **returned** → gone when somebody has seen it; → unacknowledged, when the cause is
  back.
* **shelved** by an operator, with a reason, for a limited time: at most 1 h for a critical alarm, 8 h high, 1 d medium, 7
  d low. **out of service** until it is returned; this takes the role engineer. **suppressed by design** while a more
  urgent alarm with the same cause stands (`history_lost` during `journal_unwritten`). None of the three is announced; the
  page lists them under the alarms. When that ends and the cause is there, the alarm is announced anew. Interlocks act as
  before in all of them.
* An **event** has no cause that could go: it stands until somebody has seen it, and counts how often it came.
* A cause has to last for the delay given here before it is told, and to be away for another before the alarm returns. One
  that comes for the fourth time within an hour takes twice as long to return, and so on: a flickering cause makes few
  notices.
* While nobody can see whether a cause is still there (its probe is silent), its alarm stays as it is.
* A restart forgets none: what stood when the process before ended stands again, with who acknowledged it.
* A journal that cannot be written silences none.

The three alarms of the interlocks (`temperature`, `over_pressure_heart`, `over_pressure_filter`) take their limits from the
rig file; what they do by themselves is in [safety.md](safety.md).

| alarm | priority | if nobody acts | what to do | within | told after |
|---|---|---|---|---|---|
"""
DELIVERY = """
## How alarms reach people

The rig file names channels, and the order in which they are used:

```yaml
time_zone: Europe/Zurich
alarms:
  notify:
    channels:
      anna-phone:                        # an SMS gateway, a mail account, a chat: whatever Apprise knows
        url_file: /etc/choroid/anna-phone
        min_priority: high               # critical, high, medium (default) or low
      lab-mail:
        url_file: /etc/choroid/lab-mail
        min_priority: low
        quiet: {from: "22:00", to: "07:00"}   # local time; days: [fri, sat] where it is not every day
      bert-phone:
        url_env: BERT_PHONE              # or from the environment
        min_priority: critical
      display: {mqtt: true}              # JSON to <prefix>/<rig>/alarms at the broker of `telemetry`
    escalation: [[lab-mail, anna-phone, display], [bert-phone]]
    test_at: "09:00"
    monitor: {url_file: /etc/choroid/monitor, every: 1 min}
```

A secret file holds one [Apprise URL](https://appriseit.com/services/), such as
`mailtos://rig:PASSWORD@smtp.lab.example?from=rig@lab.example&to=anna@lab.example` or `json://hooks.lab.example/choroid`. Make
it readable by the controller's user alone. It is read anew at each delivery. No secret stands in the rig file, and none is
written to a log, the journal or an answer.

Example. At 02:10 the heart stops. `no_heart_flow` is critical and gives 5 min.

| time | what happens |
|---|---|
| 02:10:05 | raised; two seconds later lab-mail (quiet hours do not hold it back), anna-phone and display have it |
| 02:11:45 | nobody has acknowledged for a third of the time to respond: bert-phone is told, as step 2 |
| 02:26:45 | nobody has acknowledged for another 15 min: everybody is told again, from the first step |
| 02:27:30 | Bert acknowledges (page, or `choroid alarms ack …`): escalation ends, the others are told so |

* A step waits for a third of the time that the alarm gives to respond: 1 min at least; at most 5 min for a critical
  alarm, 30 min high, 4 h medium, 1 d low. After the last step everybody is told again after 15 min, 2 h, 1 d, 7 d.
  `escalate_after` and `repeat` set other times: `escalate_after: {critical: 2 min}`.
* Escalation stops when a person acknowledges or shelves the alarm, and when its cause is gone. Those who were told of a
  critical or high alarm are told how it ended; of a return to normal only when it has lasted ten minutes.
* **Delivered** means that the channel confirmed: the mail server, the web server or the broker took the message. A
  critical alarm that no channel of a step could deliver goes on to the next step at once. What could not be delivered
  waits in `notices.db`, also over a restart, and is delivered with its age when the network is back, unless somebody has
  acknowledged it meanwhile.
* A channel that fails is tried again after 10 s, then ever more seldom, down to every 5 min
  (each minute for a critical alarm), and is an alarm of its own,
  `channel_failed`, over the others. A delivery that takes longer than 20 s has failed; it runs in a process of its own,
  which is ended then. The control loop never waits for one.
* Alarms of the same moment share a message. More than five in a message are summarised: how many of which priority, the
  most urgent in full. In a flood (more than ten alarms in ten minutes) what is not critical waits for five minutes to be
  gathered.
* Every channel gets a test message each day at `test_at`, local time, also on the days when the clock changes. The result
  is in the journal (`notice.tested`). `choroid alarms test` sends one now; `choroid alarms channels` shows how each does.
* **Silence.** `monitor` is the address of an external monitor (healthchecks.io, Uptime Kuma and the like) that is called
  while the control loop ticks, and only then. Set it to raise the alarm when no call has come for some minutes: it covers
  a dead computer, a dead network and a hung program, which can tell nobody themselves. For programs,
  `<prefix>/<rig>/heartbeat` at the MQTT broker is retained, carries the time and comes every ten seconds while the
  control loop ticks.
"""
FOOT = "\nWritten by `python -m tests.controller.make_alarm_page` from `controller/alarms/definitions.py`.\n"


def text() -> str:
    """The page."""
    rows = "".join(map(_row, sorted(DEFINITIONS.values(), key=lambda each: URGENCY[each.priority])))
    return HEAD + rows + DELIVERY + FOOT


def _row(each: Definition) -> str:
    told = "at once, once" if each.event else f"{each.on_delay_s:g} s" if each.on_delay_s else "at once"
    cells = (f"`{each.kind}`", each.priority, each.consequence, each.response, each.respond_within, told)
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
