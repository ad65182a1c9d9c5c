"""The page in a real browser, over the small controller: what a person sees and does."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from controller.rig.loading import load_rig
from tests.browser.pages import RESULTS, Server, serving, visiting
from tests.browser.stage import staged
from tests.dashboards.fake_rig import BENCH

pytestmark = pytest.mark.needs("chromium-headless-shell", "chromium")

SIZES = {"laptop": (1440, 900), "wall": (1920, 1080), "tablet": (820, 1180), "phone": (390, 844)}

PASSWORD = "kettle Orbit seventeen moss"


@pytest.fixture(scope="module")
def bad_day() -> Iterator[Server]:
    with serving("--trouble") as found:
        yield found


def state(page: Page, word: str) -> None:
    expect(page.get_by_test_id("run-state")).to_have_text(word)


def test_a_run_is_started_paused_resumed_and_graded(browser: Browser, server: Server) -> None:
    with visiting(browser, server.url, size=SIZES["wall"]) as visit:
        page = visit.live()
        state(page, "idle")
        page.get_by_test_id("protocol-select").select_option("recycle")
        page.get_by_test_id("param-batch").fill("18 mL")
        page.get_by_test_id("start-run").click()
        state(page, "running")
        expect(page.locator('[data-line="draw"]')).to_have_class("line flowing")
        expect(page.get_by_test_id("start-run")).to_be_hidden()
        page.get_by_test_id("pause-run").click()
        state(page, "held")
        expect(page.locator('[data-line="draw"]')).to_have_class("line")
        expect(page.get_by_test_id("pause-run")).to_be_disabled()
        page.get_by_test_id("resume-run").click()
        state(page, "running")
        expect(page.get_by_test_id("grade-letter")).to_have_text("B")
        expect(page.get_by_test_id("grade")).to_contain_text("Limited by lactate")
        expect(page.get_by_test_id("step").filter(has_text="Kidney gives back")).to_be_visible()
        decision = page.get_by_test_id("decision").first
        expect(decision).to_contain_text("Diluted and returned")
        expect(decision).to_contain_text("Batch: grade B by lactate 6.2 (5.1 to 7.3) mM; pH 7.21 (7.19 to 7.24)")
        expect(decision).to_contain_text("4.65\u00a0€, risk 3.1\u00a0% (lactate)")
        expect(decision).to_contain_text("condition 4.71\u00a0€, but the loop would remain bad by lactate")
        expect(decision).to_contain_text("not return: grade B is conditioned first")
        RESULTS.mkdir(exist_ok=True)
        page.screenshot(path=RESULTS / "page.png")
        page.get_by_test_id("abort-run").click()
        page.get_by_test_id("dialog-confirm").click()
        state(page, "aborted")
        expect(page.get_by_test_id("start-run")).to_be_enabled()
        expect(page.get_by_test_id("journal")).to_contain_text("Batch graded B")
        assert visit.complaints == []


def test_the_page_sends_requests_only_to_its_own_rig(browser: Browser, server: Server) -> None:
    with visiting(browser, server.url) as visit:
        visit.live().wait_for_timeout(1500)
        strange = [url for url in visit.asked if not url.startswith((server.url, "data:"))]
        assert strange == []
        assert visit.complaints == []


def test_what_moves_is_drawn_ten_times_a_second(browser: Browser, server: Server) -> None:
    """At each frame of the browser it kept a core busy on a computer without a graphics card."""
    with visiting(browser, server.url) as visit:
        page = visit.live()
        page.locator(".line.flowing .pipe-flow").first.wait_for(state="attached")
        drawn = page.evaluate(
            """() => new Promise((done) => {
                let changes = 0;
                new MutationObserver(() => { changes += 1; }).observe(
                    document.querySelector(".line.flowing .pipe-flow"),
                    { attributeFilter: ["stroke-dashoffset"] },
                );
                setTimeout(() => done(changes), 3000);
            })"""
        )
        assert 1 <= drawn <= 33


def test_readings_move_with_the_rig(browser: Browser, server: Server) -> None:
    with visiting(browser, server.url) as visit:
        page = visit.live()
        clock = page.locator("#clock").inner_text()
        chip = page.locator('[data-point="do_loop.oxygen"] .chip-value')
        before = chip.text_content()
        page.wait_for_function("before => document.querySelector('#clock').textContent !== before", arg=clock)
        page.wait_for_function(
            "before => document.querySelector('[data-point=\"do_loop.oxygen\"] .chip-value').textContent !== before",
            arg=before,
        )
        expect(page.get_by_test_id("viability")).to_contain_text("coverage")
        expect(page.get_by_test_id("viability")).to_contain_text("not evidence of feeling")
        expect(page.get_by_test_id("mode")).to_have_text("SIMULATED · 60×")
        for name in ("reservoir", "loop", "chamber", "spent", "waste"):
            expect(page.locator(f'[data-vessel="{name}"]')).to_have_count(1)


def per_cent(share: float) -> int:
    """As the page rounds."""
    return math.floor(100.0 * share + 0.5)


def ends(score: Mapping[str, Any]) -> str:
    low, high = per_cent(score["low"]), per_cent(score["high"])
    return f"{low}" if low == high else f"{low}–{high}"


@pytest.mark.parametrize("name", ["laptop", "phone"])
def test_viability_is_the_estimate_and_the_care_rating_below_it_the_range_as_the_api_has_it(
    browser: Browser, server: Server, name: str
) -> None:
    """What is known alone rises when a bad reading goes missing: it stands in small print, with the coverage."""
    with visiting(browser, server.url, size=SIZES[name]) as visit:
        page = visit.live()
        card = page.get_by_test_id("viability")
        scores = page.evaluate("async () => await (await fetch('/api/viability')).json()")
        estimate, found = scores["viability"], scores["care_rating"]
        shown = page.get_by_test_id("estimate").locator("p")
        assert shown.all_text_contents() == estimate["sentences"], "the page, the report and the API have the same text"
        expect(card.locator(".basis-details")).not_to_have_attribute("open", "")
        card.locator(".basis-details summary").click()
        assert card.locator(".basis-details p").all_text_contents()[:-1] == estimate["basis"]
        expect(card).to_contain_text(f"{estimate['meaning']}.")
        card.locator(".rating-details summary").click()
        assert found["low"] < 0.5 < found["of_known"]
        expect(card.locator(".ring-score")).to_have_text(f"{ends(found)}%")
        expect(card).to_contain_text(f"coverage {per_cent(found['coverage'])}\u00a0%")
        expect(page.get_by_test_id("known")).to_have_text(f"known parts: {per_cent(found['of_known'])}\u00a0%")
        expect(page.get_by_test_id("score")).to_contain_text(f"score {per_cent(found['score'])}\u00a0%: missing parts")
        rating = page.get_by_test_id("rating").locator("tbody tr")
        for row, score in enumerate(("welfare", "happiness")):
            expect(rating.nth(row).locator(".strong")).to_have_text(f"{ends(scores[score])}\u00a0%")
        expect(card).not_to_contain_text("[object")


def test_a_gate_that_is_not_open_is_the_headline_whatever_else_is_known(browser: Browser, bad_day: Server) -> None:
    with visiting(browser, bad_day.url) as visit:
        page = visit.live()
        card = page.get_by_test_id("viability")
        scores = page.evaluate("async () => await (await fetch('/api/viability')).json()")
        found = scores["care_rating"]
        card.locator(".rating-details summary").click()
        assert found["score"] == 0.0 == found["low"]
        expect(card.locator(".ring-score")).to_have_text(f"0–{per_cent(found['high'])}%")
        expect(card.locator(".ring-score")).to_have_class("ring-score shut")
        expect(card).to_contain_text("a gate is not open")
        expect(card).to_contain_text("score 0\u00a0% until every gate is open")
        expect(card).to_contain_text("Temperature: not known")
        expect(card).to_contain_text("Until it is known, the care rating is 0")
        happiness = page.get_by_test_id("rating").locator("tbody tr").nth(1).locator(".strong")
        expect(happiness).to_have_text(f"{ends(scores['happiness'])}\u00a0%")
        expect(card).not_to_contain_text("[object")


def test_spikes_are_painted(browser: Browser, server: Server) -> None:
    with visiting(browser, server.url) as visit:
        page = visit.live()
        page.wait_for_timeout(800)
        painted = page.evaluate(
            """() => { const c = document.querySelector('#raster');
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 60; return n / (d.length / 4); }"""
        )
        assert 0.005 < painted < 0.5
        expect(page.locator("#nerves-active")).to_have_text("29 of 32 electrodes active")


def test_trends_follow_the_chosen_period_and_the_pointer(browser: Browser, server: Server) -> None:
    with visiting(browser, server.url) as visit:
        page = visit.live()
        trend = page.locator(".chart").first.locator(".trend")
        expect(trend).to_have_count(1)
        flow = page.locator(".chart").filter(has_text="Heart flow").locator(".trend")
        expect(flow).to_have_attribute("d", re.compile(r".{1000}"))  # its past too, not since the page was opened
        hour = trend.get_attribute("d")
        page.get_by_role("button", name="6 h").click()
        expect(page.get_by_role("button", name="6 h")).to_have_attribute("aria-pressed", "true")
        page.wait_for_function("before => document.querySelector('.trend').getAttribute('d') !== before", arg=hour)
        assert any("seconds=21600" in url for url in visit.asked)
        page.locator(".plot").first.hover(position={"x": 110, "y": 30})
        expect(page.locator(".cross")).to_have_count(page.locator(".plot").count())
        assert ":" in page.locator(".chart-when").first.inner_text()


def test_a_trend_that_has_not_moved_is_not_drawn_again(browser: Browser, server: Server) -> None:
    """Each half second its values are written; a week moves by a pixel in many seconds, even of a lab that runs fast."""
    with visiting(browser, server.url) as visit:
        page = visit.live()
        with page.expect_response(re.compile("seconds=604800")):
            page.locator("#window button").last.click()
        page.wait_for_timeout(1500)
        drawn = page.evaluate(
            """async () => { let n = 0; const plot = document.querySelector('.plot');
            new MutationObserver(() => { n += 1; }).observe(plot, { childList: true });
            await new Promise(resolve => setTimeout(resolve, 4000)); return n; }"""
        )
        assert drawn <= 3


def test_what_cannot_be_trusted_is_seen_at_once(browser: Browser, bad_day: Server) -> None:
    with visiting(browser, bad_day.url) as visit:
        page = visit.live()
        bad = page.locator('[data-point="ph_spent.ph"]')
        expect(bad).to_have_attribute("data-quality", "missing")
        expect(bad).to_contain_text("missing")
        expect(bad.locator("title")).to_contain_text("no reply")
        expect(page.locator('[data-point="t_chamber.temperature"]')).to_have_attribute("data-quality", "stale")
        expect(page.locator('[data-point="ph_loop.ph"]')).to_have_attribute("data-quality", "good")
        moving = page.locator('[data-point="balance.mass"]')
        expect(moving).to_have_attribute("data-quality", "good")
        expect(moving.locator(".chip-state")).to_have_text("settling")
        expect(moving.locator(".chip-value")).to_have_css("text-decoration-line", "none")
        covered = page.evaluate(
            """() => [...document.querySelectorAll('.chip')].filter(chip => {
              const state = chip.querySelector('.chip-state'); if (!state.textContent) return false;
              const a = state.getBoundingClientRect();
              return [...chip.querySelectorAll('.chip-label, .chip-text')].some(n => { const b = n.getBoundingClientRect();
                return a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom; }); })
              .map(chip => chip.dataset.point)"""
        )
        assert covered == []


def test_a_pump_that_no_longer_answers_is_not_shown_running(browser: Browser, bad_day: Server) -> None:
    """What it said last (2 mL/min) is not drawn, written or charted."""
    with visiting(browser, bad_day.url) as visit:
        page = visit.live()
        heart = page.locator('[data-device="reglo.heart"]')
        expect(heart).to_have_class("device pump unknown")
        expect(heart.locator(".doubt text")).to_be_visible()
        expect(page.get_by_test_id("now")).to_contain_text("The heart pump does not respond")
        expect(heart.locator(".doubt title")).to_have_text("reglo: no reply in 1.0 s")
        expect(page.locator('[data-line="heart"]')).to_have_class("line")
        shown = page.evaluate("[...document.querySelectorAll('.device-flow')].map(each => each.textContent).join('')")
        assert shown == ""
        chart = page.locator(".chart").filter(has_text="Heart flow")
        expect(chart.locator(".chart-value")).to_have_text("–")
        page.wait_for_timeout(1500)
        expect(chart.locator(".trend")).to_have_count(0)
        draw = page.locator('[data-device="reglo.draw"]')
        expect(draw).to_have_class("device pump")
        expect(draw.locator(".doubt text")).to_be_hidden()


def test_alarms_are_sorted_by_urgency_and_are_acknowledged(browser: Browser, bad_day: Server) -> None:
    with visiting(browser, bad_day.url) as visit:
        page = visit.live()
        alarms = page.get_by_test_id("alarm-list").get_by_test_id("alarm")
        expect(alarms).to_have_count(2)
        expect(alarms.first).to_contain_text("No heart flow")
        expect(alarms.first).to_contain_text("within 5 min")
        expect(alarms.first).to_contain_text("the tissue runs out of oxygen")
        page.screenshot(path=RESULTS / "page-alarms.png") if RESULTS.is_dir() else None
        page.locator('[data-alarm="device_lost:ph_spent"]').get_by_test_id("acknowledge").click()
        expect(page.locator('[data-alarm="device_lost:ph_spent"]')).to_contain_text("acknowledged by demo")


def test_an_emergency_stop_asks_once_and_its_reset_wants_a_reason(browser: Browser, bad_day: Server) -> None:
    with visiting(browser, bad_day.url) as visit:
        page = visit.live()
        page.get_by_test_id("estop").click()
        page.get_by_test_id("dialog-cancel").click()
        expect(page.locator("#emergency")).to_be_hidden()
        page.get_by_test_id("estop").click()
        page.locator("#dialog-reason").fill("smoke")
        page.get_by_test_id("dialog-confirm").click()
        expect(page.locator("#emergency")).to_contain_text("demo: smoke")
        expect(page.get_by_test_id("estop")).to_be_disabled()
        page.get_by_test_id("estop-reset").click()
        page.get_by_test_id("dialog-confirm").click()
        expect(page.locator("dialog[open]")).to_be_visible()  # the reason is required
        page.locator("#dialog-reason").fill("it was the toaster")
        page.get_by_test_id("dialog-confirm").click()
        expect(page.locator("#emergency")).to_be_hidden()


def test_what_was_done_to_a_vessel_by_hand_is_entered_where_it_stands(browser: Browser, bad_day: Server) -> None:
    with visiting(browser, bad_day.url) as visit:
        page = visit.live()
        page.locator('[data-vessel="reservoir"]').click()
        dialog = page.get_by_role("dialog", name="Reservoir")
        expect(dialog).to_contain_text(re.compile(r"The ledger records \d+ mL"))
        page.get_by_test_id("dialog-confirm").click()
        expect(dialog).to_be_visible()  # the lot is required
        page.get_by_test_id("dialog-lot").fill("NB-8")
        page.get_by_test_id("dialog-volume").fill("500")
        page.get_by_test_id("dialog-confirm").click()
        expect(dialog.get_by_role("alert")).to_contain_text("500")
        page.get_by_test_id("dialog-volume").fill("500 mL")
        page.get_by_test_id("dialog-confirm").click()
        expect(dialog).to_have_count(0)
        expect(page.get_by_test_id("toasts").get_by_role("status")).to_contain_text("Entered for reservoir")
        page.locator('[data-vessel="waste"]').focus()
        page.keyboard.press("Enter")
        expect(page.get_by_test_id("dialog-choice")).to_have_value("emptied")
        page.get_by_test_id("dialog-confirm").click()
        expect(page.locator('[data-vessel="waste"] .vessel-volume')).to_contain_text("0 µL")
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert all("status of 422" in each for each in visit.complaints), visit.complaints  # what was tried above


def test_an_alarm_that_hands_answer_opens_what_is_to_be_entered(browser: Browser, bad_day: Server) -> None:
    told = {
        "id": "stock_low:glucose", "kind": "stock_low", "source": "glucose", "state": "unacknowledged", "priority": "medium",
        "detail": "20.1 mL by the books", "raised_utc": "2026-05-04T09:00:00.000Z", "consequence": "the protocol is held",
        "response": "put in a fresh bottle", "respond_within": "1 d", "acknowledged_by": "",
    }  # fmt: skip
    with visiting(browser, bad_day.url) as visit:
        page = visit.live()
        page.evaluate("alarm => window.choroid.feed.take({alarms: [alarm]})", told)
        page.get_by_test_id("handled").click()
        expect(page.get_by_role("dialog", name="Glucose")).to_contain_text("Contains glucose stock")
        expect(page.get_by_test_id("dialog-choice")).to_have_value("bottle")
        page.get_by_test_id("dialog-choice").select_option("read")
        expect(page.get_by_test_id("dialog-within")).to_have_value("0.5 mL")
        page.get_by_test_id("dialog-cancel").click()
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_mistake_is_told_with_cause_and_next_step(browser: Browser, bad_day: Server) -> None:
    with visiting(browser, bad_day.url) as visit:
        page = visit.live()
        page.get_by_test_id("param-batch").fill("18 mL/min")
        page.get_by_test_id("start-run").click()
        toast = page.get_by_test_id("toasts").get_by_role("alert")
        expect(toast).to_contain_text("18 mL/min")
        expect(toast).to_contain_text("POST /api/runs")
        state(page, "idle")
        toast.get_by_role("button").click()
        expect(toast).to_have_count(0)


def test_speed_is_set_on_the_page(browser: Browser, bad_day: Server) -> None:
    with visiting(browser, bad_day.url) as visit:
        page = visit.live()
        page.get_by_test_id("speed").select_option("10")
        expect(page.get_by_test_id("mode")).to_have_text("SIMULATED · 10×")
        page.get_by_test_id("speed").select_option("60")
        expect(page.get_by_test_id("mode")).to_have_text("SIMULATED · 60×")


def test_S1_P5_a_locked_page_wants_a_link_a_token_or_a_password(browser: Browser) -> None:
    with serving("--locked") as locked:
        link = locked.first_line()
        token = link.partition("#token=")[2]
        with visiting(browser, locked.url) as visit:
            page = visit.page
            page.get_by_test_id("sign-in").wait_for()
            page.get_by_test_id("token").fill("wrong")
            page.get_by_role("button", name="Sign in").click()
            expect(page.locator(".trouble")).to_contain_text("no known user")
            page.get_by_test_id("token").fill(token)
            page.get_by_role("button", name="Sign in").click()
            visit.live()
            (cookie,) = visit.cookies()
            assert cookie["httpOnly"] is True
            assert cookie["sameSite"] == "Strict"
            own = page.evaluate(
                """async () => (await (await fetch('/api/users', { method: 'POST',
                headers: {'Content-Type': 'application/json'},
                body: JSON.stringify({name: 'ada', role: 'admin', reason: 'test'})})).json()).token"""
            )
        with visiting(browser, link) as visit:
            visit.page.get_by_test_id("sign-in").wait_for()  # a link is good for one sign-in
        token = own
        with visiting(browser, f"{locked.url}#token={token}") as visit:
            page = visit.live()
            assert page.url == locked.url
            assert token not in page.evaluate("JSON.stringify([location.href, document.cookie, {...localStorage}])")
            expect(page.locator("#user")).to_have_text("ada, admin")
            assert not any(token in url.partition("#")[0] for url in visit.asked)
            page.get_by_test_id("user").click()
            page.get_by_text("Set a password").click()
            page.get_by_test_id("new-password").fill("short")
            page.get_by_test_id("set-password").click()
            expect(page.locator(".trouble")).to_contain_text("of 15 that are needed")
            page.get_by_test_id("new-password").fill(PASSWORD)
            page.get_by_test_id("set-password").click()
            expect(page.get_by_test_id("account")).to_have_count(0)
        with visiting(browser, locked.url, size=(390, 844)) as visit:
            page = visit.page
            page.get_by_test_id("account-name").fill("Ada")
            page.get_by_test_id("password").fill(PASSWORD)
            page.get_by_role("button", name="Sign in").click()
            page = visit.live()
            page.get_by_test_id("user").click()  # who acts is shown at each size
            sessions = page.get_by_test_id("account").locator("li")
            expect(sessions).to_have_count(2)
            sessions.get_by_role("button").click()
            expect(sessions).to_have_count(1)
            page.get_by_test_id("sign-out").click()
            page.get_by_test_id("sign-in").wait_for()
            assert visit.cookies() == []


def test_the_page_finds_its_rig_again_after_the_controller_was_gone(browser: Browser) -> None:
    with serving() as first:
        port = first.port
        with visiting(browser, first.url) as visit:
            page = visit.live()
            first.end()
            expect(page.locator("#link")).to_have_attribute("data-status", "lost")
            expect(page.locator("body")).to_have_class("ready lost")
            with serving(port=port):
                expect(page.locator("#link")).to_have_attribute("data-status", "live")


def test_a_page_without_messages_does_not_show_that_there_are_no_alarms(browser: Browser) -> None:
    with serving() as server, visiting(browser, server.url) as visit:
        page = visit.live()
        expect(page.locator("#calm")).to_be_visible()
        expect(page.get_by_test_id("alarm-list")).to_be_empty()
        server.end()
        expect(page.locator("#link")).to_have_attribute("data-status", "lost")
        expect(page.locator("#calm")).to_be_hidden()
        expect(page.get_by_test_id("alarm-list")).to_have_text(
            re.compile(r"^No alarms as of \d+ \w+ 20\d\d, \d\d:\d\d:\d\d UTC; later changes are not known$")
        )


def test_alarms_of_a_control_loop_that_stands_are_marked_as_old(browser: Browser, bad_day: Server) -> None:
    def receives(page: Page, ok: str) -> None:
        page.evaluate(f"window.choroid.feed.take({{health: {{ok: {ok}, reasons: []}}}})")

    with visiting(browser, bad_day.url) as visit:
        page = visit.live()
        expect(page.locator("body")).to_have_class("ready")
        receives(page, "false")
        expect(page.locator("#link")).to_have_attribute("data-status", "still")
        expect(page.locator("body")).to_have_class("ready lost")
        expect(page.locator(".as-of")).to_have_text(re.compile(r"^Alarms as of \d+ \w+ 20\d\d, \d\d:\d\d:\d\d UTC; "))
        expect(page.get_by_test_id("alarm")).to_have_count(2)
        page.wait_for_timeout(600)  # messages go on; they do not make the loop tick
        expect(page.locator("#link")).to_have_attribute("data-status", "still")
        receives(page, "true")
        expect(page.locator("body")).to_have_class("ready")
        expect(page.locator(".as-of")).to_have_count(0)


@pytest.mark.parametrize("name", ["laptop", "phone"])
def test_the_caption_of_the_schematic_covers_no_label(browser: Browser, bad_day: Server, name: str) -> None:
    with visiting(browser, bad_day.url, size=SIZES[name]) as visit:
        page = visit.live()
        expect(page.locator(".now-what")).to_have_text("The heart pump does not respond")
        covered = page.evaluate(
            """() => { const box = n => n.getBoundingClientRect();
              const captions = [...document.querySelectorAll('.now text')].map(box);
              return [...document.querySelectorAll('#schematic text, #schematic .glass-edge')]
                .filter(n => !n.closest('.now') && n.checkVisibility()).filter(n => captions.some(a => { const b = box(n);
                  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom; }))
                .map(n => n.textContent); }"""
        )
        assert covered == []


def test_a_long_detail_of_an_alarm_opens_at_a_tap(browser: Browser) -> None:
    with serving() as server, visiting(browser, server.url, size=SIZES["phone"]) as visit:
        page = visit.live()
        alarm = {
            "id": "device_lost:ph_spent", "kind": "device_lost", "source": "ph_spent", "priority": "high", "times": 1,
            "state": "unacknowledged", "detail": "ph_spent: no reply. Likely cause: no power. " + "Next: see docs. " * 9,
            "response": "check", "respond_within": "5 min", "consequence": "data is lost", "acknowledged_by": "",
            "raised_utc": "2026-05-04T09:00:00.000Z",
        }  # fmt: skip
        page.evaluate("alarms => window.choroid.feed.take({ alarms })", [alarm])
        row = page.get_by_test_id("alarm")
        expect(row.locator("strong").first).to_have_text("Device lost · pH spent")
        detail = row.locator(".alarm-detail")
        expect(detail).to_have_text(re.compile(r"^no reply\. Likely"))
        cut = "node => node.scrollHeight > node.clientHeight + 1"
        assert detail.evaluate(cut)
        detail.click()
        assert not detail.evaluate(cut)


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_nothing_overflows_or_overlaps(browser: Browser, server: Server, name: str, scheme: str) -> None:
    with visiting(browser, server.url, size=SIZES[name], scheme=scheme) as visit:
        page = visit.live()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        if name in ("laptop", "wall"):
            assert page.evaluate("document.documentElement.scrollHeight <= innerHeight + 4")
        clashes = page.evaluate(
            """() => { const boxes = [...document.querySelectorAll('.chip-box, .gas-box, .vessel .glass-edge, .device .body')]
              .map(n => n.getBoundingClientRect());
            const clash = []; const m = 1.5;
            boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b, j) => {
              if (a.left + m < b.right && b.left + m < a.right && a.top + m < b.bottom && b.top + m < a.bottom)
                clash.push([i, i + 1 + j]); }));
            return clash; }"""
        )
        assert clashes == []
        spilling = page.evaluate(
            """() => [...document.querySelectorAll('.card, .rating, #run')].filter(n => !n.hidden && n.offsetParent)
              .filter(n => n.scrollWidth > n.clientWidth + 1 || (n.id === 'run' && n.scrollHeight > n.clientHeight + 1)
                || (n.matches('.rating')
                  && n.getBoundingClientRect().right > n.closest('.card').getBoundingClientRect().right - 8))
              .map(n => n.id || n.className)"""
        )
        assert spilling == [], "text beyond its card, or a run under the form below it"
        assert visit.complaints == []


@pytest.mark.parametrize("size", [(1440, 900), (1360, 768)])
def test_a_run_with_many_parameters_can_be_aborted_without_a_scroll(browser: Browser, size: tuple[int, int]) -> None:
    params = {"batch_ul": 18e3, "min_batch_ul": 18e3, "every_s": 7200.0, "exceed_pct": 2.0, "max_assays": 2.0}
    run = {
        "id": "run-4", "protocol": "recycle", "state": "running", "ended": False, "step": 1, "progress": [], "messages": [],
        "started_utc": "2026-05-04T08:00:00.000Z", "question": None,
        "params": params | {"assay_cost_ul": 5e3, "accepted_loss_pct": 0.0, "resumes": 1.0},
    }  # fmt: skip
    with staged(browser, load_rig(BENCH), size=size, run=run) as visit:
        page = visit.page
        expect(page.get_by_test_id("abort-run")).to_be_visible()
        inside = """() => { const [card, abort] = [".protocol", "#abort-run"].map(name =>
          document.querySelector(name).getBoundingClientRect()); return abort.bottom <= card.bottom; }"""
        assert page.evaluate(inside)


def test_the_theme_is_turned_and_remembered(browser: Browser, server: Server) -> None:
    with visiting(browser, server.url) as visit:
        page = visit.live()
        page.locator("#theme").click()
        expect(page.locator("html")).to_have_attribute("data-theme", "light")
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_everything_that_can_be_used_has_a_name(browser: Browser, server: Server) -> None:
    with visiting(browser, server.url) as visit:
        page = visit.live()
        nameless = page.evaluate(
            """() => [...document.querySelectorAll('button, input, select, [role=img], canvas')].filter(n => {
              const label = n.id && document.querySelector(`label[for="${n.id}"]`);
              return !(n.getAttribute('aria-label') || label || n.closest('label') || n.textContent.trim()); })
              .map(n => n.outerHTML.slice(0, 80))"""
        )
        assert nameless == []
        assert page.evaluate("document.documentElement.lang") == "en"
        words = page.locator("#schematic-words")
        expect(words).to_contain_text("mL")


def test_other_rigs_are_drawn_too(browser: Browser, server: Server) -> None:
    """The layout follows the description: two process vessels, a source to the loop, a chamber that empties to waste."""
    description: dict[str, Any] = {
        "vessels": [
            {"name": name, "kind": kind, "capacity_ul": 1e5, "floor_ul": 0, "ceiling_ul": 9e4, "contains": "fresh"}
            for name, kind in (
                ("fresh", "source"), ("salt", "source"), ("spent", "process"), ("clean", "process"), ("loop", "loop"),
                ("one", "chamber"), ("two", "chamber"), ("waste", "waste"), ("spill", "waste"),
            )
        ],
        "lines": [
            {"name": f"{a}-{b}", "from": a, "to": b, "pump": f"p.{a}{b}", "valve": None, "filter": None, "passive": False}
            for a, b in (
                ("fresh", "loop"), ("salt", "clean"), ("loop", "spent"), ("spent", "clean"), ("clean", "loop"),
                ("loop", "one"), ("one", "two"), ("two", "loop"), ("spent", "waste"), ("two", "spill"),
            )
        ],
        "probes": [
            {"point": f"{at}.{i}", "quantity": "pH", "at": at} for at in ("loop", "one", "two", "spent") for i in (1, 2)
        ],
        "junctions": [],
        "selectors": [],
        "filters": {},
        "zones": [],
        "gas": {"air": "a.flow", "co2": "b.flow", "o2": None, "vessel": "loop"},
    }  # fmt: skip
    with visiting(browser, server.url) as visit:
        plan = visit.live().evaluate(
            "async rig => (await import('/static/js/schematic/layout.js')).layOut(rig)", description
        )
    assert plan["vessels"].keys() == {vessel["name"] for vessel in description["vessels"]}
    assert plan["lines"].keys() == {line["name"] for line in description["lines"]}
    boxes = list(plan["vessels"].values())
    for i, a in enumerate(boxes):
        assert 0 <= a["x"] < a["x"] + a["w"] <= plan["width"]
        assert 0 <= a["y"] < a["y"] + a["h"] <= plan["height"]
        for b in boxes[i + 1 :]:
            apart_x = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
            apart_y = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
            assert apart_x or apart_y, (a["name"], b["name"])
    for line in plan["lines"].values():
        assert all(isinstance(value, int | float) for point in line["points"] for value in point)
        assert len(line["devices"]) == 1
